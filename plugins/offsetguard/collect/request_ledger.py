"""What became of every request of one round: counts by outcome, and the gaps that they leave."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from offsetguard.collect.manifest import MAX_GAPS, Gap, Outcome, RequestCounts
from offsetguard.errors import (
    BrokerRefused,
    ConnectionLost,
    NotRecorded,
    PeerUnreachable,
    RequestTimedOut,
    RocketMQError,
    UndecodableResponse,
)

_OUTCOMES: tuple[tuple[type[RocketMQError], Outcome], ...] = (
    (BrokerRefused, Outcome.REFUSED),
    (RequestTimedOut, Outcome.TIMED_OUT),
    (PeerUnreachable, Outcome.UNREACHABLE),
    (UndecodableResponse, Outcome.UNDECODABLE),
    (ConnectionLost, Outcome.CONNECTION_LOST),
    (NotRecorded, Outcome.NOT_RECORDED),
)


def outcome_of(error: RocketMQError) -> Outcome:
    """Return what the manifest calls an error; a connection problem of no known kind counts as a lost connection."""
    return next((outcome for kind, outcome in _OUTCOMES if isinstance(error, kind)), Outcome.CONNECTION_LOST)


@dataclass(slots=True)
class RequestLedger:
    """One round's book: every request is counted once; gaps are kept up to MAX_GAPS and counted beyond."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    gaps: list[Gap] = field(default_factory=list)
    gap_count: int = 0

    def count(self, outcome: Outcome) -> None:
        """Count one request that was sent."""
        self.outcomes[outcome] += 1

    def add_gap(self, gap: Gap) -> None:
        """Keep what was not seen."""
        self.gap_count += 1
        if len(self.gaps) < MAX_GAPS:
            self.gaps.append(gap)

    @property
    def counts(self) -> RequestCounts:
        """The manifest's record."""
        by_name = {outcome.value: count for outcome, count in self.outcomes.items()}
        return RequestCounts(asked=self.outcomes.total(), **by_name)
