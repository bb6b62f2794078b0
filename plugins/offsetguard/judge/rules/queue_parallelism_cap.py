"""An orderly group has more threads than queues, so most of its threads can never work.

Means: orderly, one queue is consumed by one thread at a time; parallelism is min(queues, clients x threads), whatever
threads or clients are added.
Evidence: threads and the orderly flag that all of the group's clients told, and the queues of its topics.
Not judged: concurrent groups (there threads help), groups of which not every client told, POP groups, a group without a
lasting lag to speak of (lag_floor) on most of its queues. A warning only when it is beyond its limits, or producers
write clearly more than it consumes; else INFO.
Do next: add queues (read and write), not threads.
Source: incident "orderly consumption"; ConsumeMessageOrderlyService (4.9.8, 5.3.3).
"""

from collections.abc import Iterator, Sequence

from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.capacity import (
    GroupCapacity,
    capacities,
    is_behind_everywhere,
    is_short_of_queues,
    twice_the_queues,
)
from offsetguard.judge.evidence.lookups import age_of_oldest, queues_by_group, sum_at_least
from offsetguard.judge.rule import CannotTell, Explains, Finding, QueueEvidence, Rule, Scope, Sentence, Severity, Texts
from offsetguard.tables.group_facts import GroupFacts

_CAP = (
    "Orderly group {consumer_group}: {thread_count} thread{thread_count:plural}, {queue_count} "
    "queue{queue_count:plural}: "
    "{idle_thread_count} thread{idle_thread_count:plural} can never work"
)
_CAP_ZH = (
    "顺序消费组 {consumer_group}：{thread_count} 个线程，{queue_count} 个队列：{idle_thread_count} 个线程永远无法工作"
)

RULE = Rule(
    id="queue_parallelism_cap",
    severity=Severity.INFO,
    place=220,
    needs=("groups", "queues"),
    means="An orderly group has more consume threads than its topics have queues.",
    texts={
        "default": Texts(
            summary="{consumer_group}: {idle_thread_count} of {thread_count} thread{thread_count:plural} can never "
            "work",
            summary_zh="{consumer_group}：{thread_count} 个线程中有 {idle_thread_count} 个永远无法工作",
            cause=_CAP + "; it consumes one message of a queue at a time, and is {effective_lag:messages} "
            "message{effective_lag:plural} "
            "behind, which does not matter yet.",
            cause_zh=_CAP_ZH + "；一个队列同时只消费一条消息，目前堆积 {effective_lag:messages} 条，暂无影响。",
            do_next="If {consumer_group} must become faster, add queues (read and write), not threads.",
            do_next_zh="如果 {consumer_group} 需要更快，请增加队列（读和写），而不是线程。",
        ),
        "behind": Texts(
            summary="{consumer_group} is limited by the {queue_count} queue{queue_count:plural} of {topic}",
            summary_zh="{consumer_group} 受限于 {topic} 的 {queue_count} 个队列",
            cause=_CAP
            + ", and it is {effective_lag:messages} message{effective_lag:plural} behind on topic {topic}: it "
            "consumes one "
            "message of a queue at a time ({consume_tps:.3g} messages/s consumed, {produce_tps:.3g} written).",
            cause_zh=_CAP_ZH + "，而主题 {topic} 已堆积 {effective_lag:messages} 条消息：一个队列同时只消费一条消息（消"
            "费 {consume_tps:.3g} 条/秒，写入 {produce_tps:.3g} 条/秒）。",
            do_next="Make the listener faster, or add queues (read and write), not threads; messages of one key may "
            "change their queue:",
            do_next_zh="请提高监听器的处理速度，或增加队列（读和写），而不是线程；同一 key 的消息可能换到其他队列：",
            commands=(lookups.SET_QUEUES,),
        ),
    },
    title="more threads than queues",
    title_zh="线程数多于队列数",
    table=("thread_count", "queue_count", "idle_thread_count", "effective_lag", "consume_tps", "produce_tps"),
    peak="effective_lag",
    from_clients=True,
    recovered="the group catches up, or has as many queues as threads",
    recovered_zh="消费组已追上，或队列数不少于线程数",
    about_load=True,
    explains=(
        Explains(Scope.TOPIC, ("accumulation", "slow_consumption", "flow_control", "idle_consumers")),
        Explains(Scope.GROUP, ("flow_control",), variants=("default",)),
    ),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per consumer group: about each topic that it cannot catch up on, else about all that waits."""
    suspects = queues_by_group(facts)
    for one in capacities(facts):
        if not one.orderly or one.thread_count is None or one.thread_count <= one.queue_count:
            continue
        policy = config.policy(facts.cluster, one.consumer_group)
        behind = [group for group in one.topics if is_short_of_queues(facts, config, group)]
        for group in behind:
            yield _finding(facts, one, group, suspects.get((group.consumer_group, group.topic), ()))
        lasting = any(is_behind_everywhere(facts, config, group) for group in one.topics)
        known = sum(group.effective_lag for group in one.topics if group.effective_lag is not None)
        if not behind and lasting and known >= policy.lag_floor:
            yield _finding(facts, one, None, ())


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Name orderly groups that fall behind, of which not every client told its threads."""
    for one in capacities(facts):
        if one.orderly and one.thread_count is None and any(is_short_of_queues(facts, config, g) for g in one.topics):
            yield RULE.cannot_tell(Sentence("threads_untold"), consumer_group=one.consumer_group)


def _finding(
    facts: IntervalFacts,
    capacity: GroupCapacity,
    group: GroupFacts | None,
    suspects: Sequence[QueueFacts],
) -> Finding:
    threads = capacity.thread_count or 0
    waiting = [queue for queue in suspects if (queue.offsets.effective_lag or 0) > 0]
    waiting.sort(key=lambda queue: (-(queue.offsets.effective_lag or 0), queue.message_queue))
    return RULE.finding(
        facts,
        about=(capacity.consumer_group, None if group is None else group.topic),
        severity=RULE.severity if group is None else Severity.WARNING,
        variant="default" if group is None else "behind",
        state="OK" if group is None else "FALLING_BEHIND",
        figures={
            "thread_count": threads,
            "queue_count": capacity.queue_count,
            "idle_thread_count": threads - capacity.queue_count,
            "effective_lag": sum_at_least(one.effective_lag for one in ([group] if group else capacity.topics)),
            "consume_tps": None if group is None else group.consume_tps,
            "produce_tps": None if group is None else group.produce_tps,
            "wanted_queue_nums": None if group is None else twice_the_queues(facts, group.topic),
        },
        queues=tuple(
            QueueEvidence(
                queue.message_queue, {"effective_lag": queue.offsets.effective_lag, "lag_ms": age_of_oldest([queue])}
            )
            for queue in waiting
        ),
    )
