"""Whatever the facts are: who lives is not called dead, and a queue that moves is not called blocked."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from offsetguard.facts.duckdb_engine import windows_of
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.evidence.blocked_queues import blocked_queues
from offsetguard.judge.rules import lock_contention, lock_expiry_too_short, lock_not_released
from offsetguard.model.intervals import Interval
from offsetguard.model.offsets import MessageQueue, QueueOffsets
from offsetguard.model.rocketmq import REBALANCE_INTERVAL_MS
from offsetguard.model.verdicts import Severity
from offsetguard.tables.group_facts import GroupFacts
from offsetguard.tables.log_facts import LockWaitFacts
from offsetguard.tables.queue_state import Sample
from offsetguard_peers.cases.running import together
from offsetguard_peers.configs import one_team
from offsetguard_peers.facts.answers import sample_at
from offsetguard_peers.judging.records import a_queue

INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
NOW = INTERVAL.end
CONFIG = one_team({"demo": {"name_servers": ["10.0.0.1:9876"]}}, team="operations")
SECONDS = st.integers(0, 400)


@st.composite
def waits(draw: st.DrawFn) -> LockWaitFacts:
    """Draw a wait of `b` for the lock of `a`, in every state that log lines and connections can give it."""
    first, last, end = sorted(draw(st.tuples(SECONDS, SECONDS, SECONDS)), reverse=True)
    ended_by = draw(st.sampled_from([None, "expired", "released"]))
    online = draw(st.sampled_from([None, True, False]))
    start = draw(st.none() | SECONDS) if online else None
    return LockWaitFacts(
        consumer_group="g",
        topic="t",
        broker_name="broker-a",
        queue_id=draw(st.integers(0, 3)),
        holder_client_id="a#1",
        waiter_client_id="b#1",
        told_by="broker",
        refusal_count=draw(st.integers(0, 5)),
        first_refused_at=_ago(first),
        last_refused_at=_ago(last),
        ended_at=_ago(end) if ended_by else None,
        ended_by=ended_by,
        next_holder_client_id="b#1" if ended_by else None,
        waited_ms=1000 * (first - (end if ended_by else last)),
        holder_online=online,
        holder_start_at=None if start is None else _ago(start),
    )


def _ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def group(**columns: object) -> GroupFacts:
    unknown = dict.fromkeys(
        ("lag", "effective_lag", "inflight", "available", "lost", "lag_ms", "online_client_count", "message_model")
    )
    counts = {"queue_count": 4, "unknown_queue_count": 0, "never_committed_queue_count": 0}
    return GroupFacts(consumer_group="g", topic="t", topic_kind="normal", **{**unknown, **counts, **columns})  # type: ignore[arg-type]


@given(st.lists(waits(), max_size=6))
def test_a_holder_is_dead_or_alive_and_a_released_lock_is_nobodys_fault(drawn: list[LockWaitFacts]) -> None:
    facts = IntervalFacts("demo", INTERVAL, NOW, groups=(group(),), lock_waits=tuple(drawn))
    for finding in lock_not_released.find(facts, CONFIG):
        places = {evidence.message_queue.queue_id for evidence in finding.queues}
        dead = {one.queue_id for one in drawn if not _lives(one) and one.ended_by != "released"}
        assert places <= dead
    for finding in lock_contention.find(facts, CONFIG):
        stood_still_ms = finding.figures["stood_still_ms"]
        assert isinstance(stood_still_ms, int)
        assert stood_still_ms >= lock_contention.LONG_MS
        assert finding.severity is Severity.WARNING or stood_still_ms < lock_contention.LONG_MS + REBALANCE_INTERVAL_MS
    for finding in lock_expiry_too_short.find(facts, CONFIG):
        assert any(_lives(one) and one.ended_by == "expired" for one in drawn), finding


def _lives(wait: LockWaitFacts) -> bool:
    return bool(wait.holder_online) and (wait.holder_start_at is None or wait.holder_start_at <= wait.first_refused_at)


@together(
    st.lists(st.integers(0, 500), min_size=2, max_size=8).map(sorted),
    st.sampled_from([None, True, False]),
    st.none() | st.integers(0, 600),
    st.sampled_from([None, 0.0, 1.0]),
    st.sampled_from([None, True, False]),
)
def test_a_queue_that_was_committed_lately_or_without_its_lock_is_not_blocked(drawn) -> None:
    """Drawn: committed offsets, one a minute; locked; cached messages; failures a second; orderly."""
    windows = windows_of({number: history(committed) for number, (committed, *_) in enumerate(drawn)})
    for number, (committed, locked, cached, failed, orderly) in enumerate(drawn):
        queue = a_queue(
            "g",
            MessageQueue("t", "broker-a", 0),
            QueueOffsets(0, 600, committed[-1]),
            lag_ms=600_000,
            locked=locked,
            cached_message_count=cached,
            cached_min_offset=cached,
            window=windows[number],
        )
        row = group(orderly=orderly, consume_failed_tps=failed, consume_tps=5.0)
        quiet = IntervalFacts("demo", INTERVAL, NOW)  # nobody waits for a lock
        found = blocked_queues(row, [queue], quiet)
        moved = committed[-1] > committed[-2]
        if moved or not locked or not orderly or not cached:
            assert found == [], drawn[number]
        assert blocked_queues(replace(row, consumption="pop"), [queue], quiet) == [], drawn[number]
        assert all(one.blocked_ms >= 30_000 for one in found), drawn[number]


def history(committed: list[int]) -> list[tuple[datetime, Sample]]:
    times = [NOW - timedelta(minutes=age) for age in reversed(range(len(committed)))]
    return [(at, sample_at(at, 0, offset, 600)) for at, offset in zip(times, committed, strict=True)]
