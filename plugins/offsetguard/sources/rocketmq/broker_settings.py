"""What is set on a broker: its topics (21, 305), consumer groups (201) and its own settings (26).

Source of the forms: bodies of 4.9.8, 5.3.3 and 5.5.1, and `TopicConfig`, `SubscriptionGroupConfig` of apache/rocketmq.
Fields that a version does not have are None or their Java default; unknown fields are ignored.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from offsetguard.model.offsets import MASTER_ID
from offsetguard.sources.rocketmq import fastjson
from offsetguard.sources.rocketmq.json_fields import (
    Entries,
    MalformedBytes,
    as_int64,
    as_object,
    as_text,
    bool_field,
    int_field,
    numbered_field,
    object_field,
    optional_bool_field,
    texts_field,
)


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """Settings of one topic on one broker."""

    topic: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int
    order: bool
    attributes: Mapping[str, str] = field(default_factory=dict)  # 5.x, e.g. message.type


@dataclass(frozen=True, slots=True)
class SubscriptionGroupConfig:
    """Settings of one consumer group on one broker."""

    group_name: str
    consume_enable: bool | None = None
    retry_max_times: int | None = None
    broker_id: int | None = None
    which_broker_when_consume_slowly: int | None = None
    consume_broadcast_enable: bool | None = None
    consume_from_min_enable: bool | None = None
    consume_message_orderly: bool | None = None  # 5.x: gRPC clients take one message of a queue after the other
    notify_consumer_ids_changed_enable: bool | None = None
    retry_queue_nums: int | None = None
    retry_policy: str | None = None  # 5.x: JSON of groupRetryPolicy, where it is not the default
    others_set: tuple[str, ...] = ()  # 5.x: settings besides these that are not what they are by default
    forbidden_topics: frozenset[str] = frozenset()  # 5.x: that the group may not read (forbiddenTable)


_FORBIDS_READING = 1 << 2
"""PermName.INDEX_PERM_READ; forbiddenTable has a number of bits by group and topic (SubscriptionGroupManager 5.5.0)."""
_LONGEST_POLICY = 1_000  # characters
_OTHER_DEFAULTS = {"consumeTimeoutMinute": 15, "groupSysFlag": 0, "subscriptionDataSet": None}


def topic_config_table(body: bytes) -> Entries[str, TopicConfig]:
    """21 GET_ALL_TOPIC_CONFIG: every topic of one broker."""
    return Entries(object_field(fastjson.decode_object(body), "topicConfigTable"), _topic_config, str)


def subscription_group_table(body: bytes) -> Entries[str, SubscriptionGroupConfig]:
    """201 GET_ALL_SUBSCRIPTIONGROUP_CONFIG: every consumer group of one broker.

    One whose settings cannot be read is there all the same, with nothing known of them: its members can be asked for.
    """
    document = fastjson.decode_object(body)
    found = Entries(object_field(document, "subscriptionGroupTable"), _group_config, str)
    for name in found.unreadable:
        found[name] = SubscriptionGroupConfig(name)
    forbidden = Entries(object_field(document, "forbiddenTable"), _forbidden_topics, str)
    for name in forbidden.keys() & found.keys():
        found[name] = replace(found[name], forbidden_topics=forbidden[name])
    found.unreadable |= {f"forbiddenTable of {name}": why for name, why in forbidden.unreadable.items()}
    return found


def topic_list(body: bytes) -> Entries[str, str]:
    """305 GET_SYSTEM_TOPIC_LIST_FROM_BROKER: the topics that a broker takes for RocketMQ's own."""
    listed = numbered_field(fastjson.decode_object(body), "topicList")
    return Entries(listed, lambda name, topic: as_text(topic, name), lambda name: as_text(listed[name], name))


def broker_config(body: bytes) -> dict[str, str]:
    """26 GET_BROKER_CONFIG: lines `key=value` as MixAll.properties2String writes them, without any escapes."""
    lines = (line for line in fastjson.decode_text(body).split("\n") if "=" in line)
    return {key: value for key, _, value in (line.partition("=") for line in lines)}


def _topic_config(topic: str, value: object) -> TopicConfig:
    document = as_object(value, topic)
    return TopicConfig(
        topic=topic,
        read_queue_nums=int_field(document, "readQueueNums"),
        write_queue_nums=int_field(document, "writeQueueNums"),
        perm=int_field(document, "perm"),
        order=bool_field(document, "order", default=False),
        attributes=texts_field(document, "attributes"),
    )


def _group_config(name: str, value: object) -> SubscriptionGroupConfig:
    document = as_object(value, name)
    others = [other for other, usual in _OTHER_DEFAULTS.items() if document.get(other, usual) not in (usual, None, [])]
    policy = _retry_policy(document.get("groupRetryPolicy"))
    if policy is not None and len(policy) > _LONGEST_POLICY:
        policy = None
        others.append("groupRetryPolicy")
    return SubscriptionGroupConfig(
        group_name=name,
        consume_enable=bool_field(document, "consumeEnable", default=True),
        retry_max_times=int_field(document, "retryMaxTimes", default=16),
        broker_id=int_field(document, "brokerId", default=MASTER_ID),
        which_broker_when_consume_slowly=int_field(document, "whichBrokerWhenConsumeSlowly", default=1),
        consume_broadcast_enable=bool_field(document, "consumeBroadcastEnable", default=True),
        consume_from_min_enable=bool_field(document, "consumeFromMinEnable", default=True),
        consume_message_orderly=optional_bool_field(document, "consumeMessageOrderly"),
        notify_consumer_ids_changed_enable=bool_field(document, "notifyConsumerIdsChangedEnable", default=True),
        retry_queue_nums=int_field(document, "retryQueueNums", default=1),
        retry_policy=policy,
        others_set=tuple(others),
    )


def _retry_policy(value: object) -> str | None:
    """Return a policy as JSON; None: it is the default, which names no times."""
    if value in (None, {}, {"type": "CUSTOMIZED"}):
        return None
    try:
        return json.dumps(value, separators=(",", ":"))
    except ValueError as error:  # a number of thousands of digits
        raise MalformedBytes(f"body: groupRetryPolicy: {error}") from error


def _forbidden_topics(name: str, value: object) -> frozenset[str]:
    document = as_object(value, name)
    return frozenset(topic for topic, bits in document.items() if as_int64(bits, topic) & _FORBIDS_READING)
