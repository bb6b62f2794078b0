"""Brokers disagree about the members of a consumer group for longer than two rebalance rounds, while nobody joins.

Means: a client's heartbeats do not reach one of the brokers (network, firewall, a route that the client does not know),
or two clients have one id. Each client divides the queues by what one broker says: some have two owners, some none.
Evidence: the masters' lists of clients differ, in every round for more than 90 s (route refresh and heartbeat); or
"not in cidAll" / code 25 lines go on for more than 40 s. No client came or went meanwhile, and no broker was started.
Not judged: the time after each change (rebalance_noise); POP groups, whose clients are not rebalanced.
Do next: find out why the heartbeat does not arrive at that broker.
Source: incident I1; RebalanceImpl asks one broker for the members (findConsumerIdList, 4.9.8, 5.3.3).
"""

from collections.abc import Iterator

from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.rebalance_spells import (
    LISTS_SETTLE,
    GroupNoise,
    group_noise,
    last_boot,
    last_changes,
    lasted,
    line_figures,
)
from offsetguard.judge.rule import Config, Explains, Finding, IntervalFacts, Rule, Scope, Sentence, Severity, Texts
from offsetguard.model.rocketmq import NOT_IN_MEMBERS
from offsetguard.tables.group_facts import GroupFacts

_STABLE = "although no client came or went since {changed_at:moment}"
_STABLE_ZH = "而自 {changed_at:moment} 起没有客户端加入或退出"

RULE = Rule(
    id="membership_disagrees",
    severity=Severity.WARNING,
    place=150,
    needs=("groups", "log_lines", "brokers"),
    unseen="members_not_seen",
    means="Brokers disagree about the members of a consumer group for longer than two rebalance rounds.",
    texts={
        "default": Texts(
            summary="brokers disagree about the members of {consumer_group}",
            summary_zh="各 Broker 上 {consumer_group} 的成员不一致",
            cause="Brokers have disagreed about the members of consumer group {consumer_group} for "
            "{lasted_ms:duration}, " + _STABLE + "; missing (client, broker): {missing_members}: its heartbeat does "
            "not reach that broker, so queues have two owners or none.",
            cause_zh="各 Broker 上消费组 {consumer_group} 的成员不一致已持续 {lasted_ms:duration}，" + _STABLE_ZH + "；"
            "缺失的成员（客户端，Broker）：{missing_members}：其心跳没有到达该 Broker，因此有的队列有两个消费者，有的没"
            "有。",
            do_next="See whether the host of the client reaches that broker's port and knows its route; look for two "
            "clients with one id (same ip@instanceName). Which clients each broker lists:",
            do_next_zh="请检查该客户端的主机能否连通该 Broker 的端口、是否有其路由，以及是否有两个客户端使用同一个客户"
            "端 ID（相同的 ip@instanceName）。每个 Broker 各自列出的客户端：",
            commands=(lookups.MEMBERS_OF_EACH_BROKER,),
        ),
        "not_in_members": Texts(
            summary="{clients} is not among the members of {consumer_group}",
            summary_zh="{clients} 不在 {consumer_group} 的成员列表中",
            cause="Client {clients} of consumer group {consumer_group} has missed itself in the list of members for "
            "{lasted_ms:duration} ({line_count:messages} lines 'not in cidAll'), " + _STABLE + ": its heartbeat does "
            "not reach the broker that it asks, and it gets no queue.",
            cause_zh="消费组 {consumer_group} 的客户端 {clients} 在成员列表中找不到自己，已持续 {lasted_ms:duration}（"
            "{line_count:messages} 行 'not in cidAll'），" + _STABLE_ZH + "：其心跳没有到达它所询问的 Broker，因此分"
            "配不到队列。",
        ),
        "pulls_refused": Texts(
            summary="pulls of {consumer_group} have been refused with code 25 for {lasted_ms:duration}",
            summary_zh="{consumer_group} 的拉取被拒绝（code 25）已持续 {lasted_ms:duration}",
            cause="Pulls of consumer group {consumer_group} have been refused with code 25 (subscription not latest) "
            "for {lasted_ms:duration} ({line_count:messages} lines; brokers: {brokers}), " + _STABLE + ": the broker "
            "has an older subscription, since the client's heartbeat does not reach it.",
            cause_zh="消费组 {consumer_group} 的拉取被拒绝（code 25，subscription not latest）已持续 "
            "{lasted_ms:duration}（{line_count:messages} 行；Broker：{brokers}），" + _STABLE_ZH + "：Broker 上的订阅关"
            "系较旧，因为客户端的心跳没有到达它。",
        ),
    },
    title="brokers disagree about a group's members",
    title_zh="各 Broker 上的消费组成员不一致",
    table=("lasted_ms", "missing_members", "clients", "line_count", "changed_at"),
    peak="lasted_ms",
    recovered="the brokers agree about its members again",
    recovered_zh="各 Broker 上的成员已一致",
    explains=(
        Explains(
            Scope.GROUP, ("idle_consumers", "lock_contention", "accumulation", "never_committed", "rebalance_noise")
        ),
    ),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per consumer group; lists that differ tell more than log lines."""
    changes, boot = last_changes(facts), last_boot(facts)
    found = set()
    for group in facts.groups:
        if group.consumer_group in found or group.consumption == "pop" or group.members_differ_since is None:
            continue
        moments = (group.members_differ_since, changes.get(group.consumer_group), boot)
        since = max(moment for moment in moments if moment is not None)
        if group.members_differ and facts.now - since > LISTS_SETTLE:
            found.add(group.consumer_group)
            yield _differing(facts, group, round((facts.now - since).total_seconds() * 1000))
    pop = {group.consumer_group for group in facts.groups if group.consumption == "pop"}
    for consumer_group, noise in group_noise(facts):
        if noise.lasting and consumer_group not in found | pop:
            yield _logged(facts, consumer_group, noise)


def _differing(facts: IntervalFacts, group: GroupFacts, lasted_ms: int) -> Finding:
    missing = group.missing_members or ()
    changed_at = last_changes(facts).get(group.consumer_group)
    return RULE.finding(
        facts,
        about=(group.consumer_group, None),
        state="UNKNOWN",
        figures={
            "lasted_ms": lasted_ms,
            "missing_members": "; ".join(missing[:5]) or None,
            "changed_at": changed_at or group.members_differ_since,
            "online_client_count": group.online_client_count,
        },
        broker_names=frozenset(entry.rpartition(" ")[2] for entry in missing),
    )


def _logged(facts: IntervalFacts, consumer_group: str, noise: GroupNoise) -> Finding:
    lost = [line for line in noise.lasting if line.kind == NOT_IN_MEMBERS]
    lines = lost or list(noise.lasting)
    spans = [span for line in lines if (span := lasted(line, noise.changed_at)) is not None]
    brokers = sorted({line.broker_name for line in lines if line.broker_name})
    count, clients = line_figures(lines)
    return RULE.finding(
        facts,
        about=(consumer_group, None),
        variant="not_in_members" if lost else "pulls_refused",
        state="UNKNOWN",
        figures={
            "lasted_ms": round(max(spans).total_seconds() * 1000),
            "line_count": count,
            "clients": clients or Sentence("client_not_named"),
            "brokers": ", ".join(brokers) or None,
            "changed_at": noise.changed_at or min(line.spell_first_at for line in lines),
        },
        broker_names=frozenset(brokers),
    )
