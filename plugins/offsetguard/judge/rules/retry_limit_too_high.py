"""An orderly group may try a message that fails for ever, or for very long.

Means: an orderly message that fails is retried in place, once a second, and blocks its queue until the limit; by
default there is none. With 2,000 retries a queue is blocked for at least half an hour; 16 is the sane limit.
Evidence: maxReconsumeTimes of the clients that told.
Not judged: concurrent groups (a failed message waits in the retry topic and blocks nobody); POP groups; the default
without a limit, as long as no message fails.
Do next: set maxReconsumeTimes of the consumer to 16.
Source: DefaultMQPushConsumer.maxReconsumeTimes, ConsumeMessageOrderlyService#getMaxReconsumeTimes (4.9.8, 5.3.3).
"""

from collections.abc import Iterator

from offsetguard.judge.evidence.blocked_queues import SANE_RETRIES, UNLIMITED, blocked_queues
from offsetguard.judge.evidence.lookups import queues_by_group
from offsetguard.judge.rule import Config, Finding, IntervalFacts, Rule, Severity, Texts
from offsetguard.judge.windows.rules import POP

RULE = Rule(
    id="retry_limit_too_high",
    severity=Severity.INFO,
    place=340,
    needs=("groups", "queues", "lock_waits"),
    means="An orderly group retries a message that fails for ever, or far more often than it helps.",
    texts={
        "default": Texts(
            summary="{consumer_group} retries a failing message {max_reconsume_times:messages} "
            "time{max_reconsume_times:plural}",
            summary_zh="{consumer_group} 对失败的消息重试 {max_reconsume_times:messages} 次",
            cause="Orderly group {consumer_group} retries a message that fails {max_reconsume_times:messages} "
            "time{max_reconsume_times:plural} in "
            "place ({sane_retries} are sane), so one bad message would block its queue for "
            "{blocking_ms:duration} at least.",
            cause_zh="顺序消费组 {consumer_group} 对失败的消息在原地重试 {max_reconsume_times:messages} 次（合理值为 "
            "{sane_retries}），因此一条坏消息至少会阻塞其队列 {blocking_ms:duration}。",
            do_next="Set maxReconsumeTimes of the consumers of {consumer_group} to {sane_retries}: a message that "
            "fails as often goes to %DLQ%{consumer_group}, and its queue goes on.",
            do_next_zh="请把 {consumer_group} 的消费者的 maxReconsumeTimes 设为 {sane_retries}：失败达到该次数的消息会"
            "进入 %DLQ%{consumer_group}，其队列继续推进。",
        ),
        "unlimited": Texts(
            summary="{consumer_group} retries a failing message for ever",
            summary_zh="{consumer_group} 对失败的消息无限重试",
            cause="Orderly group {consumer_group} retries a message that fails for ever in place (maxReconsumeTimes is "
            "not set), and messages fail now: one that keeps failing blocks its queue until somebody acts.",
            cause_zh="顺序消费组 {consumer_group} 对失败的消息在原地无限重试（未设置 maxReconsumeTimes），而目前有消息"
            "失败：一直失败的消息会阻塞其队列，直到人工处理。",
        ),
        "blocking": Texts(
            summary="{consumer_group} retries a failing message without a sane limit",
            summary_zh="{consumer_group} 对失败的消息重试次数没有合理上限",
            cause="Orderly group {consumer_group} retries a message that fails in place without a sane limit, with "
            "{queue_count} queue{queue_count:plural} of topic {topic} blocked by it now.",
            cause_zh="顺序消费组 {consumer_group} 对失败的消息在原地重试且没有合理上限，主题 {topic} 目前有 "
            "{queue_count} 个队列因此被阻塞。",
        ),
    },
    title="too many retries in place",
    title_zh="原地重试次数过多",
    table=("max_reconsume_times", "sane_retries"),
    from_clients=True,
    recovered="the clients limit their retries, or are gone",
    recovered_zh="客户端已限制重试次数，或已不存在",
)
_RETRY_MS = 1_000  # suspendCurrentQueueTimeMillis


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per consumer group, whatever its topics; of several, one whose queues are blocked."""
    suspects = queues_by_group(facts)
    found: dict[str, Finding] = {}
    for group in facts.groups:
        limit = group.max_reconsume_times
        sane = limit is None or 0 <= limit <= SANE_RETRIES
        harmless = limit == UNLIMITED and not group.consume_failed_tps
        if not group.orderly or sane or harmless or limit is None or group.consumption == POP:
            continue
        blocked = blocked_queues(group, suspects.get((group.consumer_group, group.topic), ()), facts)
        if group.consumer_group in found and not blocked:
            continue
        found[group.consumer_group] = RULE.finding(
            facts,
            about=(group.consumer_group, group.topic if blocked else None),
            severity=Severity.WARNING if blocked else RULE.severity,
            variant="blocking" if blocked else "unlimited" if limit == UNLIMITED else "default",
            state="STALLED" if blocked else "OK",
            figures={
                "max_reconsume_times": None if limit == UNLIMITED else limit,
                "sane_retries": SANE_RETRIES,
                "blocking_ms": limit * _RETRY_MS,
                "queue_count": len(blocked),
            },
        )
    yield from found.values()
