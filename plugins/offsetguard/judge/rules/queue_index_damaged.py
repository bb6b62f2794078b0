"""A broker says of a queue what cannot be: its first offset is beyond its end, or its end is beyond what was ever sent.

Means: the queue's index was damaged, while the commit log has the messages. After an unclean failover all index files
of a queue may be truncated, and the first offset in memory stays (5.5.0, controller mode); a damaged file may end
anywhere.
Evidence: the ends of a queue that a group reads (GET_TOPIC_STATS_INFO): first offset > end; or an end from 2^50 on,
which is a million messages a second for 35 years. In the second round that shows it.
Not judged: how far groups are behind on it, as nobody can know (accumulation). A reset cannot help: the broker sends
every request to the same first offset.
Do next: restart the broker, which reads the first offset from its files; or build the index again.
Source: apache/rocketmq#10417, #2225; ConsumeQueue.getMinOffsetInQueue, getMaxOffsetInQueue (4.9.7, 5.5.0).
"""

from collections.abc import Iterator, Sequence

from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence.lookups import queue_name, queues_by_group
from offsetguard.judge.rule import Config, Explains, Finding, QueueEvidence, Rule, Scope, Severity, Texts
from offsetguard.model.offsets import OffsetOrderViolation

RULE = Rule(
    id="queue_index_damaged",
    severity=Severity.WARNING,
    place=65,
    never_muted=True,
    needs=("queues",),
    bad_cycles=2,  # what is read while a broker comes up may be half of it
    means="A broker says of a queue what cannot be: its index is damaged.",
    texts={
        "default": Texts(
            summary="{worst_queue} of {topic} begins beyond its end; {consumer_group} cannot consume it",
            summary_zh="{topic} 的 {worst_queue} 的最小位点大于最大位点：{consumer_group} 无法消费",
            cause="Of {queue_count} queue{queue_count:plural} of topic {topic} the broker says what cannot be (worst: "
            "{worst_queue}, first offset {min_offset:messages}, end {max_offset:messages}): its index was truncated "
            "and the first offset in memory stayed (apache/rocketmq#10417, 5.5.0). Consumer group {consumer_group} "
            "stands at {consumer_offset:messages} there, and is sent to that first offset whatever it asks for.",
            cause_zh="Broker 返回的主题 {topic} 的 {queue_count} 个队列的位点不可能成立（最严重：{worst_queue}，最小位"
            "点 {min_offset:messages}，最大位点 {max_offset:messages}）：其索引被截断，而内存中的最小位点没有更新"
            "（apache/rocketmq#10417，5.5.0）。消费组 {consumer_group} 在此的消费位点是 "
            "{consumer_offset:messages}，无论请求什么位点都会被送到该最小位点。",
            do_next="Restart the broker of {worst_queue}: it reads the first offset from its files then. Resetting the "
            "group does not help before that. Afterwards compare what the group consumes with what was sent.",
            do_next_zh="请重启 {worst_queue} 所在的 Broker：它会从文件中重新读取最小位点。在此之前重置消费组没有用。"
            "之后请核对消费组消费的消息与发送的消息。",
        ),
        "impossible_end": Texts(
            summary="the end of {worst_queue} of {topic} is impossible: what waits for {consumer_group} is unknown",
            summary_zh="{topic} 的 {worst_queue} 的最大位点不可能成立：{consumer_group} 的堆积未知",
            cause="The broker says that {queue_count} queue{queue_count:plural} of topic {topic} end where none can "
            "(worst: {worst_queue}, end {max_offset:messages}), which cannot be: an index file is damaged "
            "(apache/rocketmq#2225). How much waits for consumer group {consumer_group}, at {consumer_offset:messages} "
            "there, nobody can know.",
            cause_zh="Broker 返回的主题 {topic} 的 {queue_count} 个队列的最大位点不可能成立（最严重：{worst_queue}，最"
            "大位点 {max_offset:messages}）：索引文件已损坏（apache/rocketmq#2225）。消费组 {consumer_group} 在此的消费"
            "位点是 {consumer_offset:messages}，实际堆积无从得知。",
            do_next="Let the broker build its index again from the commit log: stop it, move store/consumequeue and "
            "store/index away, and start it; or let a replica whose end is right take over. Nothing of the commit log "
            "is lost by this.",
            do_next_zh="请让 Broker 从 CommitLog 重建索引：停止 Broker，移走 store/consumequeue 和 store/index，再启"
            "动；或让最大位点正确的副本接管。CommitLog 中的数据不会因此丢失。",
        ),
    },
    title="a queue's index is damaged",
    title_zh="队列索引已损坏",
    table=("queue_count", "min_offset", "max_offset", "consumer_offset"),
    recovered="recovered: its ends can be again",
    recovered_zh="已恢复：位点重新有效",
    explains=(
        Explains(
            Scope.TOPIC,
            (
                "queue_recreated",
                "offset_reset",
                "offset_moved_by_retention",
                "messages_lost",
                "loss_ahead",
                "accumulation",
                "offsets_violate_invariant",
            ),
        ),
    ),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic) with such a queue."""
    for about, queues in sorted(queues_by_group(facts).items()):
        crossed = [one for one in queues if OffsetOrderViolation.MIN_ABOVE_MAX in one.offsets.order_violations()]
        damaged = crossed or [one for one in queues if one.offsets.end_is_impossible]
        if damaged:
            yield _finding(facts, about, damaged, crossed=bool(crossed))


def _finding(facts: IntervalFacts, about: tuple[str, str], damaged: Sequence[QueueFacts], *, crossed: bool) -> Finding:
    evidence = tuple(
        QueueEvidence(
            one.message_queue,
            {name: getattr(one.offsets, name) for name in ("min_offset", "max_offset", "consumer_offset")},
        )
        for one in sorted(damaged, key=lambda one: one.message_queue)
    )
    return RULE.finding(
        facts,
        about=about,
        severity=Severity.CRITICAL if crossed else RULE.severity,  # nothing is consumed there until somebody acts
        variant="default" if crossed else "impossible_end",
        state="ANOMALY",
        figures={
            "queue_count": len(damaged),
            "worst_queue": queue_name(evidence[0].message_queue),
            **evidence[0].figures,
        },
        queues=evidence,
    )
