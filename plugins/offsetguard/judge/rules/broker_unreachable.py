"""A broker does not answer: the groups with queues on it are unknown, and named here instead of one by one.

Means: the process is down, its host is, or this host does not reach it. Clients cannot consume from it either, unless a
slave of it serves them; producers go on with the other brokers.
Evidence: masters that gave no offsets and answered nothing else, since when, and the groups that had offsets there when
the broker was last seen; slaves that did not answer hide no group.
Not judged: a broker that refuses requests lives (collection_incomplete). Missed for less than 90 s while the rounds
before saw it, the broker is INFO: a restart is no trouble yet.
Do next: start it, or find what lies between; then see what the groups missed.
Source: the manifest of the landed snapshot (`collect/manifest.py`), `collect/broker_rows.py`.
"""

from collections.abc import Iterator, Sequence

from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.unseen import GRACE, Unanswered, names, reasons, unanswered
from offsetguard.judge.rule import Config, Explains, Finding, IntervalFacts, Mutes, Rule, Scope, Severity, Texts
from offsetguard.model.fact_records import UnseenBrokerFacts

RULE = Rule(
    id="broker_unreachable",
    severity=Severity.CRITICAL,
    place=30,
    needs=("gaps", "unseen_broker_names", "brokers"),
    means="A broker does not answer: the consumer groups on it are unknown, not healthy, and nobody warns of them.",
    texts={
        "default": Texts(
            summary="{broker_count} broker{broker_count:plural} of {cluster} unreachable: {brokers}",
            summary_zh="{cluster} 有 {broker_count} 个 Broker 无法连通：{brokers}",
            cause="{brokers} of cluster {cluster} did not answer ({reasons}): {group_count} consumer "
            "group{group_count:plural} with offsets there cannot be judged ({groups}), and no warning about them can "
            "come.",
            cause_zh="集群 {cluster} 的 {brokers} 没有应答（{reasons}）：在其上有位点的 {group_count} 个消费组无法判断"
            "（{groups}），也无法发出相关告警。",
            do_next="See whether the broker process runs and whether this host reaches its address. What the name "
            "servers know of it:",
            do_next_zh="请检查 Broker 进程是否在运行、本机能否连通其地址。NameServer 上的注册情况：",
            commands=(lookups.CLUSTER_LIST,),
        ),
        "groups_unknown": Texts(
            cause="{brokers} of cluster {cluster} did not answer ({reasons}): consumer groups with queues there are "
            "unknown, and no warning about them can come.",
            cause_zh="集群 {cluster} 的 {brokers} 没有应答（{reasons}）：在其上有队列的消费组状态未知，也无法发出相关告"
            "警。",
        ),
        "slaves": Texts(
            summary="{broker_count} slave{broker_count:plural} of {cluster} unreachable: {brokers}",
            summary_zh="{cluster} 有 {broker_count} 个从节点无法连通：{brokers}",
            cause="The slave{broker_count:plural} {brokers} of cluster {cluster} did not answer ({reasons}): no group "
            "is hidden, but nothing can be read there when the master is busy, and nobody takes over when it fails.",
            cause_zh="集群 {cluster} 的 {broker_count} 个从节点 {brokers} 没有应答（{reasons}）：不影响对消费组的观测，"
            "但主节点繁忙时无法从从节点读取，主节点故障时也无法接管。",
        ),
    },
    title="a broker does not answer",
    title_zh="有 Broker 无应答",
    table=("brokers", "unseen_since", "group_count", "groups", "reasons"),
    peak="group_count",
    recovered="the broker answers again",
    recovered_zh="Broker 已恢复应答",
    explains=(
        # of masters: a dead slave explains nothing of its master
        Explains(
            Scope.BROKER,
            (
                *("collection_incomplete", "slave_behind", "store_slow", "disk_filling", "clock_skew"),
                *("transactions_not_ended", "delayed_delivery_late"),
                *("accumulation", "consumer_offline", "never_committed", "membership_disagrees", "lock_contention"),
                *("client_stands_still", "reads_moved_to_slave"),
            ),
            variants=("default", "groups_unknown"),
        ),
    ),
    # masters: a dead slave hides nothing of its master
    mutes=Mutes(Scope.BROKER, variants=("default", "groups_unknown")),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """At most one finding: about masters, or, where all of them are there, about slaves."""
    missing = unanswered(facts, config)
    if facts.cluster_unseen or not (missing.dead_masters or missing.dead_slaves):
        return
    if missing.dead_masters:
        yield _of_masters(facts, missing)
        return
    noted = [one for one in facts.unseen_brokers if (one.broker_name, one.broker_id) in missing.dead_slaves]
    yield RULE.finding(
        facts,
        severity=Severity.INFO if _just_gone(facts, missing.dead_slaves, noted) else Severity.WARNING,
        variant="slaves",
        state="AT_RISK",
        figures={
            "brokers": names([f"{name}/{broker_id}" for name, broker_id in missing.dead_slaves]),
            "broker_count": len(missing.dead_slaves),
            "reasons": reasons(missing.of_the_dead),
        },
        broker_names=frozenset(name for name, _ in missing.dead_slaves),
    )


def _of_masters(facts: IntervalFacts, missing: Unanswered) -> Finding:
    dead = missing.dead_masters
    noted = [one for one in facts.unseen_brokers if one.broker_id == 0 and one.broker_name in dead]
    counts = [one.consumer_group_count for one in noted if one.consumer_group_count is not None]
    groups = sorted({group for one in noted for group in one.consumer_groups})
    # a group lies on several brokers: the names tell how many there are, as far as all are named
    count = max(len(groups), *counts) if counts else None
    return RULE.finding(
        facts,
        severity=Severity.INFO if _just_gone(facts, dead, noted) else RULE.severity,
        variant="groups_unknown" if count is None else "default",
        state="UNKNOWN",
        figures={
            "brokers": names(dead),
            "broker_count": len(dead),
            "unseen_since": min((one.unseen_since for one in noted if one.unseen_since is not None), default=None),
            "group_count": count,
            "groups": None if count is None else names(groups, count),
            "reasons": reasons(gap for gap in missing.of_the_dead if gap.broker_name in dead),
        },
        broker_names=frozenset(dead),
    )


def _just_gone(facts: IntervalFacts, dead: Sequence[object], noted: Sequence[UnseenBrokerFacts]) -> bool:
    """Whether every dead one was seen by the rounds before, and is missed for less than the grace."""
    since = [one.unseen_since for one in noted if one.unseen_since is not None]
    return len(since) == len(dead) and all(facts.now - moment < GRACE for moment in since)
