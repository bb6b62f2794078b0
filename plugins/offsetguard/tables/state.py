"""The folded window of every queue of a consumer group: what a re-reading of its last samples would give.

`facts/queue_state.sql` says how a row is made of the row before and one new sample, `queue_state.py` why that is
enough.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, ClassVar

from offsetguard.tables.columns import ConsumerGroup, MessageQueueName, Offsets, Origin, StoreTimes
from offsetguard.tables.table import Column, Int32, Table, columns_of, nullable, row_of

POINT_COUNT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleColumns(Offsets, StoreTimes):
    """The newest sample, as `queue_snapshots` has it."""

    consumer_offset_read_at: Annotated[datetime | None, "when consumer_offset was read; NULL = it was not"] = None
    pull_offset_read_at: Annotated[datetime | None, "when pull_offset was read; NULL = it was not"] = None
    max_offset_read_at: Annotated[
        datetime | None,
        "when min_offset and max_offset were read; NULL = they were not",
    ] = None
    origin: Origin = "broker"


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
    sample_count: Annotated[Int32, "seen samples in that row since rounds were missed"] = 0
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
    advanced_at: Annotated[datetime | None, "last time the committed offset had grown; NULL = not seen"] = None
    end_reached_at: Annotated[datetime | None, "last time nothing waited; NULL = not seen"] = None
    longest_pause_ms: Annotated[
        int | None, "longest time between two advances while messages waited, this aligned window; NULL = none"
    ] = None
    earlier_longest_pause_ms: Annotated[int | None, "the same of the aligned window before"] = None
    _rewind: ClassVar = nullable(columns_of(Rewind))
    lost_at: Annotated[datetime | None, "last time the committed offset was below min_offset"] = None
    disordered_at: Annotated[datetime | None, "last time consumer <= pull <= max or min <= max was broken"] = None
    recreated_at: Annotated[
        datetime | None, "last time max_offset had moved back: recreated or truncated; the fold starts anew there"
    ] = None
    recreated_from: Annotated[int | None, "max_offset before that"] = None
    _points: ClassVar = tuple(column for number in range(1, POINT_COUNT + 1) for column in _numbered(number))


class _QueueState:
    interval_start: Annotated[datetime, "newest interval with a row of this queue, UTC"]
    consumer_group: ConsumerGroup
    _queue: ClassVar = columns_of(MessageQueueName)
    _sample: ClassVar = columns_of(SampleColumns)
    _folded: ClassVar = columns_of(Folded)


QUEUE_STATE = Table(
    "queue_state",
    "the folded window of every queue of a consumer group; newest only, and it moves forward only",
    ("cluster", "broker_name", "topic", "queue_id", "consumer_group"),
    row_of(_QueueState),
    partition=("cluster",),
    retention=None,
)
