"""Queues whose committed offset one message holds: an orderly one blocks its queue, a slow one those behind it."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence.judged_groups import RECENTLY, finishes_messages
from offsetguard.judge.windows.rules import POP
from offsetguard.model.offsets import MessageQueue
from offsetguard.tables.group_facts import GroupFacts

SANE_RETRIES = 16  # of an orderly message: 16 tries in place take 16 s (suspendCurrentQueueTimeMillis = 1 s)
_FAILING_MS = 30_000  # longer than 16 tries
_HANGING_MS = 60_000
_SLOW_MESSAGES = 5  # a listener that needs 20 s for each message stands still for 20 s between two commits
_BATCH = 32  # a message in the listener's hands is no longer among the cached ones: the oldest of these follows it
_LEAST_LOOK_MS = 10_000
_TAKES_OVER = timedelta(seconds=15)  # three commits of a client
UNLIMITED = -1  # maxReconsumeTimes of an orderly client: never gives up; of a concurrent one: 16


class BlockedQueue(NamedTuple):
    """A queue, and for how long its committed offset has stood still, ms."""

    queue: QueueFacts
    blocked_ms: int


def blocked_queues(group: GroupFacts, suspects: Sequence[QueueFacts], facts: IntervalFacts) -> list[BlockedQueue]:
    """Return the queues of one (group, topic) that a message blocks, longest first; `suspects`: its suspect queues.

    All queues standing still have another cause: the listener, or what it calls.
    """
    if not group.orderly or group.consumption == POP:
        return []
    needed_ms, now, taken = _needed_ms(group), facts.now, _just_taken(group.consumer_group, facts)
    standing = [queue for queue in suspects if _waits(queue) and _stands_ms(queue, now) >= _LEAST_LOOK_MS]
    moving_count = group.queue_count - len(standing)
    blocked = [
        BlockedQueue(queue, blocked_ms)
        for queue in standing
        if queue.message_queue not in taken
        and _is_consumed(queue)
        and (blocked_ms := _blocked_ms(queue, suspects, now)) >= needed_ms
    ]
    alone = group.queue_count == 1 and _fails(group)  # a topic of one queue has no other that could go on
    if not alone and (moving_count < len(standing) or not _others_go_on(group, suspects, standing)):
        return []
    return sorted(blocked, key=lambda one: (-one.blocked_ms, one.queue.message_queue))


def held_back_queues(group: GroupFacts, queues: Iterable[QueueFacts]) -> list[BlockedQueue]:
    """Return the queues of a concurrent group whose offset stands while messages behind it are finished, longest first.

    `queues`: suspect ones of the group and one topic.
    """
    if group.consumption == POP or (group.orderly is not False and not finishes_messages(group)):
        return []
    found = []
    for queue in queues:
        since, seen_at = queue.window.advanced_at or queue.window.first_seen_at, queue.window.seen_at
        if since is None or seen_at is None or seen_at - since <= RECENTLY:
            continue
        if _only_the_first_is_unfinished(queue, seen_at, group):
            found.append(BlockedQueue(queue, (seen_at - since) // timedelta(milliseconds=1)))
    return sorted(found, key=lambda one: (-one.blocked_ms, one.queue.message_queue))


def _only_the_first_is_unfinished(queue: QueueFacts, seen_at: datetime, group: GroupFacts) -> bool:
    """Whether a client has the committed message still in hands, and no longer all that it was given behind it.

    A client that is ahead of the committed offset has finished that message, and commits within seconds. A cache
    without gaps is a queue whose turn has not come; a filter makes gaps as well, of messages that were never sent.
    Behind its newest cached one most of what it was given may be finished, too. How much that is, 4.x brokers do not
    tell; who pulled lately, and has room in its cache, has pulled all. Where all listeners hang by now, what they
    finished before leaves a gap for ever: so one was finished lately, or the newest that was given to it is.
    """
    first, last, cached = queue.cached_min_offset, queue.cached_max_offset, queue.cached_message_count
    if first is None or last is None or not cached or first != queue.offsets.consumer_offset:
        return False
    finishes = _is_recent(queue.last_consume_at, seen_at)
    if group.filtered is not False and not finishes:
        return False
    given_to = queue.offsets.pull_offset
    if given_to is None and _is_recent(queue.last_pull_at, seen_at) and queue.cache_is_full is False:
        given_to = queue.offsets.max_offset
    if given_to is not None and 2 * cached < given_to - first and (finishes or last < given_to - 1):
        return True
    return finishes and cached < last - first + 1


def _is_recent(moment: datetime | None, seen_at: datetime) -> bool:
    return moment is not None and seen_at - moment <= RECENTLY


def _just_taken(consumer_group: str, facts: IntervalFacts) -> set[MessageQueue]:
    """Return the queues whose lock somebody waited for until a moment ago: their first commit comes within seconds."""
    return {
        MessageQueue(wait.topic, wait.broker_name, wait.queue_id)
        for wait in facts.lock_waits
        if wait.consumer_group == consumer_group
        and wait.ended_at is not None
        and facts.now - wait.ended_at <= _TAKES_OVER
    }


def _needed_ms(group: GroupFacts) -> float:
    if _fails(group):
        return _FAILING_MS
    return max(_HANGING_MS, _SLOW_MESSAGES * (group.consume_rt_ms or 0))


def _fails(group: GroupFacts) -> bool:
    return group.consume_failed_tps is not None and group.consume_failed_tps > 0


def _waits(queue: QueueFacts) -> bool:
    return queue.offsets.consumer_offset is not None and (queue.offsets.effective_lag or 0) > 0


def _stands_ms(queue: QueueFacts, now: datetime) -> float:
    """Return for how long it is certain that nothing was committed; 0 = not known."""
    window = queue.window
    if queue.consume_tps:
        return 0
    rewound_at = window.rewind.rewound_at if window.rewind else None  # since then it stands before another message
    since = max(_known(window.advanced_at, window.end_reached_at, window.first_seen_at, rewound_at), default=now)
    return (now - since).total_seconds() * 1000


def _is_consumed(queue: QueueFacts) -> bool:
    """Whether a client holds it with its lock, and has the message at the committed offset, or the next ones."""
    first, committed = queue.cached_min_offset, queue.offsets.consumer_offset
    if not queue.locked or not queue.cached_message_count or first is None or committed is None:
        return False
    return committed <= first <= committed + _BATCH


def _blocked_ms(queue: QueueFacts, suspects: Sequence[QueueFacts], now: datetime) -> int:
    """Return how long it has stood still: as long as was seen; or, if only this queue is late, as its message waits."""
    seen_ms = int(_stands_ms(queue, now))
    if queue.window.rewind is not None:
        return seen_ms  # its message was consumed before, and is as old as it is
    others = [one.lag_ms for one in suspects if one is not queue and not one.holder_count and one.lag_ms is not None]
    late = [one.lag_ms for one in suspects if one.consume_tps and one.lag_ms is not None] + others
    if queue.lag_ms is None or any(2 * lag_ms > queue.lag_ms for lag_ms in late):
        return seen_ms
    return max(seen_ms, queue.lag_ms)


def _others_go_on(group: GroupFacts, suspects: Sequence[QueueFacts], standing: Sequence[QueueFacts]) -> bool:
    """Whether another queue was committed meanwhile, or has nothing left to consume."""
    if group.consume_tps or any(queue.consume_tps for queue in suspects):
        return True
    return group.queue_count > len(standing)


def _known(*moments: datetime | None) -> Iterator[datetime]:
    return (moment for moment in moments if moment is not None)
