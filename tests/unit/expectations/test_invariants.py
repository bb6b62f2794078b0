"""What each invariant accepts and reports, row by row: SQLite evaluates the same SQL that Spark does."""

import dataclasses
import re
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.model.offsets import OffsetOrderViolation, QueueOffsets
from offsetguard.tables import MANIFEST, PUBLISHED, QUEUE_SNAPSHOTS, Table
from offsetguard_expectations.invariant import MIN_CORRUPT_ROWS, Agreement, Invariant, ViolationMeans, stops_publication
from offsetguard_expectations.invariants import AGREEMENTS, ALL, ROW_INVARIANTS, Check
from offsetguard_peers.cases.running import for_each, read_cases

BY_ID = {invariant.id: invariant for invariant in ROW_INVARIANTS}
CASE_FILE = read_cases(Path(__file__).parent / "cases" / "invariants.yml")
CASES = [(id_, case["row"], case["verdict"]) for id_, cases in CASE_FILE["cases"].items() for case in cases]
HOLDS, VIOLATED, NOT_SPOKEN_ABOUT = "holds", "violated", "not spoken about"


def unix_seconds(moment: str | None) -> int | None:
    """Spark's function of this name, for SQLite."""
    return None if moment is None else int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp())


def healthy_row(table: Table) -> dict[str, Any]:
    by_column, by_type = CASE_FILE["healthy_by_column"], CASE_FILE["healthy_by_type"]
    return {column.name: by_column.get(column.name, by_type[column.type]) for column in table.columns}


def evaluate(invariant: Invariant, row: dict[str, Any]) -> tuple[str, str | None]:
    """Return the verdict on one row and the row's text."""
    values = {name: str(value) if isinstance(value, list) else value for name, value in row.items()}
    with sqlite3.connect(":memory:") as database:
        database.create_function("unix_seconds", 1, unix_seconds)
        database.execute(f"CREATE TABLE checked ({', '.join(values)})")
        database.execute(f"INSERT INTO checked VALUES ({', '.join('?' * len(values))})", tuple(values.values()))
        applies, violated, example = database.execute(
            f"SELECT {invariant.speaks_about}, {invariant.violated_when}, {invariant.example} FROM checked"
        ).fetchone()
    database.close()
    assert {applies, violated} <= {0, 1}, "a condition must be TRUE or FALSE on every row, never NULL"
    if not applies:
        assert not violated
        return NOT_SPOKEN_ABOUT, example
    return (VIOLATED if violated else HOLDS), example


@for_each("invariant_id, changes, verdict", CASES)
def test_a_row_is_judged_as_its_invariant_says(invariant_id: str, changes: dict[str, Any], verdict: str) -> None:
    invariant = BY_ID[invariant_id]
    found, example = evaluate(invariant, {**healthy_row(invariant.table), **changes})
    assert found == verdict
    assert example or verdict != VIOLATED, "a violation must be shown, whatever is NULL in its row"


@for_each("invariant", ROW_INVARIANTS, name_of=lambda invariant: invariant.id)
def test_every_invariant_has_a_row_that_holds_and_one_that_violates(invariant: Invariant) -> None:
    assert {verdict for case_id, _, verdict in CASES if case_id == invariant.id} >= {HOLDS, VIOLATED}


@for_each("invariant", ROW_INVARIANTS, name_of=lambda invariant: invariant.id)
def test_a_healthy_row_violates_nothing(invariant: Invariant) -> None:
    assert evaluate(invariant, healthy_row(invariant.table))[0] != VIOLATED


@pytest.mark.parametrize(
    ("invariant_id", "changes", "text"),
    [
        (
            "OG-Q01",
            {"min_offset": 172_289, "consumer_offset": 156_798},
            "orders-billing in orders broker-a/3: min_offset 172289 > consumer_offset 156798 (by 15491)",
        ),
        ("OG-Q11", {"min_offset": -1, "pull_offset": None}, "min -1, consumer 100, pull unknown, max 100"),
        ("OG-Q12", {"max_offset": None}, "the broker has no such queue; committed 100"),
        ("OG-S01", {"broker_id": 0, "answered": False, "failure": "time-out"}, "at 10.0.0.1:10911: time-out"),
        ("OG-L01", {"lock_interval_ms": 20_000, "lock_max_live_time_ms": 30_000}, "at least 60000 ms needed"),
        ("OG-M11", {"requested_offset": -5}, "requested -5, corrected to 100"),
    ],
)
def test_an_example_names_the_row_and_its_figures(invariant_id: str, changes: dict[str, Any], text: str) -> None:
    invariant = BY_ID[invariant_id]
    example = evaluate(invariant, {**healthy_row(invariant.table), **changes})[1]
    assert example is not None
    assert text in example


OFFSETS = st.none() | st.integers(min_value=0, max_value=3) | st.integers(min_value=0, max_value=2**63 - 1)


@given(st.builds(QueueOffsets, OFFSETS, OFFSETS, OFFSETS, OFFSETS))
def test_order_invariants_and_the_formulas_give_the_same_verdict(offsets: QueueOffsets) -> None:
    """`offsetguard check` judges with QueueOffsets, the pipeline with these invariants: they may not differ."""
    row = {
        **healthy_row(QUEUE_SNAPSHOTS),
        "min_offset": offsets.min_offset,
        "max_offset": offsets.max_offset,
        "consumer_offset": offsets.consumer_offset,
        "pull_offset": offsets.pull_offset,
    }
    violated = {violation for violation in OffsetOrderViolation if evaluate(BY_ID[violation.value], row)[0] == VIOLATED}
    assert violated == set(offsets.order_violations())


def test_ids_are_unique_and_have_the_common_form() -> None:
    ids = [check.id for check in ALL]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"OG-[A-Z]\d\d", one) for one in ids)
    assert len(ALL) == len(ROW_INVARIANTS) + len(AGREEMENTS)


def test_every_order_violation_has_its_invariant_and_is_trouble() -> None:
    for violation in OffsetOrderViolation:
        assert BY_ID[violation.value].violation_means is ViolationMeans.TROUBLE


@for_each("invariant", ALL, name_of=lambda invariant: invariant.id)
def test_an_invariant_tells_what_it_means_and_what_to_do(invariant: Check) -> None:
    assert invariant.table in (*PUBLISHED, MANIFEST)
    assert len(invariant.meaning) > 60
    assert invariant.meaning.endswith(".")
    assert invariant.do_next.endswith(".")
    assert len(invariant.title) <= 90
    assert not re.search(r"`mqadmin ", invariant.do_next), "commands stand with findings, which have real values"


# --- agreements -------------------------------------------------------------------------------------------------------


def aggregated(agreement: Agreement, side: str, rows: list[dict[str, Any]]) -> int | None:
    """Return a figure of an agreement over rows; columns that a row does not name are NULL."""
    figure = agreement.figure if side == "figure" else agreement.expected
    names = [column.name for column in figure.table.columns]
    with sqlite3.connect(":memory:") as database:
        database.create_function("unix_seconds", 1, unix_seconds)
        database.create_function("size", 1, lambda text: len(text.split(",")) if text else 0)
        database.execute(f"CREATE TABLE checked ({', '.join(names)})")
        for row in rows:
            values = tuple(row.get(name) for name in names)
            database.execute(f"INSERT INTO checked VALUES ({', '.join('?' * len(names))})", values)
        found: int | None = database.execute(f"SELECT {figure.aggregate} FROM checked").fetchone()[0]
    database.close()
    return found


AGREEMENTS_BY_ID = {agreement.id: agreement for agreement in AGREEMENTS}


@for_each("id_, side, rows, figure", [(c["id"], c["side"], c["rows"], c["figure"]) for c in CASE_FILE["figures"]])
def test_a_figure_is_counted_as_its_agreement_says(
    id_: str, side: str, rows: list[dict[str, Any]], figure: int | None
) -> None:
    assert aggregated(AGREEMENTS_BY_ID[id_], side, rows) == figure


@for_each("agreement", AGREEMENTS, name_of=lambda agreement: agreement.id)
def test_tables_without_rows_agree(agreement: Agreement) -> None:
    found, expected = aggregated(agreement, "figure", []), aggregated(agreement, "expected", [])
    assert (found, expected) == (0, 0)


@for_each("agreement", AGREEMENTS, name_of=lambda agreement: agreement.id)
def test_an_agreement_says_both_figures(agreement: Agreement) -> None:
    assert re.search(r"1,004 instead of (at most )?1,003", agreement.example(1_004, 1_003))


@pytest.mark.parametrize(
    ("violations", "rows", "stops"),
    [
        (1, 1, False),
        (MIN_CORRUPT_ROWS - 1, MIN_CORRUPT_ROWS, False),
        (MIN_CORRUPT_ROWS, MIN_CORRUPT_ROWS, True),
        (500, 1_000, False),
        (501, 1_000, True),
    ],
)
def test_only_a_large_share_of_corrupt_rows_stops_a_publication(violations: int, rows: int, *, stops: bool) -> None:
    assert stops_publication(violations, rows) is stops


@for_each("invariant", ROW_INVARIANTS, name_of=lambda invariant: invariant.id)
def test_the_version_of_a_rule_changes_with_its_sql_only(invariant: Invariant) -> None:
    reworded = dataclasses.replace(invariant, meaning="other words", example="'x'")
    stricter = dataclasses.replace(invariant, holds_when=f"({invariant.holds_when}) AND 1 = 1")
    assert invariant.rule_version == reworded.rule_version != stricter.rule_version
