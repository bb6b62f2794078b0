"""Every file of `facts/` says the same on Spark and on DuckDB, to the last row, of hundreds of random intervals."""

import re
from collections.abc import Iterator
from decimal import Decimal
from random import Random
from time import time_ns
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from offsetguard.config.groups import Judgement
from offsetguard.facts import texts
from offsetguard.facts.duckdb_engine import DuckDBEngine
from offsetguard.facts.parameters import parameters_of
from offsetguard.facts.queries import HISTORY
from offsetguard.lake.reading import table_schema
from offsetguard.tables import PUBLISHED, QUEUE_SNAPSHOTS, QUEUE_STATE
from offsetguard_peers.cases.running import is_thorough
from offsetguard_peers.facts import generated
from offsetguard_peers.facts.generated import SPAN
from offsetguard_spark.facts import query_of
from offsetguard_spark.small_facts import OLDEST
from offsetguard_spark.tables import spark_schema

INTERVALS = 300 if is_thorough() else 60
SEED = time_ns()
START, END = generated.INTERVAL.start, generated.INTERVAL.end
TABLES = {table.name: table for table in PUBLISHED}
PARAMETERS = parameters_of(Judgement(), START, END) | {"first_interval_start": START - SPAN}
OF_THE_FOLD = {(QUEUE_SNAPSHOTS.name, "first_interval_start")}  # of many intervals, which Spark makes


class BothEngines:
    """The same relations on Spark and on DuckDB."""

    def __init__(self, spark: SparkSession) -> None:
        """Nothing is there yet."""
        self._spark = spark
        self._duckdb = DuckDBEngine()

    def add(self, name: str, rows: pa.Table) -> None:
        """Let queries on both read rows by a name."""
        self._spark.createDataFrame(rows).createOrReplaceTempView(name)
        self._duckdb.add(name, rows)

    def same(self, name: str) -> pa.Table:
        """Return the rows of a query, which must be the same on both."""
        frame = query_of(name, PARAMETERS).rows(self._spark)
        if name in TABLES:
            assert frame.schema.simpleString() == spark_schema(TABLES[name]).simpleString()
        on_spark = frame.toArrow()
        found, expected = (_in_one_order(rows) for rows in (self._duckdb.rows(name, PARAMETERS), on_spark.to_pylist()))
        differences = [
            f"{column}: DuckDB {value!r}, Spark {other[column]!r} in {row}"
            for row, other in zip(found, expected, strict=True)
            for column, value in row.items()
            if value != other[column]
        ]
        assert not differences, f"{name}, seed {SEED}: {len(differences)} differ, first {differences[0]}"
        assert len(found) > INTERVALS / 4, f"{name}, seed {SEED}: hardly anything was compared"
        return on_spark


def test_both_engines_make_the_same_rows(spark: SparkSession) -> None:
    both = BothEngines(spark)
    relations = generated.rows_by_relation(Random(SEED), INTERVALS)  # noqa: S311 it is a test
    for name, rows in relations.items():
        both.add(name, as_table(name, rows))
    _add_state_before(both, relations[QUEUE_SNAPSHOTS.name + HISTORY])
    for name in _in_order(texts.names()):
        both.add(name, both.same(name))


def test_a_small_minute_reads_each_history_since_the_first_row_that_a_text_asks_for() -> None:
    """Rows that are not read are no rows to DuckDB: a text that asks for older ones must be known to the reader."""
    asked = {
        (history, oldest)
        for name in texts.names()
        for history, oldest in re.findall(
            r"FROM (\w+)_history\b.*?interval_start\s*(?:>=|BETWEEN)\s*:(\w+)", texts.spark_text(name), re.DOTALL
        )
    }
    assert asked == {(table.name, one) for table, parameters in OLDEST.items() for one in parameters} | OF_THE_FOLD
    read = {relation for name in texts.names() for relation in texts.relations_of(name) if relation.endswith(HISTORY)}
    assert read == {f"{history}{HISTORY}" for history, _ in asked}


def _add_state_before(both: BothEngines, history: list[dict[str, Any]]) -> None:
    """Split the samples of queues: what folding the newest into the rest gives is what all at once give."""
    of_table = QUEUE_SNAPSHOTS.name
    both.add(of_table + HISTORY, as_table(of_table, [row for row in history if row["interval_start"] < START]))
    both.add(f"{QUEUE_STATE.name}_before", both.same(texts.QUEUE_WINDOWS))
    both.add(of_table, as_table(of_table, [row for row in history if row["interval_start"] == START]))
    both.add(of_table + HISTORY, as_table(of_table, history))
    one_by_one, at_once = (both.same(name).to_pylist() for name in (QUEUE_STATE.name, texts.QUEUE_WINDOWS))
    assert sorted(map(repr, one_by_one)) == sorted(map(repr, at_once))


def _in_order(names: list[str]) -> Iterator[str]:
    """Yield all queries, each after those that it reads."""
    done: set[str] = set()

    def visit(name: str) -> Iterator[str]:
        if name not in done and name in names:
            done.add(name)
            for relation in sorted(texts.relations_of(name)):
                yield from visit(relation)
            yield name

    for name in names:
        yield from visit(name)


def as_table(relation: str, rows: list[dict[str, Any]]) -> pa.Table:
    if relation == "intervals":
        return pa.Table.from_pylist(rows)
    return pa.Table.from_pylist(rows, schema=table_schema(TABLES[relation.removesuffix(HISTORY)]))


def _in_one_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: repr([int(one) if isinstance(one, Decimal) else one for one in row.values()]))
