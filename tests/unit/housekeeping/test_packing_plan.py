"""Which small files become one: every row stays in exactly one file, and no file is rewritten for nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.housekeeping.packing import FRESH_FILES, bins, full_rows
from offsetguard.tables import PUBLISHED

MIDNIGHT = datetime(2026, 11, 21, tzinfo=UTC)
NOON, NEXT_DAY = MIDNIGHT + timedelta(hours=12), MIDNIGHT + timedelta(hours=25)


@dataclass(frozen=True)
class File:
    """What the plan looks at."""

    row_count: int
    packed: bool = False
    last: datetime = MIDNIGHT


CASES = {
    "a day that lasts, with few fresh files": ([File(10)] * (FRESH_FILES - 1), NOON, []),
    "a day that lasts, with enough of them": ([File(1)] * FRESH_FILES, NOON, [FRESH_FILES]),
    "what was packed today is not packed again today": (
        [File(30, True), *[File(1)] * FRESH_FILES],
        NOON,
        [FRESH_FILES],
    ),
    "a day that is over": ([File(30, True), File(30, True), File(1)], NEXT_DAY, [3]),
    "a day that ended a moment ago may get a late interval": ([File(1), File(1)], MIDNIGHT + timedelta(hours=24), []),
    "a single file is as few as can be": ([File(1)], NEXT_DAY, []),
    "files that are full enough stay": ([File(75), File(80), File(10), File(20)], NEXT_DAY, [2]),
    "no file gets fuller than full": ([File(40), File(40), File(40), File(40)], NEXT_DAY, [2, 2]),
    "what is left over and alone stays": ([File(40), File(40), File(40)], NEXT_DAY, [2]),
    "nothing": ([], NEXT_DAY, []),
}


@pytest.mark.parametrize("case", CASES)
def test_files_become_one(case: str) -> None:
    files, now, expected = CASES[case]
    assert [len(chosen) for chosen in bins(files, 100, now=now)] == expected


@given(st.lists(st.builds(File, st.integers(0, 150), st.booleans()), max_size=80), st.sampled_from([NOON, NEXT_DAY]))
def test_each_file_is_packed_once_at_most_and_never_beyond_what_is_full(files: list[File], now: datetime) -> None:
    numbered = [File(file.row_count, file.packed, MIDNIGHT + timedelta(seconds=n)) for n, file in enumerate(files)]
    chosen = list(bins(numbered, 100, now=now))
    everything = [file for some in chosen for file in some]
    assert len(everything) == len(set(everything))
    assert all(len(some) > 1 and sum(file.row_count for file in some) <= 100 for some in chosen)


def test_wide_tables_get_fewer_rows_to_a_file() -> None:
    """So many rows are sorted in memory."""
    for table in PUBLISHED:
        assert full_rows(table) * len(table.columns) <= 40_000_000
        assert full_rows(table) >= 100_000
