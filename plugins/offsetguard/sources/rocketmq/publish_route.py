"""The queues of a topic that producers write to, in the order in which Java producers list them.

Source: MQClientInstance#topicRouteData2TopicPublishInfo, the same in 4.9.7 and 5.x: an order configuration gives the
order; else brokers by name (QueueData#compareTo, Java's order of strings), of each the write queues by number. Brokers
that may not be written to, or whose master is not registered, are left out: what a key goes to changes with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq.bodies import TopicRoute

WRITEABLE = 2  # PermName.PERM_WRITE


def queues_to_write(topic: str, route: TopicRoute) -> tuple[MessageQueue, ...]:
    """Return the queues; raises ValueError for a route whose queues do not follow from it."""
    if route.order_topic_conf is not None:
        return tuple(_of_order_conf(topic, route.order_topic_conf))
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
    """Return the queues of brokers given with their numbers of write queues, in the producer's order."""
    in_order = sorted(counts, key=lambda one: one[0].encode("utf-16-be", "surrogatepass"))
    return tuple(MessageQueue(topic, name, queue_id) for name, count in in_order for queue_id in range(count))


def _of_order_conf(topic: str, conf: str) -> Iterator[MessageQueue]:
    for part in conf.split(";"):
        name, colon, count = part.partition(":")
        if not colon or not count.isdecimal():
            raise ValueError(f"the order configuration of {topic} is {conf!r}, which is not BROKER:QUEUES;...")
        yield from (MessageQueue(topic, name, queue_id) for queue_id in range(int(count)))
