"""What brokers and name servers answer, as typed records; `body_decoders.py` makes them from bytes.

Times are aware UTC datetimes; a broker's 0 (or less) means "never" or "deleted" and is None here, never 1970.
Offsets are message numbers as the broker gave them: whether they can be right is for the invariants to say.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from offsetguard.model.offsets import MASTER_ID, MessageQueue
from offsetguard.sources.rocketmq.json_fields import timestamp_of
from offsetguard.sources.rocketmq.offset_table import OffsetTable

_INT64_END = 2**63
_CAPACITY = re.compile(r"Total : (?P<number>[0-9]{1,6}(?:\.[0-9]{1,3})?) (?P<unit>B|[KMGTPE]iB)", re.ASCII)
_RAN = re.compile(r"([0-9]{1,6}) days, ([0-9]{1,2}) hours, ([0-9]{1,2}) minutes, ([0-9]{1,2}) seconds", re.ASCII)
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


@dataclass(frozen=True, slots=True)
class BrokerData:
    """One broker name with the addresses of its replicas that are registered now."""

    broker_name: str
    cluster: str
    addresses: Mapping[int, str]  # broker id (0 = master) -> "ip:port"

    @property
    def master_address(self) -> str | None:
        """`ip:port` of the master; None while it is down."""
        return self.addresses.get(MASTER_ID)


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """Answer of 106: every broker that is registered at the name server."""

    brokers: tuple[BrokerData, ...]
    broker_names_by_cluster: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class QueueData:
    """The queues of one topic on one broker, from its route."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int  # 2 = write, 4 = read, 6 = both


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """Answer of 105: where a topic lives."""

    brokers: tuple[BrokerData, ...]
    queues: tuple[QueueData, ...]
    order_topic_conf: str | None = None  # "broker-a:8;broker-b:8" of a topic that is ordered over all brokers
    static: bool = False  # 5.x: the queues are logical ones, mapped to brokers


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """Settings of one topic on one broker."""

    topic: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    order: bool
    topic_sys_flag: int
    topic_filter_type: str | None
    attributes: Mapping[str, str] = field(default_factory=dict)  # 5.x, e.g. message.type


@dataclass(frozen=True, slots=True)
class TopicConfigTable:
    """Answer of 21: every topic of one broker."""

    topics: Mapping[str, TopicConfig]


@dataclass(frozen=True, slots=True)
class SubscriptionGroupConfig:
    """Settings of one consumer group on one broker."""

    group_name: str
    consume_enable: bool
    consume_from_min_enable: bool
    consume_broadcast_enable: bool
    consume_message_orderly: bool | None  # None: before 5.x
    retry_queue_nums: int
    retry_max_times: int
    broker_id: int
    which_broker_when_consume_slowly: int
    notify_consumer_ids_changed_enable: bool
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SubscriptionGroupTable:
    """Answer of 201: every consumer group of one broker."""

    groups: Mapping[str, SubscriptionGroupConfig]


@dataclass(frozen=True, slots=True)
class AllConsumerOffsets:
    """Answer of 43: every committed offset of one broker; a missing entry = never committed.

    Each table reads as (topic, group) -> queue id -> offset and gives columns. They are kept apart:
    `broadcast_offsets` is what broadcasting clients *pulled* (5.1+, no commit), `pull_offsets` exists only in 5.5.0.
    LMQ offsets (lite topics) are not read.
    """

    offsets: OffsetTable
    broadcast_offsets: OffsetTable
    pull_offsets: OffsetTable
    unreadable_keys: tuple[str, ...] = ()  # keys that are not `topic@group`, kept so that nobody loses them silently


@dataclass(frozen=True, slots=True)
class ConsumeOffsets:
    """One queue as GET_CONSUME_STATS sees it. The broker writes 0 for "never committed" (see 43 for the truth)."""

    broker_offset: int
    consumer_offset: int
    pull_offset: int | None  # None: before 5.1
    last_timestamp: datetime | None  # store time of message consumer_offset - 1


@dataclass(frozen=True, slots=True)
class ConsumeStats:
    """Answer of 208: the offsets of one group on one broker, over the read queues."""

    queues: Mapping[MessageQueue, ConsumeOffsets]
    consume_tps: float


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """One queue as GET_TOPIC_STATS_INFO sees it."""

    min_offset: int
    max_offset: int
    last_update_timestamp: datetime | None  # store time of the newest message


@dataclass(frozen=True, slots=True)
class TopicStats:
    """Answer of 202: the queues of one topic on one broker, ascending, as columns; `queues` are the same rows."""

    owners: tuple[tuple[str, str], ...]  # (topic, broker name)
    queue_ids: array[int]  # int32
    min_offsets: array[int]  # int64
    max_offsets: array[int]  # int64
    last_update_ms: array[int]  # int64; store time of the newest message, 0 or less = unknown

    @property
    def queues(self) -> dict[MessageQueue, TopicOffsets]:
        """Return one record for each queue."""
        rows = zip(self.owners, self.queue_ids, self.min_offsets, self.max_offsets, self.last_update_ms, strict=True)
        return {
            MessageQueue(topic, broker_name, queue_id): TopicOffsets(
                low, high, timestamp_of(updated_ms, "lastUpdateTimestamp") if updated_ms > 0 else None
            )
            for (topic, broker_name), queue_id, low, high, updated_ms in rows
        }


@dataclass(frozen=True, slots=True)
class Connection:
    """One connected client of a group."""

    client_id: str
    client_address: str
    language: str
    version: int


@dataclass(frozen=True, slots=True)
class Subscription:
    """One topic that the group subscribes to. Clients raise `sub_version` on every rebalance: never compare it."""

    topic: str
    sub_string: str
    expression_type: str | None
    tags: frozenset[str]
    sub_version: int


@dataclass(frozen=True, slots=True)
class ConsumerConnections:
    """Answer of 203: who is connected for a group (an offline group is refused with CONSUMER_NOT_ONLINE)."""

    connections: tuple[Connection, ...]
    consume_type: str | None  # CONSUME_PASSIVELY, CONSUME_ACTIVELY, CONSUME_POP
    message_model: str | None  # CLUSTERING, BROADCASTING
    consume_from_where: str | None
    subscriptions: Mapping[str, Subscription]  # by topic; of the client with the highest sub_version


@dataclass(frozen=True, slots=True)
class ConsumeTimeSpan:
    """One queue as QUERY_CONSUME_TIME_SPAN sees it."""

    consume_timestamp: datetime | None  # store time of the last consumed message (of the oldest one if none was)
    min_timestamp: datetime | None
    max_timestamp: datetime | None
    delay_ms: int | None  # age of the message at the consumer offset; 0 = nothing waits; None = unknown


@dataclass(frozen=True, slots=True)
class ConsumeTimeSpans:
    """Answer of 303: how old the first unconsumed message of each queue is."""

    queues: Mapping[MessageQueue, ConsumeTimeSpan]


@dataclass(frozen=True, slots=True)
class BrokerRuntimeInfo:
    """Answer of 28: the broker's own figures, all of them texts; the properties give some of them their types."""

    table: Mapping[str, str]

    @property
    def broker_version_desc(self) -> str | None:
        """For example `V4_9_8`."""
        return self.table.get("brokerVersionDesc")

    @property
    def boot_at(self) -> datetime | None:
        """When the broker was started; UTC."""
        return self.time("bootTimestamp")

    @property
    def clock_at(self) -> datetime | None:
        """What its own clock showed at the answer, cut to whole seconds: started at, plus the time it has run."""
        ran, started_at = _RAN.search(self.table.get("runtime", "")), self.boot_at
        if ran is None or started_at is None:
            return None
        days, hours, minutes, seconds = (int(number) for number in ran.groups())
        try:
            return started_at + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        except OverflowError:
            return None

    @property
    def is_active(self) -> bool | None:
        """False for a 5.x replica that serves no writes; None before 5.x."""
        return {"true": True, "false": False}.get(self.table.get("brokerActive", ""))

    @property
    def commit_log_disk_ratio(self) -> float | None:
        """Used share of the commit log's disk, 0..1; None = unknown (the broker says -1)."""
        ratio = self.number("commitLogDiskRatio")
        return ratio if ratio is not None and ratio >= 0 else None

    @property
    def commit_log_disk_bytes(self) -> int | None:
        """Size of the commit log's disk, of `Total : 252.0 GiB, Free : 67.2 GiB.`; None = not told so."""
        found = _CAPACITY.search(self.table.get("commitLogDirCapacity", ""))
        return None if found is None else int(float(found["number"]) * 1024 ** _UNITS.index(found["unit"]))

    @property
    def commit_log_min_offset(self) -> int | None:
        """Oldest byte position that the commit log still holds."""
        return self.integer("commitLogMinOffset")

    @property
    def commit_log_max_offset(self) -> int | None:
        """Next byte position to be written."""
        return self.integer("commitLogMaxOffset")

    def number(self, key: str) -> float | None:
        """Return a figure; None where it is absent or no number (brokers write "null", "" and "NaN")."""
        return _finite(self.table.get(key, ""))

    def integer(self, key: str) -> int | None:
        """Return a 64-bit number; None where it is absent or no such number."""
        text = self.table.get(key, "")
        if len(text) > len("-9223372036854775808") or not text.removeprefix("-").isdecimal():
            return None
        return int(text) if -_INT64_END <= int(text) < _INT64_END else None

    def time(self, key: str) -> datetime | None:
        """Return a time given in ms, UTC; None where it is absent, 0, negative (unknown) or beyond the year 9999."""
        milliseconds = self.integer(key)
        try:
            return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds and milliseconds > 0 else None
        except (ValueError, OverflowError, OSError):
            return None

    def tps(self, key: str) -> tuple[float, ...]:
        """Return the rates of `putTps` and the like over 10 s, 60 s and 600 s; windows not yet filled are missing."""
        rates = [_finite(rate) for rate in self.table.get(key, "").split()[:3]]
        return tuple(rate for rate in rates if rate is not None) if None not in rates else ()

    def minute_tps(self, key: str) -> float | None:
        """Return the rate over 60 s; None in the replica's first minute."""
        rates = self.tps(key)
        return rates[1] if len(rates) > 1 else None


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
