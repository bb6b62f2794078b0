"""Consumer groups over a week, computed: what is written, consumed and committed in steps of ten seconds.

Each group has its kind (how its topic is written, how it consumes) and its days (redeployments, restarts, bursts); a
trouble is put into a few. A queue's backlog is what came minus what could be handled, never below zero:
`S - min(0, running min of S)` with S the sum of arrivals minus capacity, for the whole week at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from offsetguard.tables.facts import Baseline

Counts = NDArray[np.int64]
Rates = NDArray[np.float64]


STEP_S = 10
HOUR = 3_600 // STEP_S
DAY = 24 * HOUR
EARLIER_WEEKS = 4


class Kind(StrEnum):
    """How a topic is written and consumed."""

    DAILY = "daily"  # busy by day, quiet by night
    BURSTS = "bursts"  # batches, each consumed within minutes
    QUIET = "quiet"  # a message now and then
    IDLE = "idle"  # nothing for days
    SLOW = "slow"  # each message takes its time; at the peak just fast enough
    FILTERED = "filtered"  # offsets move on in leaps, over messages of others' tags


class Trouble(StrEnum):
    """What goes wrong at a moment."""

    STOPPED = "stopped"  # all clients end and do not come back
    STALLED = "stalled"  # one queue is not pulled any more
    POISON = "poison"  # an orderly group retries one message for ever: its queue stands, the others go on
    FALLING_BEHIND = "falling behind"  # consumers handle a third of what is written
    LOST = "lost"  # while it was stopped, retention took what it had not read
    RESET = "reset"  # somebody set the offsets back


@dataclass
class WeeklyGroup:
    """One consumer group with its topic; arrays are (queue, step), `online` is by step."""

    name: str
    kind: Kind
    written: Counts  # all messages of each queue up to the step: its max offset
    committed: Counts
    oldest: Counts  # its min offset
    online: Counts
    orderly: bool
    handling_s: float  # of one message: what is in process is pulled and not committed
    trouble: Trouble | None = None
    trouble_at: int = -1  # step
    usual: Sequence[Baseline] = ()  # what was written in earlier weeks, by hour of the week

    @property
    def topic(self) -> str:
        """Each group has a topic of its own."""
        return f"{self.name}-topic"

    def fails_at(self, step: int) -> bool:
        """Whether a message of it fails again and again."""
        return self.trouble is Trouble.POISON and step >= self.trouble_at

    def is_left_at(self, step: int, queue: int) -> bool:
        """Whether nobody pulls a queue."""
        return self.trouble is Trouble.STALLED and queue == 0 and step >= self.trouble_at

    @property
    def queue_count(self) -> int:
        """Of its topic."""
        return len(self.written)


def weekly_group(number: int, *, days: int = 7, trouble: Trouble | None = None, at: int | None = None) -> WeeklyGroup:
    """Make a group; the same number gives the same one. `at`: the step at which the trouble begins."""
    chance = np.random.default_rng(number)
    kinds = list(Kind) if trouble is None else [Kind.DAILY, Kind.BURSTS, Kind.SLOW, Kind.FILTERED]
    kind = kinds[number % len(kinds)]
    queues, steps = int(chance.integers(1, 4)), days * DAY
    rates = _rates(kind, queues, steps, chance)  # messages per second of each queue
    arrivals = chance.poisson(rates * STEP_S)
    capacity = np.repeat(_capacity(kind, rates, arrivals, chance), steps, axis=1)
    if kind is Kind.BURSTS:
        _add_bursts(arrivals, capacity, chance)
    days_of = _deployments(capacity, chance)
    begins = at if trouble is not None and at is not None else steps
    back = np.zeros_like(arrivals)
    if trouble is not None:
        _trouble(trouble, begins, capacity=capacity, online=days_of.online, arrivals=arrivals, back=back)
    start = chance.integers(0, 10**9, size=(queues, 1))
    written = start + np.cumsum(arrivals, axis=1)
    consumed = np.maximum(written - _backlog(arrivals + back, capacity), start)
    group = WeeklyGroup(
        f"{kind}-{number}",
        kind,
        written,
        _as_committed(consumed, kind, days_of.late_commits),
        _oldest(written, start),
        days_of.online,
        orderly=trouble is Trouble.POISON,
        handling_s=20.0 if kind is Kind.SLOW else 0.05,
        trouble=trouble,
        trouble_at=begins if trouble else -1,
        usual=_usual(kind, rates, capacity, chance),
    )
    if trouble is Trouble.LOST:
        group.trouble_at += HOUR // 2
        purged = group.trouble_at
        group.oldest[:, purged:] = np.maximum(group.oldest[:, purged:], written[:, [purged]] - 1)
    return group


def _rates(kind: Kind, queues: int, steps: int, chance: np.random.Generator) -> Rates:
    """Return messages per second."""
    hours = np.arange(steps) / HOUR % 24
    by_day = 0.15 + 0.85 * np.clip(np.sin((hours - 6) / 24 * 2 * np.pi) * 0.6 + 0.5, 0, 1)
    weekend = np.where(np.arange(steps) // DAY % 7 >= 5, 0.4, 1.0)
    mean = {
        Kind.DAILY: 10 ** chance.uniform(-0.5, 1.7),
        Kind.BURSTS: 0.2,
        Kind.QUIET: 10 ** chance.uniform(-4, -2),
        Kind.IDLE: 0.0,
        Kind.SLOW: 10 ** chance.uniform(0, 0.9),
        Kind.FILTERED: 10 ** chance.uniform(0, 1.5),
    }[kind]
    shares = chance.uniform(0.7, 1.3, size=(queues, 1))
    jitter = np.repeat(chance.uniform(0.85, 1.15, size=steps // HOUR), HOUR)
    shape = np.ones(steps) if kind in (Kind.QUIET, Kind.IDLE) else by_day * weekend * jitter
    return np.asarray(mean * shares * shape)


def _usual(kind: Kind, rates: Rates, capacity: Rates, chance: np.random.Generator) -> Sequence[Baseline]:
    """Return the product's baseline of each hour of the week, after some weeks like this one."""
    hours = rates.shape[1] // HOUR
    mean = rates.sum(axis=0).reshape(hours, HOUR).mean(axis=1)
    weeks = []
    for _ in range(EARLIER_WEEKS):  # so few have their plain mean and deviation
        counts = chance.poisson(mean * chance.uniform(0.85, 1.15, size=hours) * 3_600)
        if kind is Kind.BURSTS:
            counts[chance.random(hours) < 1 / 4.5] += int(90 * capacity[:, 0].sum())
        weeks.append(counts / 3_600)
    means, spreads = np.mean(weeks, axis=0), np.std(weeks, axis=0)
    return [Baseline(float(mean), float(spread), len(weeks)) for mean, spread in zip(means, spreads, strict=True)]


def _capacity(kind: Kind, rates: Rates, arrivals: Counts, chance: np.random.Generator) -> Rates:
    """Return what the clients can handle of each queue per second: (queue, 1)."""
    if kind is Kind.BURSTS:
        return chance.uniform(3, 18, size=(len(rates), 1))
    peak = np.maximum(rates.max(axis=1, keepdims=True), 0.2)
    if kind is not Kind.SLOW:
        return np.asarray(peak * chance.uniform(2, 6))
    longest_s = chance.uniform(30, 150)  # that a message waits at the worst moment of the week
    low, high = rates.mean(axis=1, keepdims=True), np.asarray(2 * peak)
    for _ in range(12):
        middle = (low + high) / 2
        enough = _backlog(arrivals, middle).max(axis=1, keepdims=True) <= longest_s * middle
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high


def _add_bursts(arrivals: Counts, capacity: Rates, chance: np.random.Generator) -> None:
    """Put a batch into the queues every few hours, for which its consumers need a minute or two."""
    at = int(chance.integers(0, HOUR))
    while at < arrivals.shape[1] - HOUR:
        arrivals[:, at] += (chance.uniform(40, 140) * capacity[:, 0]).astype(np.int64)
        at += int(chance.integers(HOUR, 8 * HOUR))


@dataclass
class _Days:
    online: Counts
    late_commits: list[tuple[int, int]] = field(default_factory=list)  # (queue, step)


def _deployments(capacity: Rates, chance: np.random.Generator) -> _Days:
    """Let clients be redeployed, restarted and scaled; what rests then is taken from the capacity."""
    queues, steps = capacity.shape
    clients = int(chance.integers(1, 5))
    days = _Days(np.full(steps, clients, dtype=np.int64))
    for day in range(steps // DAY):
        usual = chance.random() < 0.7  # most teams deploy in the morning
        at = day * DAY + int(chance.integers(10 * HOUR, 11 * HOUR) if usual else chance.integers(7 * HOUR, 20 * HOUR))
        what = chance.choice(["rolling", "restart", "scale", "nothing", "nothing"])
        if what == "rolling":  # one client after another; its queues rest until the next rebalance
            for client in range(clients):
                begins, queue = at + client * 6, client % queues
                days.online[begins : begins + 3] -= 1
                capacity[queue, begins : begins + int(chance.integers(2, 5))] = 0
                days.late_commits.append((queue, begins + int(chance.integers(1, 5))))
        elif what == "restart":  # all at once
            ends = at + int(chance.integers(2, 10))
            days.online[at:ends] = 0
            capacity[:, at : ends + 1] = 0
        elif what == "scale":
            ends = at + int(chance.integers(HOUR, 4 * HOUR))
            days.online[at:ends] += 2
            capacity[:, [at, at + 1, ends, ends + 1]] = 0
    return days


def _trouble(trouble: Trouble, at: int, *, capacity: Rates, online: Counts, arrivals: Counts, back: Counts) -> None:
    if trouble in (Trouble.STOPPED, Trouble.LOST):
        capacity[:, at:] = 0
        online[at:] = 0
    elif trouble in (Trouble.STALLED, Trouble.POISON):
        capacity[0, at:] = 0
    elif trouble is Trouble.FALLING_BEHIND:
        capacity[:, at:] = np.maximum(arrivals[:, at:].mean(axis=1, keepdims=True) / STEP_S / 3, 0.01)
    elif trouble is Trouble.RESET:
        back[:, at] += np.maximum(arrivals[:, at - 6 * HOUR : at].sum(axis=1), 2_000)
        back[:, at] = np.minimum(back[:, at], arrivals[:, :at].sum(axis=1))


def _backlog(arrivals: Counts, capacity: Rates) -> Counts:
    sums = np.cumsum(arrivals - capacity * STEP_S, axis=1)
    return np.ceil(sums - np.minimum(np.minimum.accumulate(sums, axis=1), 0)).astype(np.int64)


def _as_committed(consumed: Counts, kind: Kind, late_commits: list[tuple[int, int]]) -> Counts:
    """Return what the broker shows: a commit is a few seconds old, and comes after a message was handled.

    A client that goes may commit once more when its successor has begun: the offset goes back, and is soon regained.
    """
    handled = _before(consumed, 2) if kind is Kind.SLOW else consumed
    shown = (handled + _before(handled, 1)) // 2
    if kind is Kind.FILTERED:  # every half minute: it commits when a pull found a message of its tags
        shown = np.repeat(shown[:, ::3], 3, axis=1)
    for queue, step in late_commits:
        shown[queue, step] = shown[queue, max(0, step - 6)]
    return np.asarray(shown)


def _before(values: Counts, steps: int) -> Counts:
    return np.concatenate([np.repeat(values[:, :1], steps, axis=1), values[:, :-steps]], axis=1)


def _oldest(written: Counts, start: Counts) -> Counts:
    """Return min offsets: every night at four, what is older than three days goes."""
    steps = written.shape[1]
    oldest = np.repeat(start, steps, axis=1)
    for night in range(3, steps // DAY):
        at = night * DAY + 4 * HOUR
        oldest[:, at:] = written[:, [at - 3 * DAY]]
    return oldest
