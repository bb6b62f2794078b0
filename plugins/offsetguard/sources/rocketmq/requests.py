"""Every request that OffsetGuard sends, declared: code, ext fields, and how its answer becomes a typed record.

Only requests that change nothing on a broker may stand here (a test holds that). A field named `consumer_group` is
sent as `consumerGroup`; where RocketMQ's name differs, the field says so. None is not sent.
Source: `RequestCode` and the `*RequestHeader` classes of apache/rocketmq 4.9.8 and 5.3.3.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import IntEnum
from functools import cache
from typing import Any, ClassVar, Generic, TypeVar, dataclass_transform

from offsetguard.model.offsets import MessageQueue
from offsetguard.model.rocketmq import as_written
from offsetguard.sources.rocketmq import brokers, consumers, offset_table, offsets, routes
from offsetguard.sources.rocketmq.codes import RequestCode, ResponseCode
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard.sources.rocketmq.json_fields import Entries
from offsetguard.sources.rocketmq.message import PullResult, decode_pull_result

MONITOR_GROUP = "OFFSETGUARD_MONITOR"
"""The consumer group that we pull under. Pulling under a group of the users' would overwrite its pull offset."""

PULL_SUBSCRIPTION_IN_REQUEST = 4  # PullSysFlag.FLAG_SUBSCRIPTION: the group need not be online

AnswerT = TypeVar("AnswerT")


@dataclass_transform(frozen_default=True)
class Request(Generic[AnswerT]):
    """The shape of all requests: each is a frozen dataclass of its fields."""

    code: ClassVar[IntEnum]
    success_codes: ClassVar[frozenset[int]] = frozenset({ResponseCode.SUCCESS})

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)

    def ext_fields(self) -> dict[str, str]:
        """Return the request's fields as RocketMQ wants them: all texts, booleans as true and false."""
        names = _ext_names(type(self))  # type: ignore[arg-type]  # a class is hashable
        return {ext: as_written(value) for name, ext in names if (value := getattr(self, name)) is not None}

    def decode(self, answer: RemotingCommand, /) -> AnswerT:
        """Turn an answer with one of `success_codes` into its record; raises MalformedBytes."""
        raise NotImplementedError

    def __str__(self) -> str:
        """RocketMQ's name and the fields, for error texts: `GET_TOPIC_STATS_INFO(topic=orders)`."""
        fields_shown = self.ext_fields().items()
        shown = ", ".join(f"{name}={value if value.isprintable() else ascii(value)}" for name, value in fields_shown)
        return f"{self.code.name}({shown})"


def of_body(read: Callable[[bytes], AnswerT]) -> Callable[[Request[AnswerT], RemotingCommand], AnswerT]:
    """Return the `decode` of a request whose answer stands in the body."""
    return lambda _, answer: read(answer.body)


def of_header(
    read: Callable[[Mapping[str, str]], AnswerT],
) -> Callable[[Request[AnswerT], RemotingCommand], AnswerT]:
    """Return the `decode` of a request whose answer stands in the header's ext fields."""
    return lambda _, answer: read(answer.ext_fields)


class GetBrokerClusterInfo(Request[routes.ClusterInfo]):
    """Name server: which brokers are registered."""

    code = RequestCode.GET_BROKER_CLUSTER_INFO
    decode = of_body(routes.cluster_info)


class GetRouteInfoByTopic(Request[routes.TopicRoute]):
    """Name server: where a topic lives; refused with TOPIC_NOT_EXIST when nowhere."""

    code = RequestCode.GET_ROUTEINFO_BY_TOPIC
    decode = of_body(routes.topic_route)
    topic: str


class GetAllTopicConfig(Request[Entries[str, brokers.TopicConfig]]):
    """Every topic of a broker. No paging fields are sent: then every version answers with all of them."""

    code = RequestCode.GET_ALL_TOPIC_CONFIG
    decode = of_body(brokers.topic_config_table)


class GetAllSubscriptionGroupConfig(Request[Entries[str, brokers.SubscriptionGroupConfig]]):
    """Every consumer group of a broker; all at once, as for topics."""

    code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    decode = of_body(brokers.subscription_group_table)


class GetAllConsumerOffset(Request[offset_table.AllConsumerOffsets]):
    """Every committed offset of a broker; the only request that shows "never committed" as such."""

    code = RequestCode.GET_ALL_CONSUMER_OFFSET
    decode = of_body(offset_table.all_consumer_offsets)


class GetConsumeStats(Request[Entries[MessageQueue, offsets.ConsumeOffsets]]):
    """Offsets of one group on one broker (read queues only); without topic: of all topics that it committed on."""

    code = RequestCode.GET_CONSUME_STATS
    decode = of_body(offsets.consume_stats)
    consumer_group: str
    topic: str | None = None


class GetTopicStatsInfo(Request[offsets.TopicStats]):
    """Min and max offset of every queue of a topic on one broker (write queues; 5.x: the larger number)."""

    code = RequestCode.GET_TOPIC_STATS_INFO
    decode = of_body(offsets.topic_stats)
    topic: str


class GetConsumerConnectionList(Request[consumers.ConsumerConnections]):
    """Who is connected for a group; refused with CONSUMER_NOT_ONLINE when nobody is."""

    code = RequestCode.GET_CONSUMER_CONNECTION_LIST
    decode = of_body(consumers.consumer_connections)
    consumer_group: str


class GetBrokerRuntimeInfo(Request[brokers.BrokerRuntimeInfo]):
    """The broker's own figures: version, disk, rates."""

    code = RequestCode.GET_BROKER_RUNTIME_INFO
    decode = of_body(brokers.broker_runtime_info)


class GetBrokerConfig(Request[dict[str, str]]):
    """Every effective setting of a broker, name -> text."""

    code = RequestCode.GET_BROKER_CONFIG
    decode = of_body(brokers.broker_config)


class GetBrokerHaStatus(Request[datetime | None]):
    """When a slave last read from its master, by its own clock (5.x); None = it has not, or is a master."""

    code = RequestCode.GET_BROKER_HA_STATUS
    decode = of_body(brokers.last_replicated_at)


class GetMaxOffset(Request[int]):
    """Number of the next message to be written to a queue."""

    code = RequestCode.GET_MAX_OFFSET
    decode = of_header(offsets.offset_field)
    topic: str
    queue_id: int


class GetMinOffset(Request[int]):
    """Number of the oldest message that a queue still holds."""

    code = RequestCode.GET_MIN_OFFSET
    decode = of_header(offsets.offset_field)
    topic: str
    queue_id: int


class GetEarliestMsgStoretime(Request[datetime | None]):
    """When the oldest message that a queue still holds was stored; None = it holds none (the broker says -1)."""

    code = RequestCode.GET_EARLIEST_MSG_STORETIME
    decode = of_header(offsets.store_time_field)
    topic: str
    queue_id: int


class SearchOffsetByTimestamp(Request[int]):
    """Number of the first message of a queue that was stored at a moment (ms since 1970) or later.

    5.x may be told which of several such messages is meant; the first one is what 4.x gives, and what a reset takes.
    Between two messages 4.x gives the nearer one, and the last one where all are older: one too few at most.
    """

    code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
    decode = of_header(offsets.offset_field)
    topic: str
    queue_id: int
    timestamp: int


class QueryConsumeTimeSpan(Request[Entries[MessageQueue, offsets.ConsumeTimeSpan]]):
    """How old the first unconsumed message of each queue of (topic, group) is on one broker."""

    code = RequestCode.QUERY_CONSUME_TIME_SPAN
    decode = of_body(offsets.consume_time_spans)
    topic: str
    consumer_group: str = field(metadata={"ext": "group"})


class GetConsumerRunningInfo(Request[consumers.ConsumerRunningInfo]):
    """What a client says of itself: the broker asks it, and holds a thread until it answers, 10 s at most.

    Refused with 1 (NotThere) when the client is not connected to this broker, and with 207 when it does not answer;
    clients that speak gRPC never do: do not ask them. With `jstack_enable` a Java client adds what its threads do.
    """

    code = RequestCode.GET_CONSUMER_RUNNING_INFO
    decode = of_body(consumers.consumer_running_info)
    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ViewBrokerStatsData(Request[brokers.BrokerStats]):
    """One rate as this replica counted it; refused with 1 (NotThere) when it has counted nothing since its start."""

    code = RequestCode.VIEW_BROKER_STATS_DATA
    decode = of_body(brokers.broker_stats)
    stats_name: str
    stats_key: str


class GetSystemTopicListFromBroker(Request[Entries[str, str]]):
    """The topics that this broker takes for RocketMQ's own."""

    code = RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER
    decode = of_body(brokers.topic_list)


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

    def decode(self, answer: RemotingCommand, /) -> PullResult:
        """Ext fields and messages of 11."""
        return decode_pull_result(answer)


@cache
def _ext_names(kind: type[Request[Any]]) -> tuple[tuple[str, str], ...]:
    """Return each field of a request and RocketMQ's name for it."""
    declared = fields(kind)  # type: ignore[arg-type] # each is a dataclass
    return tuple((one.name, one.metadata.get("ext") or _camel_case(one.name)) for one in declared)


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)
