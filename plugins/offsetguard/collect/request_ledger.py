"""What became of every request of one round: counts by outcome, and the gaps that they leave."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from offsetguard.collect.manifest import MAX_GAPS, Gap, NotAsked, Outcome, RequestCounts
from offsetguard.model.errors import (
    BrokerRefused,
    ConnectionLost,
    NotRecorded,
    PeerUnreachable,
    RequestTimedOut,
    RocketMQError,
    UndecodableResponse,
)

MAX_LISTED = 100_000  # lines of gaps.jsonl; a whole cluster's worth

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
    """One round's book: every request is counted once, and everything that was not seen is named.

    `gaps` is the short form for people: at most MAX_GAPS, and what was not sent to a broker that was given up is one
    of them. `everything_missing` has a gap of its own for each request, up to MAX_LISTED.
    """

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    gaps: list[Gap] = field(default_factory=list)
    gap_count: int = 0
    kinds: Counter[str] = field(default_factory=Counter)  # "timed_out GET_TOPIC_STATS_INFO" -> how often
    everything_missing: list[Gap] = field(default_factory=list)
    left_out: dict[tuple[str, str], int] = field(default_factory=dict)  # (what, reason) -> how many

    def count(self, outcome: Outcome) -> None:
        """Count one request that was sent."""
        self.outcomes[outcome] += 1

    def add_gap(self, gap: Gap, *, sums_up: bool = False) -> None:
        """Keep what was not seen; `sums_up`: it stands for others that are listed one by one."""
        self.gap_count += 1
        if len(self.gaps) < MAX_GAPS:
            self.gaps.append(gap)
        if not sums_up:
            self.list_missing(gap)

    def list_missing(self, gap: Gap) -> None:
        """Name one more thing that was not seen, without a gap of its own in the manifest."""
        self.kinds[gap.kind] += 1
        if len(self.everything_missing) < MAX_LISTED:
            self.everything_missing.append(gap)

    def leave_out(self, what: str, count: int, reason: str) -> None:
        """Count what was left out on purpose; that is no gap."""
        if count:
            self.left_out[what, reason] = self.left_out.get((what, reason), 0) + count

    @property
    def not_asked(self) -> tuple[NotAsked, ...]:
        """The manifest's record of what was left out on purpose."""
        return tuple(
            NotAsked(what=what, count=count, reason=reason) for (what, reason), count in sorted(self.left_out.items())
        )

    @property
    def counts(self) -> RequestCounts:
        """The manifest's record."""
        by_name = {outcome.value: count for outcome, count in self.outcomes.items()}
        return RequestCounts(asked=self.outcomes.total(), **by_name)
