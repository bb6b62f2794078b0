"""Usual traffic by hour of the week: what a week adds, and that old weeks fade."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from random import Random

import pyarrow as pa
import pytest

from offsetguard.collect.landing import Row, table_of
from offsetguard.config.groups import Judgement
from offsetguard.facts import parameters
from offsetguard.facts.duckdb_engine import DuckDBEngine
from offsetguard.facts.interval import record_of, traffic_hour_of
from offsetguard.tables import GROUP_FACTS, TOPIC_FACTS, TRAFFIC_BASELINES
from offsetguard.tables.facts import Baseline

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
TOTALS = pa.schema(
    [
        *((name, pa.string()) for name in ("cluster", "topic", "consumer_group")),
        *((name, pa.int64()) for name in ("queue_count", "seen_queue_count", "committed_queue_count")),
        *((name, pa.decimal128(38, 0)) for name in ("max_offset_total", "consumer_offset_total")),
        ("counted_at", pa.timestamp("us", "UTC")),
    ]
)


def folded(histories: Sequence[Sequence[int]]) -> list[Baseline]:
    """Return what is usual of some topics, each given by the messages in the hour of its weeks."""
    rows: dict[str, Row] = {}
    for week in range(max(map(len, histories))):
        counts = {str(number): some[week] for number, some in enumerate(histories) if week < len(some)}
        rows |= one_week(counts, NOON + week * parameters.WEEK, list(rows.values()))
    return [record_of(Baseline, rows[str(number)]) for number in range(len(histories))]


def one_week(counts: Mapping[str, int], at: datetime, before: list[Row]) -> dict[str, Row]:
    """Return the rows by topic when an hour has passed in which so many messages were written."""
    queue = {"cluster": "demo", "queue_count": 1, "seen_queue_count": 1, "counted_at": at}
    kept = [queue | {"topic": topic, "max_offset_total": count} for topic, count in counts.items()]
    begun = {
        "cluster": "demo",
        "interval_start": at - parameters.HOUR,
        "max_offset_total": 0,
        "counted_at": at - parameters.HOUR,
    }
    engine = DuckDBEngine()
    engine.add("kept", pa.Table.from_pylist(kept, schema=TOTALS))
    engine.add("pairs", TOTALS.empty_table())
    engine.add("intervals", pa.Table.from_pylist([{"cluster": "demo", "interval_start": at, "now": at}]))
    engine.add("topic_facts_history", table_of(TOPIC_FACTS, [begun | {"topic": topic} for topic in counts]))
    engine.add("group_facts_history", table_of(GROUP_FACTS, []))
    engine.add("traffic_baselines_history", table_of(TRAFFIC_BASELINES, before))
    made = engine.rows(TRAFFIC_BASELINES.name, parameters.parameters_of(Judgement(), at, at))
    return {row["topic"]: row for row in made}


def some_weeks(random: Random, most: int) -> list[int]:
    count = random.randint(1, most)
    return [random.choice([0, random.randrange(100), random.randrange(10**9)]) for _ in range(count)]


def test_few_weeks_have_their_plain_mean_and_standard_deviation() -> None:
    random = Random(1)  # noqa: S311 it is a test
    histories = [some_weeks(random, parameters.REMEMBERED_WEEKS) for _ in range(200)]
    for counts, baseline in zip(histories, folded(histories), strict=True):
        rates = [count / 3600 for count in counts]
        assert baseline.week_count == len(rates)
        assert baseline.mean_tps == pytest.approx(statistics.fmean(rates), abs=1e-3)
        assert baseline.spread_tps == pytest.approx(statistics.pstdev(rates), abs=1e-1, rel=1e-3)


@pytest.mark.slow
def test_a_mean_lies_within_what_was_seen_and_a_week_can_be_taken_out_again() -> None:
    random = Random(2)  # noqa: S311 it is a test
    before = [some_weeks(random, 2 * parameters.REMEMBERED_WEEKS) for _ in range(200)]
    after = [[*counts, random.randrange(10**6)] for counts in before]
    found_of_both = folded([*after, *before])
    for counts, baseline, one_less in zip(after, found_of_both[:200], found_of_both[200:], strict=True):
        rates = [count / 3600 for count in counts]
        assert min(rates) - 1e-3 <= baseline.mean_tps <= max(rates) + 1e-3
        assert 0 <= baseline.spread_tps <= max(rates) + 1e-3
        found = parameters.unfold(baseline, rates[-1])
        assert found is not None
        assert found.week_count == one_less.week_count
        assert found.mean_tps == pytest.approx(one_less.mean_tps, abs=1e-3)
        assert found.spread_tps == pytest.approx(one_less.spread_tps, abs=1.0, rel=1e-3)


def test_of_the_first_week_nothing_is_known_before() -> None:
    (baseline,) = folded([[7200]])
    assert baseline == Baseline(2.0, 0.0, 1)
    assert parameters.unfold(baseline, 2.0) is None


def test_an_hour_of_a_topic_is_told_beside_the_weeks_before_it() -> None:
    (baseline,) = folded([[360_000, 396_000, 324_000, 0]])
    row = {"topic": "orders", "consumer_group": None, "hour_start_at": datetime(2026, 11, 21, 10, tzinfo=UTC)}
    row |= {"hour_tps": 0.0, **asdict(baseline)}
    (hour,) = traffic_hour_of(row)
    assert (hour.topic, hour.hour_tps, hour.week_count) == ("orders", 0.0, 3)
    assert hour.usual_tps == pytest.approx(100)
    assert hour.usual_spread_tps == pytest.approx(statistics.pstdev([100, 110, 90]))
    assert not list(traffic_hour_of(row | {"consumer_group": "billing"}))
    assert not list(traffic_hour_of(row | {"week_count": 1}))


@pytest.mark.slow
def test_traffic_that_has_doubled_is_usual_after_some_weeks() -> None:
    (baseline,) = folded([[360_000] * 20 + [720_000] * 3 * parameters.REMEMBERED_WEEKS])
    assert baseline.mean_tps == pytest.approx(200, rel=0.05)


@pytest.mark.parametrize(
    ("moment", "hour"),
    [
        (datetime(2026, 11, 16, 0, 59, tzinfo=UTC), 0),
        (datetime(2026, 11, 22, 23, 0, tzinfo=UTC), 167),
        (datetime.fromisoformat("2026-11-16T07:30:00+08:00"), 167),
    ],
)
def test_hours_are_counted_from_monday_in_utc(moment: datetime, hour: int) -> None:
    assert parameters.hour_of_week(moment) == hour


def test_the_first_interval_of_an_hour_folds_the_hour_that_has_passed_onto_earlier_weeks() -> None:
    """So a row never reads itself: an interval's baseline is made of weeks before it."""
    assert parameters.hour_that_passed(NOON) == NOON - parameters.HOUR
    assert parameters.hour_that_passed(NOON + timedelta(minutes=1)) is None
    starts = parameters.earlier_rows(NOON - parameters.HOUR)
    assert starts[0] == NOON - parameters.WEEK
    assert all(parameters.hour_that_passed(start) == start - parameters.HOUR for start in starts)
