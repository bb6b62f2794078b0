"""Retention deleted messages that a broker held back: delayed ones, retries among them, or half messages.

Means: the commit log's files went while messages in them waited for their time, for a delivery that was late, or for
the check of transactions. Nobody gets them any more; of half messages, only those whose transaction was not ended.
Evidence: a delay level, or the check, whose next message lies below the low end of its queue (scheduleMessageOffset of
runtime info, the offset of CID_RMQ_SYS_TRANS; GET_TOPIC_STATS_INFO). A level that delivers again before a round looks
does not show what it has skipped: the number is the least.
Not judged: what the round before has shown already. What lies in a retry topic waits for its group (messages_lost).
Do next: keep files longer than messages wait: the longest level is 2 h, all 16 tries of a retry take 4 h 46 min.
Source: ScheduleMessageService ("schedule CQ offset invalid"), TransactionalMessageServiceImpl.check (4.9.7, 5.3.3).
"""

from collections.abc import Iterator

from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.lookups import worst_brokers
from offsetguard.judge.evidence.unseen import names
from offsetguard.judge.rule import BrokerFacts, Config, Finding, IntervalFacts, Rule, Severity, Texts

_KEEP = (
    "Find out why files went so early: fileReservedTime (hours), or a disk that filled up. Keep them longer, and make "
    "room on the disk. "
)
_KEEP_ZH = "请查明文件为何这么早被删除：fileReservedTime（小时）过短，或磁盘已满。请延长保留时间并释放磁盘空间。"

RULE = Rule(
    id="held_back_deleted",
    severity=Severity.CRITICAL,
    place=105,
    never_muted=True,
    needs=("brokers",),
    means="Messages that a broker held back were deleted: delayed ones, retries among them, or half messages.",
    texts={
        "default": Texts(
            summary="{deleted_count:messages} delayed message{deleted_count:plural} or retries deleted on {brokers} "
            "before delivery",
            summary_zh="{brokers} 上至少 {deleted_count:messages} 条延迟消息或重试消息在投递前被删除",
            cause="At least {deleted_count:messages} message{deleted_count:plural} with a delay level, retries of "
            "consumer groups among them, were deleted in cluster {cluster} ({brokers}; worst: {worst_broker}) before "
            "they were delivered: no consumer gets them any more.",
            cause_zh="集群 {cluster}（{brokers}；最严重：{worst_broker}）中至少有 {deleted_count:messages} 条带延迟级别"
            "的消息（包括消费组的重试消息）在投递之前被删除：消费者再也收不到它们。",
            do_next=_KEEP + "Send again what matters: nothing is left of them on the broker. Disk and oldest message:",
            do_next_zh=_KEEP_ZH + "请重新发送其中重要的消息：Broker 上已没有它们。磁盘与最旧的消息：",
            commands=(lookups.BROKER_STATUS,),
        ),
        "half_messages": Texts(
            summary="up to {deleted_count:messages} half message{deleted_count:plural} deleted on {brokers} unchecked",
            summary_zh="{brokers} 上有至多 {deleted_count:messages} 条半消息未经回查即被删除",
            cause="{deleted_count:messages} half message{deleted_count:plural} were deleted in cluster {cluster} "
            "({brokers}; worst: {worst_broker}) before the check of transactions had passed them: those whose "
            "transaction was not ended by then are lost.",
            cause_zh="集群 {cluster}（{brokers}；最严重：{worst_broker}）中有 {deleted_count:messages} 条半消息在事务"
            "回查处理之前被删除：其中事务尚未结束的消息已丢失。",
            do_next=_KEEP + "Ask the producers which transactions they had open, and send again what matters. Disk and "
            "oldest message:",
            do_next_zh=_KEEP_ZH + "请向生产者确认当时未结束的事务，并重新发送其中重要的消息。磁盘与最旧的消息：",
            commands=(lookups.BROKER_STATUS,),
        ),
    },
    title="messages were deleted before delivery",
    title_zh="消息在投递前被删除",
    table=("worst_broker", "deleted_count"),
    peak="deleted_count",
    recovered="no more of them were deleted for 30 min; what was deleted stays lost",
    recovered_zh="30 分钟内没有更多消息被删除；已删除的消息无法恢复",
    calm_ms=30 * 60_000,  # retention takes one file after the other
)
_WORST_FIRST = ("default", "half_messages")


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """At most one finding, about all brokers with the worst that there is."""
    found = worst_brokers(facts, _variant, _WORST_FIRST)
    if found is None:
        return
    variant, brokers = found
    counts = {one.broker_name: _new_ones(one, variant) for one in brokers}
    yield RULE.finding(
        facts,
        variant=variant,
        state="LOST",
        figures={
            "brokers": names(sorted(counts)),
            "worst_broker": max(sorted(counts), key=counts.__getitem__),
            "deleted_count": sum(counts.values()),
        },
        broker_names=frozenset(counts),
    )


def _variant(broker: BrokerFacts) -> str | None:
    return next((variant for variant in _WORST_FIRST if _new_ones(broker, variant) > 0), None)


def _new_ones(broker: BrokerFacts, variant: str) -> int:
    """Return what the round before has not shown; all of it where there was none."""
    count, growth = {
        "default": (broker.delayed_deleted_count, broker.delayed_deleted_growth),
        "half_messages": (broker.half_deleted_count, broker.half_deleted_growth),
    }[variant]
    return (0 if count is None else count) if growth is None else growth
