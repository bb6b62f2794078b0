"""Columns hold what was put in, as pyarrow itself says."""

from __future__ import annotations

from array import array
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.collect.columns import (
    RUN_GAP,
    MostlyAlike,
    NumberColumn,
    arrow_array,
    microseconds,
    moment_of,
)
from offsetguard.tables import ColumnType
from offsetguard.tables.table import arrow_type

BEIJING = timezone(timedelta(hours=8))
moments = st.datetimes(datetime(1900, 1, 1), datetime(9999, 12, 31), timezones=st.sampled_from([UTC, BEIJING]))  # noqa: DTZ001
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VALUES: dict[ColumnType, st.SearchStrategy[Any]] = {
    ColumnType.STRING: TEXTS,
    ColumnType.INT32: st.integers(-(2**31), 2**31 - 1),
    ColumnType.INT64: st.integers(-(2**63), 2**63 - 1),
    ColumnType.FLOAT64: st.floats(allow_nan=False),
    ColumnType.BOOLEAN: st.booleans(),
    ColumnType.TIMESTAMP: moments,
    ColumnType.STRING_LIST: st.lists(TEXTS),
}
columns = st.sampled_from(ColumnType).flatmap(
    lambda kind: st.tuples(st.just(kind), st.lists(st.none() | VALUES[kind], max_size=40))
)


@given(columns)
def test_values_come_back_and_none_stays_none(column: tuple[ColumnType, list[Any]]) -> None:
    kind, values = column
    made = arrow_array(kind, values)
    made.validate(full=True)
    assert made.type == arrow_type(kind)
    assert made.to_pylist() == values


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (ColumnType.INT32, 2**31),
        (ColumnType.INT64, -(2**63) - 1),
        (ColumnType.INT64, "5"),
        (ColumnType.STRING, 5),
        (ColumnType.STRING_LIST, [5]),
        (ColumnType.BOOLEAN, 1),
        (ColumnType.TIMESTAMP, "1"),
        (ColumnType.FLOAT64, "1.0"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(kind: ColumnType, value: object) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)):
        arrow_array(kind, [value])


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    assert arrow_array(ColumnType.STRING, ["a\ud800b"]).to_pylist() == ["a?b"]


@pytest.mark.parametrize(("hostile", "kept"), [("a\0b", "a?b"), ("größe\0", "größe?"), ("\0", "?")])
def test_nul_which_postgresql_cannot_hold_becomes_a_question_mark(hostile: str, kept: str) -> None:
    assert arrow_array(ColumnType.STRING, [hostile, None, "c"]).to_pylist() == [kept, None, "c"]
    assert arrow_array(ColumnType.STRING_LIST, [[hostile, "c"]]).to_pylist() == [[kept, "c"]]


@given(moments)
def test_a_moment_survives_as_microseconds(moment: datetime) -> None:
    number = microseconds(moment)
    assert number is not None
    assert moment_of(number) == moment


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
