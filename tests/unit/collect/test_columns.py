"""Columns hold what was put in, as pyarrow itself says."""

from __future__ import annotations

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.collect.columns import RUN_GAP, MostlyAlike, NumberColumn, arrow_array
from offsetguard.tables import ColumnType


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (ColumnType.INT32, 2**31),
        (ColumnType.INT64, "5"),
        (ColumnType.STRING, 5),
        (ColumnType.TIMESTAMP, "1"),
        (ColumnType.FLOAT64, "1.0"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(kind: ColumnType, value: object) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)):
        arrow_array(kind, [value])


@pytest.mark.parametrize(("hostile", "kept"), [("a\0b", "a?b"), ("größe\0", "größe?"), ("a\ud800b", "a?b")])
def test_nul_and_half_a_surrogate_pair_become_question_marks(hostile: str, kept: str) -> None:
    assert arrow_array(ColumnType.STRING, [hostile, None, "c"]).to_pylist() == [kept, None, "c"]
    assert arrow_array(ColumnType.STRING_LIST, [[hostile, "c"]]).to_pylist() == [[kept, "c"]]


@given(
    st.lists(st.tuples(st.none() | st.integers(-5, 5), st.integers(0, 5))), st.lists(st.integers(-(2**63), 2**63 - 1))
)
def test_a_column_grows_by_values_runs_and_arrays(runs: list[tuple[int | None, int]], numbers: list[int]) -> None:
    column = NumberColumn()
    expected: list[int | None] = []
    for value, times in runs:
        column.add(value, times)
        expected += [value] * times
    column.extend(array("q", numbers))
    column.extend([None, 7])
    expected += [*numbers, None, 7]
    column.put(len(expected) - 1, None)
    expected[-1] = None
    made = column.to_arrow()
    made.validate(full=True)
    assert made.to_pylist() == expected


@given(
    st.integers(0, 5 * RUN_GAP),
    st.none() | st.integers(0, 9),
    st.dictionaries(st.integers(0, 5 * RUN_GAP - 1), st.none() | st.integers(10, 19), max_size=6),
)
def test_mostly_alike_numbers_are_what_they_were(length: int, value: int | None, others: dict[int, int | None]) -> None:
    others = {row: other for row, other in others.items() if row < length}
    alike = MostlyAlike()
    for _ in range(2):  # the second column shares what the first one made
        made = alike.to_arrow(ColumnType.INT64, value, others, length)
        made.validate(full=True)
        assert made.to_pylist() == [others.get(row, value) for row in range(length)]
