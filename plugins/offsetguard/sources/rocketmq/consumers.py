"""Who consumes: connected clients of a group (203) and what a client says of itself (307).

Times are aware UTC datetimes and None is "unknown". A running info is written by the *client*, which may be in any
language and version: of a queue, everything may be missing. Go writes `dropped` where Java writes `droped` and negative
times for never; C++ writes 64-bit numbers as texts and leaves empty sets out (`ProcessQueueInfo`, `SubscriptionData` of
rocketmq-client-go and rocketmq-client-cpp). Source of the forms: bodies of 4.9.8, 5.3.3 and 5.5.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from offsetguard.model.offsets import MessageQueue
from offsetguard.model.rocketmq import PULL
from offsetguard.sources.rocketmq import fastjson
from offsetguard.sources.rocketmq.json_fields import (
    as_object,
    by_message_queue,
    float_field,
    int_field,
    list_field,
    number_in,
    object_field,
    optional_bool_field,
    optional_int_field,
    optional_text_field,
    text_field,
    texts_field,
    time_in,
    timestamp_field,
)

_INT32_END = 2**31


@dataclass(frozen=True, slots=True)
class Connection:
    """One connected client of a group."""

    client_id: str
    client_address: str
    language: str
    version: int


@dataclass(frozen=True, slots=True)
class Subscription:
    """One topic that the group subscribes to. (Clients raise `subVersion` on every rebalance: it says nothing.)"""

    topic: str
    sub_string: str
    expression_type: str | None


@dataclass(frozen=True, slots=True)
class ConsumerConnections:
    """Answer of 203: who is connected for a group (an offline group is refused with CONSUMER_NOT_ONLINE)."""

    connections: tuple[Connection, ...]
    consume_type: str | None  # CONSUME_PASSIVELY, CONSUME_ACTIVELY, CONSUME_POP
    message_model: str | None  # CLUSTERING, BROADCASTING
    subscriptions: Mapping[str, Subscription]  # by topic; of the client with the highest subVersion


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
    last_lock_at: datetime | None
    last_pull_at: datetime | None
    last_consume_at: datetime | None


@dataclass(frozen=True, slots=True)
class PopProcessQueueInfo:
    """What a client that pops says of one queue (queue id -1: of all queues of the broker)."""

    wait_ack_count: int
    dropped: bool | None
    last_pop_at: datetime | None


@dataclass(frozen=True, slots=True)
class ConsumeStatus:
    """A client's own rates for one topic, over the last minute."""

    pull_tps: float
    consume_rt_ms: float
    consume_ok_tps: float
    consume_failed_tps: float


@dataclass(frozen=True, slots=True)
class ConsumerRunningInfo:
    """Answer of 307: what a client says of itself. Only Java clients say all of it."""

    settings: Mapping[str, str]  # the body's "properties": every field of the Java consumer, and PROP_... ones
    subscriptions: tuple[Subscription, ...]  # the client's own, other than in 203
    queues: Mapping[MessageQueue, ProcessQueueInfo]
    pop_queues: Mapping[MessageQueue, PopProcessQueueInfo] = field(default_factory=dict)  # 5.x
    statuses: Mapping[str, ConsumeStatus] = field(default_factory=dict)  # by topic
    jstack: str = ""  # what all threads do, where that was asked for (`stacks.py`); empty: of clients that cannot tell

    @property
    def orderly(self) -> bool | None:
        """Whether the listener is an orderly one."""
        return {"true": True, "false": False}.get(self.settings.get("PROP_CONSUMEORDERLY", "").lower())

    @property
    def lists_queues(self) -> bool:
        """Whether these are its queues: pull consumers of 4.x list none, whatever they hold.

        DefaultLitePullConsumerImpl#consumerRunningInfo (4.9.7; 5.3.3 lists them), DefaultMQPullConsumerImpl's none.
        """
        return bool(self.queues or self.pop_queues) or self.settings.get("PROP_CONSUME_TYPE") != PULL

    @property
    def client_version_name(self) -> str | None:
        """For example `V4_9_7`."""
        return self.settings.get("PROP_CLIENT_VERSION")

    @property
    def consumer_start_at(self) -> datetime | None:
        """When the consumer was started; UTC."""
        return time_in(self.settings.get("PROP_CONSUMER_START_TIMESTAMP", ""))

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

    def _int32(self, name: str) -> int | None:
        number = number_in(self.settings.get(name, ""))
        return number if number is not None and -_INT32_END <= number < _INT32_END else None


def consumer_connections(body: bytes) -> ConsumerConnections:
    """203 GET_CONSUMER_CONNECTION_LIST."""
    document = fastjson.decode_object(body)
    subscriptions = object_field(document, "subscriptionTable")
    return ConsumerConnections(
        connections=tuple(
            _connection(as_object(value, "connectionSet")) for value in list_field(document, "connectionSet")
        ),
        consume_type=optional_text_field(document, "consumeType"),
        message_model=optional_text_field(document, "messageModel"),
        subscriptions={topic: _subscription(topic, as_object(value, topic)) for topic, value in subscriptions.items()},
    )


def consumer_running_info(body: bytes) -> ConsumerRunningInfo:
    """307 GET_CONSUMER_RUNNING_INFO."""
    document = fastjson.decode_object(body)
    subscriptions = [as_object(value, "subscriptionSet") for value in list_field(document, "subscriptionSet")]
    statuses = object_field(document, "statusTable")
    return ConsumerRunningInfo(
        settings=texts_field(document, "properties"),
        subscriptions=tuple(_subscription(text_field(value, "topic"), value) for value in subscriptions),
        queues={queue: _process_queue(value) for queue, value in by_message_queue(document, "mqTable")},
        pop_queues={queue: _pop_process_queue(value) for queue, value in by_message_queue(document, "mqPopTable")},
        statuses={topic: _consume_status(as_object(value, topic)) for topic, value in statuses.items()},
        jstack=optional_text_field(document, "jstack") or "",
    )


def _connection(document: Mapping[str, Any]) -> Connection:
    return Connection(
        client_id=text_field(document, "clientId"),
        client_address=optional_text_field(document, "clientAddr") or "",
        language=optional_text_field(document, "language") or "OTHER",
        version=int_field(document, "version", default=0),
    )


def _subscription(topic: str, document: Mapping[str, Any]) -> Subscription:
    """Return a SubscriptionData object, as 203 and 307 have it."""
    return Subscription(
        topic=topic,
        sub_string=optional_text_field(document, "subString") or "",
        expression_type=optional_text_field(document, "expressionType"),
    )


def _process_queue(as_written: Mapping[str, Any]) -> ProcessQueueInfo:
    document = as_written
    if str in map(type, as_written.values()):  # as C++ writes them
        document = {name: _number(value) for name, value in as_written.items()}
    cached = optional_int_field(document, "cachedMsgCount")
    committed = optional_int_field(document, "commitOffset")
    return ProcessQueueInfo(
        commit_offset=committed if committed is not None and committed >= 0 else None,
        cached_message_count=cached,
        cached_message_mib=optional_int_field(document, "cachedMsgSizeInMiB"),
        cached_min_offset=optional_int_field(document, "cachedMsgMinOffset") if cached else None,
        cached_max_offset=optional_int_field(document, "cachedMsgMaxOffset") if cached else None,
        transaction_message_count=optional_int_field(document, "transactionMsgCount"),
        locked=optional_bool_field(document, "locked"),
        dropped=optional_bool_field(document, "dropped" if "dropped" in document else "droped"),  # Java's spelling
        last_lock_at=timestamp_field(document, "lastLockTimestamp"),
        last_pull_at=timestamp_field(document, "lastPullTimestamp"),
        last_consume_at=timestamp_field(document, "lastConsumeTimestamp"),
    )


def _pop_process_queue(document: Mapping[str, Any]) -> PopProcessQueueInfo:
    return PopProcessQueueInfo(
        wait_ack_count=int_field(document, "waitAckCount"),
        dropped=optional_bool_field(document, "droped"),
        last_pop_at=timestamp_field(document, "lastPopTimestamp"),
    )


def _consume_status(document: Mapping[str, Any]) -> ConsumeStatus:
    return ConsumeStatus(
        pull_tps=float_field(document, "pullTPS"),
        consume_rt_ms=float_field(document, "consumeRT"),
        consume_ok_tps=float_field(document, "consumeOKTPS"),
        consume_failed_tps=float_field(document, "consumeFailedTPS"),
    )


def _number(value: object) -> object:
    """Return the number that a text says; any other value as it is."""
    number = number_in(value) if isinstance(value, str) else None
    return value if number is None else number
