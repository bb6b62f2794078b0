"""An incident: one finding over time, from the interval that first showed it to the one that showed its end.

It is pending, and nobody hears of it, until its rule's `bad_cycles` intervals have shown it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from offsetguard.digests import digest_of
from offsetguard.intervals import INTERVAL_LENGTH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offsetguard.intervals import Interval
    from offsetguard.rules.rule import CannotTell, Explained, Figure, Finding, QueueEvidence, Severity

EVIDENCE_KEPT = 20  # queues, explained findings, ... kept with an incident, worst first; all of them are counted


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """What an incident is about; at any time at most one incident per subject is open."""

    cluster: str
    rule_id: str
    consumer_group: str | None
    topic: str | None

    @classmethod
    def of(cls, finding: Finding) -> Subject:
        """Return what a finding is about."""
        return cls(finding.cluster, finding.rule.id, finding.consumer_group, finding.topic)

    @property
    def key(self) -> str:
        """64 hexadecimal digits, equal for equal subjects."""
        return digest_of(self.cluster, self.rule_id, self.consumer_group, self.topic)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the newest finding showed."""

    severity: Severity
    state: str
    variant: str
    summary: str
    cause: str
    do_next: str
    figures: Mapping[str, Figure]  # those of the rule's table, in its order
    queues: tuple[QueueEvidence, ...]  # worst first, at most EVIDENCE_KEPT
    queue_count: int
    broker_names: frozenset[str]  # of all its queues and moves: what must be seen before the incident may end
    explains: tuple[Explained, ...] = ()  # at most EVIDENCE_KEPT
    explained_count: int = 0
    cannot_tell: tuple[CannotTell, ...] = ()  # what could not be told about the same group or brokers; EVIDENCE_KEPT
    cannot_tell_count: int = 0
    text_figures: Mapping[str, Figure] = field(default_factory=lambda: MappingProxyType({}), hash=False)  # of its texts

    @classmethod
    def of(cls, finding: Finding, cannot_tell: Sequence[CannotTell] = ()) -> Evidence:
        """Keep of a finding what readers and the next judgement need."""
        return cls(
            severity=finding.severity,
            state=finding.state,
            variant=finding.variant,
            summary=finding.summary,
            cause=finding.cause,
            do_next=finding.do_next,
            figures={name: finding.figures.get(name) for name in finding.rule.table},
            queues=finding.queues[:EVIDENCE_KEPT],
            queue_count=len(finding.queues),
            broker_names=finding.all_broker_names,
            explains=finding.explains[:EVIDENCE_KEPT],
            explained_count=len(finding.explains),
            cannot_tell=tuple(cannot_tell[:EVIDENCE_KEPT]),
            cannot_tell_count=len(cannot_tell),
            text_figures=finding.text_figures,
        )


@dataclass(frozen=True, slots=True)
class Incident:
    """One incident. Moments are those of intervals, not of the clock, so that a rerun gives the same record."""

    incident_id: str
    subject: Subject
    opened_at: datetime  # start of the interval that first showed it
    last_seen_at: datetime  # start of the newest interval that showed it
    seen_count: int  # intervals that showed it
    evidence: Evidence
    peak_figure: str | None = None  # name of the figure whose worst value is kept
    peak: int | None = None
    unknown_since: datetime | None = None  # its evidence could not be seen since; it stays open
    unknown_because: str | None = None
    resolved_at: datetime | None = None  # start of the first interval that showed its end
    resolution: str | None = None
    is_pending: bool = False  # shown by fewer intervals than its rule wants: nobody is told
    good_count: int = 0  # intervals since it was last seen in which its end could be seen
    counted_at: datetime | None = None  # start of the newest interval that showed it or its absence
    escalation_level: int = 0  # how often it was escalated

    @classmethod
    def opened_by(cls, finding: Finding, interval: Interval, cannot_tell: Sequence[CannotTell] = ()) -> Incident:
        """Begin an incident; the same finding in the same interval always gets the same id."""
        subject = Subject.of(finding)
        return cls(
            incident_id=digest_of(subject.key, interval.name)[:16],
            subject=subject,
            opened_at=interval.start,
            last_seen_at=interval.start,
            seen_count=1,
            evidence=Evidence.of(finding, cannot_tell),
            peak_figure=finding.rule.peak,
            peak=_peak_of(finding),
            is_pending=finding.rule.bad_cycles > 1,
            counted_at=interval.start,
        )

    @property
    def is_open(self) -> bool:
        """People may hear of it, and nothing has shown its end."""
        return self.resolved_at is None and not self.is_pending

    @property
    def is_over(self) -> bool:
        """Its end was shown."""
        return self.resolved_at is not None

    @property
    def counted_until(self) -> datetime:
        """Start of the newest interval that counted, good or bad; earlier releases kept only the bad ones."""
        return self.last_seen_at if self.counted_at is None else self.counted_at

    def lasted_ms(self, now: datetime) -> int:
        """Milliseconds from its first interval to its end, or to `now`."""
        return round(((self.resolved_at or now) - self.opened_at).total_seconds() * 1000)

    @property
    def state(self) -> str:
        """The state word that readers see: UNKNOWN while its evidence cannot be seen."""
        return "UNKNOWN" if self.unknown_since is not None else self.evidence.state

    def as_before(self, interval: Interval) -> Incident:
        """Return it as no interval after this one had been judged: what lay ahead of the present does not count."""
        earlier = interval.start - INTERVAL_LENGTH
        if self.counted_until <= interval.start:
            return self
        return replace(
            self,
            opened_at=min(self.opened_at, earlier),
            last_seen_at=min(self.last_seen_at, earlier),
            counted_at=None if self.counted_at is None else min(self.counted_at, earlier),
            unknown_since=None if self.unknown_since is None else min(self.unknown_since, earlier),
        )

    def seen_again(self, finding: Finding, interval: Interval, cannot_tell: Sequence[CannotTell] = ()) -> Incident:
        """Take over what a newer finding shows; a pending incident opens when its rule has seen enough.

        Rules look back for half an hour: the first moment of what goes on for longer is the one that was seen first.
        """
        finding = replace(finding, figures={**finding.figures, **self._first_moments(finding)})
        peak = _peak_of(finding)
        return replace(
            self,
            last_seen_at=interval.start,
            counted_at=interval.start,
            seen_count=self.seen_count + 1,
            good_count=0,
            is_pending=self.is_pending and self.seen_count + 1 < finding.rule.bad_cycles,
            evidence=Evidence.of(finding, cannot_tell),
            peak=peak if self.peak is None else max(self.peak, self.peak if peak is None else peak),
            unknown_since=None,
            unknown_because=None,
        )

    def _first_moments(self, finding: Finding) -> dict[str, Figure]:
        known = {**self.evidence.figures, **self.evidence.text_figures}
        return {
            name: min(before, figure)
            for name, figure in finding.figures.items()
            if name.startswith("first_")
            and isinstance(figure, datetime)
            and isinstance(before := known.get(name), datetime)
        }

    def explained(self, interval: Interval) -> Incident:
        """Go on with the words that it has: it was found, and another finding explains it."""
        return replace(
            self,
            last_seen_at=interval.start,
            counted_at=interval.start,
            seen_count=self.seen_count + 1,
            good_count=0,
            unknown_since=None,
            unknown_because=None,
        )

    def not_seen(self, interval: Interval) -> Incident:
        """Count an interval that was looked at and did not show it."""
        return replace(
            self,
            counted_at=interval.start,
            good_count=self.good_count + 1,
            unknown_since=None,
            unknown_because=None,
        )

    def unseen(self, interval: Interval, because: str) -> Incident:
        """Keep it open although nothing was found: the evidence could not be seen."""
        return replace(self, unknown_since=self.unknown_since or interval.start, unknown_because=because)

    def ended(self, interval: Interval, resolution: str) -> Incident:
        """Close it."""
        return replace(
            self, resolved_at=interval.start, resolution=resolution, unknown_since=None, unknown_because=None
        )


def worst_first(incident: Incident) -> tuple[int, int, datetime, str]:
    """Sort key: severity, then the worst figure so far, then age; the same incidents always in the same order."""
    return (-incident.evidence.severity.rank, -(incident.peak or 0), incident.opened_at, incident.incident_id)


def _peak_of(finding: Finding) -> int | None:
    figure = finding.figures.get(finding.rule.peak) if finding.rule.peak else None
    return figure if isinstance(figure, int) else None
