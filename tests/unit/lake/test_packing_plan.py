"""Which small files become one: every row stays in exactly one file, and no file is rewritten for nothing."""

from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.lake.upkeep.packing import FRESH_FILES, PACKED_FILES, bins, cuts_between


@dataclass(frozen=True)
class File:
    """What the plan looks at."""

    row_count: int
    packed: bool = False
    number: int = 0


CASES = {
    "few fresh files": ([File(10)] * (FRESH_FILES - 1), []),
    "enough fresh files": ([File(1)] * FRESH_FILES, [FRESH_FILES]),
    "what was packed is not packed again at once": ([File(30, True), *[File(1)] * FRESH_FILES], [FRESH_FILES]),
    "but when there is much of it": ([File(10, True)] * PACKED_FILES, [PACKED_FILES]),
    "files that are full enough stay": ([*[File(75, True)] * PACKED_FILES, *[File(1)] * FRESH_FILES], [FRESH_FILES]),
    "no file gets fuller than full": ([File(40, True)] * PACKED_FILES, [2] * (PACKED_FILES // 2)),
    "what is left over and alone stays": ([File(40, True)] * (PACKED_FILES + 1), [2] * (PACKED_FILES // 2)),
    "nothing": ([], []),
}


@pytest.mark.parametrize("case", CASES)
def test_files_of_a_day_that_lasts_become_one(case: str) -> None:
    files, expected = CASES[case]
    assert [len(chosen) for chosen in bins(files, 100)] == expected


@given(st.lists(st.builds(File, st.integers(0, 150), st.booleans()), max_size=80))
def test_each_file_is_packed_once_at_most_and_never_beyond_what_is_full(files: list[File]) -> None:
    numbered = [File(file.row_count, file.packed, number) for number, file in enumerate(files)]
    chosen = list(bins(numbered, 100))
    everything = [file for some in chosen for file in some]
    assert len(everything) == len(set(everything))
    assert all(len(some) > 1 and sum(file.row_count for file in some) <= 100 for some in chosen)


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 6))
def test_a_day_is_cut_between_groups_into_parts_of_about_the_same_size(rows: list[int], parts: int) -> None:
    counts = [(f"group-{number:03}", count) for number, count in enumerate(rows)]
    cuts = cuts_between(counts, parts)
    assert len(cuts) < parts
    assert cuts == sorted(set(cuts))
    sizes = [sum(count for name, count in counts if low <= name < high) for low, high in pairwise(["", *cuts, "h"])]
    assert sum(sizes) == sum(rows)
    if rows:
        assert max(sizes) <= sum(rows) / parts + max(rows) * parts
