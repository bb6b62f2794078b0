"""What is said of a queue or a group: severity, state, verdict, and the parts of a finding that incidents keep.

Forecasts, too: when a backlog will be drained, or messages will be lost, and what became of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from offsetguard.model.offsets import MessageQueue

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


class Severity(StrEnum):
    """How bad; ordered by `rank`. INFO stands in pages and the history, and is never sent to people."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """0 = info, 2 = critical."""
        return list(Severity).index(self)

    @property
    def is_sent(self) -> bool:
        """Whether people get a message about it."""
        return self is not Severity.INFO


Figure = str | int | float | bool | datetime | None
"""Something that is shown beside a verdict or a finding; None = unknown."""


class State(StrEnum):
    """How a queue stands, most severe first; a group takes its worst."""

    LOST = "LOST"  # committed below min: messages were deleted before they were consumed
    ANOMALY = "ANOMALY"  # the offsets contradict each other, or the queue was recreated or truncated
    REWOUND = "REWOUND"  # the committed offset moved back and was not regained
    STOPPED = "STOPPED"  # messages wait, nothing is committed, and no client is online
    STALLED = "STALLED"  # messages wait, clients are online, and the committed offset does not move
    AT_RISK = "AT_RISK"  # messages will be deleted before they are consumed, within the horizon
    FALLING_BEHIND = "FALLING_BEHIND"  # the lag grows over the window
    NEVER_COMMITTED = "NEVER_COMMITTED"  # the queue has messages, and the group committed nothing
    UNSUBSCRIBED = "UNSUBSCRIBED"  # messages wait, and no client subscribes to the topic
    UNKNOWN = "UNKNOWN"  # not seen, too long ago, or too little of it
    OK = "OK"

    @property
    def rank(self) -> int:
        """0 = most severe."""
        return _RANKS[self]


_RANKS = {state: rank for rank, state in enumerate(State)}


@dataclass(frozen=True, slots=True)
class QueueVerdict:
    """The state of one queue; None = unknown."""

    state: State
    rule: str  # id of the window rule that fired, e.g. end_reached_recently
    reason: str  # one sentence with figures
    lag: int | None = None
    effective_lag: int | None = None
    lost: int | None = None
    lag_ms: int | None = None  # age of the oldest message that was not consumed
    samples_used: int = 0
    drain: Forecast | None = None
    loss: Forecast | None = None
    figures: Mapping[str, Figure] = field(default_factory=lambda: MappingProxyType({}), hash=False)


@dataclass(frozen=True, slots=True)
class QueueEvidence:
    """One queue that shows the trouble, with its figures."""

    message_queue: MessageQueue
    figures: Mapping[str, Figure]


@dataclass(frozen=True, slots=True)
class Explained:
    """A finding that another one explains: it is named there and stands nowhere else."""

    rule_id: str
    consumer_group: str | None
    topic: str | None
    summary: str
    variant: str = "default"
    figures: Mapping[str, Figure] = field(default_factory=lambda: MappingProxyType({}), hash=False)  # of the summary


@dataclass(frozen=True, slots=True)
class CannotTell:
    """A rule that could not look, and why: facts that it needs were not seen. Neither a finding nor "all is well"."""

    rule_id: str
    consumer_group: str | None  # None: of every group, or of the cluster
    broker_names: frozenset[str]  # behind which the facts lie; empty where no broker in particular is to blame
    because: str  # one sentence
