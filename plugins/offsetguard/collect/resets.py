"""What an ordered reset did to each queue: rows of `offset_moves` with origin `reset`.

Each broker writes down who ordered a reset of which group and topic, and to which moment; not from where to where
(4.9.7, 5.3.3, 5.5.0 AdminBrokerProcessor.resetOffset). Two rounds do not show it either: what was set back by 45 s is
regained before the second one.

To where    5.x prints it, of all queues that it set. 4.x looks it up, and is asked again (SEARCH_OFFSET_BY_TIMESTAMP);
            where messages were deleted meanwhile, it answers the oldest that is left, and where its clients went stands
            in the line about their first commit, if they were set back: else it is unknown (4.9.7, seen live: 124
            skipped of a reset by which 716 came again). "To the end": its end then.
From where  what the group had consumed by then, or the oldest message: what retention deleted, no reset skips. Commits
            are up to a round old, so a group that keeps up is taken to have been at the end, between the ends of the
            round before and of this one; any other has gone on from its last commit as fast as its clients said that
            they finish messages, if they were asked: what they pull may lie in their caches. Of clients that have come
            since, nobody knows how fast they are (5.5.0, seen live: 0 skipped of 490). Commits are made every
            5 s, so one that is read is half of that old; and the messages that clients have in hand when they are told
            to go, they finish. 4.x tells them at once; 5.x when they pull next, and prints a line then (without the
            queue: it is that of all queues with one target); until it does, half of a long poll is taken for it.
            A commit that this round saw before the target counts: clients of 4.x stop, wait for 10 s, and go there
            (14 s later one was that of the target, 10 messages before what the broker answers now: 4.9.7, seen live).
            It may be one of later where the broker was asked for the target: a broker that was behind with its consume
            queues had set it further back (4.9.7, seen live: a reset to its own moment, 16 messages before).
            Log lines tell whole seconds: half of one has passed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from offsetguard.collect.broker_reading import BrokerReading
from offsetguard.collect.earlier_round import EarlierRound
from offsetguard.collect.group_members import GroupMembers
from offsetguard.collect.landing import Row, with_plain_texts
from offsetguard.collect.replica import ReplicaLink
from offsetguard.collect.snapshot_moves import GroupQueue, move_row
from offsetguard.model.intervals import INTERVAL_LENGTH, Interval
from offsetguard.sources.logs.events import MOVE, LogEvent
from offsetguard.sources.logs.tailing import LogReading
from offsetguard.sources.rocketmq.fastjson import decode_object
from offsetguard.sources.rocketmq.json_fields import MalformedBytes, as_int64, message_queue_key, object_field
from offsetguard.sources.rocketmq.requests import SearchOffsetByTimestamp
from offsetguard.tables import CLIENT_SNAPSHOTS, QUEUE_SNAPSHOTS

ORDERED, STORED, COMMIT_MOVED_BACK = "offset_reset_started", "offset_reset_stored", "commit_moved_back"
TO_THE_END_MS = -1
KEEPS_UP = timedelta(seconds=15)  # three commits of a client: whoever lags by what is written in it keeps up
A_SECOND = timedelta(seconds=1)
HALF_A_SECOND = A_SECOND / 2
LONG_POLL = timedelta(seconds=15)  # PullMessageProcessor: as long as a broker keeps a pull that finds nothing
NEXT_ROUND = 1.5 * INTERVAL_LENGTH  # from one to the next at most: of more time nobody saw whether the group kept up
GONE_THERE = timedelta(seconds=9)  # MQClientInstance.resetOffset waits for 10 s and commits at once; half seconds
COMMIT_AGE = timedelta(seconds=2.5)  # on average: persistConsumerOffsetInterval is 5 s

_QUEUE = ("consumer_group", "topic", "broker_name", "queue_id")
_COLUMNS = ("cluster", *_QUEUE, "consumer_offset", "min_offset", "max_offset", "max_offset_read_at")
_PACES = ("consumer_group", "client_id", "consume_ok_tps", "consume_rt_ms")


@dataclass(frozen=True, slots=True)
class QueueReset:
    """One queue of a group that was ordered to be set; `target`: to that offset, None = to its end.

    `told_after`: how long after the order its client is told; `is_written`: the target stands in the log; `went_to`:
    where its client committed first, as a line about a commit that went back says.
    """

    order: LogEvent
    queue: GroupQueue
    target: int | None
    told_after: timedelta = timedelta()
    is_written: bool = False
    went_to: int | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a group's clients finish messages of one queue, and how many they have in hand."""

    finished_per_s: float
    in_hand: float


_NOTHING = Pace(0.0, 0.0)  # no client is online


async def read_resets(link: ReplicaLink, reading: BrokerReading, logs: LogReading) -> list[QueueReset]:
    """Return each queue that a master's log says was reset, asked to where; those without a commit are left out."""
    committed = reading.committed_offsets
    found, asked = [], defaultdict(list)
    for one, to_ask in ordered_resets(reading.broker_name, committed, logs.events):
        if to_ask is None:
            found.append(one)
        else:
            asked[to_ask].append(one)
    async for request, answer in link.ask_each({request: request for request in asked}):
        if answer.body is not None:  # no target means the end
            found += [replace(one, target=answer.body) for one in asked[request]]
    return [replace(one, told_after=told_after(one, logs.events), went_to=went_to(one, logs.events)) for one in found]


def ordered_resets(
    broker_name: str, committed: Mapping[tuple[str, str], Iterable[int]], events: Iterable[LogEvent]
) -> Iterator[tuple[QueueReset, SearchOffsetByTimestamp | None]]:
    """Yield each queue with a commit that an order is about, and what has to be asked where no line says the target.

    `committed`: by (topic, consumer group), the ids of its queues.
    """
    newest: dict[GroupQueue, tuple[QueueReset, SearchOffsetByTimestamp | None]] = {}
    for order, offsets in _orders([event for event in events if event.origin.broker_name == broker_name]):
        topic, group = _whose(order)
        for queue_id in committed.get((topic, group), ()):
            one = QueueReset(order, (group, topic, broker_name, queue_id), None)
            target_ms = order.fields["target_timestamp_ms"]
            if offsets is not None:
                if queue_id in offsets:  # 5.x sets one queue where the order names it
                    target = offsets[queue_id]
                    newest[one.queue] = replace(one, target=target, told_after=LONG_POLL / 2, is_written=True), None
            elif target_ms == TO_THE_END_MS:
                newest[one.queue] = one, None
            elif isinstance(target_ms, int):
                newest[one.queue] = one, SearchOffsetByTimestamp(topic, queue_id, target_ms)
    yield from newest.values()


def _orders(events: Iterable[LogEvent]) -> Sequence[tuple[LogEvent, Mapping[int, int] | None]]:
    """Return the orders of a broker's log, oldest first, each with queue id -> offset where the line behind it says."""
    orders: list[tuple[LogEvent, Mapping[int, int] | None]] = []
    open_orders: dict[tuple[object, ...], int] = {}
    for event in sorted(events, key=lambda one: (one.at, one.position)):
        whose = (event.origin, event.thread, _whose(event)) if event.kind in {ORDERED, STORED} else ()
        if event.kind == ORDERED:
            open_orders[whose] = len(orders)
            orders.append((event, None))
        elif event.kind == STORED and whose in open_orders:
            place = open_orders.pop(whose)
            orders[place] = orders[place][0], _offsets_in(event)
    return orders


def _offsets_in(line: LogEvent) -> Mapping[int, int] | None:
    """Return queue id -> offset of the ResetOffsetBody in a line; None = unreadable: the broker is asked."""
    try:
        table = object_field(decode_object(str(line.fields["offsets"]).encode()), "offsetTable")
        return {message_queue_key(queue).queue_id: as_int64(offset, queue) for queue, offset in table.items()}
    except MalformedBytes:
        return None


def _whose(event: LogEvent) -> tuple[str, str]:
    return str(event.fields["topic"]), str(event.fields["consumer_group"])


def told_after(reset: QueueReset, events: Iterable[LogEvent]) -> timedelta:
    """Return how long after the order clients were sent to that offset, on average.

    `reset.told_after` where no line says so.
    """
    group, topic, broker_name, _ = reset.queue
    waits = [
        max(timedelta(), event.at - reset.order.at)
        for event in events
        if event.kind == MOVE and event.origin.broker_name == broker_name and event.at >= reset.order.at
        if (event.fields["topic"], event.fields["consumer_group"]) == (topic, group)
        if reset.target is None or event.fields["corrected_offset"] == reset.target
    ]
    return sum(waits, timedelta()) / len(waits) if waits else reset.told_after


def went_to(reset: QueueReset, events: Iterable[LogEvent]) -> int | None:
    """Return where a client of 4.x committed first after it was set back: at the target, 10 s after the order.

    None: no line says so.
    """
    group, topic, broker_name, queue_id = reset.queue
    backwards = [
        (event.at, event.position, event.fields["requested_offset"])
        for event in events
        if event.kind == COMMIT_MOVED_BACK and event.origin.broker_name == broker_name
        if GONE_THERE <= event.at - reset.order.at <= 2 * GONE_THERE
        if (event.fields["topic"], event.fields["consumer_group"]) == (topic, group)
        if event.fields["queue_id"] == queue_id
    ]
    offset = min(backwards)[2] if backwards else None
    return offset if isinstance(offset, int) else None


def reset_moves(
    resets: Sequence[QueueReset],
    earlier: EarlierRound,
    now: Mapping[str, pa.Table],
    members: Mapping[str, GroupMembers],
    interval: Interval,
) -> Iterator[Row]:
    """Yield the rows of `offset_moves`, one at most for each reset, also of a queue that was there already.

    None of a queue that was not read before the order and after it, or went on at a pace that no client said, or while
    rounds were missed: from where it went is not known; nor where nobody says to where.
    `now`: this round's `queue_snapshots` and `client_snapshots`, by name.
    """
    if not resets:
        return
    wanted = {one.queue for one in resets}
    before = _queues(earlier.parts(QUEUE_SNAPSHOTS, _COLUMNS), wanted)
    after = _queues([now[QUEUE_SNAPSHOTS.name].select(_COLUMNS)], wanted)
    queue_counts = Counter(one.queue[0] for one in resets)
    clients, clients_now = (
        _clients(parts, queue_counts)
        for parts in (earlier.parts(CLIENT_SNAPSHOTS, _PACES), [now[CLIENT_SNAPSHOTS.name].select(_PACES)])
    )
    paces = _paces(clients, queue_counts)
    came = {group for group, _ in clients_now.keys() - clients.keys()}
    for one in resets:
        if one.queue in before and one.queue in after and before[one.queue]["consumer_offset"] is not None:
            sides = before[one.queue], after[one.queue]
            at = one.order.at + HALF_A_SECOND
            read_at, read_again_at = (side["max_offset_read_at"] for side in sides)
            if not read_at - A_SECOND < one.order.at <= read_again_at:
                continue  # `check` reads lines of half an hour, and a bundle those behind its last round
            corrected = _target(*sides, one, at)
            if corrected is None:
                continue
            group = members.get(one.queue[0])
            is_online = group is None or group.online_client_count > 0
            pace = paces.get(one.queue[0]) if is_online else _NOTHING
            requested = _consumed(*sides, one, corrected, pace=pace, came=one.queue[0] in came)
            if requested is None:
                continue
            requested = max(requested, min(corrected, before[one.queue]["min_offset"] or 0))
            group_name, topic, _, queue_id = one.queue
            yield move_row(
                before[one.queue]["cluster"],
                interval,
                one.queue,
                origin="reset",
                source=f"{one.order.origin.source}/{one.order.origin.file}/{group_name}/{topic}/{queue_id}",
                position=one.order.position,
                moved_at=one.order.at,
                requested=requested,
                corrected=corrected,
            )


def _of_groups(parts: Iterable[pa.Table], groups: Iterable[str]) -> Iterator[Row]:
    wanted = pa.array(sorted(set(groups)), pa.string())
    for part in map(with_plain_texts, parts):
        yield from part.filter(pc.is_in(part["consumer_group"], wanted)).to_pylist()


def _queues(parts: Iterable[pa.Table], wanted: set[GroupQueue]) -> dict[GroupQueue, Row]:
    rows = {tuple(row[name] for name in _QUEUE): row for row in _of_groups(parts, (queue[0] for queue in wanted))}
    known = {queue: row for queue, row in rows.items() if None not in (row["max_offset"], row["max_offset_read_at"])}
    return {queue: known[queue] for queue in wanted & known.keys()}


def _clients(parts: Iterable[pa.Table], groups: Iterable[str]) -> Mapping[tuple[str, str], Row]:
    """Return each client of some groups once, however many brokers see it."""
    return {(row["consumer_group"], row["client_id"]): row for row in _of_groups(parts, groups)}


def _paces(clients: Mapping[tuple[str, str], Row], queue_counts: Mapping[str, int]) -> Mapping[str, Pace]:
    """Return the pace of each group's queues, as its clients say; without the groups of which no client said so.

    Whoever did not say is taken to be as fast as the others of its group.
    """
    asked: defaultdict[str, list[Row]] = defaultdict(list)
    for (group, _), row in clients.items():
        asked[group].append(row)
    found = {}
    for group, rows in asked.items():
        known = [
            (row["consume_ok_tps"], row["consume_rt_ms"] or 0.0) for row in rows if row["consume_ok_tps"] is not None
        ]
        if known:
            share = len(rows) / len(known) / queue_counts[group]
            found[group] = Pace(share * sum(tps for tps, _ in known), share * sum(tps * ms for tps, ms in known) / 1000)
    return found


def _target(before: Row, after: Row, reset: QueueReset, at: datetime) -> int | None:
    """Return the offset that the queue was set to; None: what 4.x answers now is not what it found then."""
    if reset.target is None:
        return _end(before, after, at)
    oldest, oldest_now = before["min_offset"], after["min_offset"]
    is_deleted = oldest is None or oldest_now is None or oldest < oldest_now >= reset.target
    return reset.went_to if is_deleted and not reset.is_written else reset.target


def _consumed(before: Row, after: Row, reset: QueueReset, target: int, *, pace: Pace | None, came: bool) -> int | None:
    """Return up to where the queue was consumed when it was set.

    None: it went on, and nobody knows how fast, or whether before or after; or rounds were missed.
    `pace`: None = no client said it; `came`: whether a client has since.
    """
    at = reset.order.at + HALF_A_SECOND
    committed: int = before["consumer_offset"]
    committed_since: int | None = after["consumer_offset"]
    since, until = before["max_offset_read_at"], after["max_offset_read_at"]
    if committed_since is not None and committed <= committed_since < target:
        is_of_before = reset.is_written or committed_since == committed or until - at < GONE_THERE
        return committed_since if is_of_before else None
    if until - since > NEXT_ROUND:  # clients came, went and hung meanwhile, brokers were away
        return committed if committed_since == committed else None
    if pace is _NOTHING and committed_since in {None, committed, target}:
        return committed
    if pace is _NOTHING:  # no client is online now; one was since, and went on from there
        pace = None
    written = max(0, after["max_offset"] - before["max_offset"])
    end: int = max(committed, _end(before, after, at))
    if not came and until > since and before["max_offset"] - committed <= written * (KEEPS_UP / (until - since)):
        return end
    if pace is None or came:
        return committed if committed == end else None
    went_on_s: float = max(0.0, (at + reset.told_after - since + COMMIT_AGE).total_seconds())
    return max(committed, min(end, round(committed + pace.finished_per_s * went_on_s + pace.in_hand)))


def _end(before: Row, after: Row, at: datetime) -> int:
    """Return the queue's end at a moment, as if it had been written evenly between the rounds."""
    between = after["max_offset_read_at"] - before["max_offset_read_at"]
    part = min(1.0, max(0.0, (at - before["max_offset_read_at"]) / between)) if between else 1.0
    low, high = before["max_offset"], after["max_offset"]
    return int(low + round((high - low) * part))
