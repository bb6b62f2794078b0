"""What invariants cost: `uv run python benchmarks/invariants.py [--rows 20000000] [--rounds 5] [--gx-rounds 2]`.

11 and 40 invariants over one Parquet table of queues (offsets, a few of them broken, NULLs), generated once:

ours   the gate's query: rows spoken about and violated of each invariant, and examples of what is violated
bare   the aggregation that one would write by hand: one COUNT_IF of each condition, nothing else
GX     Great Expectations with its defaults on the same Spark frame

In the same rounds, one after the other. `clean` is a table in which nothing is violated, `dirty` one with a few hundred
violating rows: ours then reads it a second time for the examples. Exit code 1 when an aim is missed: at most 4 Spark
jobs in any case; clean at most 1.3 x bare; at least 4 x faster than GX.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offsetguard.rules.rule import Severity
from offsetguard.tables import QUEUE_SNAPSHOTS
from offsetguard.workspace import Workspace
from offsetguard_expectations.invariant import Invariant, ViolationMeans
from offsetguard_spark.counting import Counting, Sought, count_all, find_examples
from offsetguard_spark.invariants import example_of
from offsetguard_spark.session import make_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAX_JOBS, MAX_TIMES_BARE, MIN_TIMES_FASTER_THAN_GX = 4, 1.3, 4.0
NUMBERS = (11, 40)
OFFSETS = ("min_offset", "consumer_offset", "pull_offset", "max_offset")
PAIRS = [(low, high) for at, low in enumerate(OFFSETS) for high in OFFSETS[at + 1 :]]


@dataclass(frozen=True)
class Check:
    """One invariant, and what a user of Great Expectations and one of plain SQL write for it."""

    invariant: Invariant
    bare: str  # SQL: the row violates it
    expectation: str  # class in great_expectations.expectations
    arguments: dict[str, Any]


def checks(number: int) -> list[Check]:
    """Return different invariants: the order of the offsets, then bounds of each of them."""
    found = [_order(low, high) for low, high in PAIRS]
    for step in range(number):
        found += [_at_least(column, -step) for column in (*OFFSETS, "queue_id")]
    return found[:number]


def _order(low: str, high: str) -> Check:
    arguments = {"column_A": high, "column_B": low, "or_equal": True, "ignore_row_if": "either_value_is_missing"}
    return Check(
        _invariant(f"{low}-{high}", f"{low} IS NOT NULL AND {high} IS NOT NULL", f"{low} <= {high}"),
        f"{low} > {high}",
        "ExpectColumnPairValuesAToBeGreaterThanB",
        arguments,
    )


def _at_least(column: str, bound: int) -> Check:
    return Check(
        _invariant(f"{column}{bound}", f"{column} IS NOT NULL", f"{column} >= {bound}"),
        f"{column} < {bound}",
        "ExpectColumnValuesToBeBetween",
        {"column": column, "min_value": bound},
    )


def _invariant(id_: str, applies_when: str, holds_when: str) -> Invariant:
    return Invariant(
        id=id_,
        title="",
        violation="",
        table=QUEUE_SNAPSHOTS,
        violation_means=ViolationMeans.TROUBLE,
        severity=Severity.INFO,
        applies_when=applies_when,
        holds_when=holds_when,
        example="consumer_group || ' in ' || topic || ' ' || broker_name || '/' || queue_id",
        meaning="",
        do_next="",
    )


def generate(spark: SparkSession, file: Path, rows: int, *, dirty: bool) -> DataFrame:
    """Write the table: every fifth queue never committed, every third broker keeps no pull offset."""
    broken = f"id % {max(rows // 200, 1)} = 7" if dirty else "FALSE"
    spark.range(0, rows, 1, 8).selectExpr(
        "CONCAT('group-', id % 1000) AS consumer_group",
        "CONCAT('topic-', id % 5000) AS topic",
        "CONCAT('broker-', id % 12) AS broker_name",
        "CAST(id % 16 AS INT) AS queue_id",
        f"CASE WHEN {broken} THEN 2000000 + id ELSE id % 1000 END AS min_offset",
        "CASE WHEN id % 5 = 0 THEN NULL ELSE 1000 + id % 7000 END AS consumer_offset",
        "CASE WHEN id % 3 = 0 THEN NULL ELSE 9000 + id % 500 END AS pull_offset",
        "1000000 + id % 100000 AS max_offset",
    ).write.mode("overwrite").parquet(str(file))
    return spark.read.parquet(str(file))


def ours(spark: SparkSession, frame: DataFrame, asked: list[Check]) -> list[int]:
    """Count and find examples as the gate does."""
    conditions = tuple(
        condition for one in asked for condition in (one.invariant.speaks_about, one.invariant.violated_when)
    )
    violations = count_all(spark, [Counting("queues", frame, conditions)])["queues"].conditions[1::2]
    sought = [
        Sought(one.invariant.id, frame, one.invariant.violated_when, example_of(one.invariant), count)
        for one, count in zip(asked, violations, strict=True)
        if count
    ]
    found = find_examples(spark, sought)
    assert all(found[one.id] for one in sought)
    return list(violations)


def bare(_: SparkSession, frame: DataFrame, asked: list[Check]) -> list[int]:
    """Count as one would by hand."""
    row = frame.selectExpr(*(f"COUNT_IF({one.bare}) AS c{at}" for at, one in enumerate(asked))).first()
    assert row is not None
    return list(row)


class GreatExpectations:
    """GX with its defaults: a Spark data source, a suite, one run."""

    def __init__(self) -> None:
        import great_expectations as gx  # noqa: PLC0415 - 5 s that a run without GX need not pay

        self._gx = gx
        self._context = gx.get_context(mode="ephemeral")
        self._context.variables.progress_bars = {"globally": False}  # they cost nothing and spoil the table
        asset = self._context.data_sources.add_spark("benchmark").add_dataframe_asset("queues")
        self._batches = asset.add_batch_definition_whole_dataframe("all")

    def __call__(self, _: SparkSession, frame: DataFrame, asked: list[Check]) -> list[int]:
        """Validate; returns the violations of each check."""
        classes = self._gx.expectations
        suite = self._gx.ExpectationSuite(
            "queues", expectations=[getattr(classes, one.expectation)(**one.arguments) for one in asked]
        )
        found = self._batches.get_batch({"dataframe": frame}).validate(suite)
        frame.unpersist(blocking=True)  # GX keeps it for good: the others would read that, and lack the memory
        return [result.result["unexpected_count"] for result in found.results]


def measure(
    spark: SparkSession, frames: dict[str, DataFrame], rounds: int, gx_rounds: int
) -> tuple[dict[tuple[str, int, str], list[float]], dict[tuple[str, int, str], int]]:
    """Return seconds and Spark jobs by (frame, number of invariants, way)."""
    ways: dict[str, Any] = {"ours": ours, "bare": bare}
    if gx_rounds:
        ways["GX"] = GreatExpectations()
    seconds: dict[tuple[str, int, str], list[float]] = {}
    jobs: dict[tuple[str, int, str], int] = {}
    for round_ in range(rounds + 1):  # the first one warms up and is not counted
        for frame_name, frame in frames.items():
            for number in NUMBERS:
                asked, answers = checks(number), {}
                for name, way in ways.items():
                    if name == "GX" and (round_ >= gx_rounds or frame_name == "clean"):
                        continue
                    key = (frame_name, number, name)
                    group = f"{key} {round_}"
                    spark.sparkContext.setJobGroup(group, group)
                    started = time.perf_counter()
                    answers[name] = way(spark, frame, asked)
                    taken = time.perf_counter() - started
                    jobs[key] = len(spark.sparkContext.statusTracker().getJobIdsForGroup(group))
                    if round_ or name == "GX":
                        seconds.setdefault(key, []).append(taken)
                assert len({tuple(one) for one in answers.values()}) == 1, f"verdicts differ: {answers}"
        print(f"round {round_ or 'to warm up'} done", file=sys.stderr, flush=True)
    return seconds, jobs


def report(seconds: dict[tuple[str, int, str], list[float]], jobs: dict[tuple[str, int, str], int]) -> list[str]:
    """Print the table; returns the aims that were missed."""
    print(
        f"{'frame':6} {'invariants':>10} {'way':5} {'median s':>9} {'min s':>7} {'rounds':>6} {'jobs':>5} {'x bare':>7}"
    )
    missed = []
    medians = {key: statistics.median(taken) for key, taken in seconds.items()}
    for (frame, number, way), taken in seconds.items():
        key = (frame, number, way)
        times = medians[key] / medians[frame, number, "bare"]
        print(
            f"{frame:6} {number:>10} {way:5} {medians[key]:>9.2f} {min(taken):>7.2f} {len(taken):>6} {jobs[key]:>5}"
            f" {times:>7.2f}"
        )
        if way == "ours" and jobs[key] > MAX_JOBS:
            missed.append(f"{frame}, {number} invariants: {jobs[key]} jobs, at most {MAX_JOBS}")
        if way == "ours" and frame == "clean" and times > MAX_TIMES_BARE:
            missed.append(f"{number} invariants: {times:.2f} x bare, at most {MAX_TIMES_BARE}")
        if way == "GX" and (faster := medians[key] / medians[frame, number, "ours"]) < MIN_TIMES_FASTER_THAN_GX:
            missed.append(f"{number} invariants: {faster:.1f} x faster than GX, at least {MIN_TIMES_FASTER_THAN_GX}")
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=5, help="of ours and bare, one more to warm up")
    parser.add_argument("--gx-rounds", type=int, default=2, help="of GX, which takes minutes; 0 leaves it out")
    parser.add_argument(
        "--folder", type=Path, default=None, help="where the table is written; default: a temporary one"
    )
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="offsetguard-invariants-"))
    os.environ.setdefault("OFFSETGUARD_LOCAL_MASTER", "local[2]")
    # 20 million rows come to a server or a cluster, which compile what they do as well as they can
    spark = make_session(Workspace(folder, folder / "none.yml", "sqlite://"), runs_for_minutes=True)
    try:
        frames = {
            name: generate(spark, folder / name, arguments.rows, dirty=name == "dirty") for name in ("clean", "dirty")
        }
        seconds, jobs = measure(spark, frames, arguments.rounds, arguments.gx_rounds)
    finally:
        spark.stop()
        if arguments.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{arguments.rows:,} rows, {os.environ['OFFSETGUARD_LOCAL_MASTER']}, load {os.getloadavg()[0]:.1f}")
    missed = report(seconds, jobs)
    for one in missed:
        print(f"MISSED: {one}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
