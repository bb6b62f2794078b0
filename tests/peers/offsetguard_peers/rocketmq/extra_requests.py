"""Requests that OffsetGuard does not send, and tests do: what a broker says another way, and who may ask for it."""

from collections.abc import Callable
from enum import IntEnum

from offsetguard.sources.rocketmq import fastjson
from offsetguard.sources.rocketmq.json_fields import texts
from offsetguard.sources.rocketmq.offsets import offset_field
from offsetguard.sources.rocketmq.requests import Request, of_body, of_header


class PeerRequestCode(IntEnum):
    """Their numbers; all of them only read."""

    QUERY_CONSUMER_OFFSET = 14
    GET_CONSUMER_LIST_BY_GROUP = 38
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206
    QUERY_TOPIC_CONSUME_BY_WHO = 300


def _list_of(name: str) -> Callable[[bytes], tuple[str, ...]]:
    return lambda body: tuple(texts(fastjson.decode_object(body), name))


class QueryConsumerOffset(Request[int]):
    """The committed offset of one queue; refused with QUERY_NOT_FOUND when the group never committed.

    4.x brokers answer 0 instead while the queue still holds its first message in memory; 5.x obey the last field.
    """

    code = PeerRequestCode.QUERY_CONSUMER_OFFSET
    decode = of_header(offset_field)
    consumer_group: str
    topic: str
    queue_id: int
    set_zero_if_not_found: bool = False


class GetConsumerListByGroup(Request[tuple[str, ...]]):
    """The members of a group as this broker gives them to each other; refused with 1 (NotThere) when it has none."""

    code = PeerRequestCode.GET_CONSUMER_LIST_BY_GROUP
    decode = of_body(_list_of("consumerIdList"))
    consumer_group: str


class GetAllTopicListFromNameServer(Request[tuple[str, ...]]):
    """Name server: every topic of every broker."""

    code = PeerRequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
    decode = of_body(_list_of("topicList"))


class QueryTopicConsumeByWho(Request[tuple[str, ...]]):
    """Which groups consume a topic: those that are online for it, and those with offsets of it.

    5.3.3 adds the topic's own name.
    """

    code = PeerRequestCode.QUERY_TOPIC_CONSUME_BY_WHO
    decode = of_body(_list_of("groupList"))
    topic: str
