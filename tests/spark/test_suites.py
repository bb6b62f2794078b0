"""The suites in plain Great Expectations: on pandas frames, as its own users open them. Importing it takes 5 s."""

from __future__ import annotations

import re
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import great_expectations as gx
import great_expectations.expectations as gxe
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetguard.collect.landing import table_of
from offsetguard.model.offsets import OffsetOrderViolation
from offsetguard.tables import QUEUE_SNAPSHOTS, ColumnType, Table
from offsetguard.tables.table import arrow_schema
from offsetguard_expectations.invariant import Invariant
from offsetguard_expectations.invariants import ROW_INVARIANTS
from offsetguard_expectations.suites import suite
from offsetguard_peers.cases.running import examples, for_each, read_cases

CASE_FILE = read_cases(Path(__file__).parents[1] / "unit" / "expectations" / "cases" / "invariants.yml")
README = (Path(__file__).parents[2] / "expectations" / "README.md").read_text(encoding="utf-8")
ROW_INVARIANTS_BY_ID = {invariant.id: invariant for invariant in ROW_INVARIANTS}


@pytest.fixture(scope="module")
def batches() -> gx.core.batch_definition.BatchDefinition[Any]:
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_pandas("dirty").add_dataframe_asset("queue_snapshots")
    return asset.add_batch_definition_whole_dataframe("rows")


def validate(batches: Any, table: Table, frame: pd.DataFrame) -> dict[str, Any]:
    found = batches.get_batch({"dataframe": frame}).validate(suite(table.name))
    return {result.expectation_config.meta["id"]: result for result in found.results}


def typed_row(table: Table, changes: dict[str, Any]) -> dict[str, Any]:
    row = {}
    for column in table.columns:
        healthy = CASE_FILE["healthy_by_column"].get(column.name, CASE_FILE["healthy_by_type"][column.type])
        value = changes.get(column.name, healthy)
        is_moment = column.type is ColumnType.TIMESTAMP and value is not None
        row[column.name] = datetime.fromisoformat(value).replace(tzinfo=UTC) if is_moment else value
    return row


@for_each("invariant", ROW_INVARIANTS, name_of=lambda invariant: invariant.id)
def test_every_case_is_counted_as_its_verdict_says(batches: Any, invariant: Invariant) -> None:
    cases = CASE_FILE["cases"][invariant.id]
    frame = pd.DataFrame([typed_row(invariant.table, case["row"]) for case in cases])
    result = validate(batches, invariant.table, frame)[invariant.id]
    verdicts = [case["verdict"] for case in cases]
    assert result.result == {
        "element_count": len(verdicts) - verdicts.count("not spoken about"),
        "unexpected_count": verdicts.count("violated"),
    }
    assert result.success == ("violated" not in verdicts)


@for_each("table", list(dict.fromkeys(one.table for one in ROW_INVARIANTS)), name_of=lambda table: table.name)
def test_a_table_without_rows_violates_nothing(batches: Any, table: Table) -> None:
    found = validate(batches, table, arrow_schema(table).empty_table().to_pandas())
    assert {(one.success, *one.result.values()) for one in found.values()} == {(True, 0, 0)}
    assert list(found) == [one.id for one in ROW_INVARIANTS if one.table == table]


def test_numbers_as_floats_and_further_columns_do_not_matter(batches: Any) -> None:
    rows = [typed_row(QUEUE_SNAPSHOTS, {"consumer_offset": value, "min_offset": 50}) for value in (None, 40, 60)]
    frame = pd.DataFrame(rows).assign(of_mine="x")
    assert frame["consumer_offset"].dtype == "float64"
    assert validate(batches, QUEUE_SNAPSHOTS, frame)["OG-Q01"].result == {"element_count": 2, "unexpected_count": 1}


def test_what_cannot_be_evaluated_never_succeeds(batches: Any) -> None:
    frame = pd.DataFrame([typed_row(QUEUE_SNAPSHOTS, {})]).drop(columns="pull_offset")
    found = validate(batches, QUEUE_SNAPSHOTS, frame)
    assert {one.success for one in found.values()} == {False}
    assert {str(one.result) for one in found.values()} == {"{}"}


def test_the_lines_of_the_readme_validate_a_pandas_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [typed_row(QUEUE_SNAPSHOTS, {"min_offset": 50, "consumer_offset": offset}) for offset in (40, 60)]
    pq.write_table(table_of(QUEUE_SNAPSHOTS, rows), tmp_path / "queue_snapshots.parquet")
    monkeypatch.chdir(tmp_path)
    exec(re.findall(r"```python\n(.*?)```", README, re.DOTALL)[0], {})  # noqa: S102 - lines of ours
    assert "OG-Q01 {'element_count': 2, 'unexpected_count': 1}" in capsys.readouterr().out


# --- plain GX over the data says the same as our SQL -----------------------------------------------------------------

PAIRS = {
    OffsetOrderViolation.CONSUMER_BELOW_MIN: ("consumer_offset", "min_offset"),
    OffsetOrderViolation.CONSUMER_ABOVE_PULL: ("pull_offset", "consumer_offset"),
    OffsetOrderViolation.CONSUMER_ABOVE_MAX: ("max_offset", "consumer_offset"),
    OffsetOrderViolation.PULL_ABOVE_MAX: ("max_offset", "pull_offset"),
    OffsetOrderViolation.MIN_ABOVE_MAX: ("max_offset", "min_offset"),
}
OFFSET_COLUMNS = ("min_offset", "max_offset", "consumer_offset", "pull_offset")
OFFSETS = st.none() | st.integers(0, 3) | st.integers(0, 2**63 - 1)
DIRTY_ROWS = st.lists(st.tuples(*(OFFSETS for _ in OFFSET_COLUMNS)), min_size=1, max_size=40)
Row = tuple[int | None, ...]


def plain_suite(**null_handling: Any) -> gx.ExpectationSuite:
    """Return the order invariants as any GX user would write them."""
    return gx.ExpectationSuite(
        "order",
        expectations=[
            gxe.ExpectColumnPairValuesAToBeGreaterThanB(column_A=high, column_B=low, or_equal=True, **null_handling)
            for high, low in PAIRS.values()
        ],
    )


def judged_by_gx(
    batches: Any, suite: gx.ExpectationSuite, rows: list[Row], column_type: str = "Int64"
) -> list[set[int]]:
    columns = zip(OFFSET_COLUMNS, zip(*rows, strict=True), strict=True)
    frame = pd.DataFrame({name: pd.Series(values, dtype=column_type) for name, values in columns})
    frame["row"] = range(len(rows))
    complete = {"result_format": "COMPLETE", "unexpected_index_column_names": ["row"]}
    found = batches.get_batch({"dataframe": frame}).validate(suite, result_format=complete)
    return [{entry["row"] for entry in one.result.get("unexpected_index_list") or ()} for one in found.results]


def judged_by_sql(rows: list[Row]) -> list[set[int]]:
    database = sqlite3.connect(":memory:")
    database.execute(f"CREATE TABLE rows (row, {', '.join(OFFSET_COLUMNS)})")
    database.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?)", ((at, *row) for at, row in enumerate(rows)))
    verdicts = [
        {
            row
            for (row,) in database.execute(
                f"SELECT row FROM rows WHERE {ROW_INVARIANTS_BY_ID[violation.value].violated_when}"
            )
        }
        for violation in PAIRS
    ]
    database.close()
    return verdicts


@settings(max_examples=examples(0.25))
@given(rows=DIRTY_ROWS)
def test_order_invariants_judge_dirty_rows_as_plain_gx_does(batches: Any, rows: list[Row]) -> None:
    suite = plain_suite(ignore_row_if="either_value_is_missing")
    assert judged_by_gx(batches, suite, rows) == judged_by_sql(rows)


@pytest.mark.parametrize(("column_type", "broken"), [("Int64", set()), ("float64", {0})])
def test_with_its_default_null_handling_gx_judges_what_nobody_knows_by_the_columns_type(
    batches: Any, column_type: str, broken: set[int]
) -> None:
    """Why the invariants say themselves which rows they speak about: row 0 never committed, so it breaks nothing."""
    rows: list[Row] = [(0, 5, None, 5), (0, 5, 3, 5)]
    consumer_below_min = judged_by_gx(batches, plain_suite(), rows, column_type)[0]
    assert consumer_below_min == broken
    assert judged_by_sql(rows)[0] == set()


def at_least(minimum: int, *columns: str, maximum: int | None = None) -> list[gx.expectations.Expectation]:
    return [gxe.ExpectColumnValuesToBeBetween(column=name, min_value=minimum, max_value=maximum) for name in columns]


def ordered(low: str, high: str) -> list[gx.expectations.Expectation]:
    pair = {"column_A": high, "column_B": low, "or_equal": True, "ignore_row_if": "either_value_is_missing"}
    return [gxe.ExpectColumnPairValuesAToBeGreaterThanB(**pair)]


# What a user of GX would write for invariants of other tables, in columns of whole numbers.
PLAIN = {
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


@settings(max_examples=examples(0.15))
@given(data=st.data(), invariant_id=st.sampled_from(sorted(PLAIN)))
def test_invariants_of_other_tables_judge_dirty_rows_as_plain_gx_does(
    batches: Any, data: st.DataObject, invariant_id: str
) -> None:
    """NULL in every column that may be NULL; all other columns of the row are NULL or a fixed time."""
    invariant, expectations = ROW_INVARIANTS_BY_ID[invariant_id], PLAIN[invariant_id]
    names = columns_of(expectations)
    numbers = st.integers(-2, 17)
    row = st.tuples(*(st.none() | numbers if invariant.table[name].nullable else numbers for name in names))
    rows = data.draw(st.lists(row, min_size=1, max_size=20))

    frame = pd.DataFrame(
        {name: pd.Series(values, dtype="Int64") for name, values in zip(names, zip(*rows, strict=True), strict=True)}
    )
    frame["row"] = range(len(rows))
    complete = {"result_format": "COMPLETE", "unexpected_index_column_names": ["row"]}
    suite = gx.ExpectationSuite(invariant_id, expectations=[one.copy() for one in expectations])
    found = batches.get_batch({"dataframe": frame}).validate(suite, result_format=complete)
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
