"""Clients were sent to the oldest messages although none between were deleted: they are consumed again, not lost.

Means: a client could not read its committed offset in 3 s (a slow broker, a full GC) and asked for -1, as Java clients
before 4.9.1 do; or a client asked beyond the end (asynchronous replication lost the last messages), and its broker,
older than 4.9.4, sends it to 0 where the queue begins there, and not to the end.
Evidence: requests for -1, and requests beyond the end of queues that do not end at 0, from OFFSET_MOVED_EVENT (4.x),
broker.log or the client's log, in the round that reads it; how far committed offsets went back, in the round after.
Not judged: what an operator's reset moved (offset_reset), queues whose end fell (queue_recreated), and a group that had
committed nothing when it asked for -1: a pull consumer begins so. It is INFO where nothing tells whether it had; a push
consumer never begins so.
Do next: upgrade; see that the consumers can take messages twice.
Source: apache/rocketmq#2708 and #2181; RebalancePushImpl (4.5, 4.9.1), DefaultMessageStore (4.9.2, 4.9.4).
"""

from collections.abc import Iterator, Sequence

from offsetguard.judge.evidence.lookups import each_group
from offsetguard.judge.evidence.move_causes import Causes, causes, looks_before, loops, shows
from offsetguard.judge.evidence.move_figures import (
    asked_beyond,
    moment,
    move_evidence,
    move_figures,
    repeated_and_skipped,
)
from offsetguard.judge.rule import Config, Explains, Figure, Finding, IntervalFacts, Rule, Scope, Severity, Texts
from offsetguard.model.rocketmq import PUSH
from offsetguard.tables.facts import OffsetMoveFacts

RULE = Rule(
    id="sent_to_oldest",
    severity=Severity.WARNING,
    place=125,
    never_muted=True,
    needs=("queues", "offset_moves", "log_lines", "groups", "brokers"),
    means="Clients were sent to the oldest messages, by an old client's or broker's mistake: they consume all again.",
    texts={
        "default": Texts(
            summary="{consumer_group} could not read its offset and began at the oldest message of {topic}",
            summary_zh="{consumer_group} 读不到消费位点，从 {topic} 的最早消息重新开始",
            cause="A client of consumer group {consumer_group} could not read its committed offset and asked for -1 "
            "({move_count} time{move_count:plural}, last at {last_moved_at:moment}, clients {clients}); {brokers} sent "
            "it to the oldest message of topic {topic}, {corrected_offset:messages}. Nothing is lost; "
            "{repeated:messages} message{repeated:plural} are consumed again.",
            cause_zh="消费组 {consumer_group} 的客户端读不到已提交的消费位点，请求了位点 -1（{move_count} 次，最近一次"
            "在 {last_moved_at:moment}，客户端 {clients}）；{brokers} 把它纠正到主题 {topic} 的最小位点 "
            "{corrected_offset:messages}。没有消息丢失；{repeated:messages} 条消息会重复消费。",
            do_next="See that the consumers can take messages twice. Clients before 4.9.1 do so: upgrade them. "
            "Their log says 'fetchConsumeOffsetFromBroker exception' then: find out why {brokers} did not answer "
            "within 3 s.",
            do_next_zh="请确认消费者能够处理重复消息。4.9.1 之前的 客户端会这样，请升级。此时客户端日志中有 "
            "'fetchConsumeOffsetFromBroker exception'：请查明 {brokers} 为何没有在 3 秒内应答。",
        ),
        "perhaps_first": Texts(
            summary="{consumer_group} asked for -1 and began at the oldest message of {topic}",
            summary_zh="{consumer_group} 请求了位点 -1，从 {topic} 的最早消息开始",
            cause="A client of consumer group {consumer_group} asked for -1 ({move_count} time{move_count:plural}, "
            "last at {last_moved_at:moment}, clients {clients}), and {brokers} sent it to the oldest message of topic "
            "{topic}, {corrected_offset:messages}. A pull consumer of a new group begins so; whether this group had "
            "committed anything before is not known.",
            cause_zh="消费组 {consumer_group} 的客户端请求了位点 -1（{move_count} 次，最近一次在 "
            "{last_moved_at:moment}，客户端 {clients}），{brokers} 把它纠正到主题 {topic} 的最小位点 "
            "{corrected_offset:messages}。新消费组的主动拉取消费者会这样开始；无法得知该消费组此前是否提交过位点。",
            do_next="Nothing, if the group is new. Otherwise it consumes messages again: a client before 4.9.1 could "
            "not read its offset; upgrade it.",
            do_next_zh="如果是新消费组，则无需处理。否则它会重复消费：4.9.1 之前的客户端没能读到消费位点，请升级。",
        ),
        "beyond_end": Texts(
            summary="{consumer_group} asked beyond the end of {topic} and was sent to 0",
            summary_zh="{consumer_group} 请求的位点超出 {topic} 的最大位点，被纠正到 0",
            cause="Clients of consumer group {consumer_group} asked for offsets beyond the end of topic {topic}, and "
            "{brokers} sent them to 0 (worst: queue {worst_queue}, asked for {requested_offset:messages}; last at "
            "{last_moved_at:moment}). Nothing is lost by it; {repeated:messages} "
            "message{repeated:plural} are consumed again.",
            cause_zh="消费组 {consumer_group} 的客户端请求的位点超出主题 {topic} 的最大位点，{brokers} 把它们纠正到 0"
            "（最严重：队列 {worst_queue}，请求位点 {requested_offset:messages}；最近一次在 {last_moved_at:moment}）。"
            "没有消息因此丢失；{repeated:messages} 条消息会重复消费。",
            do_next="See that the consumers can take messages twice. Brokers before 4.9.4 do so where a queue still "
            "begins at 0: upgrade them to 4.9.4 or later. Then find out why the end was lower than what had been "
            "consumed: a replica without the last messages took over, or the broker lost them.",
            do_next_zh="请确认消费者能够处理重复消息。4.9.4 之前的 Broker 在队列仍从 0 开始时会这样，请升级到 4.9.4 或"
            "更高版本。然后请查明最大位点为何小于已消费的位点：缺少最后几条消息的副本接管了，或 Broker 丢失了它们。",
        ),
    },
    title="clients were sent to the oldest messages",
    title_zh="客户端被纠正到最早的消息",
    table=("repeated", "requested_offset", "corrected_offset", "brokers", "clients", "last_moved_at"),
    peak="repeated",
    recovered="over: no client was sent to the oldest message since",
    recovered_zh="已结束：此后没有客户端被纠正到最早的消息",
    explains=(Explains(Scope.TOPIC, ("accumulation", "offsets_violate_invariant")),),
)


_FIGURES = ("worst_queue", "requested_offset", "corrected_offset", "move_count", "last_moved_at", "clients")


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic) whose clients were sent there within the look-back window."""
    push = {group.consumer_group for group in each_group(facts) if group.consume_type == PUSH}
    for (consumer_group, topic), one in causes(facts, config).items():
        beyond = [move for move in one.sent_to_oldest if move.requested_offset >= 0]
        had = {
            move: consumer_group in push or _had_committed(move, one)
            for move in one.sent_to_oldest
            if move not in beyond
        }
        unread = [move for move in had if had[move]]
        moves = unread or beyond or [move for move in had if had[move] is None]
        if not moves:
            continue
        again = bool(unread or beyond)
        asked = move_figures(moves)
        figures = {
            **{name: asked[name] for name in _FIGURES},
            "brokers": _with_versions(facts, moves),
            "repeated": _repeated(one, moves),
        }
        yield RULE.finding(
            facts,
            about=(consumer_group, topic),
            severity=RULE.severity if again else Severity.INFO,
            unsure=not again,
            variant="default" if unread else "beyond_end" if beyond else "perhaps_first",
            state="REWOUND" if again else "OK",
            figures=figures,
            queues=move_evidence(one.back_at_oldest or moves),
            broker_names=frozenset(move.broker_name for move in moves),
            last_event_at=moment(figures["last_moved_at"]),
        )


def _had_committed(move: OffsetMoveFacts, one: Causes) -> bool | None:
    """Whether a group had committed an offset when a client of it asked for -1; None: nothing tells."""
    if loops(move, None) or any(shows(step, move) for step in one.back_at_oldest):
        return True
    before = looks_before(move, one.queues)
    return any(look.committed_offset is not None for look in before) if before else None


def _repeated(one: Causes, moves: Sequence[OffsetMoveFacts]) -> Figure:
    """Return how many messages commits show to come again, else how far clients had asked; None: nothing tells."""
    if one.back_at_oldest:
        return repeated_and_skipped(one.back_at_oldest)["repeated"]
    return None if any(move.requested_offset < 0 for move in moves) else asked_beyond(moves)


def _with_versions(facts: IntervalFacts, moves: Sequence[OffsetMoveFacts]) -> str:
    """Return the brokers that answered, each with its version where it is known."""
    versions = {one.broker_name: one.version for one in facts.brokers if one.broker_id == 0 and one.version}
    names = sorted({move.broker_name for move in moves})
    return ", ".join(f"{name} ({versions[name]})" if name in versions else name for name in names)
