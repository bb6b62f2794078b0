"""Drain and loss of single windows: what is said, and when nothing is."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.facts.duckdb_engine import windows_of
from offsetguard.judge.forecasts import forecasts
from offsetguard.judge.forecasts.broker_cleaning import BrokerRetention, Deletion, delete_hours
from offsetguard.judge.forecasts.broker_retentions import retention
from offsetguard.judge.forecasts.byte_curve import EARLY, LATE, ByteCurve, WriteRates
from offsetguard.model.fact_records import BrokerMark
from offsetguard.model.verdicts import DAY_MS, FURTHEST_MS, Basis, Forecast, QueueVerdict, State
from offsetguard.tables.broker_facts import BrokerFacts
from offsetguard.tables.queue_state import QueueState, Sample
from offsetguard_peers.cases.rules import record
from offsetguard_peers.cases.running import together
from offsetguard_peers.facts.answers import sample_at

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE_MS = 60_000
HOUR_MS = 3_600_000


def _window(*offsets: tuple[int, int, int], every: timedelta = timedelta(minutes=1)) -> QueueState:
    """Return the window of samples (min, committed, max), the last one now."""
    (window,) = _windows([offsets], every)
    return window


def _windows(
    queues: Iterable[Sequence[tuple[int, int, int]]], every: timedelta = timedelta(minutes=1)
) -> Iterable[QueueState]:
    def history(offsets: Sequence[tuple[int, int, int]]) -> list[tuple[datetime, Sample]]:
        times = [NOW - back * every for back in reversed(range(len(offsets)))]
        return [(at, sample_at(at, *one)) for at, one in zip(times, offsets, strict=True)]

    return windows_of({number: history(offsets) for number, offsets in enumerate(queues)}).values()


def _broker(**columns: object) -> BrokerFacts:
    return record(BrokerFacts, {"broker_name": "broker-a", "read_at": NOW, **columns})  # type: ignore[no-any-return]


def test_a_backlog_that_shrinks_steadily_is_drained_within_the_range() -> None:
    window = _window(*((0, 1_000 * n, 20_000 + 100 * n) for n in range(11)))
    said = forecasts.drain(window, NOW)
    assert said is not None
    assert said.basis is Basis.CONSUME_RATE
    assert said.low_ms <= (11_000 / 900) * MINUTE_MS <= said.high_ms
    assert said.high_ms < 20 * MINUTE_MS


@pytest.mark.parametrize(
    "offsets",
    [
        pytest.param([(0, 500, 10_000 + 100 * n) for n in range(5)], id="it stands"),
        pytest.param([(0, 90 * n, 10_000 + 100 * n) for n in range(5)], id="it grows"),
        pytest.param([(0, 100 * n, 10_000 + 100 * n) for n in range(5)], id="it stays as it is"),
        pytest.param([(0, 100 * n, 100 * n) for n in range(5)], id="nothing waits"),
        pytest.param([(0, 500, 10_000)], id="one sample tells no speed"),
        pytest.param([(0, 500, 10_000), (6_000, 6_000, 10_100)], id="messages that were deleted are not consumed"),
    ],
)
def test_a_backlog_that_does_not_shrink_has_no_drain(offsets: list[tuple[int, int, int]]) -> None:
    assert forecasts.drain(_window(*offsets), NOW) is None


@together(st.integers(1, 10_000), st.integers(0, 10_000), st.integers(1, 10_000_000), st.integers(2, 12))
def test_a_drain_lies_ahead_and_is_in_order(drawn: list[tuple[int, int, int, int]]) -> None:
    windows = _windows(
        [(0, consumed * n, waiting + consumed * samples + produced * n) for n in range(samples)]
        for consumed, produced, waiting, samples in drawn
    )
    for (consumed, produced, *_), window in zip(drawn, windows, strict=True):
        said = forecasts.drain(window, NOW)
        if consumed <= produced:
            assert said is None
        if said is not None:
            assert 0 <= said.low_ms <= said.high_ms <= FURTHEST_MS


def test_min_that_moves_in_equal_steps_passes_the_committed_offset_within_the_range() -> None:
    window = _window(*((1_000 * n, 10_500, 50_000) for n in range(7)))  # at 6,000 now, 1,000 a minute
    said = forecasts.loss(window, None, NOW)
    assert said is not None
    assert said.basis is Basis.OBSERVED_MOVES
    assert said.low_ms <= 5 * MINUTE_MS <= said.high_ms <= 12 * MINUTE_MS


@pytest.mark.parametrize(
    "offsets",
    [
        pytest.param([(0, 500, 10_000)] * 9, id="min never moved"),
        pytest.param([(0, 500, 10_000)] * 4 + [(300, 500, 10_000)] * 4, id="one step tells no pace"),
        pytest.param([(0, 900, 9_999), (200, 900, 9_999), *[(400, 900, 9_999)] * 9], id="the steps have ended"),
        pytest.param([(0, 900, 9_999), (500, 900, 9_999), (1_000, 900, 9_999)], id="it is lost already"),
        pytest.param([(100 * n, 500 + 200 * n, 99_999) for n in range(8)], id="the group goes on faster"),
    ],
)
def test_min_that_does_not_come_nearer_threatens_nothing(offsets: list[tuple[int, int, int]]) -> None:
    assert forecasts.loss(_window(*offsets), None, NOW) is None


def test_the_earlier_and_the_later_run_of_the_cleaner_are_the_range() -> None:
    stopped = _window((0, 500, 500), *[(0, 500, 900 + n) for n in range(5)])
    now_ms = int(NOW.timestamp() * 1_000)

    def run(lean: int) -> list[Deletion]:
        after_ms = HOUR_MS if lean == EARLY else 3 * HOUR_MS
        return [Deletion(0, now_ms - DAY_MS, Basis.DISK), Deletion(after_ms, now_ms, Basis.DISK)]

    said = forecasts.loss(stopped, BrokerRetention(run), NOW)
    assert said is not None
    assert (said.low_ms, said.basis) == (HOUR_MS, Basis.DISK)
    assert 3 * HOUR_MS <= said.high_ms <= 4 * HOUR_MS
    assert forecasts.loss(stopped, BrokerRetention(lambda _lean: []), NOW) is None
    healthy = _window(*((0, 100 * n, 100 * n + 50) for n in range(6)), every=timedelta(seconds=10))
    assert forecasts.loss(healthy, BrokerRetention(run), NOW) is None


@given(
    hours=st.integers(1, 200),
    ratio=st.none() | st.floats(0, 1),
    kept=st.integers(0, 10**13),
    growth=st.none() | st.integers(0, 10**10),
    age_hours=st.none() | st.integers(0, 300),
    when=st.sampled_from([None, "04", "04;16", "", "25", "x", "²"]),
)
def test_a_cleaner_run_ahead_takes_the_oldest_first_and_nothing_that_is_not_written(
    *, hours: int, ratio: float | None, kept: int, growth: int | None, age_hours: int | None, when: str | None
) -> None:
    broker = _broker(
        commit_log_min_offset=10**9,
        commit_log_max_offset=10**9 + kept,
        commit_log_growth=growth,
        commit_log_growth_ms=None if growth is None else MINUTE_MS,
        commit_log_disk_ratio=ratio,
        earliest_message_at=None if age_hours is None else NOW - timedelta(hours=age_hours),
        file_reserved_time_hours=hours,
        delete_when=when,
    )
    ahead = retention(broker, [], [], None)
    assert ahead is not None
    for run in (ahead.early, ahead.late):
        deletions = list(run)
        assert [one.after_ms for one in deletions] == sorted(one.after_ms for one in deletions)
        assert all(0 <= one.after_ms <= FURTHEST_MS for one in deletions)
        gone = [one.gone_before_ms for one in deletions]
        assert gone == sorted(gone)


@pytest.mark.parametrize(
    ("when", "zone", "seen_hour", "early", "late"),
    [
        ("04", ZoneInfo("Asia/Shanghai"), None, {20}, {20}),
        ("04", ZoneInfo("UTC"), None, {4}, {4}),
        ("04;16", ZoneInfo("UTC"), 9, {4, 16}, {4, 16}),
        ("04", None, 20, {19, 20}, {20}),
        ("04", None, None, set(range(24)), set(range(24))),
        (None, ZoneInfo("UTC"), None, set(range(24)), set(range(24))),
    ],
)
def test_the_hours_of_deletion_are_declared_or_learned_or_any(
    when: str | None, zone: tzinfo | None, seen_hour: int | None, early: set[int], late: set[int]
) -> None:
    seen_at = None if seen_hour is None else NOW.replace(hour=seen_hour)
    hours = delete_hours(when, zone, seen_at, NOW)
    middle = [hour * HOUR_MS + HOUR_MS // 2 for hour in range(24)]
    found = {lean: {at // HOUR_MS for at in middle if hours.contain(at, at + 1, lean)} for lean in (EARLY, LATE)}
    assert (found[EARLY], found[LATE]) == (early, late)


@pytest.mark.parametrize(
    ("ratio_before", "ratio", "hour_is_known"),
    [
        pytest.param(0.60, 0.60, True, id="files went at the hour of deleteWhen: so the zone is known"),
        pytest.param(0.74, 0.60, False, id="the disk was nearly as full as makes files go at any hour"),
        pytest.param(None, None, False, id="nobody tells how full the disk was"),
    ],
)
def test_a_deletion_tells_the_hour_only_where_the_disk_was_not_full(
    ratio_before: float | None, ratio: float | None, *, hour_is_known: bool
) -> None:
    """Messages are kept for 8 h; the oldest files were deleted ten minutes ago, and more expire every minute."""

    def written(at: datetime) -> int:
        return int((at - NOW) / timedelta(hours=1) * 100_000_000) + 10_000_000_000

    deleted_at, hour = NOW - timedelta(minutes=10), timedelta(hours=1)
    oldest_at = deleted_at - 8 * hour
    marks = [
        BrokerMark("broker-a", at, written(oldest_at - 3 * hour), written(at), oldest_at - 3 * hour, ratio_before)
        for at in (NOW - back * hour for back in range(40, 0, -1))
    ]
    marks.append(BrokerMark("broker-a", deleted_at, written(oldest_at), written(deleted_at), oldest_at, ratio))
    broker = _broker(
        commit_log_min_offset=written(oldest_at),
        commit_log_max_offset=written(NOW),
        commit_log_disk_ratio=ratio,
        commit_log_disk_bytes=10**12,
        commit_log_file_bytes=1_000_000,
        earliest_message_at=oldest_at,
        file_reserved_time_hours=8,
        delete_when="04",
    )
    ahead = retention(broker, marks, [], None)
    assert ahead is not None
    latest = next(iter(ahead.late)).after_ms
    assert (latest <= HOUR_MS) is hour_is_known
    assert hour_is_known or latest > 12 * HOUR_MS
    assert next(iter(ahead.early)).after_ms <= HOUR_MS


@pytest.mark.parametrize(("ratio", "early_hours"), [(0.1, 16), (0.0, 16), (None, 0)])
def test_expired_files_may_go_at_any_hour_where_nobody_tells_how_full_the_disk_is(
    ratio: float | None, early_hours: int
) -> None:
    """It is noon, messages of twelve hours are there, and they are kept for eight: until the 04 o'clock of a zone."""
    broker = _broker(
        commit_log_min_offset=0,
        commit_log_max_offset=1_200_000,
        commit_log_disk_ratio=ratio,
        commit_log_file_bytes=1_000,
        earliest_message_at=NOW - timedelta(hours=12),
        file_reserved_time_hours=8,
        delete_when="04",
    )
    ahead = retention(broker, [], [], UTC)
    assert ahead is not None
    first = {run: next(iter(getattr(ahead, run))).after_ms / HOUR_MS for run in ("early", "late")}
    assert first == {"early": pytest.approx(early_hours, abs=0.5), "late": pytest.approx(16, abs=1)}


def test_a_burst_of_yesterday_is_expected_early_and_may_not_come_again() -> None:
    now_ms = int(NOW.timestamp() * 1_000)
    points, position = [], 0
    for hour in range(-72, 1):
        points.append((now_ms + hour * HOUR_MS, position))
        position += 10 * HOUR_MS if -20 <= hour < -16 else HOUR_MS  # bytes: 1 a ms, and 10 in the burst
    log = ByteCurve.of(points)
    assert log is not None
    rates = WriteRates(log, (1.0, 1.0))
    in_the_burst, before_it = now_ms + 6 * HOUR_MS, now_ms + HOUR_MS
    assert rates.at(in_the_burst, EARLY) == pytest.approx(13)
    assert rates.at(in_the_burst, LATE) == pytest.approx(0.7)
    assert (rates.at(before_it, EARLY), rates.at(before_it, LATE)) == (pytest.approx(1.3), pytest.approx(0.7))


def test_leaning_moves_what_lies_between_points_and_never_the_points() -> None:
    log = ByteCurve.of([(0, 0), (100, 1_000), (None, 5), (200, 3_000)])
    assert log is not None
    assert [log.position(50, lean) for lean in (EARLY, 0, LATE)] == [250, 500, 750]
    assert [log.position(100, lean) for lean in (EARLY, 0, LATE)] == [1_000] * 3
    assert [log.written_at(500, lean) for lean in (EARLY, 0, LATE)] == [25, 50, 75]
    assert (log.position(-1), log.position(999), log.rate(100, 200), log.rate(-1, 5)) == (0, 3_000, 20, None)
    recreated = ByteCurve.of([(0, 900), (100, 10), (200, 20)])
    assert recreated is not None
    assert list(recreated.times) == [100, 200]


def _verdict(drain_ms: tuple[int, int] | None, loss_ms: tuple[int, int] | None, lag_ms: int = HOUR_MS) -> QueueVerdict:
    drain = drain_ms and Forecast(*drain_ms, Basis.CONSUME_RATE)
    loss = loss_ms and Forecast(*loss_ms, Basis.DISK)
    return QueueVerdict(State.OK, "x", "x", effective_lag=9, lag_ms=lag_ms, drain=drain, loss=loss)


def test_a_group_is_drained_with_its_last_queue_and_loses_with_its_first() -> None:
    verdicts = [_verdict((10, 20), (500, 900)), _verdict((15, 18), (400, 1_000)), _verdict(None, None, lag_ms=5_000)]
    assert forecasts.group_drain(verdicts) == Forecast(15, 20, Basis.CONSUME_RATE)
    assert forecasts.group_loss(verdicts) == Forecast(400, 900, Basis.DISK)
    assert forecasts.group_drain([*verdicts, _verdict(None, None)]) is None
    assert forecasts.group_drain([]) is None
    assert forecasts.group_loss([_verdict((10, 20), None)]) is None


def test_a_backlog_is_drained_before_if_it_is_so_at_the_latest_or_nothing_is_lost_when_it_goes_well() -> None:
    lost = Forecast(100, 200, Basis.DISK)
    assert forecasts.drained_before(Forecast(10, 99, Basis.CONSUME_RATE), lost)
    assert not forecasts.drained_before(Forecast(10, 100, Basis.CONSUME_RATE), lost)
    assert not forecasts.drained_before(None, lost)
    perhaps = Forecast(100, FURTHEST_MS, Basis.DISK)
    assert forecasts.drained_before(Forecast(50, 150, Basis.CONSUME_RATE), perhaps)
    assert not forecasts.drained_before(Forecast(101, 150, Basis.CONSUME_RATE), perhaps), "not even at its fastest"
    assert not forecasts.drained_before(None, perhaps)
