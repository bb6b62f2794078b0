"""The folded window of every queue of a consumer group: what a re-reading of its last samples would give.

`facts/queue_state.sql` says how a row is made of the row before and one new sample, `queue_state.py` why that is
enough.
"""

from __future__ import annotations

from offsetguard.tables.columns import BROKER_NAME, CLUSTER, CONSUMER_GROUP, OFFSETS, QUEUE_ID, TOPIC
from offsetguard.tables.table import Column, ColumnType, Table

_S, _I4, _I8, _T = ColumnType.STRING, ColumnType.INT32, ColumnType.INT64, ColumnType.TIMESTAMP

POINT_COUNT = 5

SAMPLE_COLUMNS = (
    *OFFSETS,
    Column("consumer_offset_read_at", _T, "when consumer_offset was read; NULL = it was not"),
    Column("pull_offset_read_at", _T, "when pull_offset was read; NULL = it was not"),
    Column("max_offset_read_at", _T, "when min_offset and max_offset were read; NULL = they were not"),
    Column("origin", _S, "where the offsets come from: broker, or state_file", nullable=False),
)
"""The newest sample, as `queue_snapshots` has it."""

POINT_COLUMNS = tuple(
    column
    for number in range(1, POINT_COUNT + 1)
    for column in (
        Column(
            f"point_{number}_at", _T, f"when point {number} was read; 1 = the seen sample before the newest seen one"
        ),
        Column(f"point_{number}_max_offset", _I8, "max_offset then"),
        Column(f"point_{number}_committed_offset", _I8, "the offset last committed then; NULL = none was ever seen"),
    )
)
"""Earlier samples, exact; the higher the number the older. Point 5, once there is one, is older than the window."""

FOLDED_COLUMNS = (
    Column("seen_at", _T, "when the newest seen sample was read: one with max_offset, whose commits were read as well"),
    Column("seen_min_offset", _I8, "its min_offset"),
    Column("seen_max_offset", _I8, "its max_offset"),
    Column("committed_offset", _I8, "offset last seen committed; NULL = never seen"),
    Column("first_seen_at", _T, "first sample of the unbroken row that seen_at ends: no gap longer than the window"),
    Column("sample_count", _I4, "seen samples in that row", nullable=False),
    Column("unknown_count", _I4, "samples since seen_at of which something was not seen", nullable=False),
    Column("max_unchanged_since", _T, "first seen sample with the present seen_max_offset"),
    Column("min_moved_at", _T, "last time min_offset had grown: messages were deleted; NULL = not seen"),
    Column("min_moved_from", _I8, "min_offset before that"),
    Column("earlier_min_moved_at", _T, "the move of min_offset before the last one; NULL = not seen"),
    Column("earlier_min_moved_from", _I8, "min_offset before that one"),
    Column("advanced_at", _T, "last time the committed offset had grown; NULL = not seen"),
    Column("end_reached_at", _T, "last time nothing waited; NULL = not seen"),
    Column(
        "longest_pause_ms",
        _I8,
        "longest time between two advances while messages waited, this aligned window; NULL = none",
    ),
    Column("earlier_longest_pause_ms", _I8, "the same of the aligned window before"),
    Column("rewound_at", _T, "last time the committed offset had moved back, to messages that exist; NULL = not seen"),
    Column("rewound_from", _I8, "highest offset to be regained since then, over all rewinds not regained before"),
    Column("rewound_to", _I8, "lowest offset that these went back to"),
    Column("regained_at", _T, "when rewound_from was committed again; NULL = not yet"),
    Column("rewind_count", _I4, "rewinds up to rewound_at, each at most a window after the one before"),
    Column("lost_at", _T, "last time the committed offset was below min_offset"),
    Column("disordered_at", _T, "last time consumer <= pull <= max or min <= max was broken"),
    Column(
        "recreated_at", _T, "last time max_offset had moved back: recreated or truncated; the fold starts anew there"
    ),
    Column("recreated_from", _I8, "max_offset before that"),
    *POINT_COLUMNS,
)

QUEUE_STATE = Table(
    "queue_state",
    "the folded window of every queue of a consumer group; newest only, and it moves forward only",
    ("cluster", "broker_name", "topic", "queue_id", "consumer_group"),
    (
        CLUSTER,
        Column("interval_start", _T, "newest interval with a row of this queue, UTC", nullable=False),
        CONSUMER_GROUP,
        TOPIC,
        BROKER_NAME,
        QUEUE_ID,
        *SAMPLE_COLUMNS,
        *FOLDED_COLUMNS,
    ),
    partition=("cluster",),
    retention=None,
)
