"""The columns of `group_snapshots` about POP, from what all masters of a cluster answered.

    POP groups: available = sum of max - committed over the topics and their retry topics (a queue that was never popped
                has no entry: all of it counts)
                in flight = sum of waitAckCount of all clients (remoting clients), else the broker's own metrics
                (gRPC clients), else unknown

Both figures are all or nothing: a sum that lacks a broker, a topic or a client would look like less work than there is.
Each was compared with the truth on live brokers 5.5.0 and 5.5.1.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from offsetguard.collect import pop
from offsetguard.collect.broker_reading import BrokerReading
from offsetguard.collect.detail_choice import Suspect, SuspectReason
from offsetguard.collect.group_members import ProxyMembers
from offsetguard.collect.metrics_endpoint import BrokerMetrics
from offsetguard.collect.snapshot_rows import client_answers
from offsetguard.collect.system_names import RETRY_PREFIX, TopicKind, is_lite_topic, topic_kind
from offsetguard.sources.rocketmq.consumers import ConsumerConnections, ConsumerRunningInfo

# A broker counts messages in flight in memory only: after a restart those that it had handed out before are missing
# until they have expired or were acknowledged. RocketMQ's own invisible times are 15 minutes at most.
COUNTER_SETTLES = timedelta(minutes=15)
_CONSUMPTIONS = frozenset(pop.Consumption)
_COUNTS = range(2**63)  # what the columns hold; a client or page that says anything else is not believed


class InflightOrigin(StrEnum):
    """Who told how much is in flight; the values of the column `pop_inflight_origin`."""

    RUNNING_INFO = "running_info"
    BROKER_METRICS = "broker_metrics"


@dataclass(frozen=True, slots=True)
class GroupConsumption:
    """How one group consumes, and what told; every figure None where it is unknown or means nothing."""

    consumption: pop.Consumption | None = None
    evidence: pop.Evidence | None = None
    available: int | None = None
    inflight: int | None = None
    inflight_origin: InflightOrigin | None = None
    online_client_count: int | None = None
    finished: int | None = None  # a counter: messages ever written, without those that are available or in flight

    @property
    def is_pop(self) -> bool:
        """Committed means handed out."""
        return self.consumption is pop.Consumption.POP

    def columns(self) -> dict[str, object]:
        """Return the columns of `group_snapshots` that say it."""
        return {
            "consumption": self.consumption,
            "consumption_evidence": self.evidence,
            "pop_available": self.available,
            "pop_inflight": self.inflight,
            "pop_inflight_origin": self.inflight_origin,
            "online_client_count": self.online_client_count,
        }


def consumption_of(
    readings: Sequence[BrokerReading],
    groups: Iterable[str],
    *,
    groups_before: Mapping[str, Mapping[str, object]],
    metrics: Mapping[str, BrokerMetrics],
    proxy_members: ProxyMembers,
    waiting_groups: Collection[str] = (),
) -> dict[str, GroupConsumption]:
    """Tell for each of `groups` how it consumes, and the figures that follow from it.

    `readings`: of all replicas. `groups_before`: rows of `group_snapshots` of the round before. `metrics`: by broker
    name. `waiting_groups`: those that have something to consume.
    """
    masters = [reading for reading in readings if reading.replica.is_master]
    popped, remembered = _popped(readings), remembered_consumption(groups_before)
    infos: defaultdict[str, dict[str, ConsumerRunningInfo]] = defaultdict(dict)
    for (group, client), answer in client_answers(readings).items():
        if answer.info is not None:
            infos[group][client] = answer.info
    shared: dict[GroupConsumption, GroupConsumption] = {}  # most groups of a cluster consume alike
    consumption: dict[str, GroupConsumption] = {}
    for group in groups:
        one = _consumption(
            _Group(
                group,
                masters,
                committed=[master.committed_offsets.topics_of(group) for master in masters],
                running_info=infos.get(group, {}),
                metrics=metrics,
                proxy_members=proxy_members.get(group),
                popped=popped.get(group),
                remembered=remembered.get(group),
                something_waits=group in waiting_groups,
            )
        )
        consumption[group] = shared.setdefault(one, one)
    return consumption


@dataclass(frozen=True, slots=True)
class _Group:
    """What a round knows of one group."""

    name: str
    masters: Sequence[BrokerReading]
    committed: Sequence[Collection[str]]  # of each master, in their order: topics with a committed offset
    running_info: Mapping[str, ConsumerRunningInfo]  # by client id; of those whose info came
    metrics: Mapping[str, BrokerMetrics]
    proxy_members: frozenset[str] | None  # client ids; None: not all proxies said so
    popped: bool | None  # whether GROUP_CK_NUMS or ..ACK_NUMS exist
    remembered: pop.Consumption | None
    something_waits: bool

    @property
    def retried(self) -> dict[str, str]:
        """The POP retry topics of the group, each with the topic that it retries."""
        found: dict[str, str] = {}
        for master, topics in zip(self.masters, self.committed, strict=True):
            retry = [topic for topic in topics if topic.startswith(RETRY_PREFIX)]
            found |= pop.pop_retry_topics(self.name, retry, master.topics or (), master.groups or ())
        return found

    @property
    def main_topics(self) -> set[str]:
        """Topics that producers write and the group consumes."""
        mains = {topic for topics in (*self.committed, self.subscribed_topics) for topic in topics}
        return {topic for topic in mains if pop.is_main_topic(topic)} | set(self.retried.values())

    @property
    def has_lite_topics(self) -> bool:
        """Only gRPC clients consume them."""
        return any(is_lite_topic(topic) for topics in self.committed for topic in topics)

    @property
    def connections(self) -> list[ConsumerConnections]:
        """What the masters that see clients of the group say of them."""
        return [seen for master in self.masters if (seen := master.connections.get(self.name)) is not None]

    @property
    def subscribed_topics(self) -> set[str]:
        """Topics that clients subscribe to."""
        return {topic for seen in self.connections for topic in seen.subscriptions}

    @property
    def seen_clients(self) -> set[str]:
        """Clients that any master sees."""
        return {client.client_id for seen in self.connections for client in seen.connections}

    @property
    def client_ids(self) -> set[str] | None:
        """The same; None when a master that knows the group did not answer for it."""
        missing = (one for one in self.masters if self.name not in one.connections)
        if not self.masters or any(one.groups is None or self.name in one.groups for one in missing):
            return None
        return self.seen_clients


def _consumption(group: _Group) -> GroupConsumption:
    consumption, evidence = pop.recognise(_signs(group))
    online = _online_client_count(group, consumption)
    if consumption is not pop.Consumption.POP:
        return GroupConsumption(consumption, evidence, online_client_count=online)
    inflight, origin = _inflight(group)
    if inflight is not None and inflight not in _COUNTS:
        inflight, origin = None, None
    available = _available(group)
    if available is not None and available not in _COUNTS:
        available = None
    return GroupConsumption(
        consumption, evidence, available, inflight, origin, online, _finished(group, available, inflight)
    )


def _online_client_count(group: _Group, consumption: pop.Consumption | None) -> int | None:
    """Return how many clients of a group are online; None = could not be seen, 0 = offline.

    Behind a proxy in CLUSTER mode, brokers do not see a group's clients: their "not online" says nothing of a POP
    group, nor of a group that was not looked at closely enough to know (nobody may call it stopped while messages
    wait). What all configured proxies say counts.
    """
    seen, of_proxies = len(group.seen_clients), group.proxy_members
    if seen:
        return max(seen, len(of_proxies or ()))
    if of_proxies is not None:
        return len(of_proxies)
    unsure = consumption is None and group.popped is None and group.something_waits
    answered = any(group.name in master.connections for master in group.masters)
    return 0 if answered and not unsure and consumption is not pop.Consumption.POP else None


def _signs(group: _Group) -> pop.GroupSigns:
    clients = group.client_ids if group.running_info else None
    runtimes = [master.runtime for master in group.masters]
    return pop.GroupSigns(
        pop_table=any(info.pop_queues for info in group.running_info.values()),
        every_client_answered=bool(clients) and group.running_info.keys() >= (clients or set()),
        consume_types=frozenset(seen.consume_type for seen in group.connections if seen.consume_type),
        message_model=next((seen.message_model for seen in group.connections if seen.message_model), None),
        counted_as_pop=any(
            series.taken_for_pop
            for page in group.metrics.values()
            for series in page.groups.get(group.name, {}).values()
        ),
        pop_statistics=group.popped,
        retry_topics=frozenset(group.retried),
        lite_topics=group.has_lite_topics,
        broker_versions=tuple(runtime.broker_version_desc if runtime else None for runtime in runtimes),
        client_versions=tuple(client.version for seen in group.connections for client in seen.connections),
        remembered=group.remembered,
    )


def _available(group: _Group) -> int | None:
    """Sum what can still be handed out, over all masters; None when a part of it was not seen.

    Messages that retention has deleted cannot be handed out any more and do not count. Lite topics stand in `lite_lag`.
    """
    if group.has_lite_topics or not group.masters:
        return None
    mains = group.main_topics
    topics = (
        {name for topic in mains for name in pop.retry_topic_names(group.name, topic)} | group.retried.keys() | mains
    )
    total = 0
    for master, committed in zip(group.masters, group.committed, strict=True):
        # a remoting client also has the classic retry topic, for messages that it sent back
        classic = {f"{RETRY_PREFIX}{group.name}"} & {*committed, *group.subscribed_topics}
        for topic in topics | classic:
            queues = _readable_queues(master, topic) if master.gave_offsets else None
            if queues is None or (topic, group.name) in master.unreadable_pairs:
                return None
            by_queue = master.committed_offsets.get((topic, group.name), {})
            total += sum(max(0, high - max(by_queue.get(queue_id, 0), low)) for queue_id, low, high in queues)
    return total


def _readable_queues(master: BrokerReading, topic: str) -> list[tuple[int, int, int]] | None:
    """Return (queue id, min offset, max offset) of what can be read of a topic; None = it was not seen."""
    config = (master.topics or {}).get(topic)
    if config is None or topic_kind(topic) is TopicKind.SYSTEM:
        return []
    ends = master.queue_ends.get(topic)
    if ends is None:
        return None
    queues = zip(ends.queue_ids, ends.min_offsets, ends.max_offsets, strict=True)
    return [queue for queue in queues if queue[0] < config.read_queue_nums]


def _finished(group: _Group, available: int | None, inflight: int | None) -> int | None:
    """Return how many messages of the main topics are done with; it grows with what is acknowledged, and only so.

    A message that expires moves to the retry topic: it leaves those in flight and is available again, once.
    """
    if available is None or inflight is None:
        return None
    topics = group.main_topics
    queues = (_readable_queues(master, topic) or () for master in group.masters for topic in topics)
    finished = sum(high for of_topic in queues for _, _, high in of_topic) - available - inflight
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
    if not clients or not clients >= (group.proxy_members or set()) or not group.running_info.keys() >= clients:
        return None
    popped = [queue for client in clients for queue in group.running_info[client].pop_queues.values()]
    return sum(queue.wait_ack_count for queue in popped) if popped else None


def _counted_by_brokers(group: _Group) -> int | None:
    mains_of_each = [[topic for topic in topics if pop.is_main_topic(topic)] for topics in group.committed]
    if group.has_lite_topics or not any(mains_of_each):
        return None  # not among what the metrics count
    total = 0
    for master, mains in zip(group.masters, mains_of_each, strict=True):
        if master.committed is None:
            return None
        if not mains:
            continue  # this broker has never handed out anything
        page = group.metrics.get(master.broker_name)
        series = page.groups.get(group.name, {}) if page else {}
        if _forgot_what_it_handed_out(master) or not all(
            topic in series and series[topic].taken_for_pop for topic in mains
        ):
            return None
        for topic in mains:
            for count in series[topic].inflight:
                if count is None:
                    return None
                total += count
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


def remembered_consumption(groups_before: Mapping[str, Mapping[str, object]]) -> dict[str, pop.Consumption]:
    """Return how groups were recognised in the round before, from its rows of `group_snapshots`."""
    values = ((group, row.get("consumption")) for group, row in groups_before.items())
    return {group: pop.Consumption(str(value)) for group, value in values if value in _CONSUMPTIONS}


def pop_suspects(
    masters: Iterable[BrokerReading], groups_before: Mapping[str, Mapping[str, object]]
) -> Iterator[Suspect]:
    """Yield the groups that were POP in the round before: whatever their offsets say, clients may hold messages.

    Groups of lite topics only are left out: nobody but their proxies could tell more of them.
    """
    remembered = {group for group, one in remembered_consumption(groups_before).items() if one is pop.Consumption.POP}
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
            if item.stats_name in pop.POP_STATISTICS and item.consumer_group is not None:
                popped[item.consumer_group] = popped.get(item.consumer_group, False) or answer.body is not None
    return popped
