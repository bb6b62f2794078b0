"""One cause, one finding: findings that another one explains are named under it and taken out of the list.

What explains what is data (`SUBSUMPTIONS`); whether a pair meets in a cluster is decided by its scope. An explanation
never makes trouble quieter: the explaining finding takes the worst severity of what it explains, except where the pair
says that nothing is wrong (`quiets`). Of what several findings explain, the first of them names it; of findings that
explain each other the first stays. Pure and independent of the order in which the findings come.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from offsetguard.judge.rule import Finding

# How much of a finding's lag must lie on the queues that another one explains: the rest is what healthy queues have.
_EXPLAINED_SHARE = 0.9


class Scope(StrEnum):
    """What two findings of one cluster must have in common."""

    QUEUES = "same queues"  # of one group and topic: nearly all of the lag lies on the explaining queues
    TOPIC = "same group and topic"  # a finding about all groups of a topic explains each of them
    GROUP = "same group"
    BROKER = "same brokers"  # all brokers of the explained one are among the explaining ones
    CLUSTER = "same cluster"


@dataclass(frozen=True, slots=True)
class Subsumption:
    """Findings of `explaining` explain those of `explained` within the scope."""

    explaining: str
    explained: str
    scope: Scope
    variants: tuple[str, ...] = ()  # of the explaining rule; empty: all
    explained_variants: tuple[str, ...] = ()
    quiets: bool = False  # the explaining finding shows that nothing is wrong, and keeps its own severity


def _pairs(explaining: str, scope: Scope, *explained: str, variants: tuple[str, ...] = ()) -> tuple[Subsumption, ...]:
    return tuple(Subsumption(explaining, rule_id, scope, variants) for rule_id in explained)


# A surge of a topic does not explain the backlogs of its groups: it is told to another team than theirs.
SUBSUMPTIONS: tuple[Subsumption, ...] = (
    *_pairs("name_server_unreachable", Scope.CLUSTER, "broker_unreachable", "collection_incomplete"),
    *_pairs(
        "broker_unreachable",
        Scope.BROKER,
        *("collection_incomplete", "slave_behind", "store_slow", "disk_filling", "clock_skew"),
        *("transactions_not_ended", "delayed_delivery_late"),
        *("accumulation", "consumer_offline", "never_committed", "membership_disagrees", "lock_contention"),
        "client_stands_still",
        "reads_moved_to_slave",
        variants=("default", "groups_unknown"),  # of masters: a dead slave explains nothing of its master
    ),
    *(
        Subsumption("reads_moved_to_slave", rule_id, Scope.TOPIC, variants=("default", "falls"), quiets=True)
        for rule_id in ("accumulation", "slow_consumption", "flow_control")
    ),
    Subsumption("reads_moved_to_slave", "accumulation", Scope.TOPIC, variants=("not_falling",)),
    *_pairs("lock_not_released", Scope.QUEUES, "accumulation", "slow_consumption", "lock_contention"),
    # what stands still after the lock was had has another cause
    *_pairs("lock_not_released", Scope.QUEUES, "poison_message", "client_stands_still", variants=("waiting", "unheld")),
    *_pairs("lock_contention", Scope.QUEUES, "accumulation", "slow_consumption"),
    *_pairs("client_stands_still", Scope.QUEUES, "accumulation", "slow_consumption", "flow_control"),
    *_pairs("membership_disagrees", Scope.GROUP, "idle_consumers", "lock_contention"),
    *_pairs("membership_disagrees", Scope.GROUP, "accumulation", "never_committed"),
    *_pairs("poison_message", Scope.QUEUES, "accumulation", "flow_control", "slow_consumption"),
    *_pairs("poison_message", Scope.QUEUES, "queue_parallelism_cap", "client_stands_still"),
    *_pairs("poison_message", Scope.GROUP, "retry_limit_too_high"),
    *_pairs("queue_parallelism_cap", Scope.TOPIC, "accumulation", "slow_consumption", "idle_consumers"),
    *_pairs("slow_consumption", Scope.TOPIC, "accumulation", "flow_control"),
    *_pairs("flow_control", Scope.TOPIC, "accumulation"),
    *_pairs("handlers_hanging", Scope.TOPIC, "accumulation", "slow_consumption"),
    *_pairs("consumer_offline", Scope.TOPIC, "accumulation", "never_committed", "unsubscribed_topic"),
    *_pairs("unsubscribed_topic", Scope.TOPIC, "accumulation", "never_committed"),
    *_pairs("subscription_mismatch", Scope.TOPIC, "filter_hides_lag"),
    *_pairs("subscription_mismatch", Scope.TOPIC, "accumulation", variants=("topics_differ",)),
    *_pairs("subscription_mismatch", Scope.GROUP, "unsubscribed_topic", "idle_consumers"),
    # each client's heartbeat makes the subscription of the others an older one
    Subsumption("subscription_mismatch", "membership_disagrees", Scope.GROUP, explained_variants=("pulls_refused",)),
    *_pairs("read_write_queues_differ", Scope.TOPIC, "never_committed", "idle_consumers"),
    *_pairs("read_write_queues_differ", Scope.QUEUES, "accumulation", "slow_consumption"),
    *_pairs(
        "offset_store_not_persisting",
        Scope.GROUP,
        *("offset_moved_by_retention", "messages_lost", "offset_reset", "offsets_violate_invariant"),
        *("membership_disagrees", "rebalance_noise"),
    ),
    *_pairs("membership_disagrees", Scope.GROUP, "rebalance_noise"),
    *_pairs("queue_recreated", Scope.TOPIC, "offset_reset", "offset_moved_by_retention", "messages_lost"),
    *_pairs("queue_recreated", Scope.TOPIC, "offsets_violate_invariant"),
    *_pairs("master_switched", Scope.TOPIC, "offsets_violate_invariant"),
    # its locks are new: clients that come to it ask for those that others have just taken
    *_pairs("master_switched", Scope.BROKER, "lock_contention", variants=("default", "read_again")),
    *_pairs("offset_reset", Scope.TOPIC, "accumulation", "offsets_violate_invariant"),
    *_pairs("offset_moved_by_retention", Scope.TOPIC, "messages_lost"),
    # the more urgent news, not the cause: what will be lost, and until when it can be prevented
    *_pairs("loss_ahead", Scope.TOPIC, "accumulation", "consumer_offline"),
    # a broker that refuses writes can neither check transactions nor deliver
    *_pairs("disk_filling", Scope.BROKER, "delayed_delivery_late", variants=("full",)),
    Subsumption(
        "disk_filling", "transactions_not_ended", Scope.BROKER, variants=("full",), explained_variants=("unchecked",)
    ),
    *_pairs("retry_storm", Scope.GROUP, "dead_letters"),
    Subsumption("filter_hides_lag", "accumulation", Scope.TOPIC, variants=("default",), quiets=True),
)


def explains(cause: Finding, finding: Finding) -> bool:
    """Whether one finding explains another one by itself."""
    pairs = (one for one in SUBSUMPTIONS if (one.explaining, one.explained) == (cause.rule.id, finding.rule.id))
    return any(_meets(pair, cause, finding) for pair in pairs)


def subsume(findings: Iterable[Finding], subsumptions: Sequence[Subsumption] = SUBSUMPTIONS) -> list[Finding]:
    """Return the findings that no other one explains, each naming all that it explains, directly or through others.

    `findings`: those of one cluster, best explanation first (it decides between several).
    """
    ordered = list(findings)
    explained_by = _edges(ordered, subsumptions)
    has_cause = {position for found in explained_by.values() for position in found}
    kept: dict[int, Finding] = {}
    settled: set[int] = set()
    # first what nothing explains; what is left then explains each other in circles, and the first of each circle stays
    for position in (*(p for p in range(len(ordered)) if p not in has_cause), *range(len(ordered))):
        if position not in settled:
            settled.add(position)
            kept[position] = _named(position, ordered, explained_by, settled)
    return [kept[position] for position in sorted(kept)]


def _named(
    start: int, ordered: Sequence[Finding], edges: Mapping[int, Mapping[int, Subsumption]], settled: set[int]
) -> Finding:
    """Return the finding at `start` with all that it explains and no other finding has named; they become settled."""
    finding = ordered[start]
    severity = finding.severity
    named: list[int] = []
    reached = deque([(start, False)])
    while reached:
        position, quieted = reached.popleft()
        for explained, pair in edges.get(position, {}).items():
            if explained in settled:
                continue
            settled.add(explained)
            named.append(explained)
            quiet = quieted or pair.quiets
            reached.append((explained, quiet))
            if not quiet and ordered[explained].severity.rank > severity.rank:
                severity = ordered[explained].severity
    explains = tuple(ordered[position].as_explained for position in sorted(named))
    return replace(finding, severity=severity, explains=explains) if explains else finding


def _edges(ordered: Sequence[Finding], subsumptions: Sequence[Subsumption]) -> dict[int, dict[int, Subsumption]]:
    """Return by position which findings each one explains, and by which pair."""
    by_rule: dict[str, list[int]] = defaultdict(list)
    by_subject: dict[tuple[str, str | None, str | None], list[int]] = defaultdict(list)
    for position, finding in enumerate(ordered):
        by_rule[finding.rule.id].append(position)
        by_subject[finding.rule.id, finding.consumer_group, None].append(position)
        by_subject[finding.rule.id, None, finding.topic].append(position)
    edges: dict[int, dict[int, Subsumption]] = defaultdict(dict)
    for pair in subsumptions:
        of_the_cluster = pair.scope in (Scope.BROKER, Scope.CLUSTER)
        for explaining in by_rule.get(pair.explaining, ()):
            group = ordered[explaining].consumer_group
            subject = (pair.explained, group, None if group is not None else ordered[explaining].topic)
            for explained in by_rule.get(pair.explained, ()) if of_the_cluster else by_subject.get(subject, ()):
                if explained != explaining and _meets(pair, ordered[explaining], ordered[explained]):
                    edges[explaining].setdefault(explained, pair)
    return edges


def _meets(pair: Subsumption, explaining: Finding, explained: Finding) -> bool:
    said = not pair.variants or explaining.variant in pair.variants
    asked = not pair.explained_variants or explained.variant in pair.explained_variants
    return said and asked and explaining.cluster == explained.cluster and _MEETS[pair.scope](explaining, explained)


def _same_group(explaining: Finding, explained: Finding) -> bool:
    return explaining.consumer_group is not None and explaining.consumer_group == explained.consumer_group


def _same_topic(explaining: Finding, explained: Finding) -> bool:
    same = explaining.topic is not None and explaining.topic == explained.topic
    return same and (explaining.consumer_group is None or _same_group(explaining, explained))


def _same_brokers(explaining: Finding, explained: Finding) -> bool:
    brokers = explained.all_broker_names
    return bool(brokers) and brokers <= explaining.all_broker_names


def _same_queues(explaining: Finding, explained: Finding) -> bool:
    """Whether nearly all of the explained lag lies on the explaining queues; without known lags: all its queues."""
    queues = {evidence.message_queue for evidence in explaining.queues}
    of_all_groups = explaining.consumer_group is None and explaining.topic == explained.topic
    lags = {evidence.message_queue: evidence.figures.get("effective_lag") for evidence in explained.queues}
    if not lags or not (of_all_groups or _same_group(explaining, explained)):
        return False
    known = {queue: lag for queue, lag in lags.items() if isinstance(lag, int) and lag > 0}
    if not known:
        return set(lags) <= queues
    return sum(lag for queue, lag in known.items() if queue in queues) >= _EXPLAINED_SHARE * sum(known.values())


_MEETS: dict[Scope, Callable[[Finding, Finding], bool]] = {
    Scope.QUEUES: _same_queues,
    Scope.TOPIC: _same_topic,
    Scope.GROUP: _same_group,
    Scope.BROKER: _same_brokers,
    Scope.CLUSTER: lambda explaining, explained: explaining.cluster == explained.cluster,
}
