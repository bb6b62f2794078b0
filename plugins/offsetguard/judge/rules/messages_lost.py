"""Retention deleted messages that a consumer group had not consumed.

Means: the committed offset is below the oldest message that the broker keeps; what lay between is gone.
Evidence: min offset and committed offset of each queue; lost = min - committed, summed over the queues, without what
was handed out before: by the broker's pull offset (5.1), or a client's cache that reaches from below min on. Where
neither is known of a queue whose group is online, so many at most are lost.
Not judged: broadcasting groups; topics that no client subscribes to; a committed offset 0 unless min was seen to leave
0 (so starts a new group that consumes from the first offset on, where the first messages are deleted already).
Nor a commit that is below min by no more than the group commits in 15 s: commits are late by some seconds, and min is
read after them. Nor queues of brokers with a tiered storage: what they corrected is told by offset_moved_by_retention.
Where all was handed out, it is said to be in process, not lost: clients still have it.
Do next: send them again from their source if they matter; then see why the group was so far behind.
Source: the min offset moves in steps of commit-log files (4.9.8, 5.3.3); klag-exporter's messages_lost.
"""

from collections.abc import Iterator

from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.judged_groups import JudgedGroup, judged_groups, tiered_brokers
from offsetguard.judge.evidence.lookups import of_all_queues, queue_name
from offsetguard.judge.evidence.move_causes import REGAINED_WITHIN
from offsetguard.judge.forecasts.broker_retentions import tiered_broker_names
from offsetguard.judge.rule import (
    CannotTell,
    Explains,
    Finding,
    QueueEvidence,
    Rule,
    Scope,
    Severity,
    Stage,
    State,
    Texts,
)
from offsetguard.judge.windows.pace import most_committed
from offsetguard.tables.group_facts import GroupFacts

_GONE = (
    "{lost:messages} message{lost:plural} of topic {topic} on {lost_queue_count} of {queue_count} "
    "queue{queue_count:plural} (worst: "
    "{worst_queue}, committed {consumer_offset:messages}, oldest kept {min_offset:messages})"
)
_GONE_ZH = (
    "被过期清理删除（最严重：{worst_queue}，消费位点 {consumer_offset:messages}，最小位点 {min_offset:messages}）"
)
_RESEND = (
    "These messages are gone from the broker; if they matter, send them again from their source. So that it does not "
    "go on: "
)
_RESEND_ZH = "这些消息在 Broker 上已不存在；如果重要，请从源头补发。为避免"
_IN_HANDS = (
    "Restart no client that goes on before it is done. " + _RESEND + "speed up the group, or keep messages longer "
    "(fileReservedTime, disk space)."
)
_IN_HANDS_ZH = (
    "处理完之前请不要重启客户端。"
    + _RESEND_ZH
    + "再次发生：提高消费速度，或延长消息保留时间（fileReservedTime、磁盘空间）。"
)

RULE = Rule(
    id="messages_lost",
    severity=Severity.CRITICAL,
    place=100,
    never_muted=True,
    needs=("groups", "queues"),
    unseen="offsets_not_seen",
    means="Brokers deleted messages that a consumer group had not consumed.",
    texts={
        "default": Texts(
            summary="{consumer_group} lost {lost:messages} message{lost:plural} of {topic}",
            summary_zh="{consumer_group} 丢失了 {topic} 的 {lost:messages} 条消息",
            cause="Consumer group {consumer_group} did not consume " + _GONE + " before retention deleted them.",
            cause_zh="消费组 {consumer_group} 在主题 {topic} 的 {queue_count} 个队列中的 {lost_queue_count} 个上，有 "
            "{lost:messages} 条消息未及消费就" + _GONE_ZH + "。",
            do_next=_RESEND + "speed up the group, or keep messages longer (fileReservedTime, disk space).",
            do_next_zh=_RESEND_ZH + "再次发生：提高消费速度，或延长消息保留时间（fileReservedTime、磁盘空间）。",
        ),
        "partly": Texts(
            cause="Consumer group {consumer_group} did not consume " + _GONE + " before retention deleted them; "
            "{in_process:messages} more of the deleted ones are in process at its clients, and lost if these stop now.",
            cause_zh="消费组 {consumer_group} 在主题 {topic} 的 {queue_count} 个队列中的 {lost_queue_count} 个上，有 "
            "{lost:messages} 条消息未及消费就" + _GONE_ZH + "；另有 {in_process:messages} 条已被删除的消息正在客户端处"
            "理中，此时客户端如果停止，这些消息也会丢失。",
            do_next=_IN_HANDS,
            do_next_zh=_IN_HANDS_ZH,
        ),
        "uncertain": Texts(
            summary="{consumer_group} may have lost {lost:messages} message{lost:plural} of {topic}",
            summary_zh="{consumer_group} 可能丢失了 {topic} 的 {lost:messages} 条消息",
            cause="Consumer group {consumer_group} had not committed " + _GONE + " before retention deleted them. "
            "Neither its brokers nor its clients say how many of them had been handed out.",
            cause_zh="消费组 {consumer_group} 在主题 {topic} 的 {queue_count} 个队列中的 {lost_queue_count} 个上，有 "
            "{lost:messages} 条消息未提交就" + _GONE_ZH + "。其中有多少条此前已交给客户端，Broker 和客户端都没有给出。",
            do_next=_IN_HANDS,
            do_next_zh=_IN_HANDS_ZH,
        ),
        "offline": Texts(
            summary="{consumer_group} is offline and lost {lost:messages} message{lost:plural} of {topic}",
            summary_zh="{consumer_group} 不在线，丢失了 {topic} 的 {lost:messages} 条消息",
            cause="Consumer group {consumer_group} has no client online, and retention deleted " + _GONE + ".",
            cause_zh="消费组 {consumer_group} 没有客户端在线，主题 {topic} 的 {queue_count} 个队列中的 "
            "{lost_queue_count} 个上有 {lost:messages} 条消息" + _GONE_ZH + "。",
            do_next=_RESEND
            + "see where it stands, and start its consumers. Only a group that is retired is to be deleted, with its "
            "offsets, so that it is no longer judged:",
            do_next_zh=_RESEND_ZH
            + "继续丢失：请先查看消费进度，再启动它的消费者。只有已下线的消费组才应连同位点一起删除，"
            "以免继续告警：",
            commands=(lookups.PROGRESS, lookups.DELETE_GROUP),
        ),
        "in_process": Texts(
            summary="{consumer_group} still processes {lost:messages} message{lost:plural} of {topic} that the broker "
            "deleted",
            summary_zh="{consumer_group} 仍在处理 {topic} 上已被 Broker 删除的 {lost:messages} 条消息",
            cause="Retention deleted " + _GONE + ", which clients of consumer group {consumer_group} have pulled and "
            "not finished: they are lost if such a client stops now.",
            cause_zh="主题 {topic} 的 {queue_count} 个队列中的 {lost_queue_count} 个上有 {lost:messages} 条消息"
            + _GONE_ZH
            + "，消费组 {consumer_group} 的客户端已拉取但尚未消费完：此时客户端如果停止，这些消息就会丢失。",
            do_next="Restart no client that goes on before it is done; speed up the group, or keep messages longer "
            "(fileReservedTime, disk space).",
            do_next_zh="请不要在处理完之前重启仍在消费的客户端；提高消费速度，或延长消息保留时间（fileReservedTime、磁盘空间）。",
        ),
    },
    title="messages were lost",
    title_zh="消息丢失",
    table=("lost", "lost_queue_count", "consumer_offset", "min_offset", "online_client_count"),
    peak="lost",
    group_needs=("lost",),
    recovered="over: the group has gone on behind the gap; what was lost stays lost",
    recovered_zh="已结束：消费组已越过空缺继续消费；丢失的消息无法找回",
    shows_stacks=True,
    stage=Stage("loss", 2),
    explains=(
        Explains(Scope.TOPIC, ("loss_ahead", "consumer_offline")),
        Explains(Scope.TOPIC, ("offset_moved_by_retention",), variants=("offline",)),
    ),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic) whose committed offset is below the oldest message now."""
    tiered = tiered_broker_names(facts)
    for judged in judged_groups(facts, config):
        below = [
            one
            for one in judged.by_rule("committed_below_min")
            if not (_first_start(one) or _is_late(one, judged.group) or one.message_queue.broker_name in tiered)
        ]
        if not below:
            continue
        group = judged.group
        counted = [(not_handed_out(queue, online=bool(group.online_client_count)), queue) for queue in below]
        gone = [(lost, queue) for lost, queue in counted if lost > 0]
        handed_out = [(in_process_of(queue, lost), queue) for lost, queue in counted]
        in_process = sum(count for count, _ in handed_out)
        variant = _variant(judged, [queue for _, queue in gone], in_process=bool(in_process))
        shown = gone or handed_out
        shown.sort(key=lambda one: (-one[0], one[1].message_queue))
        worst = shown[0][1]
        yield RULE.finding(
            facts,
            about=(group.consumer_group, group.topic),
            severity=Severity.WARNING if variant == "in_process" else RULE.severity,
            variant=variant,
            state=State.LOST.value,
            figures={
                "lost": of_all_queues(group, sum(lost for lost, _ in shown)),
                "lost_queue_count": len(shown),
                "in_process": in_process,
                "queue_count": group.queue_count,
                "worst_queue": queue_name(worst.message_queue),
                "consumer_offset": worst.offsets.consumer_offset,
                "min_offset": worst.offsets.min_offset,
                "online_client_count": judged.client_count,
            },
            queues=tuple(_evidence(queue, lost) for lost, queue in shown),
        )


def not_handed_out(queue: QueueFacts, *, online: bool) -> int:
    """Return how many of the deleted messages no client has that is there."""
    low = queue.offsets.min_offset or 0
    handed_out = [queue.offsets.consumer_offset or 0]
    if online:
        handed_out.append(queue.offsets.pull_offset or 0)
    if queue.cached_min_offset is not None and queue.cached_min_offset < low:  # else it may have been sent beyond
        handed_out.append((queue.cached_max_offset or 0) + 1)
    return max(0, low - max(handed_out))


def _hides_pulls(queue: QueueFacts, group: GroupFacts) -> bool:
    """Whether nobody says what was handed out: not the broker, and there are clients that did not list their queues."""
    told = (queue.offsets.pull_offset, queue.cached_message_count, queue.cached_min_offset)
    if any(figure is not None for figure in told):
        return False
    holding, idle, online = group.holding_client_count, group.idle_client_count, group.online_client_count
    return holding is None or idle is None or online is None or holding + idle < online


def in_process_of(queue: QueueFacts, lost: int) -> int:
    """Return how many of the deleted messages a client has and has not finished: no more than it says that it caches.

    Behind a message that hangs, all others may be finished, and are not committed.
    """
    handed_out = (queue.offsets.lost or 0) - lost
    first, low = queue.cached_min_offset, queue.offsets.min_offset or 0
    return handed_out if first is None or first >= low else min(handed_out, queue.cached_message_count or handed_out)


def _first_start(queue: QueueFacts) -> bool:
    """Whether a new group begins at offset 0 of a queue whose first messages were gone long before."""
    was_kept = queue.window.min_moved_from == 0
    return queue.offsets.consumer_offset == 0 and not was_kept


def _variant(judged: JudgedGroup, lost: list[QueueFacts], *, in_process: bool) -> str:
    if judged.client_count == 0:
        return "offline"
    if not lost:
        return "in_process"
    if any(_hides_pulls(queue, judged.group) for queue in lost):
        return "uncertain"
    return "partly" if in_process else "default"


def _is_late(queue: QueueFacts, group: GroupFacts) -> bool:
    """Whether the commit that was seen is only some seconds old news of a group that goes on.

    How much a group commits in that time is not known of one that had committed nothing by the look before.
    """
    is_first = group.uncommitted_at is not None and all(one.committed_offset is None for one in queue.window.points)
    if is_first and group.online_client_count:
        return True
    return (queue.offsets.lost or 0) <= most_committed(queue.window, REGAINED_WITHIN)


def _evidence(queue: QueueFacts, lost: int) -> QueueEvidence:
    names = ("consumer_offset", "pull_offset", "min_offset", "max_offset")
    return QueueEvidence(queue.message_queue, {"lost": lost} | {name: getattr(queue.offsets, name) for name in names})


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Say which brokers' messages may be kept elsewhere."""
    yield from tiered_brokers(RULE.id, facts)
