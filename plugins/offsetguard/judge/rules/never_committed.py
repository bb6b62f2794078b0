"""Clients of a consumer group are online, and it has never committed an offset in queues that have messages.

Means: no client holds these queues, or their first message is never finished; nobody sees a lag there.
Evidence: brokers list the group's commits without these queues, and the queues have messages; clients are online.
Not judged: groups without clients (they may be retired), topics that no client subscribes to, broadcasting groups, POP
groups of which nothing was handed out for less than the allowed age. Whoever has just started commits within half a
minute: it is INFO until the newest client, or our window, is older than the allowed age.
Do next: see who holds the queues.
Source: GET_CONSUME_STATS shows such queues as offset 0 (-1 becomes 0), so that dashboards show all messages as lag, and
mqcloud, which measures the delay by the last consumed message, shows nothing: the worst case is the silent one.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.judged_groups import JudgedGroup, judged_groups, longest_ms
from offsetguard.judge.rule import Config, Finding, QueueEvidence, Rule, Severity, State, Texts
from offsetguard.judge.windows.windows import is_subscribed

_KEPT = "{kept:messages} message{kept:plural}"

RULE = Rule(
    id="never_committed",
    severity=Severity.WARNING,
    place=260,
    needs=("groups", "queues"),
    unseen="offsets_not_seen",
    means="A consumer group with clients online never committed an offset in queues that have messages.",
    texts={
        "default": Texts(
            summary="{consumer_group} never committed on {never_committed_queue_count} of {queue_count} "
            "queue{queue_count:plural} of "
            "{topic}",
            summary_zh="{consumer_group} 在 {topic} 的 {queue_count} 个队列中的 {never_committed_queue_count} 个上从未"
            "提交位点",
            cause="Consumer group {consumer_group} has {online_client_count} client{online_client_count:plural} online "
            "and never committed an offset in {never_committed_queue_count} of {queue_count} "
            "queue{queue_count:plural} of topic {topic}, "
            "which hold " + _KEPT + ": no client holds these queues, or none finishes its first message.",
            cause_zh="消费组 {consumer_group} 有 {online_client_count} 个客户端在线，但在主题 {topic} 的 {queue_count} "
            "个队列中的 {never_committed_queue_count} 个上从未提交位点，这些队列中有 {kept:messages} 条消息：没有客户端"
            "持有这些队列，或没有一个消费完第一条消息。",
            do_next="See who holds these queues. Where nobody does, compare the clients' subscriptions and the topic's "
            "read and write queue numbers; where a client does, see what its threads do. " + lookups.STACKS_GO,
            do_next_zh="请查看这些队列由谁持有。没有客户端持有的：请比对各客户端的订阅关系和主题的读写队列数；有客户端"
            "持有的：请查看其线程。" + lookups.STACKS_GO_ZH,
            commands=(
                lookups.PROGRESS_BY_CLIENT,
                lookups.STACKS,
            ),
        ),
    },
    title="queues without a committed offset",
    title_zh="有队列从未提交位点",
    table=("never_committed_queue_count", "queue_count", "kept", "online_client_count", "newest_client_start_at"),
    peak="kept",
    group_needs=("online_client_count",),
    recovered="over: the group has committed an offset in each queue with messages",
    recovered_zh="已结束：消费组已在每个有消息的队列上提交过位点",
    shows_stacks=True,
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic)."""
    for judged in judged_groups(facts, config):
        queues, group = judged.by_rule("never_committed"), judged.group
        if not queues or not group.online_client_count or is_subscribed(group) is False:
            continue
        yield RULE.finding(
            facts,
            about=(group.consumer_group, group.topic),
            severity=RULE.severity if (lasts := _lasts(judged, queues, facts)) else Severity.INFO,
            unsure=not lasts,  # as far back as anything tells
            state=State.NEVER_COMMITTED.value,
            figures={
                "never_committed_queue_count": len(queues),
                "queue_count": group.queue_count,
                "kept": sum(_kept(queue) for queue in queues),
                "online_client_count": group.online_client_count,
                "newest_client_start_at": group.newest_client_start_at,
            },
            queues=tuple(
                QueueEvidence(
                    queue.message_queue,
                    {"min_offset": queue.offsets.min_offset, "max_offset": queue.offsets.max_offset},
                )
                for queue in sorted(queues, key=lambda one: (-_kept(one), one.message_queue))
            ),
        )


def _kept(queue: QueueFacts) -> int:
    low, high = queue.offsets.min_offset, queue.offsets.max_offset
    return 0 if low is None or high is None else high - low


def _lasts(judged: JudgedGroup, queues: Sequence[QueueFacts], facts: IntervalFacts) -> bool:
    """Whether it has been so for longer than the allowed age, as far back as anything tells."""
    allowed = timedelta(milliseconds=judged.policy.max_lag_ms)
    started_at = judged.group.newest_client_start_at
    seen_ms = longest_ms(queues, "silence_ms") or 0
    running = started_at is not None and facts.now - started_at > allowed
    return running or timedelta(milliseconds=seen_ms) > allowed
