"""How many messages of a filtered group's lag are really for it: an estimate with its error, and what it is based on.

A tag or SQL filter works when messages are read, so those that will be filtered out count as lag (incident I3). The
share that matches is measured on what was read lately, in the best of three ways:

- *Caches*: what lies in a client's cache of a queue matched, what lies between the oldest and the newest of it went by.
  Each queue by itself: tags may lie unevenly over queues. It needs a cache of some messages for nearly all of the lag.
- *Clients*: what they finished in the last minute and what lies in their caches now matched; what they committed in
  that minute and what is in flight went by. Nothing is counted twice, and nothing is between the two. It needs what
  every client says, and a group of one topic, since clients count what they consume of all topics together.
- *Get rates*: what brokers handed out in the last minute matched; what was committed in that minute went by. A client
  gets up to 32 messages of a queue at once and finishes them later, so both may be off by as much per queue.

The latter two are of the whole group, and say something of the lag where it lies on the queues that were counted: where
it lies on others nobody can tell.

The range holds three errors: *counting* (another stretch of the topic would have matched otherwise: Wilson's range for
95 %, E. B. Wilson 1927, which also holds where none matched), *timing* (rates cover a minute in steps of 10 s, our
readings are seconds apart, commits come every 5 s), and for get rates what is between hand-out and commit.

NULL is unknown: without a measured share there is no estimate.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from offsetguard.facts.interval import QueueFacts
from offsetguard.tables.group_facts import GroupFacts

Z_95 = 1.959964  # of a normal distribution, both sides
RATE_SECONDS = 60.0  # what brokers' and clients' rates cover (StatsItem: 7 samples, 10 s apart)
STEP_SECONDS = 10.0  # a sample of a rate; a client's commit is 5 s
PULL_BATCH_SIZE = 32  # messages of a queue that a client gets at once
LEAST_CACHED = 8  # messages of a queue: fewer give no share
NEARLY_ALL = 0.9  # of the lag
REPRESENTED = 0.5  # of what was counted: so much at least must come from the queues that the lag lies on
_POP = "pop"  # of `GroupFacts.consumption`


@dataclass(frozen=True, slots=True)
class Measured:
    """What was counted: of `counted` messages that went by, about `matched` matched; `slack` of them are uncertain."""

    matched: float
    counted: float
    timed: float  # of the counted ones, those that a rate told
    slack: float = 0.0

    @property
    def share(self) -> float:
        """The share that matched, 0..1."""
        return min(1.0, max(0.0, self.matched / self.counted))

    def share_range(self) -> tuple[float, float]:
        """Return between what bounds the true share lies with about 95 %."""
        low, high = (min(self.counted, max(0.0, self.matched + slack)) for slack in (-self.slack, self.slack))
        timing = STEP_SECONDS / RATE_SECONDS * self.timed / self.counted
        lowest, _ = wilson_range(low / self.counted, self.counted)
        _, highest = wilson_range(high / self.counted, self.counted)
        return lowest * (1.0 - timing), min(1.0, highest * (1.0 + timing))


@dataclass(frozen=True, slots=True)
class FilterEstimate:
    """Messages of the lag that match the group's filter: most likely, and between what bounds with about 95 %."""

    matching: int
    low: int
    high: int
    hit_ratio: float  # 0..1


def estimate_for(group: GroupFacts, queues: Sequence[QueueFacts], *, topic_count: int) -> FilterEstimate | None:
    """Return the estimate for one (group, topic); None when lag or share is not known, or nothing is filtered.

    `queues`: its suspect queues. `topic_count`: topics that the group consumes, besides its retry topic.
    """
    if not group.filtered or group.consumption == _POP:
        return None
    by_queue = _of_caches(group, queues)
    if by_queue is not None or not _are_counted(group, queues):
        return by_queue
    return estimate_matching(group.effective_lag, _of_a_minute(group, topic_count=topic_count))


def _of_caches(group: GroupFacts, queues: Sequence[QueueFacts]) -> FilterEstimate | None:
    """Return the sum over queues of which a client caches enough; None where these have not nearly all of the lag."""
    measured = [(one, estimate) for one in queues if (estimate := _of_cache(one)) is not None]
    found = [estimate for _, estimate in measured]
    lag = sum(queue.offsets.effective_lag or 0 for queue, _ in measured)
    if not found or group.effective_lag is None or lag < NEARLY_ALL * group.effective_lag:
        return None
    matching = sum(one.matching for one in found)
    low, high = sum(one.low for one in found), sum(one.high for one in found)
    return FilterEstimate(matching, low, high, matching / lag)


def _of_cache(queue: QueueFacts) -> FilterEstimate | None:
    first, last, cached = queue.cached_min_offset, queue.cached_max_offset, queue.cached_message_count
    lag = queue.offsets.effective_lag or 0
    if lag <= 0 or first is None or last is None or cached is None or cached < LEAST_CACHED or last <= first:
        return None
    went_by = float(last - first + 1)
    return estimate_matching(lag, Measured(min(float(cached), went_by), went_by, timed=0.0))


def _are_counted(group: GroupFacts, queues: Sequence[QueueFacts]) -> bool:
    """Whether most of what was committed in the last minute came from the queues that the lag lies on."""
    lagging = [one for one in queues if (one.offsets.effective_lag or 0) > 0]
    rates = [one.consume_tps for one in lagging if one.consume_tps is not None]
    if not group.consume_tps or len(rates) < len(lagging) or not rates:
        return True  # nothing says otherwise
    return sum(rates) >= REPRESENTED * group.consume_tps


def _finished_tps(group: GroupFacts) -> float | None:
    """Return what clients finished per second; None unless all of them told. Orderly ones fail in place, again."""
    if group.consume_ok_tps is None or group.online_client_count is None:
        return None
    if (group.told_client_count or 0) < group.online_client_count:
        return None
    return group.consume_ok_tps if group.orderly else group.consume_ok_tps + (group.consume_failed_tps or 0.0)


def _of_a_minute(group: GroupFacts, *, topic_count: int) -> Measured | None:
    """Return what was counted in the last minute; None when neither way is known, or nothing went by."""
    if group.consume_tps is None or group.consume_tps < 0:
        return None
    committed = group.consume_tps * RATE_SECONDS
    finished_tps = _finished_tps(group) if topic_count == 1 else None
    if finished_tps is not None:
        cached, inflight = group.cached_message_count, group.inflight or 0
        held, in_flight = (cached, inflight) if cached is not None and inflight > 0 else (0, 0)
        counted = committed + in_flight
        return Measured(finished_tps * RATE_SECONDS + held, counted, committed) if counted >= 1 else None
    if group.hit_ratio is None or committed < 1:
        return None
    return Measured(group.hit_ratio * committed, committed, committed, float(PULL_BATCH_SIZE * group.queue_count))


def estimate_matching(lag: int | None, measured: Measured | None) -> FilterEstimate | None:
    """Return how many of `lag` messages match; None when lag or share is not known."""
    if lag is None or lag < 0 or measured is None:
        return None
    low, high = measured.share_range()
    return FilterEstimate(
        matching=round(lag * measured.share),
        low=math.floor(lag * low),
        high=math.ceil(lag * high),
        hit_ratio=measured.share,
    )


def wilson_range(share: float, count: float) -> tuple[float, float]:
    """Return between what bounds the true share lies with 95 % when `share` of `count` matched; count is above 0."""
    square = Z_95 * Z_95
    middle = share + square / (2.0 * count)
    reach = Z_95 * math.sqrt(share * (1.0 - share) / count + square / (4.0 * count * count))
    scale = 1.0 + square / count
    return max(0.0, min(share, (middle - reach) / scale)), min(1.0, max(share, (middle + reach) / scale))
