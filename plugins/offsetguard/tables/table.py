"""What a table and a column are, and how the columns are written: as the fields of a class.

    queue_count: Annotated[Int32, "queues of the topic that the group can read"]
    lag: Annotated[int | None, "max_offset - consumer_offset, messages"] = None

A class that somebody reads as typed records is a dataclass as well, and gives what may be NULL a default.
A `ClassVar` of columns stands where they are in the table: of a base, or such as the record has in another form.
These modules evaluate their annotations, so they have no `from __future__ import annotations`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cache
from types import NoneType
from typing import Annotated, Any, ClassVar, get_args

import pyarrow as pa

RAW_RETENTION = timedelta(days=7)  # what was seen; the pages show one group's 7 days
FACT_RETENTION = timedelta(days=90)  # what was made of it: small, and weeks are compared with each other

# Of a compacted file, read at once. Fewer: a reader spends its time on footers (of 87 columns, 9,000 rows each: 12 ms a
# file, 74,000: 4, and a fifth less on disk); more: a group that is read brings many others.
ROW_GROUP_ROWS = 75_000


class ColumnType(StrEnum):
    """The types that our tables use; each has one pyarrow and one Spark counterpart."""

    STRING = "string"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT64 = "float64"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"  # UTC, microseconds
    STRING_LIST = "string list"


Int32 = Annotated[int, ColumnType.INT32]  # a bare `int` has 64 bits
_TYPES: dict[Any, ColumnType] = {
    str: ColumnType.STRING,
    int: ColumnType.INT64,
    float: ColumnType.FLOAT64,
    bool: ColumnType.BOOLEAN,
    datetime: ColumnType.TIMESTAMP,
    tuple[str, ...]: ColumnType.STRING_LIST,
    Int32: ColumnType.INT32,
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column; the meaning says the unit and when it is NULL."""

    name: str
    type: ColumnType
    meaning: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """One table; `key` identifies a row."""

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    partition: tuple[str, ...] = ("days(interval_start)", "cluster")  # Iceberg transforms
    retention: timedelta | None = RAW_RETENTION  # None: only the newest rows are kept

    @property
    def sort_order(self) -> tuple[str, ...]:
        """The columns that compacted files are sorted by: a reader asks for the past of one group, or of one topic."""
        first = ("consumer_group", *self.key)
        names = dict.fromkeys(name for name in first if name in self.key and name not in ("cluster", "interval_start"))
        return (*names, "interval_start")

    def __getitem__(self, column_name: str) -> Column:
        """Return a column by name; raises KeyError."""
        for column in self.columns:
            if column.name == column_name:
                return column
        raise KeyError(f"table {self.name} has no column {column_name}")


@cache
def columns_of(kind: type) -> tuple[Column, ...]:
    """Return the columns that a class says, in its order; those of bases that it does not place come first."""
    own: dict[str, Column] = {}
    for name, said in kind.__annotations__.items():
        own |= {one.name: one for one in vars(kind)[name]} if said is ClassVar else {name: _column(name, said)}
    inherited = (column for base in kind.__bases__ if base is not object for column in columns_of(base))
    return (*(column for column in inherited if column.name not in own), *own.values())


def nullable(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Return columns that may be NULL, all of them: what they say need not be there."""
    return tuple(replace(column, nullable=True) for column in columns)


def _column(name: str, said: Any) -> Column:
    *marks, meaning = said.__metadata__
    alone, or_null = said.__origin__, NoneType in get_args(said.__origin__)
    if or_null:
        alone = get_args(alone)[0]
    return Column(name, marks[0] if marks else _TYPES[alone], meaning, or_null)


class _Row:
    cluster: Annotated[str, "name of the cluster in config/offsetguard.yml"]
    interval_start: Annotated[datetime, "start of the interval that the row belongs to, UTC"]


def row_of(kind: type) -> tuple[Column, ...]:
    """Return the columns of a table: the transaction that each row belongs to, and those that a class says."""
    return tuple({one.name: one for one in (*columns_of(_Row), *columns_of(kind))}.values())


@cache
def arrow_type(column_type: ColumnType) -> pa.DataType:
    """Return the Arrow type of a column: the only definition."""
    return {
        ColumnType.STRING: pa.string(),
        ColumnType.INT32: pa.int32(),
        ColumnType.INT64: pa.int64(),
        ColumnType.FLOAT64: pa.float64(),
        ColumnType.BOOLEAN: pa.bool_(),
        ColumnType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
        ColumnType.STRING_LIST: pa.list_(pa.string()),
    }[column_type]


def arrow_schema(table: Table) -> pa.Schema:
    """Return the Parquet schema of a table, in column order."""
    return pa.schema([pa.field(c.name, arrow_type(c.type), nullable=c.nullable) for c in table.columns])


ConsumerGroup = Annotated[str, "consumer group"]
Topic = Annotated[str, "topic; %RETRY% and %DLQ% keep their prefix"]
BrokerName = Annotated[str, "name shared by a master and its slaves"]
Origin = Annotated[str, "where the offsets come from: broker, or state_file"]
QueueId = Annotated[Int32, "number of the queue within (topic, broker)"]


class MessageQueueName:
    """One queue of a topic on one broker; records have it as a `MessageQueue`."""

    topic: Topic
    broker_name: BrokerName
    queue_id: QueueId


@dataclass(frozen=True, kw_only=True)
class Offsets:
    """What a broker says of a group's positions in a queue; formulas want it as `QueueOffsets`."""

    __slots__ = ()
    min_offset: Annotated[int | None, "oldest message that the broker still keeps"] = None
    max_offset: Annotated[int | None, "broker offset: number of the next message to be written"] = None
    consumer_offset: Annotated[int | None, "committed: next to be consumed; NULL = never committed or not seen"] = None
    pull_offset: Annotated[int | None, "next to be pulled; NULL where the broker cannot tell (before 5.1)"] = None


@dataclass(frozen=True, kw_only=True)
class StoreTimes:
    """When messages around the consumer offset were stored."""

    __slots__ = ()
    last_timestamp: Annotated[
        datetime | None, "store time of message consumer_offset - 1; NULL = unknown (deleted or never)"
    ] = None
    oldest_unconsumed_at: Annotated[
        datetime | None, "store time of the message at consumer_offset; NULL = nothing waits, or unknown"
    ] = None


@dataclass(frozen=True, kw_only=True)
class LagCounts:
    """Lags in messages; over several queues the sums of what is known.

    Of a queue whose offset lies beyond its end, lags are below 0. Such a one adds nothing to a sum: `beyond_end` does.
    """

    __slots__ = ()
    lag: Annotated[int | None, "max_offset - consumer_offset, messages"] = None
    effective_lag: Annotated[
        int | None, "max_offset - max(consumer_offset, min_offset), messages that can still be read"
    ] = None
    inflight: Annotated[int | None, "pull_offset - consumer_offset, messages handed out and not yet committed"] = None
    available: Annotated[int | None, "max_offset - pull_offset, messages not yet handed out"] = None
    lost: Annotated[
        int | None,
        "max(0, min_offset - consumer_offset), messages deleted before they were consumed",
    ] = None
    beyond_end: Annotated[
        int | None,
        "max(0, consumer_offset - max_offset), messages that will be skipped when they are written: no part of the lag",
    ] = None


@dataclass(frozen=True, kw_only=True)
class LagTimes:
    """Lags in time; over several queues the greatest known."""

    __slots__ = ()
    lag_ms: Annotated[
        int | None,
        "age of the oldest message that can still be consumed, ms, when max_offset was read: told by the broker, else"
        " interpolated on the producer curve; 0 = nothing waits; NULL = unknown",
    ] = None
    inflight_ms: Annotated[int | None, "time over which the messages in flight were written, ms; NULL = unknown"] = None
    available_ms: Annotated[int | None, "age of the oldest message not yet handed out, ms; NULL = unknown"] = None
    lost_ms: Annotated[
        int | None, "time over which the lost messages were written, ms; 0 = none lost; NULL = unknown"
    ] = None


@dataclass(frozen=True, kw_only=True)
class Lags(LagCounts, LagTimes):
    """Both of them."""

    __slots__ = ()


@dataclass(frozen=True, kw_only=True)
class ClientSummary:
    """What is connected of a group."""

    __slots__ = ()
    online_client_count: Annotated[
        Int32 | None, "connected clients of the group; 0 = offline; NULL = could not be seen"
    ] = None
    message_model: Annotated[str | None, "CLUSTERING or BROADCASTING; NULL = no client online to tell"] = None
    consume_type: Annotated[
        str | None, "CONSUME_PASSIVELY (push), CONSUME_ACTIVELY (pull) or CONSUME_POP; NULL = unknown"
    ] = None
    client_versions: Annotated[tuple[str, ...] | None, "distinct `language version` of all connected clients"] = None


@dataclass(frozen=True, kw_only=True)
class RefusedGroup:
    """Masters that refuse the pulls of a group because of its settings, sorted; NULL = none, or not known."""

    __slots__ = ()
    disabled_broker_names: Annotated[tuple[str, ...] | None, "masters on which consumeEnable of the group is false"] = (
        None
    )
    uncreated_broker_names: Annotated[
        tuple[str, ...] | None,
        "masters with a topic or commits of the group that do not know it, and make none: autoCreateSubscriptionGroup"
        " is false",
    ] = None
    no_broadcast_broker_names: Annotated[
        tuple[str, ...] | None, "masters on which consumeBroadcastEnable of the group is false, while it broadcasts"
    ] = None
    forbidden_topics: Annotated[
        tuple[str, ...] | None,
        "`broker_name topic` of what masters forbid the group to read (forbiddenTable, 5.x)",
    ] = None
    missing_topics: Annotated[
        tuple[str, ...] | None,
        "`committed topic` or `uncommitted topic`: what its clients subscribe to and no master has (code 17), and"
        " whether one keeps commits of the group in it; NULL = none, or not all masters said what they have",
    ] = None
    enabling_options: Annotated[
        str | None,
        "what mqadmin updateSubGroup takes to let it consume, its other settings kept; NULL = none of these, and it"
        " does not consume in order (consumeMessageOrderly)",
    ] = None
    reset_settings: Annotated[
        str | None, "its settings, by name, for which that has no option and which it makes a default; NULL = none"
    ] = None


@dataclass(frozen=True, kw_only=True)
class UsualTraffic:
    """What `traffic_baselines` says of this hour of the week."""

    __slots__ = ()
    baseline_tps: Annotated[
        float | None, "traffic at this hour of the week in earlier weeks, per second; NULL = none was seen"
    ] = None
    baseline_spread_tps: Annotated[float | None, "its standard deviation over these weeks"] = None
    baseline_week_count: Annotated[Int32 | None, "weeks behind it"] = None
