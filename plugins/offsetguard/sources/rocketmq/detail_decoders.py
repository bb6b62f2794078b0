"""Bytes of the answers to detail requests -> records of `detail_bodies.py`; raises MalformedBytes and nothing else.

Source of the forms: as for `body_decoders.py`. A running info (307) is written by the *client*, which may be in any
language and version: of a queue, everything may be missing. Go writes `dropped` where Java writes `droped` and negative
times for never; C++ writes 64-bit numbers as texts and leaves empty sets out (`ProcessQueueInfo`, `SubscriptionData` of
rocketmq-client-go and rocketmq-client-cpp).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from offsetguard.sources.rocketmq import detail_bodies, fastjson
from offsetguard.sources.rocketmq.body_decoders import by_message_queue, subscription, texts
from offsetguard.sources.rocketmq.json_fields import (
    as_object,
    float_field,
    int_field,
    list_field,
    object_field,
    optional_bool_field,
    optional_int_field,
    text_field,
    texts_field,
    timestamp_field,
)
from offsetguard.sources.rocketmq.plain_process_queues import PROCESS_QUEUES, plain_process_queues

_NUMBER = re.compile(r"-?[0-9]{1,19}")


def consumer_running_info(body: bytes) -> detail_bodies.ConsumerRunningInfo:
    """307 GET_CONSUMER_RUNNING_INFO."""
    queues, document = plain_process_queues(body) or (None, fastjson.decode_object(body))
    if queues is None:
        queues = {queue: _process_queue(value) for queue, value in by_message_queue(document, PROCESS_QUEUES)}
    subscriptions = [as_object(value, "subscriptionSet") for value in list_field(document, "subscriptionSet")]
    statuses = object_field(document, "statusTable")
    return detail_bodies.ConsumerRunningInfo(
        settings=texts_field(document, "properties"),
        subscriptions=tuple(
            subscription(text_field(value, "topic"), {**value, "subVersion": _number(value.get("subVersion"))})
            for value in subscriptions
        ),
        queues=queues,
        pop_queues={queue: _pop_process_queue(value) for queue, value in by_message_queue(document, "mqPopTable")},
        statuses={topic: _consume_status(as_object(value, topic)) for topic, value in statuses.items()},
        user_consumer_info=texts_field(document, "userConsumerInfo"),
    )


def broker_stats(body: bytes) -> detail_bodies.BrokerStats:
    """315 VIEW_BROKER_STATS_DATA."""
    document = fastjson.decode_object(body)
    return detail_bodies.BrokerStats(
        minute=_stats_snapshot(document, "statsMinute"),
        hour=_stats_snapshot(document, "statsHour"),
        day=_stats_snapshot(document, "statsDay"),
    )


def consumer_list(body: bytes) -> detail_bodies.ConsumerList:
    """38 GET_CONSUMER_LIST_BY_GROUP."""
    return detail_bodies.ConsumerList(tuple(texts(fastjson.decode_object(body), "consumerIdList")))


def topic_list(body: bytes) -> detail_bodies.TopicList:
    """206 GET_ALL_TOPIC_LIST_FROM_NAMESERVER and 305 GET_SYSTEM_TOPIC_LIST_FROM_BROKER."""
    return detail_bodies.TopicList(tuple(texts(fastjson.decode_object(body), "topicList")))


def group_list(body: bytes) -> detail_bodies.GroupList:
    """300 QUERY_TOPIC_CONSUME_BY_WHO."""
    return detail_bodies.GroupList(tuple(texts(fastjson.decode_object(body), "groupList")))


def _process_queue(as_written: Mapping[str, Any]) -> detail_bodies.ProcessQueueInfo:
    document = as_written
    if str in map(type, as_written.values()):  # as C++ writes them
        document = {name: _number(value) for name, value in as_written.items()}
    cached = optional_int_field(document, "cachedMsgCount")
    return detail_bodies.ProcessQueueInfo.as_told(
        cached,
        optional_int_field(document, "cachedMsgSizeInMiB"),
        optional_int_field(document, "cachedMsgMinOffset") if cached else None,
        optional_int_field(document, "cachedMsgMaxOffset") if cached else None,
        optional_int_field(document, "commitOffset"),
        optional_int_field(document, "transactionMsgCount"),
        optional_bool_field(document, "locked"),
        optional_bool_field(document, "dropped" if "dropped" in document else "droped"),  # Java's spelling
        optional_int_field(document, "tryUnlockTimes"),
        int_field(document, "lastLockTimestamp", default=0),
        int_field(document, "lastPullTimestamp", default=0),
        int_field(document, "lastConsumeTimestamp", default=0),
    )


def _pop_process_queue(document: Mapping[str, Any]) -> detail_bodies.PopProcessQueueInfo:
    return detail_bodies.PopProcessQueueInfo(
        wait_ack_count=int_field(document, "waitAckCount"),
        dropped=optional_bool_field(document, "droped"),
        last_pop_at=timestamp_field(document, "lastPopTimestamp"),
    )


def _consume_status(document: Mapping[str, Any]) -> detail_bodies.ConsumeStatus:
    return detail_bodies.ConsumeStatus(
        pull_rt_ms=float_field(document, "pullRT"),
        pull_tps=float_field(document, "pullTPS"),
        consume_rt_ms=float_field(document, "consumeRT"),
        consume_ok_tps=float_field(document, "consumeOKTPS"),
        consume_failed_tps=float_field(document, "consumeFailedTPS"),
        consume_failed_messages=int_field(document, "consumeFailedMsgs", default=0),
    )


def _number(value: object) -> object:
    """Return the number that a text says; any other value as it is."""
    return int(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value


def _stats_snapshot(document: Mapping[str, Any], name: str) -> detail_bodies.StatsSnapshot:
    window = object_field(document, name)
    return detail_bodies.StatsSnapshot(
        sum=int_field(window, "sum"), tps=float_field(window, "tps"), average=float_field(window, "avgpt")
    )
