"""A broker that exists in figures only: commit log, disk, cleaner, topics and consumers, a minute a step.

It follows the broker's source (CleanCommitLogService, ConsumeQueue.correctMinOffset) file by file, and knows nothing of
the forecasts that are tried on it. Positions are bytes, times minutes since the start of the world.
"""

from __future__ import annotations

import math
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
