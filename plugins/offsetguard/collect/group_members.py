"""Who consumes: what the masters together know of a group's clients."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from offsetguard.collect.system_names import TopicKind, topic_kind
from offsetguard.records import record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from offsetguard.collect.broker_reading import BrokerReading
    from offsetguard.rocketmq.bodies import ConsumerConnections, Subscription

BROADCASTING = "BROADCASTING"


@record
class GroupMembers:
    """A group's clients, merged over the masters."""

    online_client_count: int
    message_model: str | None
    consume_type: str | None
    subscribed_topics: frozenset[str]

    @property
    def broadcasting(self) -> bool:
        """Every client consumes every message and keeps its own offsets."""
        return self.message_model == BROADCASTING


def merge_members(readings: Iterable[BrokerReading]) -> dict[str, GroupMembers]:
    """Merge the connections of every group over the masters: a client counts when any of them sees it.

    A group of which no master answered is missing: unknown, not offline.
    """
    seen: dict[str, list[ConsumerConnections | None]] = {}
    for reading in readings:
        for group, connections in reading.connections.items():
            seen.setdefault(group, []).append(connections)
    return {group: _merge([one for one in answers if one is not None]) for group, answers in seen.items()}


def missing_members(group: str, masters: Iterable[BrokerReading]) -> list[tuple[str, str]] | None:
    """Return (client id, broker name) of each client that a master lacks and another one lists.

    None = fewer than two masters could be compared. A client sends its heartbeats to every broker that has one of its
    topics, and to no other. So those masters are compared that have a topic that the group subscribes to (its retry
    topic apart, which each heartbeat creates). One that does not even know the group has never had a heartbeat of it.
    """
    masters = [one for one in masters if one.topics is not None and _tells_of(one, group)]
    if len(masters) < 2:
        return None
    subscribed = {
        topic
        for one in masters
        if (connections := one.connections.get(group)) is not None
        for topic in connections.subscriptions
        if topic_kind(topic) is TopicKind.NORMAL
    }
    lists = {one.broker_name: _client_ids(one, group) for one in masters if not subscribed.isdisjoint(one.topics or ())}
    if len(lists) < 2:
        return None
    everybody = frozenset().union(*lists.values())
    return sorted((client_id, name) for name, listed in lists.items() for client_id in everybody - listed)


class SharedSubscriptions:
    """Keeps one copy of subscriptions that thousands of groups on a dozen brokers say in the same words.

    `sub_version` is not compared: clients raise it on every rebalance, and nobody reads it.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, str, str | None], ...], Mapping[str, Subscription]] = {}

    def shared(self, connections: ConsumerConnections) -> ConsumerConnections:
        """Return the same with subscriptions that others hold as well."""
        subscriptions = connections.subscriptions
        key = tuple([(topic, one.sub_string, one.expression_type) for topic, one in sorted(subscriptions.items())])
        known = self._known.setdefault(key, subscriptions)
        return connections if known is subscriptions else replace(connections, subscriptions=known)


def _tells_of(reading: BrokerReading, group: str) -> bool:
    return group in reading.connections or (reading.groups is not None and group not in reading.groups)


def _client_ids(reading: BrokerReading, group: str) -> frozenset[str]:
    connections = reading.connections.get(group)
    return frozenset(client.client_id for client in connections.connections) if connections else frozenset()


def _merge(answers: list[ConsumerConnections]) -> GroupMembers:
    models = {answer.message_model for answer in answers if answer.message_model}
    return GroupMembers(
        online_client_count=len({client.client_id for answer in answers for client in answer.connections}),
        # two models in one group are a mistake of its owner: lag is judged, since some of its clients do commit
        message_model=next(iter(sorted(models - {BROADCASTING}) or sorted(models)), None),
        consume_type=next((answer.consume_type for answer in answers if answer.consume_type), None),
        subscribed_topics=frozenset(topic for answer in answers for topic in answer.subscriptions),
    )
