"""Looking up facts of one group, topic or broker, and the figures that several rules show.

Also the commands of RocketMQ's admin tool that texts hand to their readers, as templates (`rule.Texts`). Each was run
as printed on live brokers of every line (`tests/live/test_printed_commands.py`, docs/messages.md); where only some
versions have one, it is left out for the others (its figures are not known then). One that deletes says so in a
comment, in the reader's language, and comes last. A time is given in ms since 1970: what people write as a date means
another moment on a host in another time zone.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from offsetguard.catalogue import Sentence
from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts, OnlineGroupFacts, QueueFacts
from offsetguard.judge.windows.pace import EXTRAPOLATED, waits_between
from offsetguard.model.offsets import MessageQueue
from offsetguard.model.verdicts import CannotTell, Figure, QueueEvidence
from offsetguard.tables.broker_facts import BrokerFacts
from offsetguard.tables.group_facts import GroupFacts

MOST_COMMANDS = 4  # of a kind
_EXACTLY_MS = 1_000  # nobody reads more exactly


def queues_by_group(facts: IntervalFacts) -> Mapping[tuple[str, str], list[QueueFacts]]:
    """Return the suspect queues of each (consumer group, topic)."""
    found: defaultdict[tuple[str, str], list[QueueFacts]] = defaultdict(list)
    for queue in facts.queues:
        found[queue.consumer_group, queue.message_queue.topic].append(queue)
    return found


def queue_name(queue: MessageQueue) -> str:
    """Return a queue of a known topic as it is shown: `broker-a/0`."""
    return f"{queue.broker_name}/{queue.queue_id}"


def replica_name(broker: BrokerFacts) -> str:
    """Return a broker's replica as it is shown: `broker-a/0` is the master."""
    return f"{broker.broker_name}/{broker.broker_id}"


def worst_brokers(
    facts: IntervalFacts, variant_of: Callable[[BrokerFacts], str | None], worst_first: Sequence[str]
) -> tuple[str, list[BrokerFacts]] | None:
    """Return the worst variant that brokers show, and who shows it; None: no broker shows any."""
    shown = [(variant, one) for one in facts.brokers if (variant := variant_of(one)) is not None]
    if not shown:
        return None
    worst = min((variant for variant, _ in shown), key=worst_first.index)
    return worst, [one for variant, one in shown if variant == worst]


def last_stored(queue: QueueFacts) -> datetime | str:
    """Return when the message before the committed offset was stored, or why that is not known; never 1970."""
    if queue.last_timestamp is not None:
        return queue.last_timestamp
    if queue.offsets.consumer_offset is None:
        return Sentence("never_committed")
    return Sentence("message_before_deleted")


def age_of_oldest(queues: Iterable[QueueFacts], group: GroupFacts | None = None) -> Figure:
    """Return for how long the oldest message of some queues waits, ms; where it is between bounds, these as words.

    `group`: of which more may wait than in these queues, and for longer in those that were not read. None: nothing is
    known.
    """
    lag_ms = group.lag_ms if group else None
    waiting = [one for one in queues if (one.offsets.effective_lag or 0) > 0]
    guessed = {one.lag_ms for one in waiting if one.lag_ms_basis == EXTRAPOLATED} | {None}
    known = [age for age in (lag_ms, *(one.lag_ms for one in waiting)) if age is not None and age not in guessed]
    bounds = [waits_between(one.window) for one in waiting if one.lag_ms in guessed]
    least = max([*known, *(low for low, _ in bounds)], default=0)
    highs = [high for _, high in bounds]
    unread = group is not None and group.unknown_queue_count > 0
    most = (
        None if unread or None in highs else max([*known, *(high for high in highs if high is not None)], default=None)
    )
    if most is None:
        return Sentence("for_at_least", span_ms=least) if least else None
    if most - least <= _EXACTLY_MS:
        return most
    return Sentence("for_between", low_ms=least, high_ms=most) if least else Sentence("for_at_most", span_ms=most)


def sum_at_least(counts: Iterable[Figure]) -> Figure:
    """Return the sum of counts of messages; "at least" that of the known ones where some are not.

    None: none is known, or none but those that are 0.
    """
    all_counts = list(counts)
    known = [count for count in all_counts if isinstance(count, int)]
    if len(known) == len(all_counts):
        return sum(known)
    return Sentence("at_least_messages", count=sum(known)) if any(known) else None


def of_all_queues(group: GroupFacts, count: int | None) -> Figure:
    """Return a count of a group's messages in a topic; "at least" so many where a queue of it was not read."""
    return sum_at_least([count, *([None] if group.unknown_queue_count else [])])


def waiting_in(queues: Iterable[QueueFacts]) -> int:
    """Return how many messages wait in some queues, as far as that is known."""
    return sum(queue.offsets.effective_lag or 0 for queue in queues)


def lag_evidence(queues: Iterable[QueueFacts]) -> tuple[QueueEvidence, ...]:
    """Return the queues that are behind, worst first."""
    behind = (queue for queue in queues if (queue.offsets.effective_lag or 0) > 0)
    return tuple(
        QueueEvidence(
            queue.message_queue,
            {
                "effective_lag": queue.offsets.effective_lag,
                "lag_ms": age_of_oldest([queue]),
                "inflight": queue.offsets.inflight,
                "cached_message_count": queue.cached_message_count,
                "last_timestamp": last_stored(queue),
            },
        )
        for queue in sorted(behind, key=lambda one: (-(one.offsets.effective_lag or 0), one.message_queue))
    )


def master_boots(facts: IntervalFacts) -> Mapping[str, datetime]:
    """Return when each master was started, or took over as one, by broker name; one that did not tell is left out.

    Since then it knows locks, clients and commits; a slave may have run for long before.
    """
    found = {}
    for one in facts.brokers:
        known = [moment for moment in (one.boot_at, one.master_changed_at) if moment is not None]
        if one.broker_id == 0 and known:
            found[one.broker_name] = max(known)
    return found


def master_changes(facts: IntervalFacts, since: datetime) -> Mapping[str, datetime]:
    """Return by broker name when another replica was first seen as the master, of changes since a moment."""
    known = ((one.broker_name, one.master_changed_at) for one in facts.brokers if one.broker_id == 0)
    return {name: at for name, at in known if at is not None and at >= since}


def message_models(facts: IntervalFacts) -> Mapping[str, str]:
    """Return CLUSTERING or BROADCASTING per consumer group; a group of which no client was online is left out."""
    # a broadcasting group has no offsets, so no row of its topics
    known: list[OnlineGroupFacts | GroupFacts] = [*facts.online_groups, *facts.groups]
    return {g.consumer_group: g.message_model for g in known if g.message_model is not None}


def online_clients(facts: IntervalFacts) -> Mapping[str, int]:
    """Return the connected clients per consumer group; a group whose connections were not seen is left out."""
    known: list[OnlineGroupFacts | GroupFacts] = [*facts.online_groups, *facts.groups]
    return {g.consumer_group: g.online_client_count for g in known if g.online_client_count is not None}


def command_figures(facts: IntervalFacts, config: Config) -> dict[str, str | None]:
    """Return what commands need to be told of a cluster; None where it is not known."""
    known = config.clusters.get(facts.cluster)
    names_of_cluster = {broker.rocketmq_cluster for broker in facts.brokers if broker.rocketmq_cluster}
    rocketmq_cluster = names_of_cluster.pop() if len(names_of_cluster) == 1 else None
    masters = [broker for broker in facts.brokers if broker.broker_id == 0]
    has_ha_status = any((broker.version or "").startswith("V5") for broker in masters)
    return {
        "name_servers": ";".join(known.name_servers) if known is not None else None,
        "rocketmq_cluster": rocketmq_cluster,
        "cluster_with_ha_status": rocketmq_cluster if has_ha_status else None,
        "what_it_deletes": Sentence("command_deletes_group"),
        "master_addresses": " ".join([one.address for one in masters if one.address][:MOST_COMMANDS]) or None,
    }


SILENT_AT_ZERO = frozenset(
    {"beyond", "lost", "repeated"}
)  # "lost messages 0" in a message about something else is noise


def rounded_rate(tps: float | None) -> int | float | None:
    """Return a rate without digits that nobody needs: whole from 10 per second on, else tenths."""
    if tps is None:
        return None
    return round(tps) if tps >= 10 or tps == 0 else round(tps, 1)


def slave_behind_bytes(facts: IntervalFacts, broker_names: Collection[str]) -> int | None:
    """Return by how much the slave of these brokers that is furthest behind lags; None = not seen."""
    found = (one.slave_behind_bytes for one in facts.brokers if one.broker_name in broker_names)
    return max((max(0, behind) for behind in found if behind is not None), default=None)


_OF_NO_GROUP = {"retry_growth": "retries_unknown", "dead_letter_growth": "dead_letters_unknown"}
_NOT_OF_GROUP = {"retry_growth": "retries_of_group_unknown", "dead_letter_growth": "dead_letters_of_group_unknown"}


def each_group(facts: IntervalFacts) -> Iterator[GroupFacts]:
    """Give one row of each consumer group, RocketMQ's own left out; any row has the group's own figures."""
    seen: set[str] = set()
    for group in facts.groups:
        if not group.system_group and group.consumer_group not in seen:
            seen.add(group.consumer_group)
            yield group


def growth_unknown(facts: IntervalFacts, rule_id: str, field: str) -> Iterator[CannotTell]:
    """Give what cannot be told because a growth is not known: once when there is no round before, else by group."""
    groups = list(each_group(facts))
    unknown = [group for group in groups if getattr(group, field) is None]
    if groups and len(unknown) == len(groups):
        yield CannotTell(rule_id, None, frozenset(), Sentence(_OF_NO_GROUP[field]))
        return
    for group in unknown:
        because = Sentence(_NOT_OF_GROUP[field], consumer_group=group.consumer_group)
        yield CannotTell(rule_id, group.consumer_group, frozenset(), because)


_TO = " -n {name_servers:shell}"
_OF_CLUSTER = _TO + " -c {rocketmq_cluster:shell}"
_OF_GROUP = _TO + " -g {consumer_group:shell}"
_TO_REFUSING = " -b {refusing_addresses:each}"
_RESET = "mqadmin resetOffsetByTime" + _OF_GROUP + " -t {topic:shell} -s "
_TO_WANTED_QUEUES = " -r {wanted_queue_nums} -w {wanted_queue_nums}"
_MESSAGE_AT = "mqadmin queryMsgByOffset" + _TO + " -t {topic:shell} -b {broker_name:shell} -i {queue_id} -o "

BROKER_STATUS = "mqadmin brokerStatus" + _OF_CLUSTER
CLUSTER_LIST = "mqadmin clusterList" + _TO
DELETE_GROUP = "mqadmin deleteSubGroup" + _OF_CLUSTER + " -g {consumer_group:shell} -r true  # {what_it_deletes}"
LET_CONSUME = "mqadmin updateSubGroup" + _OF_GROUP + _TO_REFUSING + " {enabling_options}"
LET_READ_BROKER = "mqadmin updateBrokerConfig" + _TO + _TO_REFUSING + " -k brokerPermission -v 6"
LET_READ_TOPIC = "mqadmin updateTopicPerm" + _TO + _TO_REFUSING + " -t {topic:shell} -p 6"
MEMBERS = "mqadmin consumerConnection" + _OF_GROUP
MEMBERS_OF_EACH_BROKER = MEMBERS + " -b {master_addresses:each}"
PRODUCERS_OF_EACH_BROKER = "mqadmin producer -b {master_addresses:each}" + _TO
PROGRESS = "mqadmin consumerProgress" + _OF_GROUP
PROGRESS_BY_CLIENT = PROGRESS + " -s true"
PRINT_GIVEN_UP = "mqadmin consumeMessage" + _TO + " -t TRANS_CHECK_MAX_TIME_TOPIC"
REPLICATION = "mqadmin haStatus" + _TO + " -c {cluster_with_ha_status:shell}"
RATES_OF_CLIENTS = "mqadmin consumerStatus" + _OF_GROUP
RESET_TO_BEFORE = _RESET + "{moved_after:unix_ms}"
RESET_TO_MOVE = _RESET + "{first_moved_at:unix_ms}"
RESET_TO_SINCE = _RESET + "{since:unix_ms}"
RETAIN_LONGER = "mqadmin updateBrokerConfig" + _OF_CLUSTER + " -k fileReservedTime -v {longer_hours}"
SET_QUEUES = "mqadmin updateTopic" + _OF_CLUSTER + " -t {topic:shell}" + _TO_WANTED_QUEUES
SET_QUEUES_OF_LAGGING = "mqadmin updateTopic" + _OF_CLUSTER + " -t {lagging_topic:shell}" + _TO_WANTED_QUEUES
SHOW_BLOCKING = _MESSAGE_AT + "{blocked_offset}"
SHOW_COMMITTED = _MESSAGE_AT + "{consumer_offset}"
STACKS_GO = "Each client's threads go into a file, which this names:"
STACKS_GO_ZH = "每个客户端的线程会写入一个文件，命令会给出文件名："
STACKS = RATES_OF_CLIENTS + " -s"
STACK_OF_CLIENT = RATES_OF_CLIENTS + " -i {client_id:shell} -s"
STACK_OF_HOLDER = RATES_OF_CLIENTS + " -i {holder_client_id:shell} -s"
WHERE_DEAD_LETTERS_LIE = "mqadmin topicStatus" + _TO + " -t {dead_letter_topic:shell}"
