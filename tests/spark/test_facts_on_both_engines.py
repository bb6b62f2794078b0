"""Every file of `facts/` says the same on Spark and on DuckDB, to the last row, of hundreds of random intervals."""

from __future__ import annotations

from collections import Counter
from random import Random
from time import time_ns
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from offsetguard.collect.landing import arrow_schema
from offsetguard.config.judgement import Judgement
from offsetguard.fact_queries import HISTORY
from offsetguard.facts import texts
from offsetguard.facts.duckdb_engine import DuckDBEngine
from offsetguard.facts.parameters import parameters_of
from offsetguard.tables import PUBLISHED
from offsetguard_peers import generated_intervals
from offsetguard_peers.for_each import for_each
from offsetguard_spark.sql_engine import SparkEngine
from offsetguard_spark.tables import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERVALS = 300
SEED = time_ns()
TABLES = {table.name: table for table in PUBLISHED}
FACTS = [name for name in texts.names() if name in TABLES]
STEPS = [name for name in texts.names() if name not in TABLES]
PARAMETERS = parameters_of(Judgement(), generated_intervals.INTERVAL, generated_intervals.INTERVAL.end)


@pytest.fixture
def engines(spark: SparkSession) -> tuple[DuckDBEngine, SparkEngine]:
    duckdb, on_spark = DuckDBEngine(), SparkEngine(spark)
    random = Random(SEED)  # noqa: S311 it is a test
    for name, rows in generated_intervals.rows_by_relation(random, INTERVALS).items():
        of_table = as_table(name, rows)
        duckdb.add(name, of_table)
        on_spark.add(name, spark.createDataFrame(of_table))
    for name in STEPS:
        duckdb.keep(name, PARAMETERS)
        on_spark.keep(name, PARAMETERS)
    return duckdb, on_spark


def as_table(relation: str, rows: list[dict[str, Any]]) -> pa.Table:
    schema = schema_of(relation.removesuffix(HISTORY))
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema=schema)


def schema_of(table_name: str) -> pa.Schema:
    return pa.schema([column.with_nullable(True) for column in arrow_schema(TABLES[table_name])])


@for_each("name", FACTS)
def test_both_engines_make_the_same_rows(engines: tuple[DuckDBEngine, SparkEngine], name: str) -> None:
    duckdb, spark = (engine.run(name, PARAMETERS) for engine in engines)
    assert spark.schema.simpleString() == spark_schema(TABLES[name]).simpleString()
    assert _types(duckdb.schema) == _types(schema_of(name))
    found, expected = (Counter(repr(row) for row in rows.to_pylist()) for rows in (duckdb, spark.toArrow()))
    only = [sorted(one - other)[:1] for one, other in ((found, expected), (expected, found))]
    assert not any(only), f"seed {SEED}, the first row that only DuckDB has: {only[0]}, that only Spark has: {only[1]}"
    assert len(found) > INTERVALS / 4, "hardly anything was compared"


def _types(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return names and types; elements of lists have other names on each side."""
    types = [(one.name, one.type) for one in schema]
    return [(name, f"list {of.value_type}" if pa.types.is_list(of) else str(of)) for name, of in types]
