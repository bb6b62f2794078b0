"""The columns of `group_snapshots` about POP, from what all masters of a cluster answered.

    POP groups: available = sum of max - committed over the topics and their retry topics (a queue that was never popped
                has no entry: all of it counts)
                in flight = sum of waitAckCount of all clients (remoting clients), else the broker's own metrics
                (gRPC clients), else unknown

Both figures are all or nothing: a sum that lacks a broker, a topic or a client would look like less work than there is.
Each was compared with the truth on live brokers 5.5.0 and 5.5.1.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from offsetguard.collect.broker_reading import BrokerReading
from offsetguard.collect.detail_choice import Suspect, SuspectReason
from offsetguard.collect.group_members import ProxyMembers
from offsetguard.collect.metrics_endpoint import BrokerMetrics
from offsetguard.collect.pop import (
    Consumption,
    GroupSigns,
    Recognition,
    is_main_topic,
    online_client_count,
    pop_retry_topics,
    recognise,
    retry_topic_names,
)
from offsetguard.collect.snapshot_rows import client_answers
from offsetguard.collect.system_names import RETRY_PREFIX, TopicKind, is_lite_topic, topic_kind
from offsetguard.sources.rocketmq.consumers import ConsumerRunningInfo

# A broker counts messages in flight in memory only: after a restart those that it had handed out before are missing
# until they have expired or were acknowledged. RocketMQ's own invisible times are 15 minutes at most.
COUNTER_SETTLES = timedelta(minutes=15)
POP_STATISTICS = ("GROUP_CK_NUMS", "GROUP_ACK_NUMS")
_COUNTS = range(2**63)  # what the columns hold; a client or page that says anything else is not believed


class InflightOrigin(StrEnum):
    """Who told how much is in flight; the values of the column `pop_inflight_origin`."""

    RUNNING_INFO = "running_info"
    BROKER_METRICS = "broker_metrics"


@dataclass(frozen=True, slots=True)
class PopSources:
    """What a round knows beside the readings of its masters."""

    running_info: Mapping[tuple[str, str], ConsumerRunningInfo] = field(default_factory=dict)  # by (group, client id)
    popped: Mapping[str, bool] = field(default_factory=dict)  # group -> whether GROUP_CK_NUMS or ..ACK_NUMS exist
    metrics: Mapping[str, BrokerMetrics] = field(default_factory=dict)  # by broker name
    proxy_members: Mapping[str, frozenset[str]] = field(
        default_factory=dict
    )  # group -> client ids; all proxies said so
    remembered: Mapping[str, Consumption] = field(default_factory=dict)  # of the round before
    waiting_groups: Collection[str] = ()  # groups that have something to consume


@dataclass(frozen=True, slots=True)
class GroupConsumption:
    """What is landed of one group; every figure None where it is unknown or means nothing."""

    recognition: Recognition
    available: int | None = None
    inflight: int | None = None
    inflight_origin: InflightOrigin | None = None
    online_client_count: int | None = None
    finished: int | None = None  # a counter: messages ever written, without those that are available or in flight

    def columns(self) -> dict[str, object]:
        """Return the columns of `group_snapshots` that say it."""
        consumption, evidence = self.recognition.consumption, self.recognition.evidence
        return {
            "consumption": consumption.value if consumption else None,
            "consumption_evidence": evidence.value if evidence else None,
            "pop_available": self.available,
            "pop_inflight": self.inflight,
            "pop_inflight_origin": self.inflight_origin.value if self.inflight_origin else None,
            "online_client_count": self.online_client_count,
        }


def consumption_of(
    masters: Sequence[BrokerReading], sources: PopSources, groups: Iterable[str]
) -> dict[str, GroupConsumption]:
    """Tell for each of `groups` how it consumes, and the figures that follow from it. `masters`: all of the cluster."""
    committed = [_topics_by_group(master) for master in masters]
    versions = tuple(one.runtime.broker_version_desc if one.runtime else None for one in masters)
    found = {}
    infos: defaultdict[str, dict[str, ConsumerRunningInfo]] = defaultdict(dict)
    for (group, client), info in sources.running_info.items():
        infos[group][client] = info
    for group in groups:
        topics = [one.get(group, _NONE) for one in committed]
        found[group] = _consumption(_Group(group, masters, versions, topics, infos.get(group, {}), sources))
    return found


class _Topics:
    """Topics that one group has committed offsets for on one master."""

    __slots__ = ("lite", "main", "retry")

    def __init__(self) -> None:
        self.main: set[str] = set()
        self.retry: set[str] = set()
        self.lite = False  # light queues, of which there may be thousands

    def add(self, topic: str) -> None:
        if is_main_topic(topic):
            self.main.add(topic)
        elif is_lite_topic(topic):
            self.lite = True
        else:
            self.retry.add(topic)


_NONE = _Topics()


@dataclass(frozen=True, slots=True)
class _Group:
    name: str
    masters: Sequence[BrokerReading]
    broker_versions: tuple[str | None, ...]  # of the masters
    committed: Sequence[_Topics]  # of each master, in their order
    running_info: Mapping[str, ConsumerRunningInfo]  # by client id; of those whose info came
    sources: PopSources

    @property
    def retried(self) -> dict[str, str]:
        """The POP retry topics of the group, each with the topic that it retries."""
        found: dict[str, str] = {}
        for master, topics in zip(self.masters, self.committed, strict=True):
            found |= pop_retry_topics(self.name, topics.retry, master.topics or (), master.groups or ())
        return found

    @property
    def main_topics(self) -> set[str]:
        """Topics that producers write and the group consumes."""
        mains = {topic for topics in self.committed for topic in topics.main}
        return mains | {topic for topic in self.subscribed_topics if is_main_topic(topic)} | set(self.retried.values())

    @property
    def has_lite_topics(self) -> bool:
        """Only gRPC clients consume them."""
        return any(topics.lite for topics in self.committed)

    @property
    def subscribed_topics(self) -> set[str]:
        seen = (master.connections.get(self.name) for master in self.masters)
        return {topic for connections in seen if connections is not None for topic in connections.subscriptions}

    @property
    def client_ids(self) -> set[str] | None:
        """Clients that the masters see; None when a master that knows the group did not answer for it."""
        missing = (one for one in self.masters if self.name not in one.connections)
        if not self.masters or any(one.groups is None or self.name in one.groups for one in missing):
            return None
        seen = (master.connections.get(self.name) for master in self.masters)
        return {client.client_id for connections in seen if connections for client in connections.connections}


def _consumption(group: _Group) -> GroupConsumption:
    signs = _signs(group)
    recognition = recognise(signs)
    clients, by_proxies = _seen_by_brokers(group), group.sources.proxy_members.get(group.name)
    online = online_client_count(
        recognition,
        signs,
        seen_by_brokers=clients,
        seen_by_proxies=None if by_proxies is None else len(by_proxies),
        something_waits=group.name in group.sources.waiting_groups,
    )
    if not recognition.is_pop:
        return GroupConsumption(recognition, online_client_count=online)
    inflight, origin = _inflight(group)
    believable = inflight is not None and inflight in _COUNTS
    available = _available(group)
    available = available if available is not None and available in _COUNTS else None
    return GroupConsumption(
        recognition,
        available,
        inflight if believable else None,
        origin if believable else None,
        online,
        _finished(group, available, inflight if believable else None),
    )


def _signs(group: _Group) -> GroupSigns:
    masters, sources = group.masters, group.sources
    connections = [seen for master in masters if (seen := master.connections.get(group.name)) is not None]
    clients = group.client_ids if group.running_info else None
    return GroupSigns(
        pop_table=any(info.pop_queues for info in group.running_info.values()),
        every_client_answered=bool(clients) and all(client in group.running_info for client in clients or ()),
        consume_types=frozenset(seen.consume_type for seen in connections if seen.consume_type),
        message_model=next((seen.message_model for seen in connections if seen.message_model), None),
        counted_as_pop=any(
            series.taken_for_pop
            for metrics in sources.metrics.values()
            for series in metrics.groups.get(group.name, {}).values()
        ),
        pop_statistics=sources.popped.get(group.name),
        retry_topics=frozenset(group.retried),
        lite_topics=group.has_lite_topics,
        broker_versions=group.broker_versions,
        client_versions=tuple(client.version for seen in connections for client in seen.connections),
        remembered=sources.remembered.get(group.name),
    )


def _seen_by_brokers(group: _Group) -> int | None:
    """Clients that any master sees; None when none answered for the group."""
    answers = [one.connections[group.name] for one in group.masters if group.name in one.connections]
    if not answers:
        return None
    return len({client.client_id for connections in answers if connections for client in connections.connections})


def _available(group: _Group) -> int | None:
    """Sum what can still be handed out, over all masters; None when a part of it was not seen.

    Messages that retention has deleted cannot be handed out any more and do not count. Lite topics stand in `lite_lag`.
    """
    if group.has_lite_topics:
        return None
    retried = group.retried
    mains = group.main_topics
    retries = {name for topic in mains for name in retry_topic_names(group.name, topic)} | retried.keys()
    total = 0
    for master, committed in zip(group.masters, group.committed, strict=True):
        # a remoting client also has the classic retry topic, for messages that it sent back
        classic = {f"{RETRY_PREFIX}{group.name}"} & (committed.retry | group.subscribed_topics)
        for topic in mains | retries | classic:
            waiting = _available_in(group.name, topic, master)
            if waiting is None:
                return None
            total += waiting
    return total if group.masters else None


def _available_in(group: str, topic: str, master: BrokerReading) -> int | None:
    if not master.gave_offsets or master.topics is None:
        return None
    config = master.topics.get(topic)
    if config is None or topic_kind(topic) is TopicKind.SYSTEM:
        return 0
    ends = master.queue_ends.get(topic)
    if ends is None:
        return None
    by_queue = master.committed_offsets.get((topic, group), {})
    total = 0
    for queue_id, min_offset, max_offset in zip(ends.queue_ids, ends.min_offsets, ends.max_offsets, strict=True):
        if queue_id < config.read_queue_nums:  # nobody can read a queue beyond them
            total += max(0, max_offset - max(by_queue.get(queue_id, 0), min_offset))
    return total


def _finished(group: _Group, available: int | None, inflight: int | None) -> int | None:
    """Return how many messages of the main topics are done with; it grows with what is acknowledged, and only so.

    A message that expires moves to the retry topic: it leaves those in flight and is available again, once.
    """
    if available is None or inflight is None:
        return None
    written = 0
    for master in group.masters:
        for topic in group.main_topics:
            ends = master.queue_ends.get(topic)
            config = (master.topics or {}).get(topic)
            if ends is not None and config is not None and topic_kind(topic) is not TopicKind.SYSTEM:
                queues = zip(ends.queue_ids, ends.max_offsets, strict=True)
                written += sum(high for queue_id, high in queues if queue_id < config.read_queue_nums)
    finished = written - available - inflight
    return finished if abs(finished) in _COUNTS else None


def _inflight(group: _Group) -> tuple[int | None, InflightOrigin | None]:
    of_clients = _waiting_in_clients(group)
    if of_clients is not None:
        return of_clients, InflightOrigin.RUNNING_INFO
    if group.client_ids is None or group.client_ids:
        # the broker takes a group whose clients it sees for a classic one and says 0, whatever is in flight
        return None, None
    counted = _counted_by_brokers(group)
    return counted, InflightOrigin.BROKER_METRICS if counted is not None else None


def _waiting_in_clients(group: _Group) -> int | None:
    """Sum what was handed out to the clients and not acknowledged; None unless all of them gave their info."""
    clients = group.client_ids
    elsewhere = group.sources.proxy_members.get(group.name, frozenset()) - (clients or set())
    if not clients or elsewhere or any(client not in group.running_info for client in clients):
        return None
    popped = [queue for client in clients for queue in group.running_info[client].pop_queues.values()]
    return sum(queue.wait_ack_count for queue in popped) if popped else None


def _counted_by_brokers(group: _Group) -> int | None:
    if group.has_lite_topics or not any(topics.main for topics in group.committed):
        return None  # not among what the metrics count
    total = 0
    for master, committed in zip(group.masters, group.committed, strict=True):
        if master.committed is None:
            return None
        mains = committed.main
        if not mains:
            continue  # this broker has never handed out anything
        metrics = group.sources.metrics.get(master.broker_name)
        series = metrics.groups.get(group.name, {}) if metrics else {}
        counts = [count for topic in mains if topic in series for count in series[topic].inflight]
        all_counted = all(topic in series and series[topic].taken_for_pop for topic in mains)
        if not all_counted or any(count is None for count in counts) or _forgot_what_it_handed_out(master):
            return None
        total += sum(count for count in counts if count is not None)
    return total


def _forgot_what_it_handed_out(master: BrokerReading) -> bool:
    """Whether the broker was restarted so lately that messages from before may be in flight without being counted."""
    runtime, now = master.runtime, master.answered_at
    boot_at = runtime.boot_at if runtime else None
    earliest_ms = runtime.integer("earliestMessageTimeStamp") if runtime else None
    if boot_at is None or now is None or earliest_ms is None:
        return True  # unknown, so nothing can be excluded
    fresh = earliest_ms <= 0 or earliest_ms >= (boot_at - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(milliseconds=1)
    return not fresh and now - boot_at < COUNTER_SETTLES


def _topics_by_group(master: BrokerReading) -> Mapping[str, _Topics]:
    topics: defaultdict[str, _Topics] = defaultdict(_Topics)
    for topic, group in master.committed_offsets:
        topics[group].add(topic)
    return topics


def pop_sources(
    readings: Sequence[BrokerReading],
    groups_before: Mapping[str, Mapping[str, object]],
    *,
    metrics: Mapping[str, BrokerMetrics] | None = None,
    proxy_members: ProxyMembers | None = None,
    waiting_groups: Collection[str] = (),
) -> PopSources:
    """Bring them together. `readings`: of all replicas. `groups_before`: rows of `group_snapshots` by group."""
    answers = client_answers(readings)
    return PopSources(
        running_info={client: answer.info for client, answer in answers.items() if answer.info is not None},
        popped=_popped(readings),
        metrics=metrics or {},
        proxy_members=proxy_members or {},
        remembered=remembered_consumption(groups_before),
        waiting_groups=waiting_groups,
    )


def remembered_consumption(groups_before: Mapping[str, Mapping[str, object]]) -> dict[str, Consumption]:
    """Return how groups were recognised in the round before, from its rows of `group_snapshots`."""
    values = {group: row.get("consumption") for group, row in groups_before.items()}
    known = {consumption.value: consumption for consumption in Consumption}
    return {group: known[value] for group, value in values.items() if isinstance(value, str) and value in known}


def pop_suspects(
    masters: Iterable[BrokerReading], groups_before: Mapping[str, Mapping[str, object]]
) -> Iterator[Suspect]:
    """Yield the groups that were POP in the round before: whatever their offsets say, clients may hold messages.

    Groups of lite topics only are left out: nobody but their proxies could tell more of them.
    """
    remembered = {group for group, one in remembered_consumption(groups_before).items() if one is Consumption.POP}
    if remembered:
        committed = (master.committed_offsets for master in masters)
        known = {group for offsets in committed for topic, group in offsets if not is_lite_topic(topic)}
        yield from (Suspect(group, SuspectReason.POP, 0) for group in sorted(remembered & known))


def _popped(readings: Iterable[BrokerReading]) -> dict[str, bool]:
    """Return the groups whose POP statistics were asked for, and whether any exist.

    They are counted where messages are handed out, from the first time since the replica's start on.
    """
    popped: dict[str, bool] = {}
    for reading in readings:
        for item, answer in reading.broker_stats.items():
            if item.stats_name in POP_STATISTICS and item.consumer_group is not None:
                popped[item.consumer_group] = popped.get(item.consumer_group, False) or answer.body is not None
    return popped
