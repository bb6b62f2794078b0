"""A broker delivers delayed messages late: those with a delay level, retries among them, or timer messages of 5.x.

Means: what should be delivered by now lies in the broker; consumers get it late, retries of their groups included.
Evidence: messages of each delay level that were stored longer ago than the level's delay and 2 min, and are not
delivered (scheduleMessageOffset of runtime info, SEARCH_OFFSET_BY_TIMESTAMP); timerReadBehind of 5.x.
Not judged: messages that are not due. Told by INFO: late ones that become fewer, as after a restart.
Do next: find out why the broker does not deliver: mostly it cannot write.
Source: ScheduleMessageService (4.9.7, 5.3.3), TimerMessageStore.getDequeueBehind (5.3.3).
"""

from collections.abc import Iterator

from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.lookups import worst_brokers
from offsetguard.judge.evidence.unseen import names
from offsetguard.judge.rule import CannotTell, Config, Finding, IntervalFacts, Rule, Sentence, Severity, Texts
from offsetguard.tables.broker_facts import BrokerFacts

TIMER_LATE_MS = 120_000  # the wheel is read each second
_LATE = (
    "{delayed_late_count:messages} of {delayed_message_count:messages} message{delayed_message_count:plural} with a "
    "delay level on {worst_broker} "
    "of cluster {cluster} were due 2 min ago or longer and are not delivered (brokers that are late: {brokers}; seen "
    "since {delayed_late_since:moment})"
)
_LATE_ZH = (
    "集群 {cluster} 的 {worst_broker} 上 {delayed_message_count:messages} 条带延迟级别的消息中有 "
    "{delayed_late_count:messages} 条到期已达 2 分钟以上仍未投递（逾期的 Broker：{brokers}；自 "
    "{delayed_late_since:moment} 起观测到）"
)

RULE = Rule(
    id="delayed_delivery_late",
    severity=Severity.WARNING,
    place=400,
    needs=("brokers",),
    means="A broker delivers delayed messages late, retries of consumer groups among them.",
    texts={
        "default": Texts(
            summary="{worst_broker} delivers {delayed_late_count:messages} delayed message{delayed_late_count:plural} "
            "late",
            summary_zh="{worst_broker} 有 {delayed_late_count:messages} 条延迟消息逾期未投递",
            cause=_LATE + ": consumers get them late, and retries of consumer groups wait there, too.",
            cause_zh=_LATE_ZH + "：消费者会延迟收到它们，消费组的重试消息也在其中等待。",
            do_next="Lines of ScheduleMessageService in the broker's store.log (4.x) or broker.log (5.x) say what it "
            "waits for: mostly the broker cannot write, as its disk is full. How far each level was delivered "
            "(scheduleMessageOffset_LEVEL: next, end):",
            do_next_zh="Broker 的 store.log（4.x）或 broker.log（5.x）中 ScheduleMessageService 的日志会说明它在等什"
            "么：多半是 Broker 无法写入，例如磁盘已满。每个级别的投递进度（scheduleMessageOffset_LEVEL：下一条，末"
            "尾）：",
            commands=(lookups.BROKER_STATUS,),
        ),
        "catching_up": Texts(
            summary="{worst_broker} catches up with {delayed_late_count:messages} delayed "
            "message{delayed_late_count:plural}",
            summary_zh="{worst_broker} 正在追赶，还有 {delayed_late_count:messages} 条延迟消息逾期",
            cause=_LATE + "; they become fewer.",
            cause_zh=_LATE_ZH + "；数量正在减少。",
            do_next="Nothing, as long as they become fewer.",
            do_next_zh="只要数量在减少就无需处理。",
        ),
        "timers": Texts(
            summary="timer messages on {worst_broker} are {timer_behind_ms:duration} late",
            summary_zh="{worst_broker} 的定时消息晚了 {timer_behind_ms:duration}",
            cause="The timer wheel of {worst_broker} in cluster {cluster} delivers {timer_behind_ms:duration} late "
            "(brokers that are late: {brokers}); {timer_message_count:messages} message{timer_message_count:plural} "
            "are in it, and "
            "{timer_unread_count:messages} not yet.",
            cause_zh="集群 {cluster} 的 {worst_broker} 的时间轮投递晚了 {timer_behind_ms:duration}（逾期的 Broker："
            "{brokers}）；时间轮中有 {timer_message_count:messages} 条消息，另有 {timer_unread_count:messages} 条尚未进"
            "入。",
            do_next="Lines of TimerMessageStore in the broker's store.log say what it waits for: mostly the broker "
            "cannot write. How far behind it is (timerReadBehind: s, timerOffsetBehind: messages):",
            do_next_zh="Broker 的 store.log 中 TimerMessageStore 的日志会说明它在等什么：多半是 Broker 无法写入。其进度"
            "（timerReadBehind：秒，timerOffsetBehind：消息数）：",
            commands=(lookups.BROKER_STATUS,),
        ),
    },
    title="a broker delivers delayed messages late",
    title_zh="Broker 投递延迟消息逾期",
    table=("worst_broker", "delayed_late_count", "delayed_message_count", "delayed_late_since", "timer_behind_ms"),
    peak="delayed_late_count",
    recovered="delayed messages are delivered in time again",
    recovered_zh="延迟消息已恢复按时投递",
    bad_cycles=2,  # after a restart the broker catches up within a round
)
_WORST_FIRST = ("default", "timers", "catching_up")


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """At most one finding, about all brokers with the worst that there is."""
    found = worst_brokers(facts, _variant, _WORST_FIRST)
    if found is None:
        return
    variant, brokers = found
    worst = max(brokers, key=lambda one: (one.delayed_late_count or 0, one.timer_behind_ms or 0, one.broker_name))
    yield RULE.finding(
        facts,
        severity=Severity.INFO if variant == "catching_up" else RULE.severity,
        variant=variant,
        state="AT_RISK",
        figures={
            "brokers": names(sorted(one.broker_name for one in brokers)),
            "worst_broker": worst.broker_name,
            "delayed_late_count": worst.delayed_late_count,
            "delayed_message_count": worst.delayed_message_count,
            "delayed_late_since": worst.delayed_late_since,
            "timer_behind_ms": worst.timer_behind_ms,
            "timer_message_count": worst.timer_message_count,
            "timer_unread_count": worst.timer_unread_count,
        },
        broker_names=frozenset(one.broker_name for one in brokers),
    )


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Give the brokers that hold delayed messages and did not tell which are due.

    Requests without an answer are told as such, by collection_incomplete.
    """
    for one in facts.brokers:
        if one.delayed_message_count and one.delayed_late_count is None:
            yield RULE.cannot_tell(Sentence("delayed_late_unknown", broker=one.broker_name), brokers={one.broker_name})


def _variant(broker: BrokerFacts) -> str | None:
    if (broker.delayed_late_count or 0) > 0:
        return "catching_up" if (broker.delayed_late_growth or 0) < 0 else "default"
    return "timers" if (broker.timer_behind_ms or 0) >= TIMER_LATE_MS else None
