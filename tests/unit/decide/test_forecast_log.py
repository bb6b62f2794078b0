"""Judging writes forecasts down once, and scores them when later intervals show what came."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache

import pytest
from sqlalchemy import Engine

from offsetguard.decide.judge import judge_interval
from offsetguard.facts.duckdb_engine import windows_of
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.forecasts.forecasts import Seen, outcome, says_something_new
from offsetguard.model.intervals import Interval
from offsetguard.model.offsets import MessageQueue, QueueOffsets
from offsetguard.model.verdicts import FURTHEST_MS, Basis, Forecast, Kind, Outcome, Stated
from offsetguard.store import judge_memory as store
from offsetguard.store.database import reading
from offsetguard.tables.broker_facts import BrokerFacts
from offsetguard.tables.queue_state import QueueState
from offsetguard_peers.cases.running import for_each
from offsetguard_peers.configs import one_team
from offsetguard_peers.facts.answers import sample_at
from offsetguard_peers.judging.records import a_group, a_queue

START = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
CONFIG = one_team({"demo": {"name_servers": ["10.0.0.1:9876"]}}, team="operations")


@cache
def _windows(committed: tuple[int, ...]) -> list[QueueState]:
    """Return the window after each minute's sample."""
    samples = []
    for number, offset in enumerate(committed):
        at = START + number * MINUTE
        samples.append((at, sample_at(at, 0, offset, 20_000 + 100 * number)))
    return list(windows_of({number: samples[: number + 1] for number in range(len(samples))}).values())


def _facts(minute: int, committed: list[int]) -> IntervalFacts:
    """Return the facts after the samples of some minutes: 100 messages a minute are written, 20,000 before."""
    window = _windows(tuple(committed))[minute]
    offsets = QueueOffsets(0, window.seen_max_offset, window.committed_offset)
    lag = offsets.effective_lag or 0
    group = a_group("billing", lag, queue_count=1, lag_ms=lag * 600, online_client_count=1, message_model="CLUSTERING")
    queue = a_queue("billing", MessageQueue("orders", "broker-a", 0), offsets, lag_ms=lag * 600, window=window)
    start = START + minute * MINUTE
    broker = BrokerFacts(broker_name="broker-a", broker_id=0, listed=True, answered=True, read_at=start)
    return IntervalFacts(
        "demo", Interval(start), start + MINUTE, queues=(queue,) if lag else (), groups=(group,), brokers=(broker,)
    )


DRAINING = [1_000 * number for number in range(20)] + [22_000, 22_100]  # at the end from the 20th minute on


def test_a_drain_is_forecast_and_found_inside(each_engine: Engine) -> None:
    for minute in range(3, 21):
        facts = _facts(minute, DRAINING)
        judge_interval(each_engine, facts, CONFIG, now=facts.now)
    (found,) = store.coverage(each_engine, since=START - timedelta(days=1))
    assert (found.kind, found.basis, found.early, found.late, found.void) == (Kind.DRAIN, Basis.CONSUME_RATE, 0, 0, 0)
    assert 2 <= found.inside <= 6  # it stands a while: not one a minute


@pytest.mark.slow
def test_judging_again_and_replaying_disturb_no_forecast(each_engine: Engine) -> None:
    for minute in range(3, 8):
        facts = _facts(minute, DRAINING)
        for replay in (False, False, True):
            judge_interval(each_engine, facts, CONFIG, now=facts.now, replay=replay)
    older = _facts(5, DRAINING)
    judge_interval(each_engine, older, CONFIG, now=older.now + timedelta(hours=1), replay=True)
    with reading(each_engine) as session:
        stated = list(store.open_forecasts(session, "demo").values())
    assert len({one.made_at for one in stated}) == len(stated)
    assert max(one.made_at for one in stated) <= facts.now
    judge_interval(each_engine, _facts(9, DRAINING), CONFIG, now=facts.now, dry_run=True)
    with reading(each_engine) as session:
        assert list(store.open_forecasts(session, "demo").values()) == stated


NOTHING = Seen(drained=False, lost_at=None, clients_online=True, drain=None, loss=None)
DRAIN = Forecast(600_000, 1_200_000, Basis.CONSUME_RATE)
LOSS = Forecast(600_000, 1_200_000, Basis.DISK)


@for_each(
    "kind, after, shown, became",
    [
        (Kind.DRAIN, 5, NOTHING, None),
        (Kind.DRAIN, 5, replace(NOTHING, drained=True), Outcome.EARLY),
        (Kind.DRAIN, 10, replace(NOTHING, drained=True), Outcome.INSIDE),
        (Kind.DRAIN, 20, replace(NOTHING, drained=True), Outcome.INSIDE),
        (Kind.DRAIN, 21, replace(NOTHING, drained=True), Outcome.LATE),
        (Kind.DRAIN, 21, NOTHING, Outcome.LATE),
        (Kind.DRAIN, 21, replace(NOTHING, drained=None), Outcome.LATE),
        (Kind.DRAIN, 5, replace(NOTHING, clients_online=False), Outcome.VOID),
        (Kind.LOSS, 15, replace(NOTHING, lost_at=START + 14 * MINUTE), Outcome.INSIDE),
        (Kind.LOSS, 5, replace(NOTHING, lost_at=START + 4 * MINUTE), Outcome.EARLY),
        (Kind.LOSS, 5, replace(NOTHING, lost_at=START - MINUTE), None),
        (Kind.LOSS, 5, replace(NOTHING, drained=True), Outcome.VOID),
        (Kind.LOSS, 15, NOTHING, None),
        (Kind.LOSS, 21, replace(NOTHING, loss=LOSS), Outcome.LATE),
        (Kind.LOSS, 21, replace(NOTHING, loss=LOSS, drain=DRAIN), Outcome.VOID),
        (Kind.LOSS, 60, None, None),
        (Kind.LOSS, 90, None, Outcome.VOID),
    ],
)
def test_a_forecast_is_scored_by_what_is_shown(
    kind: Kind, after: int, shown: Seen | None, became: Outcome | None
) -> None:
    stated = Stated("billing", "orders", kind, START, DRAIN if kind is Kind.DRAIN else LOSS)
    assert outcome(stated, shown, START + after * MINUTE) is became


def test_a_range_that_says_or_later_is_inside_whenever_it_comes_after_its_begin() -> None:
    open_ended = Forecast(600_000, FURTHEST_MS, Basis.DISK)
    stated = Stated("billing", "orders", Kind.LOSS, START, open_ended)
    lost = replace(NOTHING, lost_at=START + timedelta(days=6))
    assert outcome(stated, lost, START + timedelta(days=6)) is Outcome.INSIDE
    assert outcome(stated, replace(NOTHING, loss=LOSS), START + timedelta(days=4)) is None
    assert outcome(stated, replace(NOTHING, loss=LOSS), START + timedelta(days=6)) is Outcome.INSIDE


@pytest.mark.parametrize(
    ("forecast", "after", "new"),
    [
        (LOSS, 1, False),
        (replace(LOSS, basis=Basis.RESERVED_TIME), 1, True),
        (replace(LOSS, low_ms=1_300_000, high_ms=1_400_000), 1, True),
        (replace(LOSS, low_ms=700_000), 1, False),
        (LOSS, 5, True),
    ],
)
def test_a_forecast_is_kept_when_it_says_something_new(forecast: Forecast, after: int, new: bool) -> None:
    stands = Stated("billing", "orders", Kind.LOSS, START, LOSS)
    assert says_something_new(stands, forecast, START + after * MINUTE) is new
    assert says_something_new(None, forecast, START)
