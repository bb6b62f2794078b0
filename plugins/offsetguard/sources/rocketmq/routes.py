"""Where brokers, topics and queues are: answers of name servers (105, 106), and where a producer sends a key.

Source of the forms: bodies of 4.9.8, 5.3.3 and 5.5.1, and `ClusterInfo`, `TopicRouteData` of apache/rocketmq.

The order of a producer's queues is that of MQClientInstance#topicRouteData2TopicPublishInfo, the same in 4.9.7 and 5.x:
an order configuration gives the order; else brokers by name (QueueData#compareTo, Java's order of strings), of each the
write queues by number. Brokers that may not be written to, or whose master is not registered, are left out: what a key
goes to changes with them. `SelectMessageQueueByHash.select(queues, message, key)` takes `key.hashCode() %
queues.size()`, without its sign. Java's remainder has the sign of the dividend, so a hash of -2^31, of which `Math.abs`
is negative itself, is no trouble (the byte code is the same in 4.9.7 and 5.x).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from offsetguard.model.offsets import MASTER_ID, MAX_QUEUES, MAX_QUEUES_OF_ALL, MessageQueue
from offsetguard.sources.rocketmq import fastjson
from offsetguard.sources.rocketmq.json_fields import (
    Entries,
    MalformedBytes,
    as_object,
    as_text,
    int_field,
    int_key,
    list_field,
    number_in,
    object_field,
    optional_text_field,
    text_field,
    texts,
)

WRITEABLE = 2  # PermName.PERM_WRITE
_BITS = 32
_MASK = (1 << _BITS) - 1


@dataclass(frozen=True, slots=True)
class BrokerData:
    """One broker name with the addresses of its replicas that are registered now."""

    broker_name: str
    cluster: str
    addresses: Mapping[int, str]  # broker id (0 = master) -> "ip:port"

    @property
    def master_address(self) -> str | None:
        """`ip:port` of the master; None while it is down."""
        return self.addresses.get(MASTER_ID)


@dataclass(frozen=True, slots=True)
class ClusterInfo:
    """Answer of 106: every broker that is registered at the name server."""

    brokers: tuple[BrokerData, ...]
    broker_names_by_cluster: Mapping[str, tuple[str, ...]]
    unreadable: Mapping[str, str] = field(default_factory=dict)  # entries that are left out, and why

    def labels(self) -> dict[str, str]:
        """Return `ip:port` -> `<broker name>-<broker id>` of every replica."""
        return {
            address: f"{broker.broker_name}-{broker_id}"
            for broker in self.brokers
            for broker_id, address in broker.addresses.items()
        }


@dataclass(frozen=True, slots=True)
class QueueData:
    """The queues of one topic on one broker, from its route."""

    broker_name: str
    read_queue_nums: int
    write_queue_nums: int
    perm: int  # 2 = write, 4 = read, 6 = both


@dataclass(frozen=True, slots=True)
class TopicRoute:
    """Answer of 105: where a topic lives."""

    brokers: tuple[BrokerData, ...]
    queues: tuple[QueueData, ...]
    order_topic_conf: str | None = None  # "broker-a:8;broker-b:8" of a topic that is ordered over all brokers
    static: bool = False  # 5.x: the queues are logical ones, mapped to brokers


def cluster_info(body: bytes) -> ClusterInfo:
    """106 GET_BROKER_CLUSTER_INFO."""
    document = fastjson.decode_object(body)
    unreadable: dict[str, str] = {}

    def broker(name: str, value: object) -> BrokerData:
        addresses = _addresses(value)
        unreadable.update({f"{name} {broker_id}": why for broker_id, why in addresses.unreadable.items()})
        return _broker_data(value, addresses)

    brokers = Entries(object_field(document, "brokerAddrTable"), broker, str)
    table = object_field(document, "clusterAddrTable")
    clusters = Entries(table, lambda name, _: tuple(texts(table, name)), str)
    return ClusterInfo(tuple(brokers.values()), clusters, unreadable | brokers.unreadable | clusters.unreadable)


def topic_route(body: bytes) -> TopicRoute:
    """105 GET_ROUTEINFO_BY_TOPIC."""
    document = fastjson.decode_object(body)
    return TopicRoute(
        tuple(_whole_broker_data(value) for value in list_field(document, "brokerDatas")),
        tuple(_queue_data(as_object(value, "queueDatas")) for value in list_field(document, "queueDatas")),
        order_topic_conf=optional_text_field(document, "orderTopicConf") or None,
        static=bool(document.get("topicQueueMappingByBroker")),
    )


def queues_to_write(topic: str, route: TopicRoute) -> tuple[MessageQueue, ...]:
    """Return the queues; raises ValueError for a route whose queues do not follow from it, or are too many."""
    if route.order_topic_conf is not None:
        return _queues(topic, _of_order_conf(topic, route.order_topic_conf))
    if route.static:
        raise ValueError(f"{topic} is a static topic: its queues are logical ones, which its brokers map")
    with_master = {broker.broker_name for broker in route.brokers if broker.master_address is not None}
    counts = {
        one.broker_name: one.write_queue_nums
        for one in route.queues
        if one.perm & WRITEABLE and one.broker_name in with_master
    }
    return queues_of_brokers(topic, counts.items())


def queues_of_brokers(topic: str, counts: Iterable[tuple[str, int]]) -> tuple[MessageQueue, ...]:
    """Return the queues of brokers with their numbers of write queues, in the producer's order; ValueError as above."""
    return _queues(topic, sorted(counts, key=lambda one: one[0].encode("utf-16-be", "surrogatepass")))


def java_hash_code(text: str) -> int:
    """Return `text.hashCode()`, from -2^31 to 2^31 - 1: over UTF-16 code units, of which some characters have two."""
    units = text.encode("utf-16-be", "surrogatepass")
    total = 0
    for place in range(0, len(units), 2):
        total = (31 * total + (units[place] << 8 | units[place + 1])) & _MASK
    return total - (1 << _BITS) if total >> (_BITS - 1) else total


def position_of(hash_code: int, queue_count: int) -> int:
    """Return the position in the producer's list of queues; raises ValueError when there is no queue."""
    if queue_count <= 0:
        raise ValueError("a topic without queues to write to takes no message")
    return abs(hash_code) % queue_count  # the same as without the sign of Java's remainder


def _addresses(value: object) -> Entries[int, str]:
    return Entries(
        object_field(as_object(value, "brokerDatas"), "brokerAddrs"),
        lambda broker_id, address: as_text(address, f"address of {broker_id}"),
        lambda broker_id: int_key(broker_id, "brokerAddrs"),
    )


def _broker_data(value: object, addresses: Mapping[int, str]) -> BrokerData:
    document = as_object(value, "brokerDatas")
    return BrokerData(text_field(document, "brokerName"), text_field(document, "cluster"), addresses)


def _whole_broker_data(value: object) -> BrokerData:
    """Refuse one of which a replica cannot be read: a producer's queues depend on which masters are there."""
    addresses = _addresses(value)
    for why in addresses.unreadable.values():
        raise MalformedBytes(why)
    return _broker_data(value, addresses)


def _queue_data(document: Mapping[str, Any]) -> QueueData:
    return QueueData(
        broker_name=text_field(document, "brokerName"),
        read_queue_nums=int_field(document, "readQueueNums"),
        write_queue_nums=int_field(document, "writeQueueNums"),
        perm=int_field(document, "perm"),
    )


def _of_order_conf(topic: str, conf: str) -> Iterator[tuple[str, int]]:
    for part in conf.split(";"):
        name, colon, text = part.partition(":")
        count = number_in(text)
        if not colon or count is None:
            raise ValueError(f"the order configuration of {topic} is {conf[:200]!r}, which is not BROKER:QUEUES;...")
        yield name, count


def _queues(topic: str, counts: Iterable[tuple[str, int]]) -> tuple[MessageQueue, ...]:
    in_order = list(counts)
    largest = max((count for _, count in in_order), default=0)
    if largest > MAX_QUEUES or (total := sum(max(0, count) for _, count in in_order)) > MAX_QUEUES_OF_ALL:
        most = f"at most {MAX_QUEUES:,} on a broker and {MAX_QUEUES_OF_ALL:,} in all are taken"
        of = f"{largest:,} queues on a broker" if largest > MAX_QUEUES else f"{total:,} queues"
        raise ValueError(f"{topic} would have {of}, which cannot be right ({most}); ask another name server")
    return tuple(MessageQueue(topic, name, queue_id) for name, count in in_order for queue_id in range(count))
