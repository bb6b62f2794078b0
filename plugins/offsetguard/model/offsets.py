"""The offsets of one message queue and every lag formula, once.

RocketMQ keeps three positions of a consumer group in a queue, each the number of the *next* message:
consumer offset (committed: next to be consumed) <= pull offset (next to be pulled) <= max offset (next to be written).
A position that is not known is None, never 0, and every figure made from it is None.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

MASTER_ID = 0  # broker id of a master; slaves have others
MAX_QUEUES, MAX_QUEUES_OF_ALL = 8_192, 500_000  # of one topic on one broker; of whatever is read at once

IMPOSSIBLE_END = 2**50  # a million messages a second for 35 years


class MessageQueue(NamedTuple):  # the key of many mappings: hashed and compared in a quarter of a record's time
    """RocketMQ's `MessageQueue`: one queue of a topic on one broker."""

    topic: str
    broker_name: str
    queue_id: int


class OffsetOrderViolation(StrEnum):
    """The ways in which min <= consumer <= pull <= max can be broken; the values are the invariants' ids."""

    CONSUMER_BELOW_MIN = "OG-Q01"
    CONSUMER_ABOVE_PULL = "OG-Q02"
    CONSUMER_ABOVE_MAX = "OG-Q03"
    PULL_ABOVE_MAX = "OG-Q04"
    MIN_ABOVE_MAX = "OG-Q05"


@dataclass(frozen=True, slots=True)
class QueueOffsets:
    """The offsets of one consumer group in one queue; None = not known (or never committed)."""

    min_offset: int | None
    max_offset: int | None
    consumer_offset: int | None
    pull_offset: int | None = None

    @property
    def lag(self) -> int | None:
        """max - consumer, messages; may be negative when the group committed beyond the end."""
        return _difference(self.max_offset, self.consumer_offset)

    @property
    def effective_lag(self) -> int | None:
        """max - max(consumer, min), messages: what can still be read; deleted messages do not count."""
        return _difference(self.max_offset, self.first_readable)

    @property
    def first_readable(self) -> int | None:
        """max(consumer, min): the next message to be consumed that is still there."""
        if self.consumer_offset is None or self.min_offset is None:
            return self.consumer_offset
        return max(self.consumer_offset, self.min_offset)

    @property
    def inflight(self) -> int | None:
        """pull - consumer, messages: handed out, not yet committed."""
        return _difference(self.pull_offset, self.consumer_offset)

    @property
    def available(self) -> int | None:
        """max - pull, messages: not yet handed out."""
        return _difference(self.max_offset, self.pull_offset)

    @property
    def lost(self) -> int | None:
        """max(0, min - consumer), messages that the broker deleted before the group consumed them."""
        gone = _difference(self.min_offset, self.consumer_offset)
        return None if gone is None else max(0, gone)

    @property
    def beyond_end(self) -> int | None:
        """max(0, consumer - max), messages that will be skipped when they are written."""
        past = _difference(self.consumer_offset, self.max_offset)
        return None if past is None else max(0, past)

    @property
    def end_is_impossible(self) -> bool:
        """Whether the end is one that no queue reaches, as damaged index files give it."""
        return self.max_offset is not None and self.max_offset >= IMPOSSIBLE_END

    def order_violations(self) -> tuple[OffsetOrderViolation, ...]:
        """Which parts of min <= consumer <= pull <= max are broken; a pair with an unknown side is not."""
        pairs = (
            (self.min_offset, self.consumer_offset, OffsetOrderViolation.CONSUMER_BELOW_MIN),
            (self.consumer_offset, self.pull_offset, OffsetOrderViolation.CONSUMER_ABOVE_PULL),
            (self.consumer_offset, self.max_offset, OffsetOrderViolation.CONSUMER_ABOVE_MAX),
            (self.pull_offset, self.max_offset, OffsetOrderViolation.PULL_ABOVE_MAX),
            (self.min_offset, self.max_offset, OffsetOrderViolation.MIN_ABOVE_MAX),
        )
        return tuple(violation for low, high, violation in pairs if low is not None and high is not None and low > high)


def _difference(high: int | None, low: int | None) -> int | None:
    return None if high is None or low is None else high - low


def offsets_of(row: Mapping[str, Any]) -> QueueOffsets:
    """Return the four offsets of a `queue_snapshots` row."""
    return QueueOffsets(row["min_offset"], row["max_offset"], row["consumer_offset"], row["pull_offset"])


Number = TypeVar("Number", int, float)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def sum_of_known(values: Iterable[Number | None]) -> Number | None:
    """Sum over the values that are known; None when none is (as SQL's SUM)."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def epoch_ms(moment: datetime | None) -> int | None:
    """Return whole milliseconds since 1970, rounded down (as Spark's unix_millis)."""
    return None if moment is None else (moment - _EPOCH) // _MILLISECOND


def milliseconds_between(earlier: datetime | None, later: datetime | None) -> int | None:
    """Return the time from one moment to another in whole ms; None when one is unknown."""
    start, end = epoch_ms(earlier), epoch_ms(later)
    return None if start is None or end is None else end - start


def growth(now: int | None, before: int | None) -> int | None:
    """Return by how much a counter grew; None when a side is unknown or it went back (recreated)."""
    return None if now is None or before is None or now < before else now - before


def per_second(grown: int | None, since_ms: int | None) -> float | None:
    """Return a growth per second; None when it is unknown or no time has passed."""
    if grown is None or since_ms is None or since_ms <= 0:
        return None
    return float(grown) * 1000.0 / float(since_ms)
