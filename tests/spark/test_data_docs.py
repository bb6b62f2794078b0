"""The gate itself: Great Expectations over the invariants' results, and over the data for the order invariants.

The only tests that import Great Expectations, which takes 5 s.
"""

from __future__ import annotations

import sqlite3
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import great_expectations as gx
import great_expectations.expectations as gxe
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetguard.errors import PublishError
from offsetguard.facts import InvariantResult
from offsetguard.offsets import OffsetOrderViolation
from offsetguard_expectations.invariants import ALL, ROW_INVARIANTS
from offsetguard_expectations.suites import validate
from offsetguard_peers.examples import examples

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
HOSTILE = "<script>alert('G1')</script> in orders broker-a/0"
BY_ID = {check.id: check for check in ALL}
ROW_INVARIANTS_BY_ID = {invariant.id: invariant for invariant in ROW_INVARIANTS}


def results(**violations: int) -> list[InvariantResult]:
    """Results of all invariants on 10 rows each; `OG_Q01=3`: that one is violated by three."""
    return [
        InvariantResult(
            invariant.id,
            invariant.table.name,
            invariant.violation_means.value,
            10,
            count := violations.get(invariant.id.replace("-", "_"), 0),
            (HOSTILE,) if count else (),
        )
        for invariant in ALL
    ]


def test_a_good_interval_passes_and_has_its_page(tmp_path: Path) -> None:
    report = validate("production", START, results(), tmp_path)
    assert (report.success, report.violated_ids, report.not_checked_ids) == (True, (), ())
    assert report.data_docs_index == tmp_path / "production" / "index.html"
    assert report.data_docs_page == tmp_path / "production" / "20261121T103900Z.html"
    assert f"All {len(ALL)} invariants hold" in report.data_docs_page.read_text()


def test_an_interval_without_any_row_does_not_pass(tmp_path: Path) -> None:
    empty = [InvariantResult(one.id, one.table.name, one.violation_means.value, 0, 0) for one in ALL]
    assert not validate("production", START, empty, tmp_path).success


def test_violations_are_named_and_shown_with_hostile_names_escaped(tmp_path: Path) -> None:
    report = validate("production", START, results(OG_Q12=2, OG_Q01=3), tmp_path)
    assert not report.success
    assert report.violated_ids == ("OG-Q01", "OG-Q12")
    page = report.data_docs_index.read_text()
    assert page.index(BY_ID["OG-Q01"].violation) < page.index(BY_ID["OG-Q12"].violation)
    assert "&lt;script&gt;alert(&#39;G1&#39;)&lt;/script&gt; in orders broker-a/0" in page
    assert "<script" not in page


def test_the_page_of_an_interval_that_was_not_published_begins_with_the_reasons(tmp_path: Path) -> None:
    why = (f"OG-V01 Groups do not stand for all queues: {HOSTILE}",)
    report = validate("production", START, results(), tmp_path, not_published_because=why)
    assert not report.success
    page = report.data_docs_page.read_text()
    assert "Not published" in page
    assert "Why nothing was published" in page
    assert "OG-V01 Groups do not stand for all queues: &lt;script&gt;" in page


@pytest.mark.parametrize("missing", [{"OG-S01"}, set(BY_ID)])
def test_an_invariant_without_a_result_fails_the_gate(tmp_path: Path, missing: set[str]) -> None:
    given_results = [result for result in results() if result.invariant_id not in missing]
    report = validate("production", START, given_results, tmp_path)
    assert not report.success
    assert set(report.not_checked_ids) == missing
    assert "The Spark job gave no result for this invariant." in report.data_docs_page.read_text()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda found: [*found, found[0]], f"repeated ids ['{ALL[0].id}']"),
        (lambda found: [*found, InvariantResult("OG-X99", "t", "trouble", 1, 0)], "unknown ids ['OG-X99']"),
    ],
)
def test_results_of_another_version_are_refused(
    tmp_path: Path, change: Callable[[list[InvariantResult]], list[InvariantResult]], named: str
) -> None:
    with pytest.raises(PublishError) as refused:
        validate("production", START, change(results()), tmp_path)
    assert named in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_gx_could_not_build_is_an_error_and_readers_keep_the_old_one(tmp_path: Path) -> None:
    """GX logs what goes wrong while it renders, and goes on; here a text that no file can hold."""
    good = validate("production", START, results(), tmp_path)
    before = good.data_docs_index.read_text()
    broken = [InvariantResult("OG-Q01", "queue_snapshots", "trouble", 10, 1, ("\ud800",))]
    with pytest.raises(PublishError, match="Data Docs of cluster production"):
        validate("production", START + timedelta(minutes=1), broken, tmp_path)
    assert good.data_docs_index.read_text() == before
    assert {file.name for file in (tmp_path / "production").iterdir()} == {"index.html", good.data_docs_page.name}


def test_a_rerun_and_a_backfill_leave_the_newest_run_in_the_index(tmp_path: Path) -> None:
    newest = validate("production", START, results(OG_L01=1), tmp_path)
    validate("production", START - timedelta(hours=1), results(OG_Q05=1), tmp_path)
    assert BY_ID["OG-L01"].violation in newest.data_docs_index.read_text()
    again = validate("production", START, results(), tmp_path)
    assert f"All {len(ALL)} invariants hold" in again.data_docs_index.read_text()
    assert '20261121T093900Z.html" class="bad"' in again.data_docs_index.read_text()


def test_a_cycle_opens_no_connection_and_writes_no_progress_bar(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    watching = True

    def watch(event: str, _: tuple[Any, ...]) -> None:
        if watching and event in {"socket.connect", "socket.getaddrinfo", "socket.sendto"}:
            opened.append(event)

    sys.addaudithook(watch)  # cannot be removed again: it goes quiet instead
    validate("production", START, results(OG_Q01=1), tmp_path)
    watching = False
    assert opened == []
    assert capfd.readouterr().err == ""


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


@pytest.fixture(scope="module")
def batches() -> gx.core.batch_definition.BatchDefinition[Any]:
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    asset = context.data_sources.add_pandas("dirty").add_dataframe_asset("queue_snapshots")
    return asset.add_batch_definition_whole_dataframe("rows")


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
