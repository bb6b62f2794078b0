"""One message blocks an orderly queue: it fails, or never ends, and is tried again in place.

Means: an orderly message that fails is retried in place and blocks its queue, without end by default.
Evidence: the committed offset of the queue stands still while the group's other queues go on; its client has the lock
and cached messages from that offset on.
Not judged: concurrent groups (a slow message blocks nobody there), a queue that nobody holds or without its lock (see
lock_not_released), all queues at once (the listener, or what it calls), a full cache whose offset moves (flow control).
Do next: look at the message; limit the retries.
Source: incident "orderly consumption"; ConsumeMessageOrderlyService#processConsumeResult (4.9.8, 5.3.3).
"""

from collections.abc import Iterator, Sequence

from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.blocked_queues import SANE_RETRIES, UNLIMITED, BlockedQueue, blocked_queues
from offsetguard.judge.evidence.lookups import queue_name, queues_by_group, sum_at_least
from offsetguard.judge.rule import (
    CannotTell,
    Explains,
    Finding,
    QueueEvidence,
    Rule,
    Scope,
    Sentence,
    Severity,
    State,
    Texts,
)
from offsetguard.judge.windows.rules import POP
from offsetguard.tables.group_facts import GroupFacts

_BLOCKED = (
    "Queue {worst_queue} of topic {topic} is blocked for orderly group {consumer_group} by one message at offset "
    "{blocked_offset:messages} for {blocked_ms:duration}"
)
_BLOCKED_ZH = (
    "主题 {topic} 的队列 {worst_queue} 被位点 {blocked_offset:messages} 处的一条消息阻塞，顺序消费组 {consumer_group} "
    "已停滞 {blocked_ms:duration}："
)
_OTHERS = "{other_queue_count} other queue{other_queue_count:plural}"

RULE = Rule(
    id="poison_message",
    severity=Severity.WARNING,
    place=170,
    needs=("groups", "queues", "lock_waits"),
    means="One message that cannot be consumed blocks its queue of an orderly group, while the other queues go on.",
    texts={
        "default": Texts(
            summary="{consumer_group} is blocked on {worst_queue} by one message",
            summary_zh="{consumer_group} 在 {worst_queue} 上被一条消息阻塞",
            cause=_BLOCKED + ": it fails and is tried again in place ({consume_failed_tps:.1f} failures per second, "
            "retries: {retries}); "
            + _OTHERS
            + " of the group advance, and {effective_lag:messages} message{effective_lag:plural} wait "
            "behind it.",
            cause_zh=_BLOCKED_ZH + "它消费失败并在原地重试（每秒失败 {consume_failed_tps:.1f} 次，重试次数上限："
            "{retries}）；该消费组的其他 {other_queue_count} 个队列在正常推进，其后有 {effective_lag:messages} 条消息等"
            "待。",
            do_next="Set maxReconsumeTimes of the consumer to {sane_retries} (now: {retries}), so that such a message "
            "goes to %DLQ% then. The message, with its id and keys:",
            do_next_zh="请把消费者的 maxReconsumeTimes 设为 {sane_retries}（目前：{retries}），超过后消息会进入 %DLQ%。"
            "这条消息（id、keys）：",
            commands=(lookups.SHOW_BLOCKING,),
        ),
        "hanging": Texts(
            cause=_BLOCKED + ": the listener does not come back from it, and no failure is counted; " + _OTHERS + " of "
            "the group advance, and {effective_lag:messages} message{effective_lag:plural} wait behind it.",
            cause_zh=_BLOCKED_ZH + "监听器没有返回，也没有失败计数；该消费组的其他 {other_queue_count} 个队列在正常推"
            "进，其后有 {effective_lag:messages} 条消息等待。",
            do_next="See what the listener waits for, and at which message (id, keys); retries: {retries}.",
            do_next_zh="请查看监听器在等待什么，以及是哪条消息（id、keys）；重试次数上限：{retries}。",
            commands=(
                lookups.STACK_OF_HOLDER,
                lookups.SHOW_BLOCKING,
            ),
        ),
    },
    title="a message blocks an orderly queue",
    title_zh="一条消息阻塞了顺序队列",
    table=("worst_queue", "blocked_offset", "blocked_ms", "effective_lag", "retries", "holder_client_id"),
    peak="blocked_ms",
    from_clients=True,
    recovered="the queue's committed offset moves again",
    recovered_zh="该队列的消费位点已恢复推进",
    holds_queues=True,
    shows_stacks=True,
    explains=(
        Explains(
            Scope.QUEUES,
            ("accumulation", "flow_control", "slow_consumption", "queue_parallelism_cap", "client_stands_still"),
        ),
        Explains(Scope.GROUP, ("retry_limit_too_high",)),
    ),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per consumer group and topic."""
    suspects = queues_by_group(facts)
    for group in facts.groups:
        blocked = blocked_queues(group, suspects.get((group.consumer_group, group.topic), ()), facts)
        if blocked:
            yield _finding(facts, group, blocked)


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Name groups with queues that stand still, of whose clients nobody knows what they do."""
    stalled = {
        (queue.consumer_group, queue.message_queue.topic)
        for queue in facts.queues
        if queue.verdict is not None and queue.verdict.state is State.STALLED
    }
    for group in facts.groups:
        unknown = group.told_client_count is None and bool(group.online_client_count) and group.consumption != POP
        if unknown and group.orderly is not False and (group.consumer_group, group.topic) in stalled:
            yield RULE.cannot_tell(Sentence("blocked_untold"), consumer_group=group.consumer_group)


def _finding(facts: IntervalFacts, group: GroupFacts, blocked: Sequence[BlockedQueue]) -> Finding:
    worst, blocked_ms = blocked[0]
    place = worst.message_queue
    return RULE.finding(
        facts,
        about=(group.consumer_group, group.topic),
        variant="default" if group.consume_failed_tps else "hanging",
        state="STALLED",
        figures={
            "worst_queue": queue_name(place),
            "broker_name": place.broker_name,
            "queue_id": place.queue_id,
            "blocked_offset": worst.offsets.consumer_offset,
            "blocked_ms": blocked_ms,
            "other_queue_count": group.queue_count - len(blocked),
            "effective_lag": sum_at_least(one.queue.offsets.effective_lag for one in blocked),
            "retries": retries_of(group.max_reconsume_times),
            "sane_retries": SANE_RETRIES,
            "consume_failed_tps": group.consume_failed_tps,
            "holder_client_id": worst.holder_client_id,
        },
        queues=tuple(
            QueueEvidence(
                one.queue.message_queue,
                {
                    "blocked_offset": one.queue.offsets.consumer_offset,
                    "blocked_ms": one.blocked_ms,
                    "effective_lag": one.queue.offsets.effective_lag,
                    "cached_message_count": one.queue.cached_message_count,
                    "holder_client_id": one.queue.holder_client_id,
                },
            )
            for one in blocked
        ),
    )


def retries_of(max_reconsume_times: int | None) -> str | int | None:
    """Return the retry limit of an orderly client as it is shown."""
    return Sentence("retries_unlimited") if max_reconsume_times == UNLIMITED else max_reconsume_times
