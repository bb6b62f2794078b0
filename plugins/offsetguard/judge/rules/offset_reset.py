"""The committed offsets of a consumer group were set: back, forward, or beyond the end; the queues are as they were.

Means: an operator or a tool reset them (mqadmin resetOffsetByTime, skipAccumulatedMessage, a console, code). Back:
messages are consumed again. Forward: they are skipped. Beyond the end: new ones are skipped until the end passes it.
Evidence: [reset-offset] and "Reset offset OK" lines of broker.log, "invoke reset offset" of clients, each with its
target, and where the broker says that the queues went; committed offsets that went back between two snapshots; a
committed offset beyond an end that did not fall.
Not judged: steps back of up to 10 messages (two commits overtake each other). Around a rebalance or a broker's restart:
what is regained, and what the group gets in half a minute at most (commits and a slave's copy are that late). POP
groups and broadcasting groups do not commit in this way.
Do next: ask who did it; see that the consumers can take messages twice.
Source: incident "broadcasting", tell apart; AdminBrokerProcessor, Broker2Client, ConsumerOffsetManager (4.9.7, 5.5.0).
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.move_causes import CLUSTERING, Causes, causes
from offsetguard.judge.evidence.move_figures import (
    TO_THE_END,
    beyond,
    beyond_evidence,
    fallen_end,
    moment,
    move_evidence,
    move_figures,
    ordered_at,
    ordered_to,
    repeated_and_skipped,
    reset_figures,
    within_again_evidence,
    within_again_figures,
)
from offsetguard.judge.evidence.unseen import is_first_look
from offsetguard.judge.rule import CannotTell, Explains, Figure, Finding, Rule, Scope, Sentence, Severity, Stage, Texts
from offsetguard.model.verdicts import QueueEvidence
from offsetguard.tables.facts import OffsetMoveFacts

ORDER_TAKES = timedelta(seconds=5)
"""From the moment that an operator's tool takes for now to the line of the last broker that it orders."""

_WORST = "(worst: queue {worst_queue}, from {requested_offset:messages} to {corrected_offset:messages})"
_ORDERED = (
    " at {first_moved_at:moment}, ordered from {caller}; of its messages {repeated:messages} are consumed again and "
    "{skipped:messages} are skipped, as far as seen"
)
_ORDERED_ZH = "操作来自 {caller}；就目前所见，{repeated:messages} 条消息会重复消费，{skipped:messages} 条被跳过。"
_AGAIN = (
    "If it was not meant, set the group to what was written since then, or to an earlier moment where it was behind:"
)
_AGAIN_ZH = "如果并非有意，请把消费组重置到该时间点（当时有堆积则取更早的时间点）："

_TO_A_MOMENT = "Consumer group {consumer_group} was reset on topic {topic} to {target_at:moment}" + _ORDERED + "."
_TO_A_MOMENT_ZH = (
    "消费组 {consumer_group} 在主题 {topic} 上的位点于 {first_moved_at:moment} 被重置到 {target_at:moment}，"
    + _ORDERED_ZH
)
_SKIPPED = "What waited will not be consumed. " + _AGAIN
_SKIPPED_ZH = "此前堆积的消息将不会被消费。" + _AGAIN_ZH

RULE = Rule(
    id="offset_reset",
    severity=Severity.WARNING,
    place=130,
    never_muted=True,
    needs=("queues", "offset_moves", "log_lines", "groups"),
    means="The committed offsets of a consumer group were set back, forward or beyond the end.",
    texts={
        "default": Texts(
            summary="{consumer_group} was reset on {topic}",
            summary_zh="{consumer_group} 在 {topic} 上被重置位点",
            cause=_TO_A_MOMENT,
            cause_zh=_TO_A_MOMENT_ZH,
            do_next="Ask who did it, and see that the consumers can take messages twice. " + _AGAIN,
            do_next_zh="请确认是谁操作的，并确认消费者能够处理重复消息。" + _AGAIN_ZH,
            commands=(lookups.RESET_TO_MOVE,),
        ),
        "forward": Texts(
            do_next=_SKIPPED,
            do_next_zh=_SKIPPED_ZH,
            commands=(lookups.RESET_TO_MOVE,),
        ),
        "to_the_end": Texts(
            summary="{consumer_group} was reset to the end of {topic}",
            summary_zh="{consumer_group} 被重置到 {topic} 的最大位点",
            cause="Consumer group {consumer_group} was reset to the end of topic {topic}" + _ORDERED + ".",
            cause_zh="消费组 {consumer_group} 于 {first_moved_at:moment} 被重置到主题 {topic} 的最大位点，"
            + _ORDERED_ZH,
            do_next=_SKIPPED,
            do_next_zh=_SKIPPED_ZH,
            commands=(lookups.RESET_TO_MOVE,),
        ),
        "moved_back": Texts(
            summary="{consumer_group} was set back on {topic}",
            summary_zh="{consumer_group} 在 {topic} 上的位点回退",
            cause="The committed offset of consumer group {consumer_group} went back on {queue_count} "
            "queue{queue_count:plural} of topic {topic} " + _WORST + ": as far as seen, {repeated:messages} "
            "message{repeated:plural} are consumed again.",
            cause_zh="消费组 {consumer_group} 在主题 {topic} 的 {queue_count} 个队列上的消费位点回退（最严重：队列 "
            "{worst_queue}，从 {requested_offset:messages} 到 {corrected_offset:messages}）：就目前所见，"
            "{repeated:messages} 条消息会重复消费。",
            do_next="Ask who reset the offsets around {first_moved_at:moment}. If nobody did, find out whether a "
            "replica that was behind took over, or a second application commits as {consumer_group}; see that the "
            "consumers can take messages twice.",
            do_next_zh="请确认在 {first_moved_at:moment} 前后是谁重置了位点。如果没有人操作，请查明是否有数据落后的副本"
            "接管，或有另一个应用以 {consumer_group} 的名义提交位点；并确认消费者能够处理重复消息。",
        ),
        "set_beyond": Texts(
            summary="{consumer_group} was set beyond the end of {topic}",
            summary_zh="{consumer_group} 的位点被设置到 {topic} 的最大位点之后",
            cause="The committed offset of consumer group {consumer_group} was set beyond the end on {queue_count} "
            "queue{queue_count:plural} of topic {topic}, whose end did not fall (worst: queue {worst_queue}, committed "
            "{consumer_offset:messages}, end {max_offset:messages}): up to {beyond:messages} new "
            "message{beyond:plural} will be skipped.",
            cause_zh="消费组 {consumer_group} 在主题 {topic} 的 {queue_count} 个队列上的消费位点被设置到最大位点之后，"
            "而最大位点并未回退（最严重：队列 {worst_queue}，消费位点 {consumer_offset:messages}，最大位点 "
            "{max_offset:messages}）：至多 {beyond:messages} 条新消息将被跳过。",
            do_next="Ask who set the offsets {moved_when}. If it was not meant, set the group to a moment before that, "
            "or to an earlier one where it was behind:",
            do_next_zh="请确认是谁在 {moved_when}设置了位点。如果并非有意，请把消费组重置到此前的时间点（当时有堆积则取"
            "更早的时间点）：",
            commands=(lookups.RESET_TO_BEFORE,),
        ),
        "within_again": Texts(
            summary="{consumer_group} had been set beyond the end of {topic}",
            summary_zh="{consumer_group} 的位点曾被设置到 {topic} 的最大位点之后",
            cause="The committed offset of consumer group {consumer_group} had been set beyond the end on "
            "{queue_count} queue{queue_count:plural} of topic {topic}, whose end did not fall (worst: queue "
            "{worst_queue}, committed {consumer_offset:messages}, end {max_offset:messages} when last seen so), and "
            "lies within it again ({over_when}). Messages skipped meanwhile, at most: {skipped:messages}.",
            cause_zh="消费组 {consumer_group} 在主题 {topic} 的 {queue_count} 个队列上的消费位点曾被设置到最大位点"
            "之后，而最大位点并未回退（最严重：队列 {worst_queue}，最后一次如此时消费位点 {consumer_offset:messages}，"
            "最大位点 {max_offset:messages}），现已回到最大位点之内（{over_when}）。"
            "其间跳过的消息至多：{skipped:messages}。",
            do_next="Ask who set the offsets {moved_when}. If what was skipped is to be consumed, set the group to a "
            "moment before that, or to an earlier one where it was behind:",
            do_next_zh="请确认是谁在 {moved_when}设置了位点。如果被跳过的消息需要消费，请把消费组重置到此前的时间点"
            "（当时有堆积则取更早的时间点）：",
            commands=(lookups.RESET_TO_BEFORE,),
        ),
        "set_back_again": Texts(
            summary="{consumer_group} asks for the same offsets of {topic} again and again",
            summary_zh="{consumer_group} 反复请求 {topic} 的同一位点",
            cause="Consumer group {consumer_group} asked for the same offset {requested_offset:messages} of topic "
            "{topic} on queue {worst_queue} {move_count} time{move_count:plural} in {span_ms:duration}, every "
            "{period_ms:duration}, and "
            "was sent to {corrected_offset:messages} each time: something sets its offset back after each correction.",
            cause_zh="消费组 {consumer_group} 在 {span_ms:duration} 内 {move_count} 次请求主题 {topic} 队列 "
            "{worst_queue} 的同一位点 {requested_offset:messages}，每 {period_ms:duration} 一次，每次都被纠正到 "
            "{corrected_offset:messages}：每次纠正之后，位点又被改了回去。",
            do_next="Look for tools or code that reset or commit the offsets of {consumer_group}, and for a second "
            "application of that name.",
            do_next_zh="请查找重置或提交 {consumer_group} 位点的工具或代码，以及是否有另一个同名的应用。",
        ),
    },
    title="committed offsets were set",
    title_zh="消费位点被重置",
    table=(
        "repeated",
        "skipped",
        "beyond",
        "requested_offset",
        "corrected_offset",
        "target_at",
        "first_moved_at",
        "moved_when",
    ),
    peak="repeated",
    recovered="over: no offset of it was set since",
    recovered_zh="已结束：此后没有位点被重置",
    stage=Stage("offsets_set", 0),
    explains=(Explains(Scope.TOPIC, ("accumulation", "offsets_violate_invariant")),),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic) whose offsets were set within the look-back window."""
    for (consumer_group, topic), one in causes(facts, config).items():
        variant = _variant(one)
        if variant is not None:
            figures = _figures(one, variant)
            moves = one.not_persisted if variant == "set_back_again" else _moves(one)
            yield RULE.finding(
                facts,
                about=(consumer_group, topic),
                severity=Severity.CRITICAL
                if variant == "within_again" or any(map(beyond, one.set_beyond))
                else RULE.severity,
                variant=variant,
                state={"set_beyond": "ANOMALY", "within_again": "OK", "forward": "OK", "to_the_end": "OK"}.get(
                    variant, "REWOUND"
                ),
                figures=figures,
                queues=_evidence(one, variant, moves),
                broker_names=frozenset(move.broker_name for move in moves),
                last_event_at=None if variant in {"set_beyond", "set_back_again"} else moment(figures["last_moved_at"]),
            )


def cannot_tell(facts: IntervalFacts, config: Config) -> Iterator[CannotTell]:
    """Say so of a first look: there is nothing yet that it could be compared with."""
    if is_first_look(facts):
        yield RULE.cannot_tell(Sentence("offsets_seen_once"))


def _variant(one: Causes) -> str | None:
    if one.not_persisted and one.model == CLUSTERING:
        return "set_back_again"
    if one.reset_lines:
        return _direction(one)
    if one.set_beyond:
        return "set_beyond"
    if one.within_again:
        return "within_again"
    return "moved_back" if one.moved_back else None


def _moves(one: Causes) -> list[OffsetMoveFacts]:
    """Return the moves that are told: where orders were seen, those of the newest, whose target is told with them."""
    if not one.reset_lines:
        return one.moved_back
    since = ordered_at(one.reset_lines) - timedelta(seconds=1)  # logs tell whole seconds
    return [move for move in one.moved_back if move.last_moved_at >= since]


def _evidence(one: Causes, variant: str, moves: Sequence[OffsetMoveFacts]) -> tuple[QueueEvidence, ...]:
    if variant == "within_again":
        return within_again_evidence(one.within_again, one.sent_back)
    return beyond_evidence(one.set_beyond) or move_evidence(moves)


def _direction(one: Causes) -> str:
    """To the end, or to a moment: forward, if that is what was seen of it, or all that such a target can do."""
    target_ms, at = ordered_to(one.reset_lines) or (0, None)
    if target_ms == TO_THE_END:
        return "to_the_end"
    counts = repeated_and_skipped(_moves(one), one.queues)
    is_now = at is not None and target_ms >= (at - ORDER_TAKES).timestamp() * 1000
    return "forward" if is_now or (counts["skipped"] and not counts["repeated"]) else "default"


def _figures(one: Causes, variant: str) -> dict[str, Figure]:
    if variant == "set_back_again":
        return move_figures(one.not_persisted) | {"repeated": None, "skipped": None}
    moves = _moves(one)
    moved = move_figures(moves) if moves else {}
    both = repeated_and_skipped(moves, one.queues)
    if one.reset_lines and all(move.origin == "event" for move in moves):  # corrections of what was asked for after it
        both = dict.fromkeys(both)
    if variant == "set_beyond":
        return {**fallen_end(one.set_beyond, fell=False), **both}
    if variant == "within_again":
        return {**both, **within_again_figures(one.within_again, one.sent_back)}
    return {**moved, **both, **(reset_figures(one.reset_lines) if one.reset_lines else {})}
