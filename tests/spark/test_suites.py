"""The suites in plain Great Expectations, as its users open them, on Spark and pandas frames. Importing it takes 5 s.

Spark and DuckDB say of every case what SQLite says of it in the unit tests: the invariants' SQL means the same.
"""

import re
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import great_expectations as gx
import great_expectations.expectations as gxe
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from offsetguard.lake.reading import table_schema
from offsetguard.model.offsets import OffsetOrderViolation
from offsetguard.tables import QUEUE_SNAPSHOTS, ColumnType, Table
from offsetguard_expectations.invariants import ROW_INVARIANTS
from offsetguard_expectations.suites import suite
from offsetguard_peers.cases.running import examples, for_each, read_cases

CASE_FILE = read_cases(Path(__file__).parents[1] / "unit" / "expectations" / "cases" / "invariants.yml")
README = (Path(__file__).parents[2] / "expectations" / "README.md").read_text(encoding="utf-8")
ROW_INVARIANTS_BY_ID = {invariant.id: invariant for invariant in ROW_INVARIANTS}


@pytest.fixture(scope="module")
def batches() -> gx.core.batch_definition.BatchDefinition[Any]:
    asset = context().data_sources.add_pandas("pandas").add_dataframe_asset("rows")
    return asset.add_batch_definition_whole_dataframe("all")


@pytest.fixture(scope="module")
def spark_batches(jvm_session: SparkSession) -> gx.core.batch_definition.BatchDefinition[Any]:
    assert jvm_session, "GX takes the session that there is"
    asset = context().data_sources.add_spark("spark", persist=False).add_dataframe_asset("rows")
    return asset.add_batch_definition_whole_dataframe("all")


def context() -> Any:
    quiet = gx.get_context(mode="ephemeral")
    quiet.variables.progress_bars = {"globally": False}
    return quiet


def validate(batches: Any, table: Table, frame: Any) -> dict[str, Any]:
    found = batches.get_batch({"dataframe": frame}).validate(suite(table.name))
    return {result.expectation_config.meta["id"]: result for result in found.results}


def typed_rows(table: Table, *changes: dict[str, Any]) -> pa.Table:
    rows = []
    for change in changes:
        row: dict[str, Any] = {}
        for column in table.columns:
            healthy = CASE_FILE["healthy_by_column"].get(column.name, CASE_FILE["healthy_by_type"][column.type])
            value = change.get(column.name, healthy)
            is_moment = column.type is ColumnType.TIMESTAMP and value is not None
            row[column.name] = datetime.fromisoformat(value).replace(tzinfo=UTC) if is_moment else value
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=table_schema(table))


@for_each("table", list(dict.fromkeys(one.table for one in ROW_INVARIANTS)), name_of=lambda table: table.name)
def test_every_case_is_judged_and_counted_as_its_verdict_says(
    spark: SparkSession, spark_batches: Any, batches: Any, table: Table
) -> None:
    invariants = [one for one in ROW_INVARIANTS if one.table is table]
    cases = [(one, case) for one in invariants for case in CASE_FILE["cases"][one.id]]
    clusters = [f"cluster-{number % 2}" for number in range(len(cases))]
    rows = typed_rows(table, *(case["row"] | {"cluster": one} for (_, case), one in zip(cases, clusters, strict=True)))
    frame = spark.createDataFrame(rows.append_column("case_number", pa.array(range(len(cases)))))
    judged = frame.selectExpr(
        "case_number",
        *(f"{one.speaks_about} AS `{one.id} applies`" for one in invariants),
        *(f"{one.violated_when} AS `{one.id} violated`" for one in invariants),
        *(f"{one.example} AS `{one.id} example`" for one in invariants),
    ).collect()
    for row in judged:
        one, case = cases[row["case_number"]]
        applies, violated = row[f"{one.id} applies"], row[f"{one.id} violated"]
        assert {applies, violated} <= {True, False}
        assert ("violated" if violated else "holds" if applies else "not spoken about") == case["verdict"], case
        assert row[f"{one.id} example"] or not violated

    expected: dict[str, Any] = {}
    for one in invariants:
        by_cluster = {cluster: [0, 0] for cluster in clusters}
        for row in judged:
            counts = by_cluster[clusters[row["case_number"]]]
            counts[0] += row[f"{one.id} applies"]
            counts[1] += row[f"{one.id} violated"]
        checked, violating = map(sum, zip(*by_cluster.values(), strict=True))
        details = {"by_cluster": {cluster: tuple(counts) for cluster, counts in by_cluster.items()}}
        expected[one.id] = {"element_count": checked, "unexpected_count": violating, "details": details}
    for found in (validate(spark_batches, table, frame), validate(batches, table, rows.to_pandas())):
        assert {id_: one.result for id_, one in found.items()} == expected
        assert [id_ for id_, one in found.items() if one.success] == [
            id_ for id_, counts in expected.items() if not counts["unexpected_count"]
        ]
    without_rows = validate(batches, table, rows.slice(0, 0).to_pandas())
    assert {id_: (one.success, *one.result.values()) for id_, one in without_rows.items()} == dict.fromkeys(
        expected, (True, 0, 0, {"by_cluster": {}})
    )


OF_TWO_ROWS = {"element_count": 2, "unexpected_count": 1, "details": {"by_cluster": {"x": (2, 1)}}}


def test_numbers_as_floats_and_further_columns_do_not_matter(batches: Any) -> None:
    changes = [{"consumer_offset": value, "min_offset": 50} for value in (None, 40, 60)]
    frame = typed_rows(QUEUE_SNAPSHOTS, *changes).to_pandas().assign(of_mine="x")
    assert frame["consumer_offset"].dtype == "float64"
    assert validate(batches, QUEUE_SNAPSHOTS, frame)["OG-Q01"].result == OF_TWO_ROWS


def test_what_cannot_be_evaluated_never_succeeds(batches: Any) -> None:
    frame = typed_rows(QUEUE_SNAPSHOTS, {}).to_pandas().drop(columns="pull_offset")
    found = validate(batches, QUEUE_SNAPSHOTS, frame)
    assert {(one.success, str(one.result)) for one in found.values()} == {(False, "{}")}


def test_the_lines_of_the_readme_validate_a_pandas_frame_and_one_of_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = [{"min_offset": 50, "consumer_offset": offset} for offset in (40, 60)]
    pq.write_table(typed_rows(QUEUE_SNAPSHOTS, *changes), tmp_path / "queue_snapshots.parquet")
    monkeypatch.chdir(tmp_path)
    on_pandas, on_spark = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names = {"spark": spark}
    exec(on_pandas, names)  # noqa: S102 - lines of ours
    assert f"OG-Q01 {OF_TWO_ROWS}" in capsys.readouterr().out
    here = f'"{tmp_path}/queue_snapshots.parquet"'  # the JVM stays where it was started
    exec(on_spark.replace('"queue_snapshots.parquet"', here), names)  # noqa: S102
    found = {one.expectation_config.meta["id"]: one.result for one in names["report"].results}  # type: ignore[attr-defined]
    assert found["OG-Q01"] == OF_TWO_ROWS


# --- plain GX over the data says the same as our SQL -----------------------------------------------------------------


def at_least(minimum: int, *columns: str, maximum: int | None = None) -> list[gx.expectations.Expectation]:
    return [gxe.ExpectColumnValuesToBeBetween(column=name, min_value=minimum, max_value=maximum) for name in columns]


def ordered(low: str, high: str) -> list[gx.expectations.Expectation]:
    """By its default, GX judges a pair of which one is not known, and how depends on the column's type."""
    pair = {"column_A": high, "column_B": low, "or_equal": True, "ignore_row_if": "either_value_is_missing"}
    return [gxe.ExpectColumnPairValuesAToBeGreaterThanB(**pair)]


# What a user of GX would write, in columns of whole numbers.
PLAIN = {
    OffsetOrderViolation.CONSUMER_BELOW_MIN.value: ordered("min_offset", "consumer_offset"),
    OffsetOrderViolation.CONSUMER_ABOVE_PULL.value: ordered("consumer_offset", "pull_offset"),
    OffsetOrderViolation.CONSUMER_ABOVE_MAX.value: ordered("consumer_offset", "max_offset"),
    OffsetOrderViolation.PULL_ABOVE_MAX.value: ordered("pull_offset", "max_offset"),
    OffsetOrderViolation.MIN_ABOVE_MAX.value: ordered("min_offset", "max_offset"),
    "OG-T01": ordered("min_offset", "max_offset"),
    "OG-T11": at_least(0, "queue_id", "min_offset", "max_offset"),
    "OG-S05": ordered("commit_log_min_offset", "commit_log_max_offset"),
    "OG-A11": at_least(0, "read_queue_nums", "write_queue_nums") + at_least(0, "perm", maximum=15),
    "OG-G11": at_least(
        0,
        "online_client_count",
        "retry_message_count",
        "dead_letter_message_count",
        "retry_max_offset",
        "dead_letter_max_offset",
        "retry_growth",
        "dead_letter_growth",
    ),
    "OG-R11": at_least(0, "tps", "minute_sum", "average", "hour_sum", "day_sum"),
    "OG-F04": at_least(1, "move_count"),
}


def columns_of(expectations: list[Any]) -> list[str]:
    names = [getattr(one, name, None) for one in expectations for name in ("column", "column_A", "column_B")]
    return list(dict.fromkeys(name for name in names if name))


@settings(max_examples=examples(0.3))
@given(data=st.data(), invariant_id=st.sampled_from(sorted(PLAIN)))
def test_invariants_judge_dirty_rows_as_plain_gx_does(batches: Any, data: st.DataObject, invariant_id: str) -> None:
    """NULL in every column that may be NULL; all other columns of the row are NULL or a fixed time."""
    invariant, expectations = ROW_INVARIANTS_BY_ID[invariant_id], PLAIN[invariant_id]
    names = columns_of(expectations)
    numbers = st.integers(-2, 17) | st.integers(0, 2**63 - 1)
    row = st.tuples(*(st.none() | numbers if invariant.table[name].nullable else numbers for name in names))
    rows = data.draw(st.lists(row, min_size=1, max_size=20))

    frame = pd.DataFrame(
        {name: pd.Series(values, dtype="Int64") for name, values in zip(names, zip(*rows, strict=True), strict=True)}
    )
    frame["row"] = range(len(rows))
    complete = {"result_format": "COMPLETE", "unexpected_index_column_names": ["row"]}
    plain = gx.ExpectationSuite(invariant_id, expectations=[one.copy() for one in expectations])
    found = batches.get_batch({"dataframe": frame}).validate(plain, result_format=complete)
    by_gx = {entry["row"] for one in found.results for entry in one.result.get("unexpected_index_list") or ()}

    others = [column.name for column in invariant.table.columns if column.name not in names]
    database = sqlite3.connect(":memory:")
    database.execute(f"CREATE TABLE rows (row, {', '.join([*names, *others])})")
    marks = ", ".join("?" * (1 + len(names) + len(others)))
    fixed = ["2026-11-21" if name.endswith("_at") else None for name in others]
    database.executemany(f"INSERT INTO rows VALUES ({marks})", [(at, *one, *fixed) for at, one in enumerate(rows)])
    judged = {at for (at,) in database.execute(f"SELECT row FROM rows WHERE {invariant.violated_when}")}
    database.close()
    assert judged == by_gx
