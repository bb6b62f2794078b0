"""Every request that OffsetGuard sends, declared: code, ext fields, and how its answer becomes a typed record.

Only requests that change nothing on a broker may stand here (a test holds that). A field named `consumer_group` is
sent as `consumerGroup`; where RocketMQ's name differs, the field says so. None is not sent.
Source: `RequestCode` and the `*RequestHeader` classes of apache/rocketmq 4.9.8 and 5.3.3.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

from offsetguard.sources.rocketmq import bodies, body_decoders, detail_bodies, detail_decoders
from offsetguard.sources.rocketmq.codes import RequestCode, ResponseCode
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard.sources.rocketmq.message import PullResult, decode_pull_result

MONITOR_GROUP = "OFFSETGUARD_MONITOR"
"""The consumer group that we pull under. Pulling under a group of the users' would overwrite its pull offset."""

PULL_SUBSCRIPTION_IN_REQUEST = 4  # PullSysFlag.FLAG_SUBSCRIPTION: the group need not be online

AnswerT = TypeVar("AnswerT")


@dataclass(frozen=True, slots=True)
class Request(Generic[AnswerT]):
    """The shape of all requests."""

    code: ClassVar[RequestCode]
    success_codes: ClassVar[frozenset[int]] = frozenset({ResponseCode.SUCCESS})

    def ext_fields(self) -> dict[str, str]:
        """Return the request's fields as RocketMQ wants them: all texts, booleans as true and false."""
        names = _ext_names(type(self))  # type: ignore[arg-type]  # a class is hashable
        return {ext: _text(value) for name, ext in names if (value := getattr(self, name)) is not None}

    def decode(self, answer: RemotingCommand) -> AnswerT:
        """Turn an answer with one of `success_codes` into its record; raises MalformedBytes."""
        raise NotImplementedError

    def __str__(self) -> str:
        """RocketMQ's name and the fields, for error texts: `GET_TOPIC_STATS_INFO(topic=orders)`."""
        fields_shown = self.ext_fields().items()
        shown = ", ".join(f"{name}={value if value.isprintable() else ascii(value)}" for name, value in fields_shown)
        return f"{self.code.name}({shown})"


@dataclass(frozen=True, slots=True)
class GetBrokerClusterInfo(Request["bodies.ClusterInfo"]):
    """Name server: which brokers are registered."""

    code = RequestCode.GET_BROKER_CLUSTER_INFO

    def decode(self, answer: RemotingCommand) -> bodies.ClusterInfo:
        """Body of 106."""
        return body_decoders.cluster_info(answer.body)


@dataclass(frozen=True, slots=True)
class GetRouteInfoByTopic(Request["bodies.TopicRoute"]):
    """Name server: where a topic lives; refused with TOPIC_NOT_EXIST when nowhere."""

    code = RequestCode.GET_ROUTEINFO_BY_TOPIC
    topic: str

    def decode(self, answer: RemotingCommand) -> bodies.TopicRoute:
        """Body of 105."""
        return body_decoders.topic_route(answer.body)


@dataclass(frozen=True, slots=True)
class GetAllTopicConfig(Request["bodies.TopicConfigTable"]):
    """Every topic of a broker. No paging fields are sent: then every version answers with all of them."""

    code = RequestCode.GET_ALL_TOPIC_CONFIG

    def decode(self, answer: RemotingCommand) -> bodies.TopicConfigTable:
        """Body of 21."""
        return body_decoders.topic_config_table(answer.body)


@dataclass(frozen=True, slots=True)
class GetAllSubscriptionGroupConfig(Request["bodies.SubscriptionGroupTable"]):
    """Every consumer group of a broker; all at once, as for topics."""

    code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG

    def decode(self, answer: RemotingCommand) -> bodies.SubscriptionGroupTable:
        """Body of 201."""
        return body_decoders.subscription_group_table(answer.body)


@dataclass(frozen=True, slots=True)
class GetAllConsumerOffset(Request["bodies.AllConsumerOffsets"]):
    """Every committed offset of a broker; the only request that shows "never committed" as such."""

    code = RequestCode.GET_ALL_CONSUMER_OFFSET

    def decode(self, answer: RemotingCommand) -> bodies.AllConsumerOffsets:
        """Body of 43."""
        return body_decoders.all_consumer_offsets(answer.body)


@dataclass(frozen=True, slots=True)
class GetConsumeStats(Request["bodies.ConsumeStats"]):
    """Offsets of one group on one broker (read queues only); without topic: of all topics that it committed on."""

    code = RequestCode.GET_CONSUME_STATS
    consumer_group: str
    topic: str | None = None

    def decode(self, answer: RemotingCommand) -> bodies.ConsumeStats:
        """Body of 208."""
        return body_decoders.consume_stats(answer.body)


@dataclass(frozen=True, slots=True)
class GetTopicStatsInfo(Request["bodies.TopicStats"]):
    """Min and max offset of every queue of a topic on one broker (write queues; 5.x: the larger number)."""

    code = RequestCode.GET_TOPIC_STATS_INFO
    topic: str

    def decode(self, answer: RemotingCommand) -> bodies.TopicStats:
        """Body of 202."""
        return body_decoders.topic_stats(answer.body)


@dataclass(frozen=True, slots=True)
class GetConsumerConnectionList(Request["bodies.ConsumerConnections"]):
    """Who is connected for a group; refused with CONSUMER_NOT_ONLINE when nobody is."""

    code = RequestCode.GET_CONSUMER_CONNECTION_LIST
    consumer_group: str

    def decode(self, answer: RemotingCommand) -> bodies.ConsumerConnections:
        """Body of 203."""
        return body_decoders.consumer_connections(answer.body)


@dataclass(frozen=True, slots=True)
class GetBrokerRuntimeInfo(Request["bodies.BrokerRuntimeInfo"]):
    """The broker's own figures: version, disk, rates."""

    code = RequestCode.GET_BROKER_RUNTIME_INFO

    def decode(self, answer: RemotingCommand) -> bodies.BrokerRuntimeInfo:
        """Body of 28."""
        return body_decoders.broker_runtime_info(answer.body)


@dataclass(frozen=True, slots=True)
class GetBrokerConfig(Request[dict[str, str]]):
    """Every effective setting of a broker, name -> text."""

    code = RequestCode.GET_BROKER_CONFIG

    def decode(self, answer: RemotingCommand) -> dict[str, str]:
        """Body of 26."""
        return body_decoders.broker_config(answer.body)


@dataclass(frozen=True, slots=True)
class QueryConsumerOffset(Request[int]):
    """The committed offset of one queue; refused with QUERY_NOT_FOUND when the group never committed.

    4.x brokers answer 0 instead while the queue still holds its first message in memory; 5.x obey
    `set_zero_if_not_found`.
    """

    code = RequestCode.QUERY_CONSUMER_OFFSET
    consumer_group: str
    topic: str
    queue_id: int
    set_zero_if_not_found: bool = False

    def decode(self, answer: RemotingCommand) -> int:
        """Ext field of 14."""
        return body_decoders.offset_field(answer.ext_fields)


@dataclass(frozen=True, slots=True)
class GetMaxOffset(Request[int]):
    """Number of the next message to be written to a queue."""

    code = RequestCode.GET_MAX_OFFSET
    topic: str
    queue_id: int

    def decode(self, answer: RemotingCommand) -> int:
        """Ext field of 30."""
        return body_decoders.offset_field(answer.ext_fields)


@dataclass(frozen=True, slots=True)
class GetMinOffset(Request[int]):
    """Number of the oldest message that a queue still holds."""

    code = RequestCode.GET_MIN_OFFSET
    topic: str
    queue_id: int

    def decode(self, answer: RemotingCommand) -> int:
        """Ext field of 31."""
        return body_decoders.offset_field(answer.ext_fields)


@dataclass(frozen=True, slots=True)
class GetEarliestMsgStoretime(Request["datetime | None"]):
    """When the oldest message that a queue still holds was stored; None = it holds none (the broker says -1)."""

    code = RequestCode.GET_EARLIEST_MSG_STORETIME
    topic: str
    queue_id: int

    def decode(self, answer: RemotingCommand) -> datetime | None:
        """Ext field of 32."""
        return body_decoders.store_time_field(answer.ext_fields)


@dataclass(frozen=True, slots=True)
class SearchOffsetByTimestamp(Request[int]):
    """Number of the first message of a queue that was stored at a moment (ms since 1970) or later.

    5.x may be told which of several such messages is meant; the first one is what 4.x gives, and what a reset takes.
    Between two messages 4.x gives the nearer one, and the last one where all are older: one too few at most.
    """

    code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
    topic: str
    queue_id: int
    timestamp: int

    def decode(self, answer: RemotingCommand) -> int:
        """Ext field of 29."""
        return body_decoders.offset_field(answer.ext_fields)


@dataclass(frozen=True, slots=True)
class QueryConsumeTimeSpan(Request["bodies.ConsumeTimeSpans"]):
    """How old the first unconsumed message of each queue of (topic, group) is on one broker."""

    code = RequestCode.QUERY_CONSUME_TIME_SPAN
    topic: str
    consumer_group: str = field(metadata={"ext": "group"})

    def decode(self, answer: RemotingCommand) -> bodies.ConsumeTimeSpans:
        """Body of 303."""
        return body_decoders.consume_time_spans(answer.body)


@dataclass(frozen=True, slots=True)
class GetConsumerRunningInfo(Request["detail_bodies.ConsumerRunningInfo"]):
    """What a client says of itself: the broker asks it, and holds a thread until it answers, 10 s at most.

    Refused with 1 (NotThere) when the client is not connected to this broker, and with 207 when it does not answer;
    clients that speak gRPC never do: do not ask them. The thread stacks (jstackEnable) are never asked for.
    """

    code = RequestCode.GET_CONSUMER_RUNNING_INFO
    consumer_group: str
    client_id: str
    jstack_enable: bool = False

    def decode(self, answer: RemotingCommand) -> detail_bodies.ConsumerRunningInfo:
        """Body of 307, written by the client."""
        return detail_decoders.consumer_running_info(answer.body)


@dataclass(frozen=True, slots=True)
class ViewBrokerStatsData(Request["detail_bodies.BrokerStats"]):
    """One rate as this replica counted it; refused with 1 (NotThere) when it has counted nothing since its start."""

    code = RequestCode.VIEW_BROKER_STATS_DATA
    stats_name: str
    stats_key: str

    def decode(self, answer: RemotingCommand) -> detail_bodies.BrokerStats:
        """Body of 315."""
        return detail_decoders.broker_stats(answer.body)


@dataclass(frozen=True, slots=True)
class GetConsumerListByGroup(Request["detail_bodies.ConsumerList"]):
    """The members of a group as this broker gives them to each other; refused with 1 (NotThere) when it has none."""

    code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
    consumer_group: str

    def decode(self, answer: RemotingCommand) -> detail_bodies.ConsumerList:
        """Body of 38."""
        return detail_decoders.consumer_list(answer.body)


@dataclass(frozen=True, slots=True)
class GetSystemTopicListFromBroker(Request["detail_bodies.TopicList"]):
    """The topics that this broker takes for RocketMQ's own."""

    code = RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER

    def decode(self, answer: RemotingCommand) -> detail_bodies.TopicList:
        """Body of 305."""
        return detail_decoders.topic_list(answer.body)


@dataclass(frozen=True, slots=True)
class GetAllTopicListFromNameServer(Request["detail_bodies.TopicList"]):
    """Name server: every topic of every broker."""

    code = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER

    def decode(self, answer: RemotingCommand) -> detail_bodies.TopicList:
        """Body of 206."""
        return detail_decoders.topic_list(answer.body)


@dataclass(frozen=True, slots=True)
class QueryTopicConsumeByWho(Request["detail_bodies.GroupList"]):
    """Which groups consume a topic: those that are online for it, and those with offsets of it."""

    code = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO
    topic: str

    def decode(self, answer: RemotingCommand) -> detail_bodies.GroupList:
        """Body of 300."""
        return detail_decoders.group_list(answer.body)


@dataclass(frozen=True, slots=True)
class PullMessage(Request[PullResult]):
    """Read messages of one queue once, without waiting, committing or being online.

    Not seen by the users' groups as long as the group is our own. Known traces: the broker creates that group when
    autoCreateSubscriptionGroup is on, and counts the messages for it. A queue_offset outside of min..max makes a 4.x
    broker write an OFFSET_MOVED_EVENT for our group: ask for offsets from a former `next_begin_offset` or from
    GetMinOffset, and start from the result's `next_begin_offset` when its status is OFFSET_ILLEGAL.
    """

    code = RequestCode.PULL_MESSAGE
    success_codes = frozenset(
        {
            ResponseCode.SUCCESS,
            ResponseCode.PULL_NOT_FOUND,
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            ResponseCode.PULL_OFFSET_MOVED,
        }
    )
    topic: str
    queue_id: int
    queue_offset: int
    max_msg_nums: int = 32  # brokers give at most 32 (8 from disk) at once by default
    consumer_group: str = MONITOR_GROUP
    sys_flag: int = PULL_SUBSCRIPTION_IN_REQUEST
    subscription: str = "*"
    sub_version: int = 0
    commit_offset: int = 0
    suspend_timeout_millis: int = 0
    expression_type: str = "TAG"

    def decode(self, answer: RemotingCommand) -> PullResult:
        """Ext fields and messages of 11."""
        return decode_pull_result(answer)


@cache
def _ext_names(kind: type[Request[Any]]) -> tuple[tuple[str, str], ...]:
    """Return each field of a request and RocketMQ's name for it."""
    return tuple((one.name, one.metadata.get("ext") or _camel_case(one.name)) for one in fields(kind))


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


def _text(value: object) -> str:
    if type(value) is str:
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)
