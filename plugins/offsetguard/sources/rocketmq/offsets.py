"""Where queues and consumer groups stand: answers of 202, 208 and 303, and offsets in headers (14, 29, 30, 31, 32).

Times are aware UTC datetimes; a broker's 0 (or less) means "never" or "deleted" and is None here, never 1970.
Offsets are message numbers as the broker gave them: whether they can be right is for the invariants to say.
All committed offsets of a broker (43) are in `offset_table.py`.
Source of the forms: bodies of 4.9.8, 5.3.3 and 5.5.1, and `ConsumeStats`, `TopicStatsTable` of apache/rocketmq.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq import fastjson
from offsetguard.sources.rocketmq.json_fields import (
    Entries,
    MalformedBytes,
    as_int64,
    as_object,
    int_field,
    message_queue_key,
    message_queue_of,
    numbered_field,
    object_field,
    optional_int_field,
    timestamp_field,
    timestamp_ms_field,
    timestamp_of,
)
from offsetguard.sources.rocketmq.offset_table import INT32, INT64

NO_MESSAGE_DELAY_MS = 10**12
"""From here on a delayTime of 303 is "now minus no timestamp" (AdminBrokerProcessor subtracts -1), not an age:
31 years are more than RocketMQ exists."""


@dataclass(frozen=True, slots=True)
class ConsumeOffsets:
    """One queue as GET_CONSUME_STATS sees it. The broker writes 0 for "never committed" (see 43 for the truth)."""

    broker_offset: int
    consumer_offset: int
    pull_offset: int | None  # None: before 5.1
    last_timestamp: datetime | None  # store time of message consumer_offset - 1


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
    unreadable: Mapping[str, str] = field(default_factory=dict)  # queues that are left out, and why

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
class ConsumeTimeSpan:
    """One queue as QUERY_CONSUME_TIME_SPAN sees it."""

    min_timestamp: datetime | None  # store time of the oldest message
    delay_ms: int | None  # age of the message at the consumer offset; 0 = nothing waits; None = unknown


def consume_stats(body: bytes) -> Entries[MessageQueue, ConsumeOffsets]:
    """208 GET_CONSUME_STATS: the offsets of one group on one broker, over the read queues."""
    return Entries(object_field(fastjson.decode_object(body), "offsetTable"), _consume_offsets, message_queue_key)


def _consume_offsets(_: str, value: object) -> ConsumeOffsets:
    document = as_object(value, "offsetTable")
    return ConsumeOffsets(
        broker_offset=int_field(document, "brokerOffset"),
        consumer_offset=int_field(document, "consumerOffset"),
        pull_offset=optional_int_field(document, "pullOffset"),
        last_timestamp=timestamp_field(document, "lastTimestamp"),
    )


def topic_stats(body: bytes) -> TopicStats:
    """202 GET_TOPIC_STATS_INFO."""
    by_queue = Entries(object_field(fastjson.decode_object(body), "offsetTable"), _ends, message_queue_key)
    queues = sorted(by_queue)
    low, high, updated = zip(*map(by_queue.__getitem__, queues), strict=True) if queues else ((), (), ())
    return TopicStats(
        owners=tuple((topic, broker_name) for topic, broker_name, _ in queues),
        queue_ids=array(INT32, [queue_id for _, _, queue_id in queues]),
        min_offsets=array(INT64, low),
        max_offsets=array(INT64, high),
        last_update_ms=array(INT64, updated),
        unreadable=by_queue.unreadable,
    )


def _ends(_: str, value: object) -> tuple[int, int, int]:
    document = as_object(value, "offsetTable")
    return (
        int_field(document, "minOffset"),
        int_field(document, "maxOffset"),
        timestamp_ms_field(document, "lastUpdateTimestamp"),
    )


def consume_time_spans(body: bytes) -> Entries[MessageQueue, ConsumeTimeSpan]:
    """303 QUERY_CONSUME_TIME_SPAN: how old the first unconsumed message of each queue is."""
    spans = numbered_field(fastjson.decode_object(body), "consumeTimeSpanSet")
    return Entries(spans, _time_span, lambda name: message_queue_of(as_object(spans[name], name).get("messageQueue")))


def _time_span(name: str, value: object) -> ConsumeTimeSpan:
    span = as_object(value, name)
    delay_ms = int_field(span, "delayTime", default=0)
    return ConsumeTimeSpan(
        min_timestamp=timestamp_field(span, "minTimeStamp"),
        delay_ms=delay_ms if delay_ms < NO_MESSAGE_DELAY_MS else None,
    )


def offset_field(ext_fields: Mapping[str, str], name: str = "offset") -> int:
    """Return an offset of a response header (14, 30, 31, 11)."""
    text = ext_fields.get(name)
    try:
        return as_int64(int(text or ""), name)
    except ValueError as error:
        raise MalformedBytes(f"header: ext field {name}: expected an offset, found {text!r:.60}") from error


def store_time_field(ext_fields: Mapping[str, str], name: str = "timestamp") -> datetime | None:
    """Return the store time of a response header (32); None = no message."""
    milliseconds = offset_field(ext_fields, name)
    return timestamp_of(milliseconds, name) if milliseconds > 0 else None
