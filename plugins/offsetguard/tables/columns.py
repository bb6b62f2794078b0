"""Columns that several tables share: one by one, and groups of them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from offsetguard.tables.table import Int32

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
