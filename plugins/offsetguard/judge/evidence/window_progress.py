"""What the windows of a group's suspect queues say together: does its lag fall, and does anything move."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from offsetguard.facts.interval import QueueFacts
from offsetguard.tables.group_facts import GroupFacts

RECENTLY = timedelta(seconds=60)
"""What brokers' rates cover, and what RocketMQ's own check calls "can't consume for a while" beyond."""


@dataclass(frozen=True, slots=True)
class LagTrend:
    """How the lag of several queues changed between an earlier and the newest sample of each."""

    growth: int  # messages; below 0 = it fell
    span: timedelta  # the longest of the queues'

    @property
    def falls(self) -> bool:
        """Whether fewer messages wait than before."""
        return self.growth < 0


def lag_trend(queues: Iterable[QueueFacts], since: datetime | None = None) -> LagTrend | None:
    """Return the trend over the queues that have two samples; the earlier one not before `since` where that can be.

    None: no queue has two samples.
    """
    growth, longest = 0, timedelta()
    for queue in queues:
        newest = queue.window.seen if queue.window else None
        if queue.window is None or newest is None or newest.committed_offset is None:
            continue
        known = [point for point in queue.window.points if point.committed_offset is not None]
        later = [point for point in known if since is None or point.at >= since]
        then = (later or known)[-1] if known else None
        if then is None or then.committed_offset is None:
            continue
        before = max(0, then.max_offset - then.committed_offset)
        growth += max(0, newest.max_offset - newest.committed_offset) - before
        longest = max(longest, newest.at - then.at)
    return LagTrend(growth, longest) if longest else None


def finishes_messages(group: GroupFacts) -> bool:
    """Whether the clients of a concurrent group say that they finish messages."""
    return not group.orderly and (group.consume_ok_tps or 0) > 0


def moves(queue: QueueFacts, now: datetime, group: GroupFacts | None) -> bool | None:
    """Whether messages of a queue were finished lately; None = nothing tells.

    A client's last consumption is at first the time at which it took the queue, and an orderly client's is its last
    attempt, of a message that fails for ever as well (ProcessQueue.takeMessages). So it counts for concurrent groups
    whose clients say that they finish messages. A first commit of the queue's start finishes nothing either.
    """
    window = queue.window
    finishes = group is not None and finishes_messages(group)
    moments = [queue.last_consume_at if finishes else None]
    if window is not None and (window.committed_offset or 0) > (window.seen_min_offset or 0):
        moments.append(window.advanced_at)
    if any(moment is not None and now - moment <= RECENTLY for moment in moments):
        return True
    if window is None or window.seen_at is None or window.first_seen_at is None:
        return None
    return False if window.seen_at - window.first_seen_at >= RECENTLY else None


def most_moves(group: GroupFacts, queues: Iterable[QueueFacts], now: datetime) -> bool | None:
    """Whether the queues that have most of a group's lag in a topic go on; None = nothing tells."""
    standing, moving, unknown = 0, 0, 0
    for queue in queues:
        lag, told = queue.offsets.effective_lag or 0, moves(queue, now, group)
        if told is None:
            unknown += lag
        elif told:
            moving += lag
        else:
            standing += lag
    if moving == standing == 0:  # windows of one sample; the group's rates tell of all its queues together
        rates = (group.consume_tps, None if group.orderly else group.consume_ok_tps)
        return True if any((rate or 0) > 0 for rate in rates) else None
    return moving >= standing + unknown
