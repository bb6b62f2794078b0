"""A consumer group's offsets break min <= consumer <= pull <= max: the row is right and the cluster is not.

Means: worst first, min beyond max (OG-Q05) = the broker's queue is damaged; pull beyond max (OG-Q04) = the queue was
recreated or its broker lost its tail, seen from the clients; consumer beyond pull (OG-Q02) = the offset was set while
clients pull elsewhere.
Evidence: suspect queues whose rows break an invariant after a second reading.
Not judged: what other rules tell with its cause: committed offsets beyond max (OG-Q03: queue_recreated, offset_reset)
and below min (OG-Q01: messages_lost); broadcasting groups, for what the broker keeps under their name is not where
their clients are.
Do next: by variant; clients that are restarted go on from the committed offset.
Source: `offsets.QueueOffsets.order_violations`; a pull beyond the end is OFFSET_OVERFLOW_BADLY and is sent to the end
(DefaultMessageStore.getMessage, 4.9.8 and 5.3.3).
"""

from collections.abc import Iterator, Sequence

from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence.lookups import message_models, online_clients, queues_by_group, sum_at_least
from offsetguard.judge.evidence.move_figures import beyond
from offsetguard.judge.rule import Config, Figure, Finding, QueueEvidence, Rule, Severity, Texts
from offsetguard.model.offsets import OffsetOrderViolation

_ON_QUEUES = "on {queue_count} queue{queue_count:plural} of topic {topic}"
_WORST = "(worst: queue {broker_name}/{queue_id}, "
_WORST_ZH = "（最严重：队列 {broker_name}/{queue_id}，"

RULE = Rule(
    id="offsets_violate_invariant",
    severity=Severity.CRITICAL,
    place=60,
    needs=("queues",),
    means="The offsets of a consumer group break min <= consumer <= pull <= max.",
    texts={
        "default": Texts(
            summary="{topic}: the oldest offset lies beyond the end",
            summary_zh="{topic}：最小位点大于最大位点",
            cause="The broker says that the oldest kept message of topic {topic} lies beyond the end of the queue, "
            + _ON_QUEUES
            + " "
            + _WORST
            + "oldest {min_offset:messages}, end {max_offset:messages}): its consume queue is damaged or being "
            "rebuilt; consumer group {consumer_group} cannot read there.",
            cause_zh="Broker 返回的主题 {topic} 的最小位点大于最大位点，涉及主题 {topic} 的 {queue_count} 个队列"
            + _WORST_ZH
            + "最小位点 {min_offset:messages}，最大位点 {max_offset:messages}）：ConsumeQueue 已损坏或正在重建，消费组 "
            "{consumer_group} 无法在此消费。",
            do_next="Look at store.log and storeerror.log of {broker_name} for recovery, truncation and consume queue "
            "errors, and check its disk.",
            do_next_zh="请在 {broker_name} 的 store.log 和 storeerror.log 中查找恢复、截断和 ConsumeQueue 错误，并检查"
            "磁盘。",
        ),
        "pull_beyond_max": Texts(
            summary="{consumer_group} pulls beyond the end of {topic}",
            summary_zh="{consumer_group} 的拉取位点超出 {topic} 的最大位点",
            cause="Clients of consumer group {consumer_group} pull beyond the end "
            + _ON_QUEUES
            + " "
            + _WORST
            + "next pull {pull_offset:messages}, end {max_offset:messages}): the queue was recreated, or its broker "
            "lost its tail; up to {beyond:messages} new message{beyond:plural} will be skipped.",
            cause_zh="消费组 {consumer_group} 的客户端在主题 {topic} 的 {queue_count} 个队列上的拉取位点超出最大位点"
            + _WORST_ZH
            + "拉取位点 {pull_offset:messages}，最大位点 {max_offset:messages}）：队列被重建过，或 Broker 丢失了尾部数"
            "据；至多 {beyond:messages} 条新消息将被跳过。",
            do_next="Find out whether the topic was recreated or the broker restored, and restart the clients: they go "
            "on from the committed offset, {consumer_offset:messages}, which is not beyond the end.",
            do_next_zh="请确认主题是否被重建、Broker 是否从备份恢复过，并重启客户端：它们会从消费位点 "
            "{consumer_offset:messages} 继续，该位点没有超出最大位点。",
        ),
        "consumer_beyond_pull": Texts(
            summary="{consumer_group} committed what it did not pull from {topic}",
            summary_zh="{consumer_group} 在 {topic} 上提交了未拉取过的位点",
            cause="Consumer group {consumer_group} has committed beyond what its clients pulled "
            + _ON_QUEUES
            + " "
            + _WORST
            + "committed {consumer_offset:messages}, next pull {pull_offset:messages}): the offset was set while "
            "clients go on from another one.",
            cause_zh="消费组 {consumer_group} 在主题 {topic} 的 {queue_count} 个队列上的消费位点超过了客户端的拉取位点"
            + _WORST_ZH
            + "消费位点 {consumer_offset:messages}，拉取位点 {pull_offset:messages}）：位点被人为修改过，而客户端仍从原"
            "来的位点继续。",
            do_next="If somebody reset the offsets, restart the clients so that they take them; otherwise look for a "
            "second application that commits as {consumer_group}.",
            do_next_zh="如果有人重置过位点，请重启客户端使其生效；否则请查找是否有另一个应用以 {consumer_group} 的名义"
            "提交位点。",
        ),
    },
    title="offsets are out of order",
    title_zh="位点顺序异常",
    table=("lost", "beyond", "min_offset", "consumer_offset", "pull_offset", "max_offset", "queue_count"),
    peak="missing",
    recovered="recovered: its offsets are in order again",
    recovered_zh="已恢复：位点顺序正常",
)

# Worst first.
_VARIANTS = (
    (OffsetOrderViolation.MIN_ABOVE_MAX, "default", "ANOMALY"),
    (OffsetOrderViolation.PULL_ABOVE_MAX, "pull_beyond_max", "ANOMALY"),
    (OffsetOrderViolation.CONSUMER_ABOVE_PULL, "consumer_beyond_pull", "ANOMALY"),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic); the worst of its violations gives the words."""
    models, clients = message_models(facts), online_clients(facts)
    for (consumer_group, topic), queues in sorted(queues_by_group(facts).items()):
        broken = [queue for queue in queues if queue.violated_invariants and not beyond(queue)]
        worst = _worst_violation(broken)
        if worst is None or models.get(consumer_group) == "BROADCASTING":
            continue
        variant, state, telling = worst
        yield RULE.finding(
            facts,
            about=(consumer_group, topic),
            severity=Severity.WARNING if variant == "consumer_beyond_pull" else RULE.severity,
            variant=variant,
            state=state,
            figures={
                **_figures(telling),
                "online_client_count": clients.get(consumer_group),
            },
            queues=_evidence(broken),
        )


def _worst_violation(broken: Sequence[QueueFacts]) -> tuple[str, str, list[QueueFacts]] | None:
    """Return variant, state and the queues that show it; None when no violation of ours is among them."""
    for violation, variant, state in _VARIANTS:
        telling = [queue for queue in broken if violation.value in queue.violated_invariants]
        if telling:
            return variant, state, telling
    return None


def _figures(telling: Sequence[QueueFacts]) -> dict[str, Figure]:
    worst = min(telling, key=_worst_first)
    lost, past_end = [queue.offsets.lost for queue in telling], [_beyond(queue) for queue in telling]
    return {
        "queue_count": len(telling),
        "broker_name": worst.message_queue.broker_name,
        "queue_id": worst.message_queue.queue_id,
        "min_offset": worst.offsets.min_offset,
        "consumer_offset": worst.offsets.consumer_offset,
        "pull_offset": worst.offsets.pull_offset,
        "max_offset": worst.offsets.max_offset,
        "lost": sum_at_least(lost),
        "beyond": sum_at_least(past_end),
        "missing": sum_at_least([*lost, *past_end]),
    }


def _evidence(queues: Sequence[QueueFacts]) -> tuple[QueueEvidence, ...]:
    return tuple(
        QueueEvidence(
            queue.message_queue,
            {
                "lost": queue.offsets.lost,
                "beyond": _beyond(queue),
                "min_offset": queue.offsets.min_offset,
                "consumer_offset": queue.offsets.consumer_offset,
                "pull_offset": queue.offsets.pull_offset,
                "max_offset": queue.offsets.max_offset,
                "violated_invariants": ", ".join(queue.violated_invariants),
            },
        )
        for queue in sorted(queues, key=_worst_first)
    )


def _worst_first(queue: QueueFacts) -> tuple[int, int, object]:
    ranks = [rank for rank, (violation, _, _) in enumerate(_VARIANTS) if violation.value in queue.violated_invariants]
    return (min(ranks, default=len(_VARIANTS)), -(_beyond(queue) or 0) - (queue.offsets.lost or 0), queue.message_queue)


def _beyond(queue: QueueFacts) -> int | None:
    """Return how far the committed or pulled offset lies beyond the end, messages; None = not known."""
    positions = [p for p in (queue.offsets.consumer_offset, queue.offsets.pull_offset) if p is not None]
    if not positions or queue.offsets.max_offset is None:
        return None
    return max(0, max(positions) - queue.offsets.max_offset)
