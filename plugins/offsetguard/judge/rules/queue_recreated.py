"""A queue ends below what a consumer group has consumed: it was recreated, or its broker lost its tail.

Means: the topic was deleted and created again, the broker was restored or lost what it had not flushed, a replica that
was behind took over, or the client talks to the wrong cluster. Committed offsets beyond the end skip new messages until
the end passes them or the broker sends the client back to the end ("over flow badly").
Evidence: the max offset itself fell between two samples; or requests, or committed offsets, beyond the end of which
neither a reset line nor an earlier sample says that they were set; or a topic whose ends are all what they were, and
whose newest message was stored since: it was made again and filled up to there between two rounds.
Not judged: broadcasting groups' committed offsets (they have none). An offset that was set (offset_reset).
Do next: find out which of them it was; set the group to a moment before the first message that it must not miss: to the
last look before it, where there was one.
Source: incident "broadcasting", tell apart; DefaultMessageStore.getMessage: OFFSET_OVERFLOW_BADLY (4.9.8, 5.3.3).
"""

from collections.abc import Collection, Iterator

from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.move_causes import BROADCASTING, Causes, causes
from offsetguard.judge.evidence.move_figures import (
    asked_beyond,
    beyond,
    beyond_evidence,
    fallen_end,
    moment,
    move_evidence,
    move_figures,
    moved_between,
    was_beyond,
)
from offsetguard.judge.evidence.unseen import is_first_look
from offsetguard.judge.rule import CannotTell, Explains, Figure, Finding, Rule, Scope, Sentence, Severity, Stage, Texts

RULE = Rule(
    id="queue_recreated",
    severity=Severity.WARNING,
    place=90,
    never_muted=True,
    needs=("queues", "offset_moves", "log_lines", "topics", "groups"),
    means="The end of a queue fell, or lies below what a consumer group asks for: recreated, truncated, wrong cluster.",
    texts={
        "default": Texts(
            summary="{topic}: the end of {queue_count} queue{queue_count:plural} fell; {consumer_group} is affected",
            summary_zh="{topic} 有 {queue_count} 个队列的最大位点回退，{consumer_group} 受影响",
            cause="The end of {queue_count} queue{queue_count:plural} of topic {topic} fell (worst: queue "
            "{worst_queue}, from {recreated_from:messages} to {max_offset:messages} before {last_moved_at:moment}): "
            "recreated, or its broker lost its tail; consumer group {consumer_group} had committed "
            "{consumer_offset:messages} there, and skips up to {beyond:messages} new message{beyond:plural}.",
            cause_zh="主题 {topic} 有 {queue_count} 个队列的最大位点回退（最严重：队列 {worst_queue}，在 "
            "{last_moved_at:moment} 之前从 {recreated_from:messages} 变为 {max_offset:messages}）：队列被重建过，或 "
            "Broker 丢失了尾部数据；消费组 {consumer_group} 在此的消费位点是 {consumer_offset:messages}，至多跳过 "
            "{beyond:messages} 条新消息。",
            do_next="Find out whether the topic was recreated, the broker restored, or a slave took over "
            "{moved_when}; then set the group to a moment before that: to before the first message that it must not "
            "miss:",
            do_next_zh="请确认在 {moved_when}主题是否被重建、Broker 是否从备份恢复过、是否发生过主从切换；再把消费组重"
            "置到此前的时间点，即第一条不能漏掉的消息之前：",
            commands=(lookups.RESET_TO_BEFORE,),
        ),
        "beyond_end": Texts(
            summary="{consumer_group} is beyond the end of {topic}",
            summary_zh="{consumer_group} 的位点超出 {topic} 的最大位点",
            cause="Consumer group {consumer_group} asks for offsets beyond the end of topic {topic} (worst: queue "
            "{worst_queue}, offset {consumer_offset:messages}, end {max_offset:messages}): the queue was recreated, "
            "its broker lost its tail, the client talks to the wrong cluster, or somebody set the offset; up to "
            "{beyond:messages} new message{beyond:plural} may be skipped.",
            cause_zh="消费组 {consumer_group} 请求的位点超出主题 {topic} 的最大位点（最严重：队列 {worst_queue}，位点 "
            "{consumer_offset:messages}，最大位点 {max_offset:messages}）：队列被重建过、Broker 丢失了尾部数据、客户端"
            "连错了集群，或有人修改了位点；至多 {beyond:messages} 条新消息可能被跳过。",
        ),
        "sent_to_end": Texts(
            summary="{consumer_group} asked for offsets beyond the end of {topic}",
            summary_zh="{consumer_group} 请求过超出 {topic} 最大位点的位点",
            cause="Consumer group {consumer_group} asked for offsets beyond the end of topic {topic} and was sent to "
            "the end (worst: queue {worst_queue}, offset {consumer_offset:messages}, end {max_offset:messages}; last "
            "at {last_moved_at:moment}): the queue was recreated, its broker lost its tail, the client talks to the "
            "wrong cluster, or somebody set the offset; what was written until then may have been skipped.",
            cause_zh="消费组 {consumer_group} 请求过超出主题 {topic} 最大位点的位点，并被纠正到最大位点（最严重：队列 "
            "{worst_queue}，位点 {consumer_offset:messages}，最大位点 {max_offset:messages}；最近一次在 "
            "{last_moved_at:moment}）：队列被重建过、Broker 丢失了尾部数据、客户端连错了集群，或有人修改了位点；"
            "此前写入的消息可能已被跳过。",
        ),
        "made_again": Texts(
            summary="{topic} was made again up to its old end; {consumer_group} is affected",
            summary_zh="{topic} 被重建并写到了原来的最大位点，{consumer_group} 受影响",
            cause="Topic {topic} ends where it ended a look before ({max_offset:messages} over all queues), yet its "
            "newest message was stored since, at {last_moved_at:moment}: it was deleted, created again and filled up "
            "to there, or a replica took over that had other messages. Consumer group {consumer_group} goes on from "
            "where it stood, and skips what lies before that.",
            cause_zh="主题 {topic} 的最大位点与上一次相同（所有队列合计 {max_offset:messages}），但最新一条消息是此后"
            "（{last_moved_at:moment}）写入的：主题被删除重建并写到了原处，或由保存着其他消息的副本接管。消费组 "
            "{consumer_group} 从原来的位点继续消费，会跳过此前的消息。",
        ),
    },
    title="queues end below what was consumed",
    title_zh="队列的最大位点小于消费位点",
    table=("queue_count", "recreated_from", "max_offset", "consumer_offset", "beyond", "moved_when"),
    peak="beyond",
    recovered="recovered: no end fell since, and no offset lies beyond an end",
    recovered_zh="已恢复：此后没有最大位点回退，也没有位点超出最大位点",
    stage=Stage("offsets_set", 1),
    explains=(
        Explains(
            Scope.TOPIC, ("offset_reset", "offset_moved_by_retention", "messages_lost", "offsets_violate_invariant")
        ),
    ),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic)."""
    found = causes(facts, config)
    yield from _made_again(facts, {pair for pair, one in found.items() if one.recreated or one.cut_queues})
    for (consumer_group, topic), one in found.items():
        if not (one.recreated or one.committed_beyond or one.beyond_end):
            continue
        figures = _figures(one)
        queues = [*one.recreated, *one.committed_beyond]
        yield RULE.finding(
            facts,
            about=(consumer_group, topic),
            severity=Severity.CRITICAL if any(map(was_beyond, queues)) else RULE.severity,
            variant="default" if one.recreated else "beyond_end" if one.committed_beyond else "sent_to_end",
            state="ANOMALY",
            figures=figures,
            queues=beyond_evidence(queues) or move_evidence(one.beyond_end),
            broker_names=frozenset(move.broker_name for move in one.beyond_end),
            last_event_at=None if any(map(beyond, queues)) else moment(figures["last_moved_at"]),
        )


def _made_again(facts: IntervalFacts, fallen: Collection[tuple[str, str]]) -> Iterator[Finding]:
    """`fallen`: pairs whose ends are seen to have fallen."""
    topics = {one.topic: one for one in facts.topics if one.made_again}
    for group in facts.groups:
        topic = topics.get(group.topic)
        if topic is None or group.message_model == BROADCASTING or (group.consumer_group, group.topic) in fallen:
            continue
        yield RULE.finding(
            facts,
            about=(group.consumer_group, group.topic),
            variant="made_again",
            state="ANOMALY",
            figures={
                "max_offset": topic.max_offset_total,
                "last_moved_at": topic.last_update_at,
                **moved_between([None], topic.last_update_at),
            },
            last_event_at=topic.last_update_at,
        )


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Say so of a first look: there is nothing yet that it could be compared with."""
    if is_first_look(facts):
        yield RULE.cannot_tell(Sentence("ends_seen_once"))


def _figures(one: Causes) -> dict[str, Figure]:
    queues = one.recreated or one.committed_beyond
    if queues:
        return fallen_end(queues, fell=bool(one.recreated))
    asked = move_figures(one.beyond_end)
    return {
        **{name: asked[name] for name in ("worst_queue", "queue_count", "last_moved_at", "clients")},
        **moved_between([None], moment(asked["first_moved_at"])),  # since when they had read on beyond the end
        "consumer_offset": asked["requested_offset"],
        "max_offset": asked["corrected_offset"],
        "beyond": asked_beyond(one.beyond_end),
    }
