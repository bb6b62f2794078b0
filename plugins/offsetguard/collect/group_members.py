"""Who consumes: what masters, and the proxies that the configuration names, together know of a group's clients.

Who is connected to the proxies that the configuration names: brokers do not see those clients.

A proxy in CLUSTER mode answers 203 for the groups of its clients at its remoting port, and "not online" for all others.
Proxies tell each other of their clients, but not at once: each is asked, and only what all of them said counts.
Source: ConsumerManagerActivity (proxy 5.5.0); a live proxy 5.5.0.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from offsetguard.collect.broker_reading import BrokerReading
from offsetguard.collect.manifest import Gap, Outcome, RequestLedger, outcome_of
from offsetguard.collect.system_names import TopicKind, is_lite_topic, is_system_group, topic_kind
from offsetguard.model.errors import RocketMQError
from offsetguard.sources.rocketmq.codes import ConsumerNotOnline
from offsetguard.sources.rocketmq.consumers import ConsumerConnections, Subscription
from offsetguard.sources.rocketmq.requests import GetConsumerConnectionList
from offsetguard.sources.rocketmq.transport import Transport

MAX_GROUPS = 2_000
ProxyMembers = dict[str, frozenset[str]]  # consumer group -> client ids, over all proxies; none = offline there, too


async def read_proxy_members(
    transport: Transport, proxies: Sequence[str], groups: Sequence[str], ledger: RequestLedger
) -> ProxyMembers:
    """Ask every proxy about `groups`; a group of which one of them did not tell is missing in the answer.

    A proxy that fails is one gap, whatever the number of groups. Of very many groups the first MAX_GROUPS are asked.
    """
    asked = groups[:MAX_GROUPS]
    if not proxies or not asked:
        return {}
    reason = f"a proxy is asked about {MAX_GROUPS} groups in a round, suspects first"
    ledger.leave_out("members of groups that no broker sees", len(groups) - len(asked), reason)
    answers = await asyncio.gather(*(_ask(transport, proxy, asked, ledger) for proxy in proxies))
    known = [group for group in asked if all(group in answer for answer in answers)]
    return {group: frozenset[str]().union(*(answer[group] for answer in answers)) for group in known}


async def _ask(transport: Transport, proxy: str, groups: Sequence[str], ledger: RequestLedger) -> ProxyMembers:
    outcomes = await transport.call_many(proxy, [GetConsumerConnectionList(group) for group in groups])
    found: ProxyMembers = {}
    first_failure: RocketMQError | None = None
    for group, outcome in zip(groups, outcomes, strict=True):
        if isinstance(outcome, ConsumerNotOnline):
            ledger.count(Outcome.ANSWERED)
            found[group] = frozenset()
        elif isinstance(outcome, RocketMQError):
            ledger.count(outcome_of(outcome))
            first_failure = first_failure or outcome
        else:
            ledger.count(Outcome.ANSWERED)
            found[group] = frozenset(client.client_id for client in outcome.connections)
    if first_failure is not None:
        what = f"members of {len(groups) - len(found)} groups, from the proxy"
        advice = "check proxies in the configuration: the remoting port is wanted, 8080 by default"
        reason = f"{first_failure}; {advice}"
        ledger.add_gap(Gap(address=proxy, what=what, outcome=outcome_of(first_failure), reason=reason))
    return found


BROADCASTING = "BROADCASTING"


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """A group's clients, merged over the masters."""

    online_client_count: int
    message_model: str | None
    consume_type: str | None
    subscribed_topics: frozenset[str]
    client_versions: tuple[str, ...] = ()  # distinct `language version`

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
    topic apart, which each heartbeat creates). One that makes groups by itself and does not know this one has never had
    a heartbeat of it.
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
    """Keeps one copy of subscriptions that thousands of groups on a dozen brokers say in the same words."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, str, str | None], ...], Mapping[str, Subscription]] = {}

    def shared(self, connections: ConsumerConnections) -> ConsumerConnections:
        """Return the same with subscriptions that others hold as well."""
        subscriptions = connections.subscriptions
        key = tuple([(topic, one.sub_string, one.expression_type) for topic, one in sorted(subscriptions.items())])
        known = self._known.setdefault(key, subscriptions)
        return connections if known is subscriptions else replace(connections, subscriptions=known)


def _tells_of(reading: BrokerReading, group: str) -> bool:
    if group in reading.connections:
        return True
    return reading.makes_groups is True and reading.groups is not None and group not in reading.groups


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
        client_versions=tuple(
            sorted({f"{client.language} {client.version}" for answer in answers for client in answer.connections})
        ),
    )


def known_groups(masters: Iterable[BrokerReading], members: Iterable[str]) -> set[str]:
    """Return every group that a master knows by its settings, its members or a committed offset."""
    groups = set(members)
    for reading in masters:
        groups.update(reading.groups or ())
        groups.update(group for topic, group in reading.committed_offsets if not is_lite_topic(topic))
    return groups


def groups_for_proxies(masters: Iterable[BrokerReading], suspects: Collection[str] = ()) -> list[str]:
    """Return the groups that every master that knows them calls offline: their clients may sit behind a proxy.

    Suspects come first.
    """
    offline: set[str] = set()
    online: set[str] = set()
    for master in masters:
        for group, connections in master.connections.items():
            (offline if connections is None else online).add(group)
    unseen = (group for group in offline - online if not is_system_group(group))
    return sorted(unseen, key=lambda group: (group not in suspects, group))
