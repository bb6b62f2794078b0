"""Columns as they grow: plain arrays of numbers that become pyarrow arrays without a copy and without pandas.

Goal: 1,000,000 queues cost neither a dictionary per row nor Python objects per value, and a command that has just
started does not wait for pandas (`pyarrow.array` imports it for its own type checks, 0.3 s and 40 MB). So every pyarrow
array is made from its buffers here, and pyarrow itself is imported when the first one is asked for.
Source of the layout: https://arrow.apache.org/docs/format/Columnar.html (validity bitmaps are LSB-first).
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

import pyarrow as pa

from offsetguard.sources.rocketmq.offset_table import INT32_RANGE, INT64_RANGE
from offsetguard.tables import ColumnType
from offsetguard.tables.arrow import arrow_type

RUN_GAP = 64  # rows; shorter stretches of like values are not worth a chunk of their own
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = bytes.maketrans(b"\x00\x01", b"01")


class DoesNotFit(ValueError):
    """A value is not what its column holds."""


class IntegerColumn:
    """Whole numbers, or none: `add`, `extend` and `put` in any order, then `to_arrow`."""

    __slots__ = ("_column_type", "_valid", "values")

    def __init__(self, column_type: ColumnType = ColumnType.INT64) -> None:
        """INT64, INT32, or TIMESTAMP for microseconds since 1970."""
        self._column_type = column_type
        self.values = array("i" if column_type is ColumnType.INT32 else "q")
        self._valid: bytearray | None = None  # a byte for each value; None: all of them are known, the usual case

    def __len__(self) -> int:
        return len(self.values)

    def add(self, value: int | None, times: int = 1) -> None:
        """Append one value, or the same value many times."""
        if value is None or self._valid is not None:
            valid = self._validity()
            valid += (b"\x00" if value is None else b"\x01") * times
        self.values.extend(array(self.values.typecode, (value or 0,)) * times)

    def extend(self, values: array[int] | Sequence[int | None]) -> None:
        """Append many; an array has no None in it and is copied as it is."""
        if type(values) is array:
            if self._valid is not None:
                self._valid += b"\x01" * len(values)
            self.values.extend(
                values if values.typecode == self.values.typecode else array(self.values.typecode, values)
            )
        else:
            if None in values or self._valid is not None:
                self._validity().extend([value is not None for value in values])
            self.values.extend([value or 0 for value in values])

    def extend_each(self, parts: Sequence[array[int] | list[int | None]]) -> None:
        """Append many parts; arrays among them are of this column's own type."""
        if self._valid is None and set(map(type, parts)) == {array}:
            for values in parts:
                self.values.extend(values)  # type: ignore[arg-type]  # as was just seen
        else:
            for values in parts:
                self.extend(values)

    def put(self, position: int, value: int | None) -> None:
        """Replace one value."""
        if value is None or self._valid is not None:
            self._validity()[position] = value is not None
        self.values[position] = value or 0

    def to_arrow(self) -> pa.Array:
        """Return an array that shares these numbers: add nothing more."""
        bitmap = None if self._valid is None else validity(self._valid)
        return pa.Array.from_buffers(arrow_type(self._column_type), len(self), [bitmap, pa.py_buffer(self.values)])

    def _validity(self) -> bytearray:
        if self._valid is None:
            self._valid = bytearray(b"\x01") * len(self.values)
        return self._valid


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
            column = IntegerColumn(column_type)
            column.extend([others.get(row, value) for row in range(rows[0], rows[-1] + 1)])
            chunks.append(column.to_arrow())
            end = rows[-1] + 1
        chunks.append(self._same(column_type, value, length - end))
        return pa.chunked_array([chunk for chunk in chunks if len(chunk)], type=arrow_type(column_type))

    def _same(self, column_type: ColumnType, value: int | None, length: int) -> pa.Array:
        known = self._alike.get((column_type, value))
        if known is None or len(known) < length:
            column = IntegerColumn(column_type)
            column.add(value, length)
            known = self._alike[column_type, value] = column.to_arrow()
        return known.slice(0, length)


class NameColumn:
    """Texts that repeat: each is kept once, and a row holds its number."""

    __slots__ = ("_numbers", "_of_name")

    def __init__(self) -> None:
        self._of_name: dict[str, int] = {}
        self._numbers = array("i")

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, name: str, times: int = 1) -> None:
        """Append a text, once or many times."""
        number = self._of_name.setdefault(name, len(self._of_name))
        self._numbers.extend(array("i", (number,)) * times)

    def add_each(self, names: Sequence[str], times: int) -> None:
        """Append several texts, each many times."""
        for name in names:
            self._numbers.extend(array("i", (self._of_name.setdefault(name, len(self._of_name)),)) * times)

    def to_arrow(self) -> pa.Array:
        """Return a dictionary-encoded array of texts."""
        numbers = pa.Array.from_buffers(pa.int32(), len(self), [None, pa.py_buffer(self._numbers)])
        return pa.DictionaryArray.from_arrays(numbers, text_array(list(self._of_name)), safe=False)


def constant_text(text: str, length: int) -> pa.Array:
    """Return one text many times, dictionary-encoded: a byte a row."""
    numbers = pa.Array.from_buffers(pa.int8(), length, [None, pa.py_buffer(bytes(length))])
    return pa.DictionaryArray.from_arrays(numbers, text_array([text]), safe=False)


def arrow_array(column_type: ColumnType, values: Sequence[Any]) -> pa.Array:
    """Return Python values as an Arrow array; raises DoesNotFit for one that is not of the type."""
    if column_type is ColumnType.STRING:
        return text_array(values)
    if column_type is ColumnType.STRING_LIST:
        return _text_list_array(values)
    if column_type is ColumnType.BOOLEAN:
        _check_all(values, {bool}, "true or false")
        data = _bitmap(bytes(map(bool, values)))
    else:
        data = pa.py_buffer(_numbers(column_type, values))
    return pa.Array.from_buffers(arrow_type(column_type), len(values), [_which_are_known(values), data])


def text_array(values: Sequence[str | None]) -> pa.Array:
    """Return texts as an Arrow array; what UTF-8 or PostgreSQL cannot hold becomes "?": half a surrogate pair, NUL."""
    _check_all(values, {str}, "a text")
    texts = [value or "" for value in values]
    joined = "".join(texts)
    if joined.isascii():
        data, lengths = joined.encode(), map(len, texts)
    else:
        encoded = [text.encode("utf-8", "replace") for text in texts]
        data, lengths = b"".join(encoded), map(len, encoded)
    data = data.replace(b"\0", b"?")
    ends = array("i", accumulate(lengths, initial=0))
    buffers = [_which_are_known(values), pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def _runs(rows: list[int]) -> list[list[int]]:
    """Split ascending rows where none follows for RUN_GAP rows."""
    runs: list[list[int]] = []
    for row in rows:
        if runs and row - runs[-1][-1] < RUN_GAP:
            runs[-1].append(row)
        else:
            runs.append([row])
    return runs


def microseconds(moment: datetime | None) -> int | None:
    """Return a moment as Arrow stores it: microseconds since 1970, UTC."""
    if moment is None:
        return None
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def moment_of(microseconds_since_1970: int) -> datetime:
    """Return what `microseconds` was made of."""
    return _EPOCH + timedelta(0, 0, microseconds_since_1970)


def validity(valid: bytes | bytearray) -> pa.Buffer | None:
    """Return the bitmap of which rows have a value (one byte each, 0 or 1); None = all of them."""
    return None if not valid.count(0) else _bitmap(valid)


def _which_are_known(values: Sequence[object]) -> pa.Buffer | None:
    return validity(bytes([value is not None for value in values])) if None in values else None


def _bitmap(flags: bytes | bytearray) -> pa.Buffer:
    number = int(flags[::-1].translate(_DIGITS) or b"0", 2)
    return pa.py_buffer(number.to_bytes((len(flags) + 7) // 8, "little"))


def _numbers(column_type: ColumnType, values: Sequence[Any]) -> array[Any]:
    if column_type is ColumnType.TIMESTAMP:
        return _moments(values)
    if column_type is ColumnType.FLOAT64:
        _check_all(values, {int, float, bool}, "a number")
        return array("d", [value or 0 for value in values])
    _check_all(values, {int, bool}, "a whole number")
    typecode = "i" if column_type is ColumnType.INT32 else "q"
    try:
        return array(typecode, [value or 0 for value in values])
    except OverflowError:
        limits = INT32_RANGE if column_type is ColumnType.INT32 else INT64_RANGE
        too_large = next(value for value in values if value is not None and value not in limits)
        raise DoesNotFit(f"{too_large} has more than {limits.stop.bit_length()} bits") from None


def _moments(values: Sequence[datetime | None]) -> array[int]:
    _check_all(values, {datetime}, "a moment")
    if values and values.count(values[0]) == len(values):  # the interval's start, and whatever nobody knows
        return array("q", [microseconds(values[0]) or 0]) * len(values)
    return array("q", [microseconds(value) or 0 for value in values])


def _text_list_array(values: Sequence[Sequence[str] | None]) -> pa.Array:
    _check_all(values, {list, tuple}, "a list of texts")
    ends = array("i", accumulate([len(value or ()) for value in values], initial=0))
    texts = text_array([text for value in values for text in value or ()])
    kind = arrow_type(ColumnType.STRING_LIST)
    buffers = [_which_are_known(values), pa.py_buffer(ends)]
    return pa.Array.from_buffers(kind, len(values), buffers, children=[texts])


def _check_all(values: Sequence[Any], kinds: set[type], what: str) -> None:
    """Raise DoesNotFit unless all are None or of these types; an enum of texts is a text."""
    unknown = set(map(type, values)) - kinds - {type(None)}
    if unknown and not all(issubclass(kind, tuple(kinds)) for kind in unknown):
        wrong = next(value for value in values if value is not None and not isinstance(value, tuple(kinds)))
        raise DoesNotFit(f"{wrong!r:.200} is not {what}")
