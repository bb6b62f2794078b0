"""Spark says of every case what SQLite and DuckDB say of it in the unit tests: the invariants' SQL means the same.

So does Great Expectations, whose import takes 5 s.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import great_expectations as gx
import pytest
import yaml
from pyspark.sql import SparkSession

from offsetguard.tables import QUEUE_SNAPSHOTS, ColumnType, Table
from offsetguard_expectations.invariants import ROW_INVARIANTS
from offsetguard_expectations.suites import suite

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


@pytest.fixture(scope="module")
def batches(jvm_session: SparkSession) -> Any:
    assert jvm_session, "GX takes the session that there is"
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_spark("spark", persist=False).add_dataframe_asset("rows")
    return asset.add_batch_definition_whole_dataframe("all")


@pytest.mark.parametrize("table", dict.fromkeys(one.table for one in ROW_INVARIANTS), ids=lambda table: table.name)
def test_spark_judges_every_case_as_its_verdict_says(spark: SparkSession, batches: Any, table: Table) -> None:
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
    verdicts, found = {}, judged.collect()
    for row in found:
        one, _ = cases[row["case_number"]]
        applies, violated = row[f"{one.id} applies"], row[f"{one.id} violated"]
        verdicts[row["case_number"]] = "violated" if violated else "holds" if applies else "not spoken about"
        assert {applies, violated} <= {True, False}
        assert row[f"{one.id} example"] or not violated
    assert verdicts == {at: case["verdict"] for at, (_, case) in enumerate(cases)}

    by_gx = batches.get_batch({"dataframe": rows}).validate(suite(table.name))
    assert {one.expectation_config.meta["id"]: one.result for one in by_gx.results} == {
        one.id: {
            "element_count": sum(row[f"{one.id} applies"] for row in found),
            "unexpected_count": sum(row[f"{one.id} violated"] for row in found),
        }
        for one in invariants
    }


def test_the_lines_of_the_readme_validate_a_spark_frame(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readme = (Path(__file__).parents[2] / "expectations" / "README.md").read_text(encoding="utf-8")
    on_pandas, on_spark = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    rows = [typed_row(QUEUE_SNAPSHOTS, {"min_offset": 50, "consumer_offset": offset}) for offset in (40, 60)]
    columns = ", ".join(f"{column.name} {SPARK_TYPES[column.type]}" for column in QUEUE_SNAPSHOTS.columns)
    spark.createDataFrame(rows, columns).coalesce(1).write.parquet(str(tmp_path / "queue_snapshots.parquet"))
    monkeypatch.chdir(tmp_path)
    reading = f"spark.read.parquet('{tmp_path}/queue_snapshots.parquet')"  # the JVM stays where it was started
    names = {"spark": spark}
    exec(on_pandas, names)  # noqa: S102 - lines of ours
    exec(on_spark.replace('spark.read.parquet("queue_snapshots.parquet")', reading), names)  # noqa: S102
    found = {one.expectation_config.meta["id"]: one.result for one in names["report"].results}
    assert found["OG-Q01"] == {"element_count": 2, "unexpected_count": 1}
