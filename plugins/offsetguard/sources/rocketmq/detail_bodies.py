"""What is asked about a few groups only, as typed records: running info of clients, rates, and lists of names.

As in `bodies.py`, times are aware UTC datetimes and None is "unknown"; `detail_decoders.py` makes them from bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Self

from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq.bodies import Subscription
from offsetguard.sources.rocketmq.json_fields import timestamp_of

_INT32_END = 2**31


@dataclass(frozen=True, slots=True)
class ProcessQueueInfo:
    """What a client says of one queue that it holds."""

    commit_offset: int | None  # None: nothing to commit yet (the client says -1)
    cached_message_count: int | None
    cached_message_mib: int | None
    cached_min_offset: int | None  # None: nothing is cached
    cached_max_offset: int | None
    transaction_message_count: int | None  # orderly: in the listener's hands
    locked: bool | None  # means something for orderly clients only: others say true as well
    dropped: bool | None
    try_unlock_times: int | None
    last_lock_at: datetime | None
    last_pull_at: datetime | None
    last_consume_at: datetime | None

    @classmethod
    def as_told(  # noqa: PLR0917 in the order of the columns that a quick reader has
        cls,
        cached: int | None,
        cached_mib: int | None,
        cached_min_offset: int | None,
        cached_max_offset: int | None,
        commit_offset: int | None,
        in_transaction: int | None,
        locked: bool | None,
        dropped: bool | None,
        try_unlock_times: int | None,
        last_lock_ms: int,
        last_pull_ms: int,
        last_consume_ms: int,
    ) -> Self:
        """Take what a client wrote: -1 where it has nothing to commit, offsets 0 of an empty cache, 0 ms for never."""
        return cls(
            commit_offset if commit_offset is not None and commit_offset >= 0 else None,
            cached,
            cached_mib,
            cached_min_offset if cached else None,
            cached_max_offset if cached else None,
            in_transaction,
            locked,
            dropped,
            try_unlock_times,
            timestamp_of(last_lock_ms, "lastLockTimestamp") if last_lock_ms > 0 else None,
            timestamp_of(last_pull_ms, "lastPullTimestamp") if last_pull_ms > 0 else None,
            timestamp_of(last_consume_ms, "lastConsumeTimestamp") if last_consume_ms > 0 else None,
        )


@dataclass(frozen=True, slots=True)
class PopProcessQueueInfo:
    """What a client that pops says of one queue (queue id -1: of all queues of the broker)."""

    wait_ack_count: int
    dropped: bool | None
    last_pop_at: datetime | None


@dataclass(frozen=True, slots=True)
class ConsumeStatus:
    """A client's own rates for one topic, over the last minute (failed messages: over the last hour)."""

    pull_rt_ms: float
    pull_tps: float
    consume_rt_ms: float
    consume_ok_tps: float
    consume_failed_tps: float
    consume_failed_messages: int


@dataclass(frozen=True, slots=True)
class ConsumerRunningInfo:
    """Answer of 307: what a client says of itself. Only Java clients say all of it."""

    settings: Mapping[str, str]  # the body's "properties": every field of the Java consumer, and PROP_... ones
    subscriptions: tuple[Subscription, ...]  # the client's own, other than in 203
    queues: Mapping[MessageQueue, ProcessQueueInfo]
    pop_queues: Mapping[MessageQueue, PopProcessQueueInfo] = field(default_factory=dict)  # 5.x
    statuses: Mapping[str, ConsumeStatus] = field(default_factory=dict)  # by topic
    user_consumer_info: Mapping[str, str] = field(default_factory=dict)  # 5.x: what the application adds

    @property
    def orderly(self) -> bool | None:
        """Whether the listener is an orderly one."""
        return {"true": True, "false": False}.get(self.settings.get("PROP_CONSUMEORDERLY", "").lower())

    @property
    def client_version_name(self) -> str | None:
        """For example `V4_9_7`."""
        return self.settings.get("PROP_CLIENT_VERSION")

    @property
    def consumer_start_at(self) -> datetime | None:
        """When the consumer was started; UTC."""
        milliseconds = self._number("PROP_CONSUMER_START_TIMESTAMP")
        try:
            return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds and milliseconds > 0 else None
        except (ValueError, OverflowError, OSError):
            return None

    @property
    def thread_count(self) -> int | None:
        """Consume threads."""
        return self._int32("PROP_THREADPOOL_CORE_SIZE")

    @property
    def max_reconsume_times(self) -> int | None:
        """Retry limit; -1 = the default: 16, or endless for orderly listeners."""
        return self._int32("maxReconsumeTimes")

    @property
    def pull_threshold_for_queue(self) -> int | None:
        """Cached messages per queue at which the client stops pulling."""
        return self._int32("pullThresholdForQueue")

    @property
    def pull_threshold_size_for_queue_mib(self) -> int | None:
        """The same in MiB."""
        return self._int32("pullThresholdSizeForQueue")

    def _number(self, name: str) -> int | None:
        text = self.settings.get(name, "")
        return int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 20 else None

    def _int32(self, name: str) -> int | None:
        number = self._number(name)
        return number if number is not None and -_INT32_END <= number < _INT32_END else None


@dataclass(frozen=True, slots=True)
class StatsSnapshot:
    """One window of a rate. Latencies count milliseconds: `sum` and `tps` are ms, `average` is ms per request."""

    sum: int
    tps: float
    average: float  # amount per time that something was counted


@dataclass(frozen=True, slots=True)
class BrokerStats:
    """Answer of 315: one rate as one replica counted it. `tps` of the minute is the figure to use."""

    minute: StatsSnapshot
    hour: StatsSnapshot
    day: StatsSnapshot


@dataclass(frozen=True, slots=True)
class ConsumerList:
    """Answer of 38: the client ids of a group that the broker would give to its members."""

    client_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicList:
    """Answer of 206 (every topic that the name server knows) and of 305 (a broker's own topics)."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupList:
    """Answer of 300: groups that are online for a topic or have offsets of it. 5.3.3 adds the topic's own name."""

    groups: tuple[str, ...]
