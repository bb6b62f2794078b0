"""Spark says of every case what SQLite says of it in the unit tests: the invariants' SQL means the same in both."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from offsetguard.tables import ColumnType, Table
from offsetguard_expectations.invariants import ROW_INVARIANTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASE_FILE = yaml.safe_load(
    (Path(__file__).parents[1] / "unit" / "expectations" / "cases" / "invariants.yml").read_text(encoding="utf-8")
)
SPARK_TYPES = {
    ColumnType.STRING: "string",
    ColumnType.INT32: "int",
    ColumnType.INT64: "bigint",
    ColumnType.FLOAT64: "double",
    ColumnType.BOOLEAN: "boolean",
    ColumnType.TIMESTAMP: "timestamp",
    ColumnType.STRING_LIST: "array<string>",
}


def typed_row(table: Table, changes: dict[str, Any]) -> tuple[Any, ...]:
    values = []
    for column in table.columns:
        healthy = CASE_FILE["healthy_by_column"].get(column.name, CASE_FILE["healthy_by_type"][column.type])
        value = changes.get(column.name, healthy)
        is_moment = column.type is ColumnType.TIMESTAMP and value is not None
        values.append(datetime.fromisoformat(value).replace(tzinfo=UTC) if is_moment else value)
    return tuple(values)


@pytest.mark.parametrize("table", dict.fromkeys(one.table for one in ROW_INVARIANTS), ids=lambda table: table.name)
def test_spark_judges_every_case_as_its_verdict_says(spark: SparkSession, table: Table) -> None:
    invariants = [one for one in ROW_INVARIANTS if one.table is table]
    cases = [(one, case) for one in invariants for case in CASE_FILE["cases"][one.id]]
    rows = spark.createDataFrame(
        [(at, *typed_row(table, case["row"])) for at, (_, case) in enumerate(cases)],
        "case_number int, " + ", ".join(f"{column.name} {SPARK_TYPES[column.type]}" for column in table.columns),
    )
    judged = rows.selectExpr(
        "case_number",
        *(f"{one.speaks_about} AS `{one.id} applies`" for one in invariants),
        *(f"{one.violated_when} AS `{one.id} violated`" for one in invariants),
        *(f"{one.example} AS `{one.id} example`" for one in invariants),
    )
    verdicts = {}
    for row in judged.collect():
        one, _ = cases[row["case_number"]]
        applies, violated = row[f"{one.id} applies"], row[f"{one.id} violated"]
        verdicts[row["case_number"]] = "violated" if violated else "holds" if applies else "not spoken about"
        assert {applies, violated} <= {True, False}
        assert row[f"{one.id} example"] or not violated
    assert verdicts == {at: case["verdict"] for at, (_, case) in enumerate(cases)}
