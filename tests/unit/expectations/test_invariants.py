"""What each invariant accepts and reports, row by row: SQLite evaluates the same SQL that Spark does."""

from __future__ import annotations

import re
import sqlite3
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.offsets import OffsetOrderViolation, QueueOffsets
from offsetguard.tables import PUBLISHED, ColumnType, Table
from offsetguard_expectations import queue_snapshots
from offsetguard_expectations.invariant import Invariant, ViolationMeans
from offsetguard_expectations.invariants import ALL

BY_ID = {invariant.id: invariant for invariant in ALL}
HEALTHY: dict[ColumnType, Any] = {
    ColumnType.STRING: "x",
    ColumnType.INT32: 3,
    ColumnType.INT64: 100,
    ColumnType.FLOAT64: 0.5,
    ColumnType.BOOLEAN: True,
    ColumnType.TIMESTAMP: "2026-11-21 10:00:30",
}
NAMES = {"consumer_group": "orders-billing", "topic": "orders", "broker_name": "broker-a", "address": "10.0.0.1:10911"}
HOLDS, VIOLATED, NOT_SPOKEN_ABOUT = "holds", "violated", "not spoken about"

# (id, changed columns, verdict): for each invariant one row that holds, one that violates, NULLs, and near misses
CASES: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("OG-Q01", {"min_offset": 100, "consumer_offset": 100}, HOLDS),
    ("OG-Q01", {"min_offset": 101, "consumer_offset": 100}, VIOLATED),
    ("OG-Q01", {"min_offset": None, "consumer_offset": 100}, NOT_SPOKEN_ABOUT),
    ("OG-Q01", {"min_offset": 100, "consumer_offset": None}, NOT_SPOKEN_ABOUT),
    ("OG-Q01", {"min_offset": 1, "consumer_offset": 0}, VIOLATED),
    ("OG-Q02", {"consumer_offset": 100, "pull_offset": 100}, HOLDS),
    ("OG-Q02", {"consumer_offset": 101, "pull_offset": 100}, VIOLATED),
    ("OG-Q02", {"consumer_offset": 101, "pull_offset": None}, NOT_SPOKEN_ABOUT),
    ("OG-Q03", {"consumer_offset": 100, "max_offset": 100}, HOLDS),
    ("OG-Q03", {"consumer_offset": 101, "max_offset": 100}, VIOLATED),
    ("OG-Q03", {"consumer_offset": 101, "max_offset": None}, NOT_SPOKEN_ABOUT),
    ("OG-Q03", {"consumer_offset": 9_000_000_000_000, "max_offset": 8_999_999_999_999}, VIOLATED),
    ("OG-Q04", {"pull_offset": 100, "max_offset": 100}, HOLDS),
    ("OG-Q04", {"pull_offset": 101, "max_offset": 100}, VIOLATED),
    ("OG-Q04", {"pull_offset": None, "max_offset": 100}, NOT_SPOKEN_ABOUT),
    ("OG-Q05", {"min_offset": 100, "max_offset": 100}, HOLDS),
    ("OG-Q05", {"min_offset": 101, "max_offset": 100}, VIOLATED),
    ("OG-Q05", {"min_offset": None, "max_offset": None}, NOT_SPOKEN_ABOUT),
    ("OG-Q11", {"min_offset": 0, "consumer_offset": 0, "pull_offset": 0, "max_offset": 0, "queue_id": 0}, HOLDS),
    ("OG-Q11", {"min_offset": None, "consumer_offset": None, "pull_offset": None, "max_offset": None}, HOLDS),
    ("OG-Q11", {"consumer_offset": -1}, VIOLATED),
    ("OG-Q11", {"min_offset": None, "max_offset": -1}, VIOLATED),
    ("OG-Q11", {"min_offset": -1}, VIOLATED),
    ("OG-Q11", {"pull_offset": -1}, VIOLATED),
    ("OG-Q11", {"queue_id": -1}, VIOLATED),
    ("OG-Q12", {}, HOLDS),
    ("OG-Q12", {"max_offset": None, "min_offset": None}, VIOLATED),
    ("OG-Q12", {"max_offset": None}, VIOLATED),
    ("OG-Q12", {"min_offset": None, "consumer_offset": None}, VIOLATED),
    ("OG-Q12", {"max_offset": None, "min_offset": None, "max_offset_read_at": None}, NOT_SPOKEN_ABOUT),
    ("OG-Q13", {"last_timestamp": "2026-11-21 10:05:30"}, HOLDS),
    ("OG-Q13", {"last_timestamp": "2026-11-21 10:05:31"}, VIOLATED),
    ("OG-Q13", {"last_timestamp": None, "oldest_unconsumed_at": "2026-11-21 10:05:31"}, VIOLATED),
    ("OG-Q13", {"last_timestamp": "2026-11-21 09:00:00", "oldest_unconsumed_at": None}, HOLDS),
    ("OG-Q13", {"last_timestamp": None, "oldest_unconsumed_at": None}, NOT_SPOKEN_ABOUT),
    ("OG-Q13", {"last_timestamp": "2026-11-21 12:00:00", "max_offset_read_at": "2026-11-21 12:00:01"}, HOLDS),
    (
        "OG-Q13",
        {
            "last_timestamp": "2026-11-21 12:00:00",
            **dict.fromkeys(("max_offset_read_at", "pull_offset_read_at", "consumer_offset_read_at")),
        },
        VIOLATED,
    ),
    ("OG-T11", {"min_offset": 0, "max_offset": 0}, HOLDS),
    ("OG-T11", {"min_offset": None, "max_offset": None}, HOLDS),
    ("OG-T11", {"min_offset": -1}, VIOLATED),
    ("OG-T11", {"max_offset": -1}, VIOLATED),
    ("OG-T11", {"queue_id": -1}, VIOLATED),
    ("OG-T12", {}, HOLDS),
    ("OG-T12", {"max_offset": None}, VIOLATED),
    ("OG-T12", {"min_offset": None}, VIOLATED),
    ("OG-T12", {"min_offset": None, "max_offset": None, "read_at": None}, NOT_SPOKEN_ABOUT),
    ("OG-T13", {"last_update_at": "2026-11-21 10:05:30"}, HOLDS),
    ("OG-T13", {"last_update_at": "2026-11-21 10:05:31"}, VIOLATED),
    ("OG-T13", {"last_update_at": None}, NOT_SPOKEN_ABOUT),
    ("OG-T13", {"last_update_at": "2026-11-21 10:05:01", "read_at": None}, VIOLATED),
    ("OG-S01", {"broker_id": 0, "answered": True}, HOLDS),
    ("OG-S01", {"broker_id": 0, "answered": False}, VIOLATED),
    ("OG-S01", {"broker_id": 0, "answered": False, "failure": None}, VIOLATED),
    ("OG-S01", {"broker_id": 0, "answered": None}, VIOLATED),
    ("OG-S01", {"broker_id": 1, "answered": False}, NOT_SPOKEN_ABOUT),
    ("OG-S02", {}, HOLDS),
    ("OG-S02", {"max_offset": None, "min_offset": None, "read_at": None}, VIOLATED),
    ("OG-S03", {"broker_id": 1, "answered": True}, HOLDS),
    ("OG-S03", {"broker_id": 1, "answered": False}, VIOLATED),
    ("OG-S03", {"broker_id": 0, "answered": False}, NOT_SPOKEN_ABOUT),
    ("OG-L01", {"lock_interval_ms": 20_000, "lock_max_live_time_ms": 60_000}, HOLDS),
    ("OG-L01", {"lock_interval_ms": 20_000, "lock_max_live_time_ms": 59_999}, VIOLATED),
    ("OG-L01", {"lock_interval_ms": None, "lock_max_live_time_ms": 59_999}, NOT_SPOKEN_ABOUT),
    ("OG-L01", {"lock_interval_ms": 20_000, "lock_max_live_time_ms": None}, NOT_SPOKEN_ABOUT),
    ("OG-L01", {"declared_orderly": False, "lock_max_live_time_ms": 1}, NOT_SPOKEN_ABOUT),
    ("OG-L01", {"declared_orderly": None, "lock_max_live_time_ms": 1}, NOT_SPOKEN_ABOUT),
    ("OG-M11", {"requested_offset": 0, "corrected_offset": 0, "event_offset": 0, "queue_id": 0}, HOLDS),
    ("OG-M11", {"requested_offset": -1}, VIOLATED),
    ("OG-M11", {"corrected_offset": -1}, VIOLATED),
    ("OG-M11", {"event_offset": -1}, VIOLATED),
    ("OG-M11", {"queue_id": -1}, VIOLATED),
    ("OG-M12", {"moved_at": "2026-11-22 10:00:00"}, HOLDS),
    ("OG-M12", {"moved_at": "2026-11-22 10:00:01"}, VIOLATED),
    ("OG-M12", {"moved_at": None}, VIOLATED),
)


def unix_seconds(moment: str | None) -> int | None:
    """Spark's function of this name, for SQLite."""
    return None if moment is None else int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp())


def healthy_row(table: Table) -> dict[str, Any]:
    row = {column.name: NAMES.get(column.name, HEALTHY[column.type]) for column in table.columns}
    return {**row, "interval_start": "2026-11-21 10:00:00", "lock_interval_ms": 20}


def evaluate(invariant: Invariant, row: dict[str, Any]) -> tuple[str, str | None]:
    """Return the verdict on one row and the row's text."""
    values = {column.name: row[column.name] for column in invariant.table.columns}
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


@pytest.mark.parametrize(("invariant_id", "changes", "verdict"), CASES)
def test_a_row_is_judged_as_its_invariant_says(invariant_id: str, changes: dict[str, Any], verdict: str) -> None:
    invariant = BY_ID[invariant_id]
    assert evaluate(invariant, {**healthy_row(invariant.table), **changes})[0] == verdict


@pytest.mark.parametrize("invariant", ALL, ids=lambda invariant: invariant.id)
def test_every_invariant_has_a_row_that_holds_and_one_that_violates(invariant: Invariant) -> None:
    assert {verdict for case_id, _, verdict in CASES if case_id == invariant.id} >= {HOLDS, VIOLATED}


@pytest.mark.parametrize("invariant", ALL, ids=lambda invariant: invariant.id)
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


@pytest.mark.parametrize(("invariant_id", "changes", "verdict"), CASES)
def test_a_violating_row_always_has_an_example(invariant_id: str, changes: dict[str, Any], verdict: str) -> None:
    """`moved_at` and `answered` are required columns: a NULL there is no row of ours, but must not be hidden."""
    invariant = BY_ID[invariant_id]
    required = {column.name for column in invariant.table.columns if not column.nullable}
    if verdict == VIOLATED and not {name for name, value in changes.items() if value is None} & required:
        assert evaluate(invariant, {**healthy_row(invariant.table), **changes})[1]


OFFSETS = st.none() | st.integers(min_value=0, max_value=3) | st.integers(min_value=0, max_value=2**63 - 1)


@given(st.builds(QueueOffsets, OFFSETS, OFFSETS, OFFSETS, OFFSETS))
def test_order_invariants_and_the_formulas_give_the_same_verdict(offsets: QueueOffsets) -> None:
    """`offsetguard check` judges with QueueOffsets, the pipeline with these invariants: they may not differ."""
    row = {
        **healthy_row(queue_snapshots.QUEUE_SNAPSHOTS),
        "min_offset": offsets.min_offset,
        "max_offset": offsets.max_offset,
        "consumer_offset": offsets.consumer_offset,
        "pull_offset": offsets.pull_offset,
    }
    violated = {violation for violation in OffsetOrderViolation if evaluate(BY_ID[violation.value], row)[0] == VIOLATED}
    assert violated == set(offsets.order_violations())


def test_ids_are_unique_and_have_the_common_form() -> None:
    assert len(BY_ID) == len(ALL)
    assert all(re.fullmatch(r"OG-[A-Z]\d\d", invariant.id) for invariant in ALL)


def test_every_order_violation_has_its_invariant_and_is_trouble() -> None:
    for violation in OffsetOrderViolation:
        assert BY_ID[violation.value].violation_means is ViolationMeans.TROUBLE


@pytest.mark.parametrize("invariant", ALL, ids=lambda invariant: invariant.id)
def test_an_invariant_tells_what_it_means_and_what_to_do(invariant: Invariant) -> None:
    assert invariant.table in PUBLISHED
    assert len(invariant.meaning) > 60
    assert invariant.meaning.endswith(".")
    assert invariant.do_next.endswith(".")
    assert len(invariant.title) <= 90
