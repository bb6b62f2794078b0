"""Columns as they grow, and Python values as pyarrow arrays.

Goal: 1,000,000 queues cost neither a dictionary per row nor Python objects per value.
"""

from array import array
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from offsetguard.tables import ColumnType
from offsetguard.tables.table import arrow_type

RUN_GAP = 64  # rows; shorter stretches of like values are not worth a chunk of their own
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class NumberColumn:
    """Whole numbers, or none: `add`, `extend` and `put` in any order, then `to_arrow`."""

    __slots__ = ("_column_type", "_unknown", "values")

    def __init__(self, column_type: ColumnType = ColumnType.INT64) -> None:
        """INT64, INT32, or TIMESTAMP for microseconds since 1970."""
        self._column_type = column_type
        self.values = array("i" if column_type is ColumnType.INT32 else "q")
        self._unknown: set[int] = set()  # rows; as a rule all values are known

    def __len__(self) -> int:
        return len(self.values)

    def add(self, value: int | None, times: int = 1) -> None:
        """Append one value, or the same value many times."""
        if value is None:
            self._unknown.update(range(len(self), len(self) + times))
        self.values.extend(array(self.values.typecode, (value or 0,)) * times)

    def extend(self, values: "array[int] | Sequence[int | None]") -> None:
        """Append many; an array of this column's own type has no None in it and is copied as it is."""
        if isinstance(values, array) and values.typecode == self.values.typecode:
            self.values.extend(values)
            return
        self._unknown.update(row for row, value in enumerate(values, len(self)) if value is None)
        self.values.extend([value or 0 for value in values])

    def put(self, row: int, value: int | None) -> None:
        """Replace one value."""
        (self._unknown.add if value is None else self._unknown.discard)(row)
        self.values[row] = value or 0

    def to_arrow(self) -> pa.Array:
        """Return an array that shares these numbers: add nothing more."""
        valid = None
        if self._unknown:
            known = np.ones(len(self), dtype=bool)
            known[list(self._unknown)] = False
            valid = pa.py_buffer(np.packbits(known, bitorder="little"))
        return pa.Array.from_buffers(arrow_type(self._column_type), len(self), [valid, pa.py_buffer(self.values)])


class MostlyAlike:
    """Numbers of which all but a few are the same: those few cost memory, the others share one array.

    One of these may make the columns of many tables; tables of one length share most.
    """

    def __init__(self) -> None:
        self._alike: dict[tuple[ColumnType, int | None], pa.Array] = {}

    def to_arrow(
        self, column_type: ColumnType, value: int | None, others: Mapping[int, int | None], length: int
    ) -> pa.ChunkedArray:
        """Return `length` numbers that are `value`, except for `others`, by row."""
        chunks: list[pa.Array] = []
        end = 0
        for rows in _runs(sorted(others)):
            chunks.append(self._same(column_type, value, rows[0] - end))
            column = NumberColumn(column_type)
            column.extend([others.get(row, value) for row in range(rows[0], rows[-1] + 1)])
            chunks.append(column.to_arrow())
            end = rows[-1] + 1
        chunks.append(self._same(column_type, value, length - end))
        return pa.chunked_array([chunk for chunk in chunks if len(chunk)], type=arrow_type(column_type))

    def _same(self, column_type: ColumnType, value: int | None, length: int) -> pa.Array:
        known = self._alike.get((column_type, value))
        if known is None or len(known) < length:
            known = pa.repeat(pa.scalar(value, arrow_type(column_type)), length)
            self._alike[column_type, value] = known
        return known.slice(0, length)


class NameColumn:
    """Texts that repeat, most of them in stretches: a row holds a number of four bytes."""

    __slots__ = ("_lengths", "_names")

    def __init__(self) -> None:
        self._names: list[str] = []  # of each stretch
        self._lengths = array("i")

    def add(self, name: str, times: int = 1) -> None:
        """Append a text, once or many times."""
        self._names.append(name)
        self._lengths.append(times)

    def to_arrow(self) -> pa.Array:
        """Return a dictionary-encoded array of texts."""
        encoded = arrow_array(ColumnType.STRING, self._names).dictionary_encode()
        numbers = np.repeat(encoded.indices.to_numpy(), np.asarray(self._lengths))
        return pa.DictionaryArray.from_arrays(numbers, encoded.dictionary)


def constant_text(text: str, length: int) -> pa.Array:
    """Return one text many times, dictionary-encoded: a byte a row."""
    return pa.DictionaryArray.from_arrays(np.zeros(length, np.int8), arrow_array(ColumnType.STRING, [text]))


def arrow_array(column_type: ColumnType, values: Sequence[Any]) -> pa.Array:
    """Return Python values as an Arrow array; ValueError, TypeError or OverflowError for one that is not of the type.

    What UTF-8 or PostgreSQL cannot hold of a text becomes "?": half a surrogate pair, NUL.
    """
    if not any(value is not None for value in values):
        return _nothing(column_type, len(values))
    if column_type is ColumnType.STRING:
        values = [_storable(value) for value in values]
    elif column_type is ColumnType.STRING_LIST:
        values = [[_storable(one) for one in value] if isinstance(value, list | tuple) else value for value in values]
    elif column_type is ColumnType.FLOAT64:
        values = [float(value) if isinstance(value, int) else value for value in values]
    return pa.array(values, type=arrow_type(column_type))


@lru_cache(maxsize=64)  # most columns of most groups: a table is made of parts, and all of them share one
def _nothing(column_type: ColumnType, length: int) -> pa.Array:
    return pa.nulls(length, arrow_type(column_type))


def microseconds(moment: datetime | None) -> int | None:
    """Return a moment as Arrow stores it: microseconds since 1970, UTC."""
    return None if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)


def moment_of(microseconds_since_1970: int) -> datetime:
    """Return what `microseconds` was made of."""
    return _EPOCH + timedelta(0, 0, microseconds_since_1970)


def _runs(rows: list[int]) -> list[list[int]]:
    """Split ascending rows where none follows for RUN_GAP rows."""
    runs: list[list[int]] = []
    for row in rows:
        if runs and row - runs[-1][-1] < RUN_GAP:
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs


def _storable(text: Any) -> Any:
    if not isinstance(text, str) or (text.isascii() and "\0" not in text):
        return text
    return text.encode("utf-8", "replace").decode().replace("\0", "?")
