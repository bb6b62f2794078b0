"""What a broker says of itself: what is set on it, and what it counts.

Set: its topics (21, 305), consumer groups (201) and its own settings (26). Source of the forms: bodies of 4.9.8, 5.3.3
and 5.5.1, and `TopicConfig`, `SubscriptionGroupConfig` of apache/rocketmq. Fields that a version does not have are None
or their Java default; unknown fields are ignored.

Counted: its runtime figures (28), rates of topics and groups (315), its replication (907).
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from offsetguard.model.offsets import MASTER_ID
from offsetguard.sources.rocketmq import fastjson
from offsetguard.sources.rocketmq.json_fields import (
    Entries,
    MalformedBytes,
    as_int64,
    as_object,
    as_text,
    bool_field,
    float_field,
    int_field,
    number_in,
    numbered_field,
    object_field,
    optional_bool_field,
    optional_int_field,
    texts_field,
    time_in,
    timestamp_of,
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


_CAPACITY = re.compile(r"Total : (?P<number>[0-9]{1,6}(?:\.[0-9]{1,3})?) (?P<unit>B|[KMGTPE]iB)", re.ASCII)
_RAN = re.compile(r"([0-9]{1,6}) days, ([0-9]{1,2}) hours, ([0-9]{1,2}) minutes, ([0-9]{1,2}) seconds", re.ASCII)
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


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
        """Size of the commit log's disk, of `Total : 252.0 GiB, Free : 67.2 GiB.`; None = it does not say so."""
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
        return number_in(self.table.get(key, ""))

    def time(self, key: str) -> datetime | None:
        """Return a time given in ms, UTC; None where it is absent, 0, negative (unknown) or beyond the year 9999."""
        return time_in(self.table.get(key, ""))

    def tps(self, key: str) -> tuple[float, ...]:
        """Return the rates of `putTps` and the like over 10 s, 60 s and 600 s; windows not yet filled are missing."""
        rates = [_finite(rate) for rate in self.table.get(key, "").split()[:3]]
        return tuple(rate for rate in rates if rate is not None) if None not in rates else ()

    def minute_tps(self, key: str) -> float | None:
        """Return the rate over 60 s; None in the replica's first minute."""
        rates = self.tps(key)
        return rates[1] if len(rates) > 1 else None


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


def broker_runtime_info(body: bytes) -> BrokerRuntimeInfo:
    """28 GET_BROKER_RUNTIME_INFO."""
    return BrokerRuntimeInfo(texts_field(fastjson.decode_object(body), "table"))


def broker_stats(body: bytes) -> BrokerStats:
    """315 VIEW_BROKER_STATS_DATA."""
    document = fastjson.decode_object(body)
    return BrokerStats(
        minute=_stats_snapshot(document, "statsMinute"),
        hour=_stats_snapshot(document, "statsHour"),
        day=_stats_snapshot(document, "statsDay"),
    )


def _stats_snapshot(document: Mapping[str, Any], name: str) -> StatsSnapshot:
    window = object_field(document, name)
    return StatsSnapshot(
        sum=int_field(window, "sum"), tps=float_field(window, "tps"), average=float_field(window, "avgpt")
    )


def _finite(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def last_replicated_at(body: bytes) -> datetime | None:
    """907 GET_BROKER_HA_STATUS of a slave: when it read from its master last; None: a master, or it never did.

    A master that lives sends something every 5 s (DefaultHAConnection, AutoSwitchHAConnection 5.5.0).
    """
    document = fastjson.decode_object(body)
    read_ms = optional_int_field(object_field(document, "haClientRuntimeInfo"), "lastReadTimestamp")
    return None if document.get("master") is True or not read_ms else timestamp_of(read_ms, "lastReadTimestamp")
