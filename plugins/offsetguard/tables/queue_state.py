"""The state of one queue of a consumer group: its window, folded sample by sample, and what it tells.

`facts/queue_state.sql` says how a row is made of the row before and one new sample; why that is enough stands here.

What a state tells of a window that slides, without the window's samples:

- *Moments* (`advanced_at`, `end_reached_at`, `lost_at`, ...) are those of the last such event. It lies within any
  window up to now exactly if the moment does: whoever asks compares it with now - window, and nothing has to slide.
- *Points* are exact samples. Point 1 is the seen sample before the newest seen one, each later one is older by at least
  a spacing; these add up to the window. So the points reach back to the first sample of the state or,
  once there are five, beyond the window. Growth, rates and the producer curve come from them.
- *Pauses* are kept as the longest of the aligned window (whole windows since 1970) of the newest seen sample, and of
  the one before: together all pauses that ended within the last window, and none that ended two windows ago.
- *A rewind* stays until `rewound_from`, the highest offset of all rewinds that were not regained, is committed again.
  One number is enough for any number of rewinds: all are regained exactly if the highest is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Self

from offsetguard.model.offsets import QueueOffsets
from offsetguard.tables.table import (
    Column,
    ConsumerGroup,
    Int32,
    MessageQueueName,
    Offsets,
    Origin,
    StoreTimes,
    Table,
    columns_of,
    nullable,
    row_of,
)

POINT_COUNT = 5
WINDOW = timedelta(minutes=30)
MISSED_PARTS = 12
"""Two readings further apart than such a part of the window (150 s), and than 2.5 times what readings lay apart before,
have missed rounds between them: what lies there, or reaches across it, is no rhythm of a group. One round that fails is
none of that. Of the first two readings nobody knows how far apart they usually lie: the first condition is enough."""
MISSED_AFTER = WINDOW / MISSED_PARTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Offsets, StoreTimes):
    """What one snapshot says of the queue, as `queue_snapshots` has it."""

    consumer_offset_read_at: Annotated[datetime | None, "when consumer_offset was read; NULL = it was not"] = None
    pull_offset_read_at: Annotated[datetime | None, "when pull_offset was read; NULL = it was not"] = None
    max_offset_read_at: Annotated[
        datetime | None,
        "when min_offset and max_offset were read; NULL = they were not",
    ] = None
    origin: Origin = "broker"

    @property
    def offsets(self) -> QueueOffsets:
        """The four offsets, for their formulas."""
        return QueueOffsets(self.min_offset, self.max_offset, self.consumer_offset, self.pull_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """An earlier sample, exact."""

    at: Annotated[datetime, "when point {number} was read; 1 = the seen sample before the newest seen one"]
    max_offset: Annotated[int, "max_offset then"]
    committed_offset: Annotated[int | None, "the offset last committed then; NULL = none was ever seen"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewind:
    """The last time that the committed offset moved back, and what of that, and of earlier ones, is to be regained."""

    rewound_at: Annotated[
        datetime, "last time the committed offset had moved back, to messages that exist; NULL = not seen"
    ]
    rewound_from: Annotated[int, "highest offset to be regained since then, over all rewinds not regained before"]
    rewound_to: Annotated[int, "lowest offset that these went back to"]
    regained_at: Annotated[datetime | None, "when rewound_from was committed again; NULL = not yet"] = None
    rewind_count: Annotated[Int32, "rewinds up to rewound_at, each at most a window after the one before"]


def _numbered(number: int) -> tuple[Column, ...]:
    return tuple(
        replace(column, name=f"point_{number}_{column.name}", meaning=column.meaning.format(number=number))
        for column in nullable(columns_of(Point))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """What all samples before have left; `QueueState` has rewind and points as such.

    Points: the higher the number the older. Point 5, once there is one, is older than the window.
    """

    seen_at: Annotated[
        datetime | None, "when the newest seen sample was read: one with max_offset, whose commits were read as well"
    ] = None
    seen_min_offset: Annotated[int | None, "its min_offset"] = None
    seen_max_offset: Annotated[int | None, "its max_offset"] = None
    committed_offset: Annotated[int | None, "offset last seen committed; NULL = never seen"] = None
    first_seen_at: Annotated[
        datetime | None,
        "first sample of the unbroken row that seen_at ends: neither a gap longer than the window nor missed"
        " rounds in which the group may have moved",
    ] = None
    unbroken_since: Annotated[
        datetime | None,
        "first sample of that row since rounds were missed; later than first_seen_at where the group has stood still"
        " over them",
    ] = None
    sample_count: Annotated[Int32, "seen samples since then"] = 0
    unknown_count: Annotated[Int32, "samples since seen_at of which something was not seen"] = 0
    max_unchanged_since: Annotated[datetime | None, "first seen sample with the present seen_max_offset"] = None
    min_moved_at: Annotated[
        datetime | None, "last time min_offset had grown: messages were deleted; NULL = not seen"
    ] = None
    min_moved_from: Annotated[int | None, "min_offset before that"] = None
    earlier_min_moved_at: Annotated[
        datetime | None,
        "the move of min_offset before the last one; NULL = not seen",
    ] = None
    earlier_min_moved_from: Annotated[int | None, "min_offset before that one"] = None
    advanced_at: Annotated[
        datetime | None, "last time the committed offset had grown, or come back from beyond the end; NULL = not seen"
    ] = None
    end_reached_at: Annotated[datetime | None, "last time nothing waited; NULL = not seen"] = None
    longest_pause_ms: Annotated[
        int | None,
        "longest time between two advances while messages waited, of those that ended in this aligned window and have"
        " no missed rounds in them; NULL = none",
    ] = None
    longest_pause_ended_at: Annotated[datetime | None, "the advance that ended it"] = None
    earlier_longest_pause_ms: Annotated[int | None, "the longest of the aligned window before"] = None
    earlier_longest_pause_ended_at: Annotated[datetime | None, "the advance that ended that one"] = None
    _rewind: ClassVar = nullable(columns_of(Rewind))
    lost_at: Annotated[datetime | None, "last time the committed offset was below min_offset"] = None
    disordered_at: Annotated[datetime | None, "last time consumer <= pull <= max or min <= max was broken"] = None
    within_end_at: Annotated[
        datetime | None, "last time the committed offset did not lie beyond the end; NULL = not seen"
    ] = None
    beyond_after: Annotated[
        datetime | None,
        "the sample before the committed offset was last seen to be set beyond an end that did not fall",
    ] = None
    beyond_from: Annotated[int | None, "committed offset of that sample"] = None
    recreated_at: Annotated[
        datetime | None, "last time max_offset had moved back: recreated or truncated; the fold starts anew there"
    ] = None
    recreated_after: Annotated[datetime | None, "when the sample before that was read: it happened in between"] = None
    recreated_from: Annotated[int | None, "max_offset before that"] = None
    _points: ClassVar = tuple(column for number in range(1, POINT_COUNT + 1) for column in _numbered(number))


class _QueueState:
    interval_start: Annotated[datetime, "newest interval with a row of this queue, UTC"]
    consumer_group: ConsumerGroup
    _queue: ClassVar = columns_of(MessageQueueName)
    _sample: ClassVar = columns_of(Sample)
    _folded: ClassVar = columns_of(Folded)


QUEUE_STATE = Table(
    "queue_state",
    "the folded window of every queue of a consumer group; newest only, and it moves forward only",
    ("cluster", "broker_name", "topic", "queue_id", "consumer_group"),
    row_of(_QueueState),
    partition=("cluster",),
    retention=None,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState(Folded):
    """One row of `queue_state` without its key."""

    interval_start: datetime
    sample: Sample
    rewind: Rewind | None = None
    points: tuple[Point, ...] = ()

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Return the state of a row of `queue_state`, or of `queue_facts`, which has no times of reading."""
        sample, folded = (
            {one.name: row[one.name] for one in fields(kind) if row.get(one.name) is not None}
            for kind in (Sample, Folded)
        )
        points = []
        for number in range(1, POINT_COUNT + 1):
            point = {one.name: row.get(f"point_{number}_{one.name}") for one in fields(Point)}
            if point["at"] is not None:
                points.append(Point(**point))  # type: ignore[arg-type]
        rewind = {one.name: row.get(one.name) for one in fields(Rewind)}
        return cls(
            **folded,
            interval_start=row["interval_start"],
            sample=Sample(**sample),
            rewind=None if rewind["rewound_at"] is None else Rewind(**rewind),  # type: ignore[arg-type]
            points=tuple(points),
        )

    @property
    def seen(self) -> Point | None:
        """The newest seen sample, as the point that it will become; None = there is none yet."""
        if self.seen_at is None or self.seen_max_offset is None:
            return None
        return Point(at=self.seen_at, max_offset=self.seen_max_offset, committed_offset=self.committed_offset)


def curve(state: QueueState) -> list[tuple[int, datetime]]:
    """Return the producer curve: (max offset, when it was read), oldest first, neither going back.

    Of the newest flat stretch it has the first and the last point.
    """
    newest, since = state.seen, state.max_unchanged_since
    if newest is None or since is None:
        return []
    earlier = [(point.max_offset, point.at) for point in reversed(state.points) if point.max_offset < newest.max_offset]
    flat = [(newest.max_offset, since)] if since < newest.at else []
    return [*earlier, *flat, (newest.max_offset, newest.at)]
