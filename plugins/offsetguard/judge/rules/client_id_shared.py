"""Several instances of a consumer group have one client id, so that some queues are consumed by nobody, others twice.

Means: containers with equal addresses and process ids (clients before 4.9 make the id of these two), or one
instanceName for several processes of a host. A broker lists an id as often as it has connections, and each client
counts its share of the queues by the place of its id: equal ids take the same share, and another share is nobody's.
Evidence: a broker lists several connections of one client id, in two rounds one after the other; and queues in which
messages have waited for more than a minute that no client holds, though all of them told.
Not judged: broadcasting and POP groups. Without such queues it is INFO: those that both hold are consumed twice.
Do next: give every instance an id of its own.
Source: ConsumerGroupInfo#getAllClientId, AllocateMessageQueueAveragely, ClientConfig#buildMQClientId (4.9.7, 5.3.3);
apache/rocketmq issues 2760, 1547, 3480 and 667.
"""

from collections.abc import Iterator

from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.lock_holders import unheld_queues
from offsetguard.judge.evidence.lookups import each_group
from offsetguard.judge.rule import Config, Explains, Finding, IntervalFacts, Rule, Scope, Severity, Texts
from offsetguard.judge.windows.rules import POP
from offsetguard.model.rocketmq import REBALANCE_INTERVAL_MS

_LONG_MS = 3 * REBALANCE_INTERVAL_MS  # a queue changes hands within one round, at worst within two
_SUMMARY = "instances of {consumer_group} share a client id"
_SUMMARY_ZH = "{consumer_group} 有多个实例使用同一个客户端 ID"

RULE = Rule(
    id="client_id_shared",
    severity=Severity.WARNING,
    place=148,
    needs=("groups", "queues"),
    means="Several instances of a consumer group have one client id: some queues are nobody's, others are read twice.",
    texts={
        "default": Texts(
            summary=_SUMMARY + ", and {queue_count} queue{queue_count:plural} of {topic} are nobody's",
            summary_zh=_SUMMARY_ZH + "，{topic} 有 {queue_count} 个队列无人消费",
            cause="Several instances of consumer group {consumer_group} share the client id {doubled_client_ids}, so "
            "each takes the same share of queues, and another share is nobody's: {queue_count} "
            "queue{queue_count:plural} of {on_brokers}, topic {topic}, stood still for {stood_still_ms:duration}, and "
            "{effective_lag:messages} message{effective_lag:plural} wait there.",
            cause_zh="消费组 {consumer_group} 的多个实例使用同一个客户端 ID {doubled_client_ids}，因此它们分到相同的队"
            "列，而另一部分队列无人消费：主题 {topic} 位于 {on_brokers} 的 {queue_count} 个队列已停滞 "
            "{stood_still_ms:duration}，有 {effective_lag:messages} 条消息等待消费。",
            do_next="Give every instance a client id of its own: set instanceName, do not run containers with equal "
            "addresses and process ids, or take a client of 4.9 or later. From where each connection comes:",
            do_next_zh="请让每个实例使用不同的客户端 ID：设置 instanceName，避免容器的地址和进程号都相同，或使用 4.9 "
            "及以上版本的客户端。各连接的来源：",
            commands=(lookups.MEMBERS,),
        ),
        "read_twice": Texts(
            summary=_SUMMARY,
            summary_zh=_SUMMARY_ZH,
            cause="Several instances of consumer group {consumer_group} share the client id {doubled_client_ids}, so "
            "each takes the same share of queues, whose messages are consumed twice.",
            cause_zh="消费组 {consumer_group} 的多个实例使用同一个客户端 ID {doubled_client_ids}，因此它们分到相同的队"
            "列，其中的消息会被重复消费。",
        ),
    },
    title="instances share a client id",
    title_zh="多个实例使用同一个客户端 ID",
    table=("doubled_client_ids", "queue_count", "on_brokers", "stood_still_ms", "effective_lag", "online_client_count"),
    peak="stood_still_ms",
    bad_cycles=2,  # a client that reconnects has two connections for a moment
    recovered="over: every client has an id of its own",
    recovered_zh="已结束：每个客户端都有各自的 ID",
    from_clients=True,
    holds_queues=True,
    explains=(
        Explains(Scope.QUEUES, ("accumulation", "slow_consumption", "never_committed", "lock_not_released")),
        Explains(Scope.GROUP, ("lock_contention",)),
    ),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic) with queues that nobody holds, else one per group."""
    found = set()
    for unheld in unheld_queues(facts, config):
        if unheld.figures["doubled_client_ids"] and unheld.stood_still_ms >= _LONG_MS:
            found.add(unheld.subject[0])
            yield RULE.finding(
                facts, about=unheld.subject, state="STALLED", figures=unheld.figures, queues=unheld.queues
            )
    for group in each_group(facts):
        judged = group.message_model != "BROADCASTING" and group.consumption != POP
        if judged and group.doubled_client_ids and group.consumer_group not in found:
            yield RULE.finding(
                facts,
                about=(group.consumer_group, None),
                severity=Severity.INFO,
                variant="read_twice",
                figures={
                    "doubled_client_ids": ", ".join(group.doubled_client_ids),
                    "online_client_count": group.online_client_count,
                },
            )
