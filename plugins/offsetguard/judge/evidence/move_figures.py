"""Figures and evidence of what happened to offsets: moves, ordered resets, ends that fell, commits beyond an end."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from offsetguard.catalogue import Sentence
from offsetguard.facts.interval import QueueFacts
from offsetguard.judge.evidence.lookups import queue_name
from offsetguard.judge.evidence.move_causes import LEAST_PERIOD, Spell, looks_before, spell_beyond
from offsetguard.model.offsets import MessageQueue
from offsetguard.model.verdicts import Figure, QueueEvidence
from offsetguard.tables.facts import OffsetMoveFacts
from offsetguard.tables.log_facts import LogLineFacts
from offsetguard.tables.queue_state import QueueState

_CLIENTS_SHOWN = 5
TO_THE_END = -1  # AdminBrokerProcessor.resetOffset: timestamp -1 means the max offset
_LATEST_MS = 253_402_300_799_000  # the year 9999


def move_figures(moves: Sequence[OffsetMoveFacts]) -> dict[str, Figure]:
    """Return the figures of the worst move, and of all of them together; there is at least one."""
    worst = min(moves, key=worst_first)
    span_ms = round((worst.last_moved_at - worst.first_moved_at).total_seconds() * 1000)
    return {
        "worst_queue": f"{worst.broker_name}/{'?' if worst.queue_id is None else worst.queue_id}",
        "requested_offset": worst.requested_offset,
        "corrected_offset": worst.corrected_offset,
        "move_count": worst.move_count,
        "span_ms": span_ms,
        "period_ms": span_ms // (worst.move_count - 1) if worst.move_count > 1 else None,
        "first_moved_at": min(move.first_moved_at for move in moves),
        "last_moved_at": max(move.last_moved_at for move in moves),
        "lost": lost_of(moves),
        "worst_lost": max(0, worst.corrected_offset - worst.requested_offset),
        # where only log lines tell of moves, how many queues there are is not known; the one they name is not the only
        "queue_count": None
        if any(move.queue_id is None or _queues_asking(move) > 1 for move in moves)
        else len(_by_queue(moves)),
        "clients": clients_of(moves),
    }


def moment(figure: Figure) -> datetime | None:
    """Return a figure as the moment that it is."""
    return figure if isinstance(figure, datetime) else None


def clients_of(moves: Iterable[OffsetMoveFacts]) -> Figure:
    """Return the clients, or their addresses, that asked; "(id not seen)" when nothing names them."""
    names = sorted({move.client_id for move in moves if move.client_id})
    hidden = len(names) - _CLIENTS_SHOWN
    return ", ".join([*names[:_CLIENTS_SHOWN], *([f"+{hidden}"] if hidden > 0 else [])]) or Sentence("client_not_named")


def move_evidence(moves: Iterable[OffsetMoveFacts]) -> tuple[QueueEvidence, ...]:
    """Return the moves whose queue is known, worst first."""
    return tuple(
        QueueEvidence(
            MessageQueue(move.topic, move.broker_name, move.queue_id),
            {
                "requested_offset": move.requested_offset,
                "corrected_offset": move.corrected_offset,
                "move_count": move.move_count,
                "last_moved_at": move.last_moved_at,
                **({"client_id": move.client_id} if move.client_id else {}),
            },
        )
        for move in sorted(moves, key=worst_first)
        if move.queue_id is not None
    )


def worst_first(move: OffsetMoveFacts) -> tuple[int, str, int, int]:
    """Order moves by how far they went."""
    queue_id = -1 if move.queue_id is None else move.queue_id
    return -abs(move.corrected_offset - move.requested_offset), move.broker_name, queue_id, move.requested_offset


def lost_of(moves: Iterable[OffsetMoveFacts]) -> int:
    """Return the messages that moves forward skipped; in one queue overlapping moves count once."""
    return sum(map(_lost, _by_queue(moves).values()))


def asked_beyond(moves: Collection[OffsetMoveFacts]) -> int | None:
    """Return how far requests lay beyond the end, over all queues; None: how many of them asked is not known."""
    if any(one.queue_id is None and one.move_count != _queues_asking(one) for one in moves):
        return None
    return sum(max(0, one.requested_offset - one.corrected_offset) * _queues_asking(one) for one in moves)


def repeated_and_skipped(moves: Sequence[OffsetMoveFacts], queues: Collection[QueueFacts] = ()) -> dict[str, Figure]:
    """Return the messages that offsets which were set repeat and skip; None = not seen. `queues`: all of the group's.

    A log line stands for one queue that was set, and says how far its client had asked: what it had not consumed yet
    is dropped as well, and nobody knows how much that is. So it repeats at most, and skips at least so many. A client
    that asked for what its group had committed already (set back, or with a slave's old offsets) skips nothing by that:
    what it skips lies behind the commit, of which the line does not say how much.
    """
    by = []
    for move in moves:
        before = _committed_before(move, queues)
        if before is None or before <= move.requested_offset:
            before = move.requested_offset
        elif move.origin == "log":
            continue
        by.append((move.corrected_offset - before, move.move_count if move.origin == "log" else 1))
    repeated, skipped = (sum(max(0, sign * distance) * count for distance, count in by) for sign in (-1, 1))
    if not moves:
        return {"repeated": None, "skipped": None}
    if all(move.origin != "log" for move in moves):
        return {"repeated": repeated, "skipped": skipped}
    return {
        "repeated": Sentence("at_most_messages", count=repeated) if repeated else 0,
        "skipped": Sentence("at_least_messages", count=skipped) if skipped else None,
    }


def _committed_before(move: OffsetMoveFacts, queues: Iterable[QueueFacts]) -> int | None:
    """Return what had been committed when it asked: while its master is away a client takes a slave's old offsets.

    Of a move whose queue no line names, the least of the queues that it may be about: those that stood below where it
    was sent, and stand there, or beyond.
    """
    committed = []
    for queue in queues:
        before = [look for look in looks_before(move, [queue]) if look.committed_offset is not None]
        last = max(before, key=lambda look: look.at, default=None)
        if last is None or last.committed_offset is None:
            continue
        stands = queue.offsets.consumer_offset
        is_it = last.committed_offset < move.corrected_offset and stands is not None and stands >= move.corrected_offset
        if move.queue_id is not None or is_it:
            committed.append(last.committed_offset)
    return min(committed, default=None)


def _queues_asking(move: OffsetMoveFacts) -> int:
    """Return on how many queues one offset was asked for: log lines name none, and who asks again does so later."""
    at_once = move.last_moved_at - move.first_moved_at < LEAST_PERIOD
    return move.move_count if at_once and move.origin == "log" else 1


def _by_queue(
    moves: Iterable[OffsetMoveFacts],
) -> Mapping[tuple[str, int | None, int], list[OffsetMoveFacts]]:
    """Group by queue; moves of unknown queues stand alone: a group asks for one offset of a queue at a time."""
    found: dict[tuple[str, int | None, int], list[OffsetMoveFacts]] = defaultdict(list)
    for move in moves:
        alone = move.requested_offset if move.queue_id is None else 0
        found[move.broker_name, move.queue_id, alone].append(move)
    return found


def _lost(moves: Iterable[OffsetMoveFacts]) -> int:
    lost, counted_to = 0, 0
    for move in sorted(moves, key=lambda move: move.requested_offset):
        start = max(counted_to, move.requested_offset)
        if move.corrected_offset > start:
            lost += (move.corrected_offset - start) * _queues_asking(move)
            counted_to = move.corrected_offset
    return lost


def reset_figures(lines: Sequence[LogLineFacts]) -> dict[str, Figure]:
    """Return the figures of the newest reset; what no line says is None. There is at least one line."""
    said: dict[str, Any] = {}
    for line in sorted(lines, key=lambda one: one.last_at):
        known = json.loads(line.newest_fields_json)
        said |= {name: value for name, value in known.items() if value is not None}
    target_ms = said.get("target_timestamp_ms")
    target_at = None
    if isinstance(target_ms, int) and 0 < target_ms <= _LATEST_MS:
        target_at = datetime.fromtimestamp(target_ms / 1000, UTC)
    return {
        "caller": said.get("caller_address"),
        "target_at": target_at,
        "first_moved_at": ordered_at(lines),
        "last_moved_at": max(line.last_at for line in lines),
    }


def ordered_at(lines: Sequence[LogLineFacts]) -> datetime:
    """Return when the newest order was given, to the first of its brokers; there is at least one line."""
    orders = [line for line in lines if "target_timestamp_ms" in json.loads(line.newest_fields_json)] or lines
    newest = max(line.last_at for line in orders)
    return min(line.last_at for line in orders if newest - line.last_at <= LEAST_PERIOD)


def ordered_to(lines: Sequence[LogLineFacts]) -> tuple[int, datetime] | None:
    """Return the target of the newest order that names one, unix ms or TO_THE_END, and when it was given."""
    for line in sorted(lines, key=lambda one: one.last_at, reverse=True):
        target_ms = json.loads(line.newest_fields_json).get("target_timestamp_ms")
        if isinstance(target_ms, int):
            return target_ms, line.last_at
    return None


def beyond(queue: QueueFacts) -> int:
    """Return how far the committed offset lies beyond the end, messages; 0 also where one of them is unknown."""
    return queue.offsets.beyond_end or 0


def was_beyond(queue: QueueFacts) -> bool:
    """Whether the committed offset lies beyond the end, or did since the end fell."""
    window = queue.window
    if beyond(queue) or window.recreated_at is None:
        return beyond(queue) > 0
    return window.disordered_at is not None and window.disordered_at >= window.recreated_at


def fallen_end(queues: Sequence[QueueFacts], *, fell: bool = True) -> dict[str, Figure]:
    """Return the figures of the worst queue, and of all of them together; there is at least one.

    `fell`: their ends did lately; else commits lie beyond them.
    """
    worst = min(queues, key=_furthest_first)
    looks = [_looks_around(queue.window, fell=fell) for queue in queues]
    moments = [before for _, before in looks if before is not None]
    return {
        "queue_count": len(queues),
        "worst_queue": queue_name(worst.message_queue),
        "recreated_from": worst.window.recreated_from,
        "max_offset": _fallen_to(worst),
        "consumer_offset": worst.offsets.consumer_offset,
        "beyond": sum(beyond(queue) for queue in queues),
        **moved_between([after for after, _ in looks], max(moments, default=None)),
        "last_moved_at": max(moments, default=None),
        "clients": None,
    }


def within_again_figures(queues: Sequence[QueueFacts], moves: Sequence[OffsetMoveFacts]) -> dict[str, Figure]:
    """Return what offsets that were set beyond the end have left, now that they lie within it; there is one at least.

    `moves`: what clients were answered who asked for them. `skipped`: at most so many, from the last look before to
    where they were sent, or to the first look after.
    """
    spells = {queue.message_queue: spell for queue in queues if (spell := spell_beyond(queue.window)) is not None}
    worst_queue, worst = min(spells.items(), key=lambda one: (-_distance(one[1]), one[0]))
    over_at = max((spell.after.at for spell in spells.values() if spell.after is not None), default=None)
    befores = [spell.looked_before for spell in spells.values()]
    skips = [_skipped(place, spell, moves) for place, spell in spells.items()]
    known = [skipped for skipped in skips if skipped is not None]
    asked_at = max((move.last_moved_at for move in moves), default=None)
    sent_to = max((move.corrected_offset for move in moves), default=None)
    over_when = (
        Sentence("moved_before", before=over_at)
        if asked_at is None
        else Sentence("sent_back_to_end", at=asked_at, to=sent_to)
    )
    return {
        "queue_count": len(spells),
        "worst_queue": queue_name(worst_queue),
        "consumer_offset": worst.last.committed_offset,
        "max_offset": worst.last.max_offset,
        "skipped": sum(known) if len(known) == len(skips) else None,
        **moved_between(befores, min(spell.first.at for spell in spells.values())),
        "over_when": over_when,
        "last_moved_at": asked_at or over_at,
    }


def within_again_evidence(queues: Iterable[QueueFacts], moves: Sequence[OffsetMoveFacts]) -> tuple[QueueEvidence, ...]:
    """Return the queues, furthest first, with what they were set to and the end then."""
    spells = [(queue.message_queue, spell) for queue in queues if (spell := spell_beyond(queue.window)) is not None]
    return tuple(
        QueueEvidence(
            place,
            {
                "consumer_offset": spell.last.committed_offset,
                "max_offset": spell.last.max_offset,
                "skipped": _skipped(place, spell, moves),
            },
        )
        for place, spell in sorted(spells, key=lambda one: (-_distance(one[1]), one[0]))
    )


def _distance(spell: Spell) -> int:
    return (spell.last.committed_offset or 0) - spell.last.max_offset


def _skipped(place: MessageQueue, spell: Spell, moves: Iterable[OffsetMoveFacts]) -> int | None:
    """Return how many messages lie between the last commit before and where clients went on, at most."""
    before, after = spell.committed_before, None if spell.after is None else spell.after.committed_offset
    sent_to = [
        move.corrected_offset
        for move in moves
        if move.broker_name == place.broker_name and move.queue_id in {None, place.queue_id}
    ]
    return None if before is None or after is None else max(0, min(after, max(sent_to, default=after)) - before)


def moved_between(looks_before: Collection[datetime | None], before: datetime | None) -> dict[str, Figure]:
    """Return when something happened, as far as looks tell that were taken before it, and `before` which it did.

    Each queue has a look before it; None: its first look has it already. A command may go back to `moved_after` only:
    what was written between that and the look that shows it would be skipped.
    """
    known = [look for look in looks_before if look is not None]
    if not known or len(known) < len(looks_before):
        return {"moved_after": None, "moved_when": Sentence("moved_before", before=before)}
    after = min(known)
    return {"moved_after": after, "moved_when": Sentence("moved_between", after=after, before=before)}


def beyond_evidence(queues: Iterable[QueueFacts]) -> tuple[QueueEvidence, ...]:
    """Return the queues, worst first."""
    return tuple(
        QueueEvidence(
            queue.message_queue,
            {
                "beyond": beyond(queue),
                "consumer_offset": queue.offsets.consumer_offset,
                "max_offset": queue.offsets.max_offset,
                "recreated_from": queue.window.recreated_from,
            },
        )
        for queue in sorted(queues, key=_furthest_first)
    )


def _furthest_first(queue: QueueFacts) -> tuple[int, object]:
    """Order queues by how much will be skipped."""
    return -beyond(queue), queue.message_queue


def _fallen_to(queue: QueueFacts) -> int | None:
    """Return the end as it was first seen after it had fallen: it has grown since; else the present one."""
    window = queue.window
    if window.recreated_at is None or window.seen is None:
        return queue.offsets.max_offset
    return min(one.max_offset for one in (window.seen, *window.points) if one.at >= window.recreated_at)


def _looks_around(window: QueueState, *, fell: bool) -> tuple[datetime | None, datetime | None]:
    """Return the last look before an end fell, or a commit came to lie beyond it, and the first one after."""
    if fell or window.within_end_at is None:
        return window.recreated_after, window.recreated_at or window.first_seen_at
    since = window.within_end_at
    return since, min((one.at for one in (window.seen, *window.points) if one and one.at > since), default=None)
