"""Which rows a reader wants, and whether a file can have any: told by the bounds that Iceberg keeps of each column."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
CLUSTER, INTERVAL_START, CONSUMER_GROUP = "cluster", "interval_start", "consumer_group"
FILTERED_BY = (CLUSTER, INTERVAL_START, CONSUMER_GROUP)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and the greatest value of a column, as Iceberg writes them; None = not known.

    Texts are cut to 16 characters (the upper one is raised to make up for it), moments are microseconds since 1970.
    """

    lower: bytes | None
    upper: bytes | None

    def may_hold(self, value: bytes) -> bool:
        """Whether a text may be among the values."""
        return (self.lower is None or self.lower <= value) and (self.upper is None or value <= self.upper)

    def moments(self) -> tuple[int, int] | None:
        """Return microseconds since 1970, or None when they are not known."""
        if self.lower is None or self.upper is None:
            return None
        return int.from_bytes(self.lower, "little", signed=True), int.from_bytes(self.upper, "little", signed=True)


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Rows of one cluster, of the intervals that start in [since, until), of one consumer group; None = all."""

    cluster: str
    since: datetime | None = None
    until: datetime | None = None
    consumer_group: str | None = None

    def may_match(self, bounds: dict[str, Bounds]) -> bool:
        """Whether a file with these bounds, by column, can have such rows."""
        if not bounds[CLUSTER].may_hold(self.cluster.encode()):
            return False
        group = bounds.get(CONSUMER_GROUP)
        if self.consumer_group is not None and group and not group.may_hold(self.consumer_group.encode()):
            return False
        moments = bounds[INTERVAL_START].moments()
        if moments is None:
            return True
        first, last = moments
        too_old = self.since is not None and last < _microseconds(self.since)
        too_new = self.until is not None and first >= _microseconds(self.until)
        return not too_old and not too_new

    def undecided(self, bounds: dict[str, Bounds]) -> frozenset[str]:
        """Return the columns by which rows of a file with these bounds must still be chosen.

        Bounds say nothing of NULLs, which a consumer group may be; cluster and interval are always known.
        """
        decided = set() if self.consumer_group is not None else {CONSUMER_GROUP}
        if bounds[CLUSTER] == Bounds(self.cluster.encode(), self.cluster.encode()):
            decided.add(CLUSTER)
        moments = bounds[INTERVAL_START].moments()
        not_before = self.since is None or (moments is not None and moments[0] >= _microseconds(self.since))
        not_after = self.until is None or (moments is not None and moments[1] < _microseconds(self.until))
        if not_before and not_after:
            decided.add(INTERVAL_START)
        return frozenset(FILTERED_BY) - decided

    def apply(self, rows: pa.Table, by: Collection[str]) -> pa.Table:
        """Return the rows that match in these columns; texts are dictionary-encoded."""
        conditions = list(self._conditions(rows, by))
        return matching(rows, reduce(pc.and_, conditions)) if conditions else rows

    def _conditions(self, rows: pa.Table, by: Collection[str]) -> Iterator[pa.ChunkedArray]:
        if CLUSTER in by:
            yield _is(rows.column(CLUSTER), self.cluster)
        if CONSUMER_GROUP in by and self.consumer_group is not None:
            yield _is(rows.column(CONSUMER_GROUP), self.consumer_group)
        if INTERVAL_START in by and self.since is not None:
            yield pc.greater_equal(rows.column(INTERVAL_START), self.since)
        if INTERVAL_START in by and self.until is not None:
            yield pc.less(rows.column(INTERVAL_START), self.until)


def matching(rows: pa.Table, mask: pa.ChunkedArray) -> pa.Table:
    """Return the rows where the mask is true; nothing is copied where they are neighbours, as in a sorted file."""
    positions = pc.indices_nonzero(mask)
    first = positions[0].as_py() if len(positions) else 0
    if len(positions) and positions[-1].as_py() - first + 1 == len(positions):
        return rows.slice(first, len(positions))
    return rows.filter(mask)


def _is(texts: pa.ChunkedArray, text: str) -> pa.ChunkedArray:
    """Compare dictionary-encoded texts by their numbers: pyarrow's own comparison would spell out every one of them."""
    numbers = [pc.equal(chunk.indices, pc.index(chunk.dictionary, text)) for chunk in texts.chunks]
    return pa.chunked_array(numbers, pa.bool_())


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // _MICROSECOND
