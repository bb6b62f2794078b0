"""Another replica became the master of a broker: its commits are older, its locks new, and it may lack messages.

Means: the master died or was stopped, and a controller (5.x), DLedger or an operator made a slave the master. It serves
what it had copied: commits up to 63 s old (5.x), so offsets step back and messages are consumed again until clients
commit anew; and messages up to the last that was replicated. A client that asks beyond the new end is sent to it and
drops what it had pulled: what was not consumed of that is skipped, though the broker has it.
Evidence: broker id 0 has the address that a slave had in the round before. About then: committed offsets that went
back; ends that fell, requests and commits beyond the end; commits that jumped over messages that had waited, by more
than three times what the group consumes in the time.
Not judged: a master that comes back at another address, or a replica at the former one's (a restart); where the end
was seen to fall, what a group skipped before the next two looks. Where neither samples nor logs show that messages were
missing, nothing is taken for skipped. An offset that was ordered meanwhile (offset_reset).
Do next: find out why the former master went; reset groups that skipped messages; send again what was not replicated.
Source: ReplicasManager, AutoSwitchHAService, RebalanceImpl (5.3.3), staged live: tests/live/incidents.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence import lookups
from offsetguard.judge.evidence.lookups import (
    master_changes,
    message_models,
    queue_name,
    queues_by_group,
)
from offsetguard.judge.evidence.move_causes import BROADCASTING, JUMP, Causes, came_with_switch, causes
from offsetguard.judge.evidence.move_figures import (
    beyond,
    beyond_evidence,
    fallen_end,
    move_evidence,
    move_figures,
    moved_between,
    repeated_and_skipped,
)
from offsetguard.judge.evidence.unseen import names
from offsetguard.judge.rule import Config, Explains, Figure, Finding, QueueEvidence, Rule, Scope, Severity, Texts
from offsetguard.model.intervals import INTERVAL_LENGTH
from offsetguard.tables.facts import OffsetMoveFacts
from offsetguard.tables.queue_state import QueueState

_MS = timedelta(milliseconds=1)
_CHANGED = "Another replica became the master of {brokers} (now {addresses}; first seen at {changed_at:moment})"
_CHANGED_ZH = "{brokers} 的主节点已切换为另一个副本（现为 {addresses}；首次发现于 {changed_at:moment}）"
_WHY = "Find out why the former master of {brokers} went"
_ACKNOWLEDGE = (
    "So that it does not happen again, let masters acknowledge only what replicas have: allAckInSyncStateSet=true with "
    "a controller, else brokerRole=SYNC_MASTER."
)
_ACKNOWLEDGE_ZH = (
    "为避免再次发生，请让主节点只确认副本已有的消息：使用控制器时设置 allAckInSyncStateSet=true，否则设置 "
    "brokerRole=SYNC_MASTER。"
)

RULE = Rule(
    id="master_switched",
    severity=Severity.INFO,
    place=80,
    never_muted=True,
    needs=("brokers", "queues", "offset_moves", "log_lines"),
    means="Another replica became a broker's master; what it had not copied is consumed again, or gone.",
    texts={
        "default": Texts(
            summary="another replica is the master of {brokers}",
            summary_zh="{brokers} 的主节点已切换为另一个副本",
            cause=_CHANGED + ". No consumer group is seen to consume messages again because of it.",
            cause_zh=_CHANGED_ZH + "。没有发现消费组因此重复消费。",
            do_next=_WHY + ".",
            do_next_zh="请查明 {brokers} 原主节点下线的原因。",
        ),
        "read_again": Texts(
            summary="another replica is the master of {brokers}: {repeated:messages} message{repeated:plural} are "
            "consumed again",
            summary_zh="{brokers} 的主节点已切换为另一个副本：{repeated:messages} 条消息被重复消费",
            cause=_CHANGED + ". Its copy of the committed offsets was older: {repeated:messages} "
            "message{repeated:plural} are consumed again, by {group_count} consumer group{group_count:plural} "
            "({groups}).",
            cause_zh=_CHANGED_ZH + "。它复制到的消费位点较旧：{group_count} 个消费组（{groups}）重复消费 "
            "{repeated:messages} 条消息。",
            do_next=_WHY + ", and see that the consumers can take messages twice.",
            do_next_zh="请查明 {brokers} 原主节点下线的原因，并确认消费者能够处理重复消息。",
        ),
        "cut": Texts(
            summary="{topic} lost {unreplicated:messages} message{unreplicated:plural} when the master of {brokers} "
            "changed",
            summary_zh="{brokers} 主节点切换时，{topic} 丢失了 {unreplicated:messages} 条消息",
            cause=_CHANGED + ", and ends earlier in topic {topic} (worst: queue {worst_queue}, from "
            "{recreated_from:messages} to {max_offset:messages}): at least {unreplicated:messages} "
            "message{unreplicated:plural} had not been replicated and are gone; what consumer group {consumer_group} "
            "had not consumed of them is lost for it.",
            cause_zh=_CHANGED_ZH + "，新主节点在主题 {topic} 上的最大位点较小（最严重：队列 {worst_queue}，从 "
            "{recreated_from:messages} 变为 {max_offset:messages}）：至少 {unreplicated:messages} 条消息尚未复制，已经"
            "丢失；消费组 {consumer_group} 尚未消费的部分对它而言也已丢失。",
            do_next="If they matter, send them again from their source: the former master, when it returns, cuts them "
            "off. " + _ACKNOWLEDGE,
            do_next_zh="如果这些消息重要，请从源头重新发送：原主节点恢复后会截断它们。" + _ACKNOWLEDGE_ZH,
        ),
        "skipped": Texts(
            summary="{consumer_group} skipped {skipped:messages} message{skipped:plural} of {topic} when the master of "
            "{brokers} changed",
            summary_zh="{brokers} 主节点切换时，{consumer_group} 跳过了 {topic} 的 {skipped:messages} 条消息",
            cause=_CHANGED + ", and consumer group {consumer_group} went on behind up to {skipped:messages} "
            "message{skipped:plural} of topic {topic} that it had not consumed (worst: queue {worst_queue}, committed "
            "{requested_offset:messages}, then {corrected_offset:messages}): clients that ask for more than the new "
            "master has are sent to its end, and drop what they had pulled.",
            cause_zh=_CHANGED_ZH + "，消费组 {consumer_group} 跳过了主题 {topic} 中至多 {skipped:messages} 条尚未消费的"
            "消息（最严重：队列 {worst_queue}，消费位点从 {requested_offset:messages} 变为 "
            "{corrected_offset:messages}）：客户端请求的位点超出新主节点的最大位点时，会被送到队列末尾，并丢弃已拉取的"
            "消息。",
            do_next=_ACKNOWLEDGE
            + " The broker still has what was skipped, which was written before the switch. Set the group to a moment "
            "before the first message that it must not miss:",
            do_next_zh=_ACKNOWLEDGE_ZH
            + "Broker 上仍有被跳过的消息，它们写入于切换之前。请把消费组重置到第一条不能漏掉的消息之前：",
            commands=(lookups.RESET_TO_BEFORE,),
        ),
    },
    title="another replica is the master",
    title_zh="主节点已切换",
    table=("repeated", "unreplicated", "skipped", "recreated_from", "max_offset", "changed_at"),
    peak="skipped",
    recovered="over: the master did not change again",
    recovered_zh="已结束：主节点没有再次切换",
    explains=(
        Explains(Scope.TOPIC, ("offsets_violate_invariant",)),
        # its locks are new: clients that come to it ask for those that others have just taken
        Explains(Scope.BROKER, ("lock_contention",), variants=("default", "read_again")),
    ),
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding about all masters that changed, and one per (consumer group, topic) that lost messages by it."""
    since = facts.now - timedelta(milliseconds=config.judgement.offset_move_window_ms)
    changed = master_changes(facts, since)
    if not changed:
        return
    found, models = causes(facts, config), message_models(facts)
    yield _of_masters(facts, changed, [one for each in found.values() for one in each.read_again])
    queues = queues_by_group(facts)
    cut_topics = {topic for (_, topic), one in found.items() if one.cut_queues or one.cut_requests}
    for (consumer_group, topic), one in found.items():
        commits = topic in cut_topics and models.get(consumer_group) != BROADCASTING
        skipped = _skipped(queues.get((consumer_group, topic), ()), changed) if commits else []
        if not (skipped or one.cut_queues or one.cut_requests):
            continue
        evidence = _skip_evidence(skipped) or beyond_evidence(one.cut_queues) or move_evidence(one.cut_requests)
        brokers = {queue.message_queue.broker_name for queue in evidence} | {m.broker_name for m in one.cut_requests}
        concerned = {name: at for name, at in changed.items() if name in brokers}
        yield RULE.finding(
            facts,
            about=(consumer_group, topic),
            severity=Severity.CRITICAL if skipped else Severity.WARNING,
            variant="skipped" if skipped else "cut",
            state="LOST",
            figures={
                **_figures(facts, concerned or changed),
                **_cut_figures(one),
                **(_skip_figures(skipped) if skipped else {}),
            },
            queues=evidence,
            broker_names=frozenset(brokers),
            last_event_at=max((concerned or changed).values()),
        )


def _of_masters(
    facts: IntervalFacts, changed: Mapping[str, datetime], read_again: Sequence[OffsetMoveFacts]
) -> Finding:
    groups = sorted({move.consumer_group for move in read_again})
    again = {"repeated": repeated_and_skipped(read_again)["repeated"]} if read_again else {}
    return RULE.finding(
        facts,
        variant="read_again" if read_again else "default",
        figures={
            **_figures(facts, changed),
            **again,
            **({"group_count": len(groups), "groups": names(groups)} if groups else {}),
        },
        queues=move_evidence(read_again),
        broker_names=frozenset(changed),
        last_event_at=max(changed.values()),
    )


def _figures(facts: IntervalFacts, changed: Mapping[str, datetime]) -> dict[str, Figure]:
    masters = [one for one in facts.brokers if one.broker_id == 0 and one.broker_name in changed]
    return {
        "brokers": names(sorted(changed)),
        "addresses": names(sorted(one.address for one in masters if one.address)),
        "changed_at": max(changed.values()),
    }


def _cut_figures(one: Causes) -> dict[str, Figure]:
    """Return what the new master lacks: as samples show it, else as what clients asked for."""
    if one.cut_queues:
        shown = fallen_end(one.cut_queues)
        before = shown["recreated_from"] if shown["recreated_from"] is not None else shown["consumer_offset"]
        return {
            "worst_queue": shown["worst_queue"],
            "recreated_from": before,
            "max_offset": shown["max_offset"],
            "unreplicated": sum(map(_unreplicated, one.cut_queues)),
        }
    if not one.cut_requests:
        return {}
    asked = move_figures(one.cut_requests)
    # lines name no queue: those that were sent to the same offset may be clients of one queue
    lacking: dict[tuple[str, int | None, int], int] = {}
    for move in one.cut_requests:
        place = move.broker_name, move.queue_id, move.corrected_offset
        lacking[place] = max(lacking.get(place, 0), move.requested_offset - move.corrected_offset)
    return {
        "worst_queue": asked["worst_queue"],
        "recreated_from": asked["requested_offset"],
        "max_offset": asked["corrected_offset"],
        "unreplicated": sum(lacking.values()),
    }


def _unreplicated(queue: QueueFacts) -> int:
    """Return how many messages of a queue the new master lacks, as far as seen."""
    one = fallen_end([queue])
    before, end = one["recreated_from"], one["max_offset"]
    return before - end if isinstance(before, int) and isinstance(end, int) else beyond(queue)


class _Jump(NamedTuple):
    """A commit that went over messages which had waited: from where, to where, and as how many messages in what time.

    What waited with the earlier sample counts only: what has come since may come in a burst, and is consumed in one.
    """

    queue: QueueFacts
    since: datetime
    until: datetime
    start: int
    end: int
    committed: int

    @property
    def message_count(self) -> int:
        """Messages that had waited."""
        return max(0, self.end - self.start)

    @property
    def unwritten_at(self) -> datetime | None:
        """The last look at which none of them was written yet; None: the window has none."""
        return max((one.at for one in self.queue.window.points if one.max_offset <= self.start), default=None)


def _skipped(queues: Iterable[QueueFacts], changed: Mapping[str, datetime]) -> list[_Jump]:
    """Return the jumps of a group's commits after the master had changed, of all queues that jumped between two looks.

    They are further than three times what the group consumes in that time, or in a minute: a slave's copy of the
    commits is as old. All queues together: threads that one queue does not need work for the others.
    """
    looks: defaultdict[tuple[str, datetime], list[_Jump]] = defaultdict(list)
    for queue in queues:
        broker_name = queue.message_queue.broker_name
        if broker_name in changed:
            for jump in _steps(queue, queue.window):
                looks[broker_name, jump.until].append(jump)
    paces = {place: sum(max(0, one.committed) for one in some) / _ms_of(some[0]) for place, some in looks.items()}
    skipped = []
    for (broker_name, until), some in looks.items():
        usual = sorted(pace for place, pace in paces.items() if place != (broker_name, until) and pace > 0)
        if not usual or not came_with_switch(broker_name, until, changed):
            continue
        most = JUMP * usual[(len(usual) - 1) // 2] * max(_ms_of(some[0]), INTERVAL_LENGTH / _MS)
        if sum(one.message_count for one in some) > most:
            skipped += [one for one in some if one.message_count * len(some) > most]
    return skipped


def _steps(queue: QueueFacts, window: QueueState) -> Iterator[_Jump]:
    """Yield how a queue's commit went between the samples that its window keeps, newest first."""
    seen = [one for one in (window.seen, *window.points) if one is not None]
    for later, earlier in pairwise(seen):
        if later.committed_offset is not None and earlier.committed_offset is not None:
            end = min(later.committed_offset, earlier.max_offset)
            committed = later.committed_offset - earlier.committed_offset
            yield _Jump(queue, earlier.at, later.at, earlier.committed_offset, end, committed)


def _ms_of(step: _Jump) -> float:
    return (step.until - step.since) / _MS


def _skip_figures(skipped: Sequence[_Jump]) -> dict[str, Figure]:
    worst = min(skipped, key=_most_first)
    return {
        "worst_queue": queue_name(worst.queue.message_queue),
        "requested_offset": worst.start,
        "corrected_offset": worst.end,
        "skipped": sum(jump.message_count for jump in skipped),
        "moved_after": moved_between([jump.unwritten_at for jump in skipped], None)["moved_after"],
    }


def _skip_evidence(skipped: Iterable[_Jump]) -> tuple[QueueEvidence, ...]:
    return tuple(
        QueueEvidence(
            jump.queue.message_queue,
            {"skipped": jump.message_count, "requested_offset": jump.start, "corrected_offset": jump.end},
        )
        for jump in sorted(skipped, key=_most_first)
    )


def _most_first(jump: _Jump) -> tuple[int, object]:
    return -jump.message_count, jump.queue.message_queue
