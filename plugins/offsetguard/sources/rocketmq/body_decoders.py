"""Bytes of response bodies -> records of `bodies.py`; every function raises MalformedBytes and nothing else.

Source of the forms: bodies of live brokers 4.9.8, 5.3.3 and 5.5.1 (small ones in tests/unit/rocketmq/bodies) and the
classes `org.apache.rocketmq.common.protocol.body` / `remoting.protocol.body` that RemotingSerializable writes.
Fields that a version does not have are None or their Java default; unknown fields are ignored.
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from offsetguard.model.offsets import MASTER_ID, MessageQueue
from offsetguard.sources.rocketmq import bodies, fastjson
from offsetguard.sources.rocketmq.json_fields import (
    MalformedBytes,
    as_int64,
    as_object,
    bool_field,
    float_field,
    int_field,
    int_key,
    list_field,
    message_queue_key,
    message_queue_of,
    object_field,
    optional_int_field,
    optional_text_field,
    text_field,
    texts_field,
    timestamp_field,
    timestamp_ms_field,
    timestamp_of,
)
from offsetguard.sources.rocketmq.offset_table import INT32, INT64, KeyedOffsets, by_topic_and_group
from offsetguard.sources.rocketmq.plain_connections import plain_consumer_connections
from offsetguard.sources.rocketmq.plain_form import plain_consume_stats, plain_offset_tables, plain_topic_stats

OFFSET_TABLES = ("offsetTable", "pullOffsetTable")
NO_MESSAGE_DELAY_MS = 10**12
"""From here on a delayTime of 303 is "now minus no timestamp" (AdminBrokerProcessor subtracts -1), not an age:
31 years are more than RocketMQ exists."""


def cluster_info(body: bytes) -> bodies.ClusterInfo:
    """106 GET_BROKER_CLUSTER_INFO."""
    document = fastjson.decode_object(body)
    brokers = tuple(_broker_data(value) for value in object_field(document, "brokerAddrTable").values())
    clusters = object_field(document, "clusterAddrTable")
    return bodies.ClusterInfo(brokers, {name: tuple(texts(clusters, name)) for name in clusters})


def topic_route(body: bytes) -> bodies.TopicRoute:
    """105 GET_ROUTEINFO_BY_TOPIC."""
    document = fastjson.decode_object(body)
    return bodies.TopicRoute(
        tuple(_broker_data(value) for value in list_field(document, "brokerDatas")),
        tuple(_queue_data(as_object(value, "queueDatas")) for value in list_field(document, "queueDatas")),
        order_topic_conf=optional_text_field(document, "orderTopicConf") or None,
        static=bool(document.get("topicQueueMappingByBroker")),
    )


def topic_config_table(body: bytes) -> bodies.TopicConfigTable:
    """21 GET_ALL_TOPIC_CONFIG."""
    table = object_field(fastjson.decode_object(body), "topicConfigTable")
    return bodies.TopicConfigTable(
        {topic: _topic_config(topic, as_object(value, topic)) for topic, value in table.items()}
    )


def subscription_group_table(body: bytes) -> bodies.SubscriptionGroupTable:
    """201 GET_ALL_SUBSCRIPTIONGROUP_CONFIG."""
    table = object_field(fastjson.decode_object(body), "subscriptionGroupTable")
    return bodies.SubscriptionGroupTable(
        {name: _group_config(name, as_object(value, name)) for name, value in table.items()}
    )


def all_consumer_offsets(body: bytes) -> bodies.AllConsumerOffsets:
    """43 GET_ALL_CONSUMER_OFFSET. Keys are split at the first `@`; `topic@group@broadcast` has a table of its own."""
    tables = plain_offset_tables(body, OFFSET_TABLES)
    if tables is None:
        document = fastjson.decode_object(body)
        tables = {name: _keyed_offsets(document, name) for name in OFFSET_TABLES}
    committed, broadcast, unreadable = by_topic_and_group(tables["offsetTable"])
    pulled, _, unreadable_pulled = by_topic_and_group(tables["pullOffsetTable"])
    return bodies.AllConsumerOffsets(committed, broadcast, pulled, unreadable + unreadable_pulled)


def consume_stats(body: bytes) -> bodies.ConsumeStats:
    """208 GET_CONSUME_STATS."""
    return plain_consume_stats(body) or _consume_stats(fastjson.decode_object(body))


def topic_stats(body: bytes) -> bodies.TopicStats:
    """202 GET_TOPIC_STATS_INFO."""
    return plain_topic_stats(body) or _topic_stats(fastjson.decode_object(body))


def consumer_connections(body: bytes) -> bodies.ConsumerConnections:
    """203 GET_CONSUMER_CONNECTION_LIST."""
    return plain_consumer_connections(body) or _consumer_connections(fastjson.decode_object(body))


def broker_runtime_info(body: bytes) -> bodies.BrokerRuntimeInfo:
    """28 GET_BROKER_RUNTIME_INFO."""
    return bodies.BrokerRuntimeInfo(texts_field(fastjson.decode_object(body), "table"))


def broker_config(body: bytes) -> dict[str, str]:
    """26 GET_BROKER_CONFIG: lines `key=value` as MixAll.properties2String writes them, without any escapes."""
    lines = (line for line in fastjson.decode_text(body).split("\n") if "=" in line)
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


def consume_time_spans(body: bytes) -> bodies.ConsumeTimeSpans:
    """303 QUERY_CONSUME_TIME_SPAN."""
    queues: dict[MessageQueue, bodies.ConsumeTimeSpan] = {}
    for value in list_field(fastjson.decode_object(body), "consumeTimeSpanSet"):
        span = as_object(value, "consumeTimeSpanSet")
        delay_ms = int_field(span, "delayTime", default=0)
        queues[message_queue_of(span.get("messageQueue"))] = bodies.ConsumeTimeSpan(
            consume_timestamp=timestamp_field(span, "consumeTimeStamp"),
            min_timestamp=timestamp_field(span, "minTimeStamp"),
            max_timestamp=timestamp_field(span, "maxTimeStamp"),
            delay_ms=delay_ms if delay_ms < NO_MESSAGE_DELAY_MS else None,
        )
    return bodies.ConsumeTimeSpans(queues)


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


def _broker_data(value: object) -> bodies.BrokerData:
    document = as_object(value, "brokerDatas")
    addresses = object_field(document, "brokerAddrs")
    return bodies.BrokerData(
        broker_name=text_field(document, "brokerName"),
        cluster=text_field(document, "cluster"),
        addresses={int_key(broker_id, "brokerAddrs"): text_field(addresses, broker_id) for broker_id in addresses},
    )


def _queue_data(document: Mapping[str, Any]) -> bodies.QueueData:
    return bodies.QueueData(
        broker_name=text_field(document, "brokerName"),
        read_queue_nums=int_field(document, "readQueueNums"),
        write_queue_nums=int_field(document, "writeQueueNums"),
        perm=int_field(document, "perm"),
    )


def _topic_config(topic: str, document: Mapping[str, Any]) -> bodies.TopicConfig:
    return bodies.TopicConfig(
        topic=topic,
        read_queue_nums=int_field(document, "readQueueNums"),
        write_queue_nums=int_field(document, "writeQueueNums"),
        perm=int_field(document, "perm"),
        order=bool_field(document, "order", default=False),
        topic_sys_flag=int_field(document, "topicSysFlag", default=0),
        topic_filter_type=optional_text_field(document, "topicFilterType"),
        attributes=texts_field(document, "attributes"),
    )


def _group_config(name: str, document: Mapping[str, Any]) -> bodies.SubscriptionGroupConfig:
    orderly = "consumeMessageOrderly" in document
    return bodies.SubscriptionGroupConfig(
        group_name=name,
        consume_enable=bool_field(document, "consumeEnable", default=True),
        consume_from_min_enable=bool_field(document, "consumeFromMinEnable", default=True),
        consume_broadcast_enable=bool_field(document, "consumeBroadcastEnable", default=True),
        consume_message_orderly=bool_field(document, "consumeMessageOrderly", default=False) if orderly else None,
        retry_queue_nums=int_field(document, "retryQueueNums", default=1),
        retry_max_times=int_field(document, "retryMaxTimes", default=16),
        broker_id=int_field(document, "brokerId", default=MASTER_ID),
        which_broker_when_consume_slowly=int_field(document, "whichBrokerWhenConsumeSlowly", default=1),
        notify_consumer_ids_changed_enable=bool_field(document, "notifyConsumerIdsChangedEnable", default=True),
        attributes=texts_field(document, "attributes"),
    )


def _consumer_connections(document: Mapping[str, Any]) -> bodies.ConsumerConnections:
    subscriptions = object_field(document, "subscriptionTable")
    return bodies.ConsumerConnections(
        connections=tuple(
            _connection(as_object(value, "connectionSet")) for value in list_field(document, "connectionSet")
        ),
        consume_type=optional_text_field(document, "consumeType"),
        message_model=optional_text_field(document, "messageModel"),
        consume_from_where=optional_text_field(document, "consumeFromWhere"),
        subscriptions={topic: subscription(topic, as_object(value, topic)) for topic, value in subscriptions.items()},
    )


def _connection(document: Mapping[str, Any]) -> bodies.Connection:
    return bodies.Connection(
        client_id=text_field(document, "clientId"),
        client_address=optional_text_field(document, "clientAddr") or "",
        language=optional_text_field(document, "language") or "OTHER",
        version=int_field(document, "version", default=0),
    )


def subscription(topic: str, document: Mapping[str, Any]) -> bodies.Subscription:
    """Return a SubscriptionData object, as 203 and 307 have it."""
    return bodies.Subscription(
        topic=topic,
        sub_string=optional_text_field(document, "subString") or "",
        expression_type=optional_text_field(document, "expressionType"),
        tags=frozenset(texts(document, "tagsSet")),
        sub_version=int_field(document, "subVersion", default=0),
    )


def by_message_queue(document: Mapping[str, Any], name: str) -> Iterator[tuple[MessageQueue, dict[str, Any]]]:
    """Yield the entries of a field that maps message queues to objects."""
    for key, value in object_field(document, name).items():
        yield message_queue_key(key), as_object(value, name)


def _consume_stats(document: Mapping[str, Any]) -> bodies.ConsumeStats:
    queues = {
        queue: bodies.ConsumeOffsets(
            broker_offset=int_field(value, "brokerOffset"),
            consumer_offset=int_field(value, "consumerOffset"),
            pull_offset=optional_int_field(value, "pullOffset"),
            last_timestamp=timestamp_field(value, "lastTimestamp"),
        )
        for queue, value in by_message_queue(document, "offsetTable")
    }
    return bodies.ConsumeStats(queues, float_field(document, "consumeTps"))


def _topic_stats(document: Mapping[str, Any]) -> bodies.TopicStats:
    by_queue = dict(sorted(by_message_queue(document, "offsetTable"), key=operator.itemgetter(0)))
    updated = [timestamp_ms_field(value, "lastUpdateTimestamp") for value in by_queue.values()]
    return bodies.TopicStats(
        owners=tuple((queue.topic, queue.broker_name) for queue in by_queue),
        queue_ids=array(INT32, (queue.queue_id for queue in by_queue)),
        min_offsets=array(INT64, (int_field(value, "minOffset") for value in by_queue.values())),
        max_offsets=array(INT64, (int_field(value, "maxOffset") for value in by_queue.values())),
        last_update_ms=array(INT64, updated),
    )


def _keyed_offsets(document: Mapping[str, Any], name: str) -> KeyedOffsets:
    by_key = {key: _offsets_by_queue_id(queues, key) for key, queues in object_field(document, name).items()}
    table = KeyedOffsets(list(by_key), array(INT32, [0]), array(INT32), array(INT64))
    for by_queue_id in by_key.values():
        queue_ids = sorted(by_queue_id)
        table.queue_ids.extend(queue_ids)
        table.offsets.extend(map(by_queue_id.__getitem__, queue_ids))
        table.starts.append(len(table.offsets))
    return table


def _offsets_by_queue_id(queues: object, name: str) -> dict[int, int]:
    by_queue_id = {int_key(queue_id, "queue id"): offset for queue_id, offset in as_object(queues, name).items()}
    for offset in by_queue_id.values():
        as_int64(offset, name)
    return by_queue_id


def texts(document: Mapping[str, Any], name: str) -> list[str]:
    """Return a field that is a list of texts; [] when it is missing."""
    values = list_field(document, name)
    if all(isinstance(value, str) for value in values):
        return values
    raise MalformedBytes(f"body: {name}: expected a list of texts")
