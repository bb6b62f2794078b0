"""Brokers that exist in figures only, a minute a step, in worlds with traffic, disks and consumers of every kind.

A broker has a commit log, a disk, a cleaner, topics and consumers. It follows the source of RocketMQ's
(CleanCommitLogService, ConsumeQueue.correctMinOffset) file by file, and knows nothing of the forecasts that are tried
on it. Positions are bytes, times minutes since the start of the world. A world is made of a seed.
"""

import math
import random
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

HOUR, DAY = 60, 1_440
ROUNDS_PER_MINUTE = 6
FILES_PER_ROUND = 10


@dataclass(slots=True)
class SimulatedQueue:
    """One queue with one group that consumes it. Curves have a value per minute, at the end of it."""

    name: str
    message_bytes: int
    produced: Callable[[int], float]  # messages in a minute
    consumed: Callable[[int], float]  # messages that the group can consume in a minute; 0 = nobody runs
    ends: list[int] = field(default_factory=list)
    end: int = 0
    minimum: int = 0
    committed: int = 0
    lost: int = 0  # messages that were deleted before they were consumed, while the group was not below min already

    def write(self, minute: int, chance: float) -> int:
        """Produce a minute's messages; returns their bytes. `chance` in [0, 1) decides about a part of a message."""
        count = math.floor(self.produced(minute) + chance)
        self.end += count
        self.ends.append(self.end)
        return count * self.message_bytes

    def consume(self, minute: int) -> None:
        """Consume what is there; who asks for a deleted message goes on with the oldest one."""
        able = self.consumed(minute)
        if able > 0:
            start = max(self.committed, self.minimum)
            self.committed = min(self.end, start + math.floor(able))

    def written_in(self, offset: int) -> int:
        """Return the minute in which a message was written."""
        return bisect_right(self.ends, offset)


@dataclass(slots=True)
class CommitLogFile:
    """One file: its first byte, how much of it is written, and the minute of the last write."""

    start: int
    length: int = 0
    written_at: int = 0


@dataclass(slots=True)
class SimulatedBroker:
    """The broker. `other_bytes`: what else is on the disk in a minute; ratios are shares of 1."""

    queues: list[SimulatedQueue]
    file_bytes: int
    disk_bytes: float
    reserved_minutes: int
    delete_hours: tuple[int, ...]  # of its own clock
    clock_ahead: int  # minutes that its time zone is ahead of UTC
    other_bytes: Callable[[int], float]
    noise: Callable[[], float]
    forced_ratio: float = 0.85
    expired_ratio: float = 0.75
    minute: int = 0
    end: int = 0
    ends: list[int] = field(default_factory=list)
    files: deque[CommitLogFile] = field(default_factory=deque)
    deleted_at: int | None = None

    def step(self) -> None:
        """Live for a minute: write, consume, clean."""
        written = sum(queue.write(self.minute, self.noise()) for queue in self.queues)
        self._append(written)
        for queue in self.queues:
            queue.consume(self.minute)
        for _ in range(ROUNDS_PER_MINUTE):
            if not self._clean():
                break
        self.minute += 1

    @property
    def start(self) -> int:
        """The oldest byte kept."""
        return self.files[0].start if self.files else 0

    @property
    def ratio(self) -> float:
        """The used share of the disk."""
        kept = sum((self.end - self.start, 0.04 * (self.end - self.start)))  # with consume queues and indexes
        return (kept + self.other_bytes(self.minute)) / self.disk_bytes

    @property
    def oldest_minute(self) -> int:
        """The minute in which the oldest byte kept was written."""
        return bisect_right(self.ends, self.start)

    def _append(self, written: int) -> None:
        while written > 0:
            if not self.files or self.files[-1].length == self.file_bytes:
                self.files.append(CommitLogFile(self.end))
            newest = self.files[-1]
            part = min(written, self.file_bytes - newest.length)
            newest.length += part
            newest.written_at = self.minute
            self.end += part
            written -= part
        self.ends.append(self.end)

    def _clean(self) -> bool:
        hour = (self.minute + self.clock_ahead) // HOUR % 24
        at_once = self.ratio > self.forced_ratio
        if not (hour in self.delete_hours or self.ratio > self.expired_ratio or at_once):
            return False
        count = 0
        while len(self.files) > 1 and count < FILES_PER_ROUND:
            expired = self.minute >= self.files[0].written_at + self.reserved_minutes
            if not (expired or at_once):
                break
            self.files.popleft()
            count += 1
        if count:
            self.deleted_at = self.minute
            self._correct_min_offsets()
        return count > 0

    def _correct_min_offsets(self) -> None:
        minute = bisect_right(self.ends, self.start)  # in which the oldest byte kept was written
        before = self.ends[minute - 1] if minute else 0
        share = (self.start - before) / max(1, self.ends[minute] - before) if minute < len(self.ends) else 1.0
        for queue in self.queues:
            low = queue.ends[minute - 1] if minute else 0
            high = queue.ends[minute] if minute < len(queue.ends) else queue.end
            moved = max(queue.minimum, low + math.floor((high - low) * share))
            if queue.committed >= queue.minimum:
                queue.lost += max(0, moved - queue.committed)
            queue.minimum = moved


KINDS = ("time", "disk", "loud", "idle")
WARM_UP = DAY + 12 * HOUR  # before it every group keeps up
_MESSAGE_BYTES = 1_000


@dataclass(frozen=True, slots=True)
class Phase:
    """From a minute on, a group can consume so many times what is produced at most of an average day."""

    start: int
    speed: float


@dataclass(slots=True)
class World:
    """A broker and what is to know about it from outside."""

    name: str
    kind: str
    broker: SimulatedBroker
    phases: dict[str, tuple[Phase, ...]]  # queue -> how its group behaves when
    bursts: tuple[tuple[int, int], ...]  # (first minute, minute after the last) of loud traffic
    reserved_hours: int
    delete_when: str
    zone_known: bool
    oldest_told: bool  # whether the broker was asked how old the oldest unconsumed message is
    disk_told: bool


def world(kind: str, seed: int, minutes: int) -> World:
    """Return a world of a kind; the same seed gives the same world."""
    chance = random.Random(f"{kind} {seed}")  # noqa: S311 worlds, not secrets
    reserved_hours = chance.choice((8, 12, 24, 30))
    hours = chance.choice(((4,), (4,), (4, 16), (2, 10, 18)))
    rate = chance.uniform(300, 3_000)  # messages a minute of the whole broker
    amplitude, peak = chance.uniform(0.0, 0.7), chance.randrange(DAY)
    bursts = _bursts(kind, chance, minutes)
    loud = chance.uniform(3, 12)
    daily_bytes = rate * DAY * _MESSAGE_BYTES
    file_bytes = int(daily_bytes / chance.choice((24, 60, 200)))
    kept = daily_bytes * ((reserved_hours + 14) / 24)
    fill = chance.uniform(0.25, 0.55) if kind in ("time", "idle") else chance.uniform(0.95, 1.8)
    shares = _shares(kind, chance)
    noise = _noise(chance)

    def traffic(minute: int) -> float:
        return rate * (1 + amplitude * math.cos(2 * math.pi * (minute - peak) / DAY)) * noise(minute)

    def is_loud(minute: int) -> bool:
        return any(start <= minute < end for start, end in bursts)

    phases = {name: _phases(chance, minutes) for name in shares}
    queues = [
        SimulatedQueue(
            name,
            _MESSAGE_BYTES,
            produced=_produced(share, traffic),
            consumed=_consumed(phases[name], share * rate * (1 + amplitude), chance.random()),
        )
        for name, share in shares.items()
    ]
    if bursts:
        shout = SimulatedQueue("loud", _MESSAGE_BYTES, lambda m: loud * rate * is_loud(m), lambda _m: math.inf)
        shout.consumed = lambda _m: 1e12
        queues.append(shout)
    broker = SimulatedBroker(
        queues=queues,
        file_bytes=max(1, file_bytes),
        disk_bytes=kept / fill,
        reserved_minutes=reserved_hours * HOUR,
        delete_hours=hours,
        clock_ahead=chance.randrange(-8, 10) * HOUR,
        other_bytes=_other_bytes(chance, kept / fill),
        noise=chance.random,
    )
    when = ";".join(f"{hour:02}" for hour in hours)
    told = chance.random() < 0.6, chance.random() < 0.5, chance.random() < 0.8
    return World(f"{kind} {seed}", kind, broker, phases, bursts, reserved_hours, when, *told)


def _shares(kind: str, chance: random.Random) -> dict[str, float]:
    """Return the topics and their parts of the traffic; the rest of it goes to one that nobody watches."""
    if kind == "idle":
        return {"orders": 0.6, "quiet": 0.0005, "audits": chance.uniform(0.05, 0.3)}
    return {"orders": chance.uniform(0.2, 0.5), "payments": chance.uniform(0.05, 0.3), "audits": 0.1}


def _bursts(kind: str, chance: random.Random, minutes: int) -> tuple[tuple[int, int], ...]:
    if kind != "loud":
        return ()
    starts = sorted(chance.randrange(WARM_UP, minutes) for _ in range(2))
    return tuple((start, start + chance.randrange(HOUR, 10 * HOUR)) for start in starts)


def _phases(chance: random.Random, minutes: int) -> tuple[Phase, ...]:
    """Return how a group behaves: it keeps up, then stops, or slows down, and perhaps comes back."""
    start = chance.randrange(WARM_UP, WARM_UP + DAY)
    trouble = Phase(start, chance.choice((0.0, 0.0, 0.0, 0.2, 0.5, 0.8)))
    back = start + int(chance.uniform(1, 40) * HOUR)
    again = Phase(back, chance.choice((1.5, 2.5, 6.0)))
    stays = chance.random() < 0.5
    return (Phase(0, 3.0), trouble) if stays or back >= minutes else (Phase(0, 3.0), trouble, again)


def _produced(share: float, traffic: Callable[[int], float]) -> Callable[[int], float]:
    return lambda minute: share * traffic(minute)


def _consumed(phases: tuple[Phase, ...], most: float, phase: float) -> Callable[[int], float]:
    def able(minute: int) -> float:
        speed = next(one.speed for one in reversed(phases) if one.start <= minute)
        return speed * most * (1 + 0.1 * math.sin(minute / 7 + phase * 6))

    return able


def _noise(chance: random.Random) -> Callable[[int], float]:
    factors = [math.exp(chance.gauss(0, 0.15)) for _ in range(997)]
    return lambda minute: factors[minute // 10 % 997]


def _other_bytes(chance: random.Random, disk_bytes: float) -> Callable[[int], float]:
    share, wave = chance.uniform(0.02, 0.12), chance.uniform(0.0, 0.01)
    return lambda minute: disk_bytes * (share + wave * math.sin(minute / 500))
