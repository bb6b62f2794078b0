"""Messages of a group became dead letters: they failed too often, and nobody tries them again.

Means: the listener fails for them again and again; they lie in %DLQ%group until retention deletes them.
Evidence: the growth of the group's dead-letter topic since the round before, over all masters, and the store time of
the oldest message there (GET_EARLIEST_MSG_STORETIME).
Not judged: dead letters that lie there already: they are history, and only people know whether they matter.
Do next: find why the listener fails, then send again what matters.
Source: SendMessageProcessor.consumerSendMsgBack (4.9.8, 5.3.3): %DLQ% once retryMaxTimes is reached.
"""

from collections.abc import Iterator

from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.blocked_queues import UNLIMITED
from offsetguard.judge.evidence.lookups import each_group, growth_unknown
from offsetguard.judge.rule import CannotTell, Config, Finding, GroupFacts, IntervalFacts, Rule, Severity, Texts

_DEFAULT_RETRIES = 16  # of a client that sends a message back

RULE = Rule(
    id="dead_letters",
    severity=Severity.WARNING,
    place=360,
    never_muted=True,
    needs=("groups",),
    means="Messages of a consumer group failed too often and were put aside: nobody will try them again.",
    texts={
        "default": Texts(
            summary="{consumer_group}: {dead_letter_growth:messages} new dead letter{dead_letter_growth:plural}",
            summary_zh="{consumer_group}：新增 {dead_letter_growth:messages} 条死信",
            cause="{dead_letter_growth:messages} message{dead_letter_growth:plural} of consumer group {consumer_group} "
            "went to {dead_letter_topic} since the round before: they failed more often than the group's retries allow "
            "({retry_limit}), and nobody will try them again; {dead_letter_message_count:messages} lie there, the "
            "oldest since {oldest_dead_letter_at:moment}.",
            cause_zh="自上一轮以来，消费组 {consumer_group} 有 {dead_letter_growth:messages} 条消息进入 "
            "{dead_letter_topic}：失败次数超过了消费组的重试上限（{retry_limit}），不会再重试；其中现有 "
            "{dead_letter_message_count:messages} 条，最早一条写入于 {oldest_dead_letter_at:moment}。",
            do_next="Look in the clients' log for what the listener throws; mend the listener, then send again those "
            "that matter. The messages are kept in the topic until retention deletes them; where they lie:",
            do_next_zh="请在客户端日志中查看监听器抛出的异常；修复监听器后，请重新发送其中重要的消息。消息会保留在该主"
            "题中直到过期清理，其位置：",
            commands=(lookups.WHERE_DEAD_LETTERS_LIE,),
        ),
    },
    title="new dead letters",
    title_zh="新增死信",
    table=("dead_letter_growth", "dead_letter_message_count", "oldest_dead_letter_at", "retry_limit"),
    peak="dead_letter_growth",
    group_needs=("dead_letter_growth",),
    recovered="no new dead letter came for 30 min",
    recovered_zh="30 分钟内没有新增死信",
    calm_ms=30 * 60_000,  # they come one by one, each after hours of retries: that is one trouble
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per consumer group."""
    for group in each_group(facts):
        if (group.dead_letter_growth or 0) > 0:
            yield RULE.finding(
                facts,
                about=(group.consumer_group, None),
                state="LOST",
                figures={
                    "dead_letter_growth": group.dead_letter_growth,
                    "dead_letter_message_count": group.dead_letter_message_count,
                    "oldest_dead_letter_at": group.oldest_dead_letter_at,
                    "dead_letter_topic": f"%DLQ%{group.consumer_group}",
                    "retry_limit": _retry_limit(group),
                },
            )


def _retry_limit(group: GroupFacts) -> int | None:
    """Return how often a message is tried: as clients say, whose request outranks the broker's retryMaxTimes.

    Source: DefaultMQPushConsumerImpl.getMaxReconsumeTimes (-1: 16), SendMessageProcessor.consumerSendMsgBack.
    """
    if group.max_reconsume_times is None:
        return group.retry_max_times
    return _DEFAULT_RETRIES if group.max_reconsume_times == UNLIMITED else group.max_reconsume_times


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Give the groups whose dead letters could not be compared with those of the round before."""
    yield from growth_unknown(facts, RULE.id, "dead_letter_growth")
