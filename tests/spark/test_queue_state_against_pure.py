"""Spark folds a queue's window as the pure function does, on thousands of random samples with NULLs, one query each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from offsetguard import queue_fold, queue_state
from offsetguard.collect.landing import arrow_schema
from offsetguard.config import WindowPolicy
from offsetguard.intervals import Interval
from offsetguard.queue_fold import KEPT_FOR, fold
from offsetguard.queue_state import QueueState, Sample
from offsetguard.tables import QUEUE_SNAPSHOTS, QUEUE_STATE, Table
from offsetguard.verdicts import State
from offsetguard.window_rules import QueueContext
from offsetguard.windows import judge_window
from offsetguard_spark.facts.queues import SUSPECT_SAMPLE
from offsetguard_spark.queue_state import consume_tps, curve_points, fold_snapshot, is_suspect, produce_tps, rebuild

if TYPE_CHECKING:
    from random import Random

    from pyspark.sql import DataFrame, SparkSession

CLUSTER = "demo"
START = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)
LAST = Interval(START + timedelta(minutes=110))
CONTEXTS = (QueueContext(online_client_count=0), QueueContext(online_client_count=2), QueueContext(subscribed=False))
DICE = st.randoms(use_true_random=True)  # hypothesis' own large examples are mostly zeros
PROPERTY = settings(
    max_examples=2,
    phases=[Phase.generate],  # shrinking would start Spark queries by the hundred; the failure names the state
    suppress_health_check=list(HealthCheck),
)


def _sequences(dice: Random) -> list[list[tuple[datetime, Sample]]]:
    return [_samples(dice) for _ in range(200)]


def _samples(dice: Random) -> list[tuple[datetime, Sample]]:
    """Make one queue's samples. Small steps: offsets often meet, or pass each other; times repeat and go back."""
    low, committed, high, start, samples = 0, 0, 20, START, []
    for _ in range(dice.randint(2, 24)):
        start = min(start + timedelta(minutes=dice.choice([0, 1, 1, 1, 1, 2, 5, 31])), LAST.start)
        high = dice.choice([0, max(high - 3, 0), *[high + dice.randint(0, 40)] * 20])
        low = dice.choice([low + dice.randint(-3, 40), *[low] * 3])
        committed = dice.choice([committed, high, max(0, committed + dice.randint(-30, 50))])
        read_at = start + timedelta(seconds=dice.randint(0, 59), microseconds=dice.randint(0, 999_999))
        unknown = dice.randint(0, 20)
        sample = Sample(
            min_offset=None if unknown in (2, 3) else low,
            max_offset=None if unknown == 2 else high,
            consumer_offset=None if unknown in (4, 5) else committed,
            pull_offset=committed + dice.randint(-2, 20) if unknown > 14 else None,
            consumer_offset_read_at=None if unknown == 5 else read_at,
            max_offset_read_at=None if unknown == 2 else read_at,
        )
        samples.append((start, sample))
    return samples


def _row(queue_id: int, columns: dict[str, Any]) -> dict[str, Any]:
    key = {"cluster": CLUSTER, "broker_name": "b", "topic": "t", "queue_id": queue_id, "consumer_group": "g"}
    return key | columns


def _sample_row(queue_id: int, start: datetime, sample: Sample) -> dict[str, Any]:
    return _row(queue_id, QueueState(start, sample).as_row())


def _frame(spark: SparkSession, table: Table, rows: list[dict[str, Any]]) -> DataFrame:
    names = [column.name for column in table.columns]
    columns = [{name: row.get(name) for name in names} for row in rows]
    return spark.createDataFrame(pa.Table.from_pylist(columns, schema=arrow_schema(table)))


def _rows(states: DataFrame) -> dict[int, dict[str, Any]]:
    assert states.columns == [column.name for column in QUEUE_STATE.columns]
    return {row["queue_id"]: row for row in states.toArrow().to_pylist()}


@PROPERTY
@given(DICE)
def test_each_sample_changes_the_state_as_the_pure_fold_does(spark: SparkSession, dice: Random) -> None:
    before, new, expected = [], [], {}
    for samples in _sequences(dice):
        state = None
        for start, sample in samples:
            queue_id = len(expected)
            if state is not None:
                before.append(_row(queue_id, state.as_row()))
            new.append(_sample_row(queue_id, start, sample))
            state = fold(state, start, sample)
            expected[queue_id] = state
    folded = fold_snapshot(_frame(spark, QUEUE_STATE, before), _frame(spark, QUEUE_SNAPSHOTS, new), CLUSTER, LAST)
    assert _rows(folded) == {queue_id: _row(queue_id, state.as_row()) for queue_id, state in expected.items()}
    _derived_figures_agree(spark, expected)


def _derived_figures_agree(spark: SparkSession, states: dict[int, QueueState]) -> None:
    rows = _frame(spark, QUEUE_STATE, [_row(queue_id, state.as_row()) for queue_id, state in states.items()])
    points = F.array_compact(
        F.array(*(F.when(a.isNotNull(), F.struct(o.alias("o"), a.alias("a"))) for o, a in curve_points()))
    )
    figures = {
        "suspect": is_suspect(LAST.end),
        "suspect_sample": F.expr(SUSPECT_SAMPLE),
        "produced": produce_tps(),
        "consumed": consume_tps(),
        "curve": points,
    }
    for row in rows.select("queue_id", *(column.alias(name) for name, column in figures.items())).toArrow().to_pylist():
        state = states[row["queue_id"]]
        assert row["suspect"] == queue_state.is_suspect(state, LAST.end), state
        verdicts = [judge_window(state, context, WindowPolicy(), LAST.end) for context in CONTEXTS]
        # stale: only a queue that the interval's snapshot does not have, and so no facts either
        unhealthy = [one for one in verdicts if one.state is not State.OK and one.rule != "stale"]
        assert row["suspect"] or row["suspect_sample"] or not unhealthy, (state, unhealthy)
        assert row["produced"] == queue_state.produce_tps(state), state
        assert row["consumed"] == queue_state.consume_tps(state), state
        assert [tuple(point.values()) for point in row["curve"]] == queue_state.curve(state), state


@PROPERTY
@given(DICE)
def test_rebuilding_from_the_snapshots_gives_the_rows_of_the_fold(spark: SparkSession, dice: Random) -> None:
    history, expected = [], {}
    for queue_id, drawn in enumerate(_sequences(dice)):
        samples = dict(reversed(drawn))  # one of each interval, as snapshots are: the first
        history += [_sample_row(queue_id, start, sample) for start, sample in samples.items()]
        state = queue_fold.rebuild(samples.items())
        assert state is not None
        expected[queue_id] = _row(queue_id, state.as_row())
    assert _rows(rebuild(_frame(spark, QUEUE_SNAPSHOTS, history), CLUSTER, LAST)) == expected


def test_a_queue_without_samples_for_a_day_is_dropped_and_starts_anew_when_it_comes_back(spark: SparkSession) -> None:
    def sample(at: datetime, committed: int) -> Sample:
        return Sample(0, 100, committed, None, None, None, at, None, at)

    gone = START + KEPT_FOR
    old = fold(None, START, sample(START, 50))
    younger = fold(None, START + timedelta(minutes=1), sample(START, 50))
    before = [_row(number, state.as_row()) for number, state in ((0, old), (1, old), (2, younger))]
    new = [_sample_row(1, gone, sample(gone, 40)), _sample_row(3, gone, sample(gone, 100))]
    frames = _frame(spark, QUEUE_STATE, before), _frame(spark, QUEUE_SNAPSHOTS, new)
    found = _rows(fold_snapshot(*frames, CLUSTER, Interval(gone)))
    assert found == {
        1: _row(1, fold(old, gone, sample(gone, 40)).as_row()),  # 40 after 50 is no rewind any more
        2: before[2],
        3: _row(3, fold(None, gone, sample(gone, 100)).as_row()),
    }
    assert found[1]["rewound_at"] is None


def test_rows_of_other_clusters_are_left_out(spark: SparkSession) -> None:
    state = fold(None, START, Sample())
    foreign = _row(0, state.as_row()) | {"cluster": "other"}
    frames = _frame(spark, QUEUE_STATE, [foreign]), _frame(spark, QUEUE_SNAPSHOTS, [])
    assert _rows(fold_snapshot(*frames, CLUSTER, Interval(START))) == {}
