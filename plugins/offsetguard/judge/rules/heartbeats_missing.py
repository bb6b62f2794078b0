"""Clients of a consumer group run and pull, and no broker lists any of them: their heartbeats do not arrive.

Means: brokers refuse the heartbeats (too large, no permission), the client does not send them any more, or it sends
them to brokers that other name servers list; pulls go on at the brokers that it knew before. They are refused with code
24, and whoever looks at the members takes the group for offline.
Evidence: lines "the consumer's group info not exist" of brokers, or code 24 in clients' logs, at least three over more
than 90 s and until now, while no broker (nor a proxy) lists a client of the group. A broker forgets a client 120 s
after its last heartbeat: it is named within about four minutes of that one, where logs are read.
Not judged: such lines for up to 90 s after the last client closed, when pulls that brokers hold wake up, or after a
broker's start; groups of which a broker lists clients (membership_disagrees); clusters of which no logs are read: there
such a group is not to be told from one that is offline.
Do next: find why heartbeats do not arrive; a restart of the clients lets them register anew.
Source: PullMessageProcessor, ClientManageProcessor, MQClientInstance#sendHeartbeatToAllBroker (4.9.7, 5.3.3, 5.5.0);
apache/rocketmq issues 1871 and 5479.
"""

from collections.abc import Iterator
from datetime import timedelta

from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.lookups import online_clients
from offsetguard.judge.evidence.rebalance_spells import lasting_lines, line_figures
from offsetguard.judge.evidence.unseen import names
from offsetguard.judge.rule import Config, Explains, Finding, IntervalFacts, Rule, Scope, Severity, Texts
from offsetguard.model.rocketmq import NOT_ONLINE

RULE = Rule(
    id="heartbeats_missing",
    severity=Severity.WARNING,
    place=146,
    needs=("log_lines", "groups", "brokers"),
    means="Clients of a consumer group pull, and brokers do not know them: their heartbeats do not arrive.",
    texts={
        "default": Texts(
            summary="clients of {consumer_group} run, and brokers do not know them",
            summary_zh="{consumer_group} 的客户端在运行，但 Broker 不认识它们",
            cause="Clients of consumer group {consumer_group} pull, and have been refused with code 24 (the consumer's "
            "group info not exist) for {lasted_ms:duration} ({line_count:messages} log line{line_count:plural}; "
            "brokers: {brokers}): their heartbeats are refused, are not sent, or go elsewhere.",
            cause_zh="消费组 {consumer_group} 的客户端在拉取消息，却以 code 24 被拒绝，已持续 {lasted_ms:duration}"
            "（{line_count:messages} 行日志；Broker：{brokers}）：心跳被拒绝、没有发送，或发到了别处。",
            do_next="Look in a client's log for its heartbeats (send heart beat to broker ... failed): compare its "
            "name servers with those of the cluster, and see whether its host reaches these brokers. A restart lets it "
            "register anew. Whom each broker lists:",
            do_next_zh="请在客户端日志中查看心跳是否失败：核对其 NameServer 与集群是否一致，以及其主机能否连通这些 "
            "Broker。重启客户端会使其重新注册。各 Broker 列出的客户端：",
            commands=(lookups.MEMBERS_OF_EACH_BROKER,),
        ),
    },
    title="brokers do not know clients that run",
    title_zh="Broker 不认识正在运行的客户端",
    table=("lasted_ms", "line_count", "brokers", "last_at"),
    peak="lasted_ms",
    recovered="over: brokers list its clients, or its pulls have ended",
    recovered_zh="已结束：Broker 已列出其客户端，或拉取已停止",
    explains=(
        Explains(
            Scope.GROUP,
            ("consumer_offline", "accumulation", "never_committed", "membership_disagrees", "rebalance_noise"),
        ),
    ),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per consumer group."""
    listed = online_clients(facts)
    for consumer_group, lines, lasted in lasting_lines(facts, NOT_ONLINE):
        if listed.get(consumer_group):
            continue
        brokers = sorted({line.broker_name for line in lines if line.broker_name})
        count, clients = line_figures(lines)
        yield RULE.finding(
            facts,
            about=(consumer_group, None),
            state="UNKNOWN",
            figures={
                "lasted_ms": lasted // timedelta(milliseconds=1),
                "line_count": count,
                "clients": clients or None,
                "brokers": names(brokers) or None,
                "last_at": max(line.last_at for line in lines),
            },
            broker_names=frozenset(brokers),
        )
