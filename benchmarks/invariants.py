"""What invariants cost: `uv run python benchmarks/invariants.py [--rows 20000000] [--rounds 5]`.

11 and 40 invariants over one Parquet table of queues (offsets, a few hundred broken, NULLs), generated once. In each
round, one after the other:

gx     Great Expectations evaluates our expectations: rows spoken about and violated of each
bare   the aggregation that one would write by hand: one COUNT_IF of each violation, nothing else

Exit code 1 when an aim is missed: one Spark job; 11 invariants at most 1.3 x bare, 40 at most 2.5 x.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import great_expectations as gx
from pyspark.sql import DataFrame, SparkSession

from offsetguard.config.workspace import Workspace
from offsetguard.model.verdicts import Severity
from offsetguard.tables import QUEUE_SNAPSHOTS
from offsetguard_expectations.invariant import Invariant, ViolationMeans
from offsetguard_expectations.suites import invariant_expectation
from offsetguard_spark.session import make_session

MAX_TIMES_BARE = {11: 1.3, 40: 2.5}
OFFSETS = ("min_offset", "consumer_offset", "pull_offset", "max_offset")
PAIRS = [(low, high) for at, low in enumerate(OFFSETS) for high in OFFSETS[at + 1 :]]


def invariants(number: int) -> list[tuple[Invariant, str]]:
    """Return different invariants: the order of the offsets, then bounds of each; with the violation as plain SQL."""
    found = [(_invariant(f"{low} IS NOT NULL AND {high} IS NOT NULL", f"{low} <= {high}"), f"{low} > {high}")
             for low, high in PAIRS]  # fmt: skip
    for step in range(number):
        found += [
            (_invariant(f"{column} IS NOT NULL", f"{column} >= {-step}"), f"{column} < {-step}")
            for column in (*OFFSETS, "queue_id")
        ]
    return found[:number]


def _invariant(applies_when: str, holds_when: str) -> Invariant:
    return Invariant(
        id=holds_when,
        title=holds_when,
        violation="",
        table=QUEUE_SNAPSHOTS,
        violation_means=ViolationMeans.TROUBLE,
        severity=Severity.INFO,
        applies_when=applies_when,
        holds_when=holds_when,
        example="",
        meaning="",
        do_next="",
    )


def generate(spark: SparkSession, file: Path, rows: int) -> DataFrame:
    """Write the table: every fifth queue never committed, every third broker keeps no pull offset."""
    spark.range(0, rows, 1, 8).selectExpr(
        "CONCAT('group-', id % 1000) AS consumer_group",
        "CONCAT('topic-', id % 5000) AS topic",
        "CONCAT('broker-', id % 12) AS broker_name",
        "CAST(id % 16 AS INT) AS queue_id",
        f"CASE WHEN id % {max(rows // 200, 1)} = 7 THEN 2000000 + id ELSE id % 1000 END AS min_offset",
        "CASE WHEN id % 5 = 0 THEN NULL ELSE 1000 + id % 7000 END AS consumer_offset",
        "CASE WHEN id % 3 = 0 THEN NULL ELSE 9000 + id % 500 END AS pull_offset",
        "1000000 + id % 100000 AS max_offset",
    ).write.mode("overwrite").parquet(str(file))
    return spark.read.parquet(str(file))


def by_gx(batches: Any, frame: DataFrame, asked: list[tuple[Invariant, str]]) -> list[int]:
    """Validate; returns the violations of each."""
    suite = gx.ExpectationSuite("queues", expectations=[invariant_expectation(one) for one, _ in asked])
    found = batches.get_batch({"dataframe": frame}).validate(suite)
    return [result.result["unexpected_count"] for result in found.results]


def bare(_: Any, frame: DataFrame, asked: list[tuple[Invariant, str]]) -> list[int]:
    """Count as one would by hand."""
    row = frame.selectExpr(*(f"COUNT_IF({violation}) AS c{at}" for at, (_, violation) in enumerate(asked))).first()
    assert row is not None
    return list(row)


def measure(spark: SparkSession, frame: DataFrame, rounds: int) -> list[str]:
    """Print seconds and Spark jobs; returns the aims that were missed."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    source = context.data_sources.add_spark("benchmark", persist=False)
    batches = source.add_dataframe_asset("queues").add_batch_definition_whole_dataframe("all")
    tracker, missed = spark.sparkContext.statusTracker(), []
    print(f"{'invariants':>10} {'way':5} {'median s':>9} {'min s':>7} {'jobs':>5} {'x bare':>7}")
    for number, most in MAX_TIMES_BARE.items():
        asked = invariants(number)
        seconds: dict[Any, list[float]] = {bare: [], by_gx: []}
        jobs = {}
        for round_ in range(rounds + 1):  # the first one warms up and is not counted
            answers = []
            for way, taken in seconds.items():
                before, started = len(tracker.getJobIdsForGroup(None)), time.perf_counter()
                answers.append(way(batches, frame, asked))
                if round_:
                    taken.append(time.perf_counter() - started)
                jobs[way] = len(tracker.getJobIdsForGroup(None)) - before
            assert answers[0] == answers[1], f"verdicts differ: {answers}"
        for way, taken in seconds.items():
            times = statistics.median(taken) / statistics.median(seconds[bare])
            print(f"{number:>10} {way.__name__:5} {statistics.median(taken):>9.2f} {min(taken):>7.2f} {jobs[way]:>5}"
                  f" {times:>7.2f}", flush=True)  # fmt: skip
        missed += [f"{number} invariants: {times:.2f} x bare, at most {most}"] if times > most else []
        missed += [f"{number} invariants: {jobs[by_gx]} jobs"] if jobs[by_gx] > 1 else []
    return missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=5, help="one more warms up")
    arguments = parser.parse_args()
    os.environ.setdefault("OFFSETGUARD_LOCAL_MASTER", "local[2]")
    with tempfile.TemporaryDirectory(prefix="offsetguard-invariants-") as folder:
        home = Path(folder)
        # 20 million rows come to a server or a cluster, which compile what they do as well as they can
        spark = make_session(Workspace(home, home / "none.yml", "sqlite://"), runs_for_minutes=True)
        spark.conf.set("spark.sql.adaptive.enabled", "false")  # as the gate does; else each way has a job more
        try:
            missed = measure(spark, generate(spark, home / "queues", arguments.rows), arguments.rounds)
        finally:
            spark.stop()
    print(f"{arguments.rows:,} rows, {os.environ['OFFSETGUARD_LOCAL_MASTER']}, load {os.getloadavg()[0]:.1f}")
    for one in missed:
        print(f"MISSED: {one}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
