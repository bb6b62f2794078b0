"""When a backlog will be drained, or messages will be lost: what is said of it, and what became of it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

DAY_MS = 86_400_000
FURTHEST_MS = 5 * DAY_MS
"""Nobody looks further ahead. A range that ends here means "or later"; one that would begin here is None."""
DRAINED_MS = 60_000
"""What waits, and is younger, is no backlog: clients commit every few seconds, and samples are a minute apart."""


class Basis(StrEnum):
    """What a range is made of."""

    CONSUME_RATE = "consume_rate"  # drain: consume and produce rates of the window
    RESERVED_TIME = "reserved_time"  # loss: fileReservedTime, at the hour of deleteWhen or above diskMaxUsedSpaceRatio
    DISK = "disk"  # loss: files that are deleted whatever their age, because the disk is 85 % full
    OBSERVED_AGE = "observed_age"  # loss: the age at which the broker last deleted, younger than its settings say
    OBSERVED_MOVES = "observed_moves"  # loss: the last two moves of the queue's min offset


@dataclass(frozen=True, slots=True)
class Forecast:
    """A range of time from now, ms, 0 <= low <= high <= FURTHEST_MS, and what it is made of."""

    low_ms: int
    high_ms: int
    basis: Basis

    @property
    def range_ms(self) -> tuple[int, int]:
        """Low and high."""
        return self.low_ms, self.high_ms


class Kind(StrEnum):
    """What is forecast."""

    DRAIN = "drain"
    LOSS = "loss"


class Outcome(StrEnum):
    """What became of it."""

    INSIDE = "inside"
    EARLY = "early"
    LATE = "late"
    VOID = "void"


@dataclass(frozen=True, slots=True)
class Stated:
    """A forecast about one (consumer group, topic), made at a moment."""

    consumer_group: str
    topic: str
    kind: Kind
    made_at: datetime
    forecast: Forecast
