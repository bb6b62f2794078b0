"""A broker has queues of a topic and does not know the consumer group, which it does not make by itself.

Means: the topic grew to that broker, or the broker was added, and the group was created on the others only. Pulls there
are refused with code 26, so its share of the messages is consumed by nobody.
Evidence: the broker's list of groups (201) lacks the group, its setting autoCreateSubscriptionGroup is false, and it
has a topic that the group's clients subscribe to, or commits of the group. Both are read in every round: the first one
that shows it tells. Where clients' logs are read, code 26 that goes on for more than 90 s tells of groups that no
broker knows; clients of 5.x get no queue then, and say "get consumer id list failed" instead, while no broker lists a
client of the group and all masters were seen.
Not judged: brokers that make groups by themselves (the default), or that did not give their settings or groups. It is
INFO while no message waits there, or while nobody is online and what waits is within the limits.
Do next: create the group on that broker, with the settings that it has on the others.
Source: PullMessageProcessor, SubscriptionGroupManager#findSubscriptionGroupConfig (4.9.7, 5.3.3, 5.5.0); 5.x brokers do
not list the group's clients then, 4.x do. apache/rocketmq issues 307 and 6213.
"""

from collections.abc import Iterator
from datetime import timedelta

from offsetguard.collect.refused_pulls import enabling_options
from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.lookups import online_clients
from offsetguard.judge.evidence.rebalance_spells import lasting_lines, line_figures
from offsetguard.judge.evidence.refused_pulls import EXPLAINED, addresses, refused_pulls
from offsetguard.judge.evidence.unseen import names
from offsetguard.judge.rule import Config, Explains, Finding, IntervalFacts, Rule, Scope, Severity, Texts
from offsetguard.model.rocketmq import NO_MEMBERS, NOT_CREATED, NOT_ONLINE
from offsetguard.tables.log_facts import LogLineFacts

RULE = Rule(
    id="group_not_created",
    severity=Severity.WARNING,
    place=144,
    needs=("groups", "queues", "brokers", "log_lines"),
    means="A broker with queues of a topic does not know the consumer group, and makes none by itself.",
    texts={
        "default": Texts(
            summary="{consumer_group} is not created on {on_brokers}: messages of {topic} cannot be consumed there",
            summary_zh="{on_brokers} 上没有创建 {consumer_group}：那里的 {topic} 消息无法消费",
            cause="Consumer group {consumer_group} is not created on {on_brokers}, which makes no group by itself "
            "(autoCreateSubscriptionGroup=false) and refuses its pulls with code 26: {waiting:messages} "
            "message{waiting:plural} of topic {topic} wait in {queue_count} queue{queue_count:plural} there.",
            cause_zh="消费组 {consumer_group} 没有在 {on_brokers} 上创建，而该 Broker 不会自动创建消费组"
            "（autoCreateSubscriptionGroup=false），其拉取以 code 26 被拒绝：主题 {topic} 在那里的 {queue_count} 个队列"
            "中有 {waiting:messages} 条消息等待消费。",
            do_next="Create the group there as it is on the other brokers; its clients go on by themselves. The "
            "command {other_settings}:",
            do_next_zh="请按它在其他 Broker 上的设置在那里创建该消费组；客户端会自行恢复。该命令{other_settings}：",
            commands=(lookups.LET_CONSUME,),
        ),
        "unlisted": Texts(
            summary="clients of {consumer_group} run and get no queue: no broker knows their group",
            summary_zh="{consumer_group} 的客户端在运行却分配不到队列：没有 Broker 认识该消费组",
            cause="Clients of consumer group {consumer_group} run, and for {lasted_ms:duration} no broker has named "
            "its members to them ({line_count:messages} line{line_count:plural} 'get consumer id list failed' of their "
            "logs), so that they take no queue: the group is not created, and the brokers make none by themselves "
            "(autoCreateSubscriptionGroup=false), or its heartbeats do not arrive.",
            cause_zh="消费组 {consumer_group} 的客户端在运行，但 {lasted_ms:duration} 内没有 Broker 返回其成员（客户"
            "端日志 {line_count:messages} 行 'get consumer id list failed'），因此分配不到队列：该消费组没有创建，而 "
            "Broker 不会自动创建消费组（autoCreateSubscriptionGroup=false），或心跳没有到达。",
            do_next="Create the group, or correct its name in the clients; they go on by themselves. If it is there, "
            "compare the clients' name servers with those of the cluster.",
            do_next_zh="请创建该消费组，或更正客户端中的组名；客户端会自行恢复。如果消费组已存在，请核对客户端的 "
            "NameServer 与集群是否一致。",
            commands=(lookups.LET_CONSUME,),
        ),
        "logged": Texts(
            summary="{consumer_group} is not created on brokers that it pulls from",
            summary_zh="{consumer_group} 拉取消息的 Broker 上没有创建该消费组",
            cause="Pulls of consumer group {consumer_group} have been refused with code 26 (subscription group not "
            "exist) for {lasted_ms:duration} ({line_count:messages} line{line_count:plural} of clients' logs; brokers: "
            "{on_brokers}): it is not created there, and they make no group by themselves "
            "(autoCreateSubscriptionGroup=false).",
            cause_zh="消费组 {consumer_group} 的拉取以 code 26 被拒绝，已持续 {lasted_ms:duration}（客户端日志 "
            "{line_count:messages} 行；Broker：{on_brokers}）：那里没有创建该消费组，而 Broker 不会自动创建消费组"
            "（autoCreateSubscriptionGroup=false）。",
            do_next="Create the group, or correct its name in the clients; they go on by themselves:",
            do_next_zh="请创建该消费组，或更正客户端中的组名；客户端会自行恢复：",
            commands=(lookups.LET_CONSUME,),
        ),
    },
    title="a group is not created on a broker",
    title_zh="消费组没有在 Broker 上创建",
    table=("waiting", "queue_count", "on_brokers", "online_client_count"),
    peak="waiting",
    recovered="over: the group is created there, or nothing of it is there any more",
    recovered_zh="已结束：已在那里创建该消费组，或那里已没有它的消息",
    holds_queues=True,
    explains=(
        *EXPLAINED,
        Explains(
            Scope.GROUP,
            ("consumer_offline", "accumulation", "never_committed", "rebalance_noise"),
            variants=("unlisted",),
        ),
    ),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic) with queues on such a broker; else one per group of which logs tell."""
    found, pulling = set(), {group for group, _, _ in lasting_lines(facts, NOT_CREATED)}
    for refused in refused_pulls(facts, config, ("uncreated",)):
        group = refused.judged.group
        found.add(group.consumer_group)
        # whom no broker lists may run all the same
        is_missed = refused.is_missed or (bool(refused.queues) and group.consumer_group in pulling)
        yield RULE.finding(
            facts,
            about=(group.consumer_group, group.topic),
            severity=RULE.severity if is_missed else Severity.INFO,
            unsure=refused.unsure and not is_missed,
            state="STALLED",
            figures=refused.figures(facts),
            queues=refused.evidence,
            broker_names=frozenset(refused.broker_names),
        )
    for consumer_group, lines, lasted, variant in _logged(facts):
        if consumer_group not in found:
            found.add(consumer_group)
            brokers = sorted({line.broker_name for line in lines if line.broker_name})
            yield RULE.finding(
                facts,
                about=(consumer_group, None),
                variant=variant,
                state="UNKNOWN",
                figures={
                    "lasted_ms": lasted // timedelta(milliseconds=1),
                    "line_count": line_figures(lines)[0],
                    "on_brokers": names(brokers) or None,
                    "refusing_addresses": addresses(facts, brokers),
                    "enabling_options": enabling_options(None, broadcasts=False),
                },
                broker_names=frozenset(brokers),
            )


def _logged(facts: IntervalFacts) -> Iterator[tuple[str, list[LogLineFacts], timedelta, str]]:
    """Yield the groups that no broker knows as clients' logs tell: their lines, for how long, and the variant."""
    for group, lines, lasted in lasting_lines(facts, NOT_CREATED):
        yield group, lines, lasted, "logged"
    if not facts.unseen_broker_names and not facts.cluster_unseen:  # a broker that is down names no members either
        listed, pulling = online_clients(facts), {group for group, _, _ in lasting_lines(facts, NOT_ONLINE)}
        for group, lines, lasted in lasting_lines(facts, NO_MEMBERS):
            if not listed.get(group) and group not in pulling:  # heartbeats_missing
                yield group, lines, lasted, "unlisted"
