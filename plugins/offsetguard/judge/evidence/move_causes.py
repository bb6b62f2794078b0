"""Why offsets moved: each move of the look-back window, and each queue that shows one, has one cause and one rule.

not_persisted   the same request again and again: the correction is not kept (offset_store_not_persisting), or in a
                clustering group something sets the offset back after each one (offset_reset)
overtaken       asked below the oldest message, once, and went on (offset_moved_by_retention). Where only snapshots show
                it, its commit jumped further than it consumes: who commits past min at its own pace lost nothing
reset           moved back, or beyond the end, while the end did not fall; or a log line says so (offset_reset). What
                clients asked for then belongs to it, and so does how far a commit jumped
recreated       the end itself fell, or a request lies beyond an end of which nobody knows why (queue_recreated)
switched        about when another replica became the master: moved back to what the new one had copied of the commits;
                beyond the end of what it had copied of the messages (master_switched)
sent_to_oldest  asked for -1, or beyond an end, and was sent to the oldest message; nothing is lost by it, and what
                commits then go back is no reset (sent_to_oldest)
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence.completed_moves import completed_moves
from offsetguard.judge.evidence.lookups import (
    master_boots,
    master_changes,
    message_models,
    online_clients,
    queues_by_group,
)
from offsetguard.judge.forecasts.broker_retentions import tiered_broker_names
from offsetguard.judge.windows.pace import paces
from offsetguard.model.intervals import INTERVAL_LENGTH
from offsetguard.model.offsets import MessageQueue
from offsetguard.model.rocketmq import MEMBERSHIP, RESETS, SILENCE
from offsetguard.tables.facts import OffsetMoveFacts
from offsetguard.tables.group_facts import GroupFacts
from offsetguard.tables.log_facts import LogLineFacts
from offsetguard.tables.queue_state import Point, QueueState

LOOPING_MOVES = 3
"""A correction that is kept comes once, and once more when the min offset moves on meanwhile; the third is a loop."""

LEAST_PERIOD = timedelta(seconds=10)
"""A client asks once per rebalance (20 s; never less than 10 s are set): faster requests are of several clients."""

STARTS_APART = timedelta(minutes=2)
"""A loop asks at each rebalance, or at a late one; who asks for 0 less often is a group that is founded anew."""

RESET_REACHES = timedelta(seconds=90)
"""Clients take a reset with their next pull or rebalance."""

HANDOVER = timedelta(seconds=60)
"""Two rebalances and a late one: as long after a client came or went its queues change hands."""

COMMIT_SHOWS = RESET_REACHES + INTERVAL_LENGTH
"""A client commits a correction 10 s later; the next round sees it."""

_SENDS_TO_END = "V4_9_4"
"""Older brokers send who asks beyond the end of a queue that begins at 0 to 0 (DefaultMessageStore 4.9.2 and 4.9.3)."""

REGAINED_WITHIN = timedelta(seconds=15)
"""Three commits of a client."""

JUMP = 3
"""Times as far as a group committed in any interval: so far it did not consume, not even if a round failed."""

UNCOMMITTED = timedelta(seconds=30)
"""What a handover can take back: clients and the broker's file are late by 5 s each, a slave's copy by 10 more."""

BROADCASTING, CLUSTERING = "BROADCASTING", "CLUSTERING"

SWITCH_SETTLES = timedelta(minutes=2)
"""A switch is seen by the round after it (1 min); clients find the new master within 30 s, and rebalance twice."""
_MS = timedelta(milliseconds=1)


@dataclass(slots=True)
class Causes:
    """What happened to one (consumer group, topic); `model`: None = no client of it was seen."""

    model: str | None
    queues: Sequence[QueueFacts] = ()  # all of them
    not_persisted: list[OffsetMoveFacts] = field(default_factory=list)
    overtaken: list[OffsetMoveFacts] = field(default_factory=list)
    moved_back: list[OffsetMoveFacts] = field(default_factory=list)  # reset, by whoever it was
    beyond_end: list[OffsetMoveFacts] = field(default_factory=list)  # asked; nobody knows why
    recreated: list[QueueFacts] = field(default_factory=list)  # their end fell
    committed_beyond: list[QueueFacts] = field(default_factory=list)  # now; nobody knows why
    set_beyond: list[QueueFacts] = field(default_factory=list)  # now; their end did not fall
    within_again: list[QueueFacts] = field(default_factory=list)  # were set beyond their end, and lie within it now
    sent_back: list[OffsetMoveFacts] = field(default_factory=list)  # asked for what these were set to
    reset_lines: list[LogLineFacts] = field(default_factory=list)
    read_again: list[OffsetMoveFacts] = field(default_factory=list)  # from where a new master had the commits
    cut_requests: list[OffsetMoveFacts] = field(default_factory=list)  # beyond the end of a new master
    cut_queues: list[QueueFacts] = field(default_factory=list)  # their end fell with it, or lies below the commit
    sent_to_oldest: list[OffsetMoveFacts] = field(default_factory=list)  # requests
    back_at_oldest: list[OffsetMoveFacts] = field(default_factory=list)  # commits that show it

    @property
    def moves(self) -> list[OffsetMoveFacts]:
        """All moves."""
        of_groups = [*self.not_persisted, *self.overtaken, *self.moved_back, *self.beyond_end]
        to_oldest = [*self.sent_to_oldest, *self.back_at_oldest]
        return [*of_groups, *self.sent_back, *self.read_again, *self.cut_requests, *to_oldest]


@dataclass(frozen=True, slots=True)
class Spell:
    """The last time that looks saw a queue's committed offset beyond its end, which did not fall meanwhile."""

    looked_before: datetime | None  # None = the first look shows it already
    committed_before: int | None  # at that look
    first: Point
    last: Point
    after: Point | None  # the oldest look of those after; None = it lies there still


def spell_beyond(window: QueueState) -> Spell | None:
    """Return when and how far a committed offset lay beyond the end, as far as the window has kept; None = not seen."""
    kept = [look for look in (window.seen, *window.points) if look is not None]
    looks = [look for look in reversed(kept) if window.recreated_at is None or look.at >= window.recreated_at]
    places = [place for place, look in enumerate(looks) if _lies_beyond(look)]
    if not places:
        return None
    first = last = places[-1]
    while first - 1 in places:
        first -= 1
    is_newest = window.beyond_after is not None and window.beyond_after < looks[first].at
    return Spell(
        window.beyond_after if is_newest else None,
        window.beyond_from if is_newest else None,
        looks[first],
        looks[last],
        looks[last + 1] if last + 1 < len(looks) else None,
    )


def _lies_beyond(look: Point) -> bool:
    return look.committed_offset is not None and look.committed_offset > look.max_offset


def causes(facts: IntervalFacts, config: Config) -> Mapping[tuple[str, str], Causes]:
    """Return by (consumer group, topic) what happened within the look-back window, in the order of their names."""
    models, clients, queues = message_models(facts), online_clients(facts), queues_by_group(facts)
    since = facts.now - timedelta(milliseconds=config.judgement.offset_move_window_ms)
    changes = membership_changes(facts)
    boots, switches = master_boots(facts), master_changes(facts, since - SWITCH_SETTLES)
    tiered = tiered_broker_names(facts)
    lines: dict[tuple[str, str], list[LogLineFacts]] = defaultdict(list)
    for line in facts.log_lines:
        if line.kind in RESETS and line.kind != "offsets_removed" and line.topic is not None:
            lines[line.consumer_group, line.topic].append(line)
    to_oldest: dict[tuple[str, str], list[OffsetMoveFacts]] = defaultdict(list)
    completed = list(completed_moves(facts))
    mended = {one.broker_name for one in facts.brokers if (one.version or "") >= _SENDS_TO_END}
    for move in completed:
        pair = (move.consumer_group, move.topic)
        known = queues.get(pair, ()), lines.get(pair, ()), clients.get(move.consumer_group)
        asked = move.origin not in {"snapshot", "reset"}
        if asked and (
            move.requested_offset < 0 or (move.broker_name not in mended and _is_sent_to_oldest(move, *known))
        ):
            to_oldest[pair].append(move)
    moves: dict[tuple[str, str], list[OffsetMoveFacts]] = defaultdict(list)
    for move in completed:
        pair = (move.consumer_group, move.topic)
        moments = [
            *changes.get(move.consumer_group, ()),
            *([boots[move.broker_name]] if move.broker_name in boots else []),
            *(at for at in (move.nearest_start_at, move.members_changed_at) if at is not None),
        ]
        if move.broker_name in facts.unseen_broker_names:  # when it was started is not known while it is away
            moments.append(move.last_moved_at)
        windows = _windows_of(move, queues.get(pair, ()))
        if (
            move.origin == "snapshot"
            and not any(shows(move, one) for one in to_oldest.get(pair, ()))
            and (
                _is_handover(move, windows, moments, facts.now)
                or _goes_on_at_its_pace(move, windows)
                or (move.broker_name in tiered and move.corrected_offset > move.requested_offset)  # consumed from there
            )
        ):
            continue
        if not _first_start(move, clients.get(move.consumer_group)):
            moves[pair].append(move)
    found = {}
    for pair in sorted(moves.keys() | lines.keys() | queues.keys()):
        one = Causes(
            models.get(pair[0]),
            queues.get(pair, ()),
            reset_lines=lines.get(pair, []),
            sent_to_oldest=to_oldest.get(pair, []),
        )
        _sort_queues(one, queues.get(pair, ()), since, facts.now, switches)
        _sort_moves(one, moves.get(pair, ()), clients.get(pair[0]), facts.now, switches)
        found[pair] = one
    return found


def loops(move: OffsetMoveFacts, online_client_count: int | None) -> bool:
    """Whether one client asks for the same offset at each rebalance.

    Where the client is not known, as many requests as clients are no loop: after a restart each asks once or twice.
    """
    if move.origin == "snapshot":  # it does not show requests
        return False
    least = LOOPING_MOVES if move.client_id else max(LOOPING_MOVES, 2 * (online_client_count or 1) + 1)
    span = move.last_moved_at - move.first_moved_at
    often = move.requested_offset != 0 or span <= (move.move_count - 1) * STARTS_APART
    return often and move.move_count >= least and span >= (LOOPING_MOVES - 1) * LEAST_PERIOD


def _first_start(move: OffsetMoveFacts, online_client_count: int | None) -> bool:
    """So starts a new group that consumes from the first offset, on a topic whose first messages are deleted."""
    first = move.requested_offset == 0 < move.corrected_offset
    return first and move.origin != "reset" and not loops(move, online_client_count)


def _sort_queues(
    one: Causes, queues: Iterable[QueueFacts], since: datetime, now: datetime, switches: Mapping[str, datetime]
) -> None:
    if one.model == BROADCASTING:  # what the broker keeps under its name is not where its clients are
        return
    for queue in queues:
        window, broker_name = queue.window, queue.message_queue.broker_name
        if window.recreated_at is not None and window.recreated_at >= since:
            with_switch = came_with_switch(broker_name, window.recreated_at, switches)
            (one.cut_queues if with_switch else one.recreated).append(queue)
        elif _is_beyond(queue) and came_with_switch(broker_name, now, switches) and not one.reset_lines:
            one.cut_queues.append(queue)  # clients are on their way to be sent to its end
        elif _is_beyond(queue):
            # an earlier sample of the same queue was in order: the offset was set, the end did not fall
            was_set = one.reset_lines or (window.within_end_at is not None and broker_name not in switches)
            (one.set_beyond if was_set else one.committed_beyond).append(queue)
        else:
            spell = spell_beyond(window)
            was_set = spell is not None and spell.looked_before is not None and broker_name not in switches
            if was_set and spell is not None and spell.after is not None and spell.after.at >= since:
                one.within_again.append(queue)


def _sort_moves(
    one: Causes,
    moves: Sequence[OffsetMoveFacts],
    online_client_count: int | None,
    now: datetime,
    switches: Mapping[str, datetime],
) -> None:
    fallen = (queue.message_queue for queue in (*one.recreated, *one.cut_queues))
    recreated = {(queue.broker_name, queue.queue_id) for queue in fallen}
    recreated_brokers = {broker_name for broker_name, _ in recreated}
    ordered = {move.broker_name for move in moves if move.origin == "reset"}
    for move in _without_settings(one, moves, online_client_count):
        back = move.requested_offset > move.corrected_offset
        place = (move.broker_name, move.queue_id)
        if move.origin != "reset" and move.broker_name in ordered and _was_reset(move, one.reset_lines):
            continue  # what clients asked for then; what the order did is told queue by queue
        if back and (place in recreated or (move.queue_id is None and move.broker_name in recreated_brokers)):
            continue  # its queue is told already
        if loops(move, online_client_count):
            one.not_persisted.append(move)
        elif back and _is_of_switch(move, one.reset_lines, switches):
            (one.read_again if move.origin == "snapshot" else one.cut_requests).append(move)
        elif move.origin == "reset" or _was_reset(move, one.reset_lines) or (back and move.origin == "snapshot"):
            one.moved_back.append(move)
        elif one.model != CLUSTERING and move.origin != "snapshot" and now - move.last_moved_at <= SILENCE:
            continue  # two rebalances will show whether it asks for the same again
        elif back:
            one.beyond_end.append(move)
        else:
            one.overtaken.append(move)


def _without_settings(
    one: Causes, moves: Sequence[OffsetMoveFacts], online_client_count: int | None
) -> Sequence[OffsetMoveFacts]:
    """Take out what offsets that were set beyond the end brought about, and keep who was sent back; return the rest.

    So with requests that were sent to the oldest message.
    """
    queues = (*one.set_beyond, *one.within_again)
    rest = []
    for move in moves:
        if move in one.sent_to_oldest:
            continue
        if any(shows(move, request) for request in one.sent_to_oldest):
            one.back_at_oldest.append(move)
        elif loops(move, online_client_count) or not any(_is_of_setting(move, queue) for queue in queues):
            rest.append(move)
        elif move.origin != "snapshot":
            one.sent_back.append(move)
    return rest


def _is_of_setting(move: OffsetMoveFacts, queue: QueueFacts) -> bool:
    """Whether a client asked for what the queue was set to, or a commit jumped there: no retention overtook it."""
    place, spell = queue.message_queue, spell_beyond(queue.window)
    if move.origin == "reset" or spell is None or move.broker_name != place.broker_name:
        return False
    if move.queue_id not in {None, place.queue_id}:
        return False
    if move.origin != "snapshot":
        back = move.requested_offset > move.corrected_offset
        return back and move.requested_offset in {spell.first.committed_offset, spell.last.committed_offset}
    ends_at = queue.window.seen_at if spell.after is None else spell.after.at
    begins_at = spell.looked_before or spell.first.at
    return ends_at is not None and begins_at < move.last_moved_at <= ends_at + REGAINED_WITHIN


def _is_sent_to_oldest(
    move: OffsetMoveFacts,
    queues: Iterable[QueueFacts],
    reset_lines: Sequence[LogLineFacts],
    online_client_count: int | None,
) -> bool:
    """Whether who asked beyond the end of a queue that begins at 0 was sent to 0, as by brokers before 4.9.4.

    Not where the end may have been 0: it fell, or nobody saw it before, and it is below what was asked for now.
    """
    if not move.requested_offset > move.corrected_offset == 0:
        return False
    if _was_reset(move, reset_lines) or loops(move, online_client_count):
        return False
    places = [
        one
        for one in queues
        if one.message_queue.broker_name == move.broker_name and move.queue_id in {None, one.message_queue.queue_id}
    ]
    if any(one.window.recreated_at is not None or not one.offsets.max_offset for one in places):
        return False
    seen_before = all((one.window.first_seen_at or move.last_moved_at) < move.first_moved_at for one in places)
    furthest = max((one.offsets.max_offset or 0 for one in places), default=0)
    return furthest > 0 and (seen_before or furthest >= move.requested_offset)


def shows(step: OffsetMoveFacts, request: OffsetMoveFacts) -> bool:
    """Whether a commit that went back is the trace of a request that was sent to the oldest message."""
    return (
        step.origin == "snapshot"
        and step.requested_offset > step.corrected_offset >= request.corrected_offset
        and step.broker_name == request.broker_name
        and request.queue_id in {None, step.queue_id}
        and request.first_moved_at <= step.last_moved_at <= request.last_moved_at + COMMIT_SHOWS
    )


def looks_before(move: OffsetMoveFacts, queues: Iterable[QueueFacts]) -> list[Point]:
    """Return the looks at the queues that a move may be about, from before it."""
    places = (
        one.window
        for one in queues
        if one.message_queue.broker_name == move.broker_name and move.queue_id in {None, one.message_queue.queue_id}
    )
    looks = (look for window in places for look in (window.seen, *window.points) if look is not None)
    return [look for look in looks if look.at < move.first_moved_at]


def _was_reset(move: OffsetMoveFacts, lines: Sequence[LogLineFacts]) -> bool:
    """5.x prints a correction for a reset as well, in either direction.

    Of several orders only the first one and the newest spell of them are timed: of what came in between, only lines
    that name no client are an order's (they never do; those of retention and of a request beyond the end name it).
    """
    begun = timedelta(seconds=1)  # logs tell whole seconds
    names_none = move.origin == "log" and move.client_id is None
    spans = [(one.first_at, one.first_at) for one in lines]
    spans += [(one.first_at if names_none else one.spell_first_at, one.last_at) for one in lines]
    return any(since - begun <= move.last_moved_at <= until + RESET_REACHES for since, until in spans)


def came_with_switch(broker_name: str, at: datetime, switches: Mapping[str, datetime]) -> bool:
    """Whether something of a broker's happened about when another replica became its master.

    `switches`: by broker name, when that was first seen.
    """
    return broker_name in switches and abs(at - switches[broker_name]) <= SWITCH_SETTLES


def _is_of_switch(move: OffsetMoveFacts, reset_lines: Sequence[LogLineFacts], switches: Mapping[str, datetime]) -> bool:
    ordered = move.origin == "reset" or _was_reset(move, reset_lines)
    return not ordered and came_with_switch(move.broker_name, move.last_moved_at, switches)


def _is_beyond(queue: QueueFacts) -> bool:
    consumer, end = queue.offsets.consumer_offset, queue.offsets.max_offset
    return consumer is not None and end is not None and consumer > end


def just_came(group: GroupFacts, now: datetime) -> bool:
    """Whether a client of the group has just been started: it begins with what has come since another one went."""
    return group.newest_client_start_at is not None and now - group.newest_client_start_at <= HANDOVER


def membership_changes(facts: IntervalFacts) -> Mapping[str, Sequence[datetime]]:
    """Return by consumer group when clients of it came or went, as far as logs and clients tell."""
    found: dict[str, list[datetime]] = defaultdict(list)
    for group in facts.groups:
        if group.newest_client_start_at is not None:
            found[group.consumer_group].append(group.newest_client_start_at)
    for line in facts.log_lines:
        if line.kind in MEMBERSHIP:
            found[line.consumer_group] += [line.first_at, line.spell_first_at, line.last_at]
    return found


def _windows_of(move: OffsetMoveFacts, queues: Iterable[QueueFacts]) -> list[QueueState]:
    """Return the window of the move's queue, if it is known: one at most."""
    queue = MessageQueue(move.topic, move.broker_name, move.queue_id) if move.queue_id is not None else None
    return [one.window for one in queues if one.message_queue == queue]


def _goes_on_at_its_pace(move: OffsetMoveFacts, windows: Iterable[QueueState]) -> bool:
    """Whether nothing shows that the messages between two commits, which are deleted now, were not consumed before.

    A group that lags by as much as a broker keeps commits past a min offset that has just moved; a group that was
    overtaken jumps. Its pace is that of before, or of after where nothing is known of before; and then, as it may have
    stopped since, what it committed beside the jump between the samples around it, which move apart with time.
    """
    jump = move.corrected_offset - move.requested_offset
    if jump <= 0:
        return False
    for window in windows:
        known = [(pace, pace.consumed) for pace in paces(window) if pace.consumed is not None]
        usual = [consumed for pace, consumed in known if pace.until < move.first_moved_at]
        if not usual and (after := [consumed for pace, consumed in known if pace.since >= move.last_moved_at]):
            around = [(pace, consumed) for pace, consumed in known if pace.since < move.first_moved_at]
            usual = [*after, *(consumed - jump / ((pace.until - pace.since) / _MS) for pace, consumed in around)]
        if usual:
            return jump <= JUMP * max(usual) * (INTERVAL_LENGTH / _MS)
    return True


def _is_handover(
    move: OffsetMoveFacts, windows: Collection[QueueState], changes: Iterable[datetime], now: datetime
) -> bool:
    """Whether a queue's old owner committed once more after its new one: the new one's next commit (5 s) regains it.

    So it does after a broker's crash, which loses the commits of its last 5 s. A group that is slow, or has the
    outage's messages before it, regains it later: for it, the step is what it does within seconds. `changes`: of
    members, and boots. A step that only the newest sample shows may be regained by the next one.
    """
    if move.requested_offset <= move.corrected_offset:
        return False
    if not any(abs(move.last_moved_at - at) <= HANDOVER for at in changes):
        return False
    regained = all(one.rewind is None or one.rewind.regained_at is not None for one in windows)
    return regained or any(
        (one.seen_at or now) - move.last_moved_at < REGAINED_WITHIN
        or move.requested_offset - move.corrected_offset <= _most_within(one, UNCOMMITTED / timedelta(milliseconds=1))
        for one in windows
    )


def _most_within(window: QueueState, time_ms: float) -> float:
    """Return how many messages were written, or committed, in such a time when they were most: between two samples."""
    return max((max(pace.produced, pace.consumed or 0) for pace in paces(window)), default=0.0) * time_ms
