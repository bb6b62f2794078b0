"""An incident: one finding over time, from the interval that first showed it to the one that showed its end.

It is pending, and nobody hears of it, until its rule's `bad_cycles` intervals have shown it.

`Change`: what changed meanwhile, of which kind, and whose it is; an incident keeps the newest before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType

from offsetguard.model.fact_records import ClientStacks
from offsetguard.model.intervals import INTERVAL_LENGTH, Interval
from offsetguard.model.verdicts import CannotTell, Explained, Figure, QueueEvidence, Severity

BEFORE = timedelta(hours=1)  # an incident: of which people are told what changed
MOST_CHANGES = 5  # that they are told, the newest


class Kind(StrEnum):
    """What a change is of."""

    SETTINGS = "settings"
    QUEUES = "queues"
    VERSIONS = "versions"
    SUBSCRIPTIONS = "subscriptions"
    MEMBERS = "members"
    OFFSETS = "offsets"
    RESTARTS = "restarts"
    MASTERS = "masters"


@dataclass(frozen=True, slots=True)
class Change:
    """Something that was other than before."""

    at: datetime  # the moment that was told, or the look that first shows it
    what: str  # a sentence of the catalogue


@dataclass(frozen=True, slots=True)
class NamedChange(Change):
    """The same, and whose it is; nobody's and of no kind: what is not known of changes."""

    kind: Kind | None
    consumer_group: str | None = None
    topic: str | None = None
    broker_name: str | None = None


def digest_of(*parts: str | None) -> str:
    """Return 64 hexadecimal digits; a missing part is not the empty one, and no two lists of parts run together."""
    text = "\x1f".join("\x00" if part is None else part for part in parts)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, order=True)
class Subject:
    """What an incident is about; at any time at most one incident per subject is open."""

    cluster: str
    rule_id: str
    consumer_group: str | None
    topic: str | None

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
    commands: tuple[str, ...] = ()  # that the next step names, ready for a shell
    rule_id: str | None = None  # whose finding it is: of one trouble several rules show the stages; None: the subject's
    stage: int = 0  # how far the trouble has come by then
    stacks: ClientStacks | None = None  # what the threads of a client did; None: nobody was asked
    audited: bool = True  # False: made of facts that are not published; the next published ones confirm or close it


@dataclass(frozen=True, slots=True)
class Incident:
    """One incident. Moments are those of intervals and of their rounds, so that a rerun gives the same record."""

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
    changes: tuple[Change, ...] = ()  # of the hour before it, newest first
    first_read_at: datetime | None = None  # when the round had been read that first showed it; None: not kept
    newest_read_at: datetime | None = None  # likewise of the newest one that showed it in the words that it has
    end_read_at: datetime | None = None  # likewise of the first one since then that did not show it, or could not

    @property
    def shown_by(self) -> str:
        """The id of the rule in whose words it stands now; it was opened, and is found again, as `subject` says."""
        return self.evidence.rule_id or self.subject.rule_id

    @property
    def shown_as(self) -> Subject:
        """Its subject with the rule in whose words it stands now: what silences and routes are about."""
        return replace(self.subject, rule_id=self.shown_by)

    @property
    def first_seen_at(self) -> datetime:
        """The moment at which it was first seen: nobody saw the start of the interval."""
        return self.first_read_at or self.opened_at + INTERVAL_LENGTH

    @property
    def newest_seen_at(self) -> datetime:
        """The moment at which it was seen last."""
        return self.newest_read_at or self.last_seen_at + INTERVAL_LENGTH

    @property
    def words_are_old(self) -> bool:
        """Whether the newest round did not show it as its words say."""
        is_found_anew = self.end_read_at is None and self.unknown_since is None
        return self.resolved_at is None and not (is_found_anew and self.newest_seen_at >= self.last_seen_at)

    @property
    def ended_at(self) -> datetime | None:
        """The moment at which its end was seen; None: it was not."""
        return None if self.resolved_at is None else self.end_read_at or self.resolved_at + INTERVAL_LENGTH

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
        """Milliseconds from when it was first seen to when its end was, or to `now`."""
        return max(0, round(((self.ended_at or now) - self.first_seen_at).total_seconds() * 1000))

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
            first_read_at=None if self.first_read_at is None else min(self.first_read_at, interval.start),
            newest_read_at=None if self.newest_read_at is None else min(self.newest_read_at, interval.start),
        )

    def explained(self, interval: Interval) -> Incident:
        """Go on with the words that it has: another stage of it was found, and another finding explains that."""
        return replace(
            self,
            last_seen_at=interval.start,
            end_read_at=None,
            counted_at=interval.start,
            seen_count=self.seen_count + 1,
            good_count=0,
            unknown_since=None,
            unknown_because=None,
        )

    def not_seen(self, interval: Interval, read_at: datetime) -> Incident:
        """Count an interval that was looked at and did not show it: the first one is its end, others confirm that."""
        return replace(
            self,
            end_read_at=self.end_read_at if self.good_count else read_at,
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
            self,
            resolved_at=interval.start,
            resolution=resolution,
            unknown_since=None,
            unknown_because=None,
        )


def worst_first(incident: Incident) -> tuple[int, int, datetime, str]:
    """Sort key: severity, then the worst figure so far, then age; the same incidents always in the same order."""
    return (-incident.evidence.severity.rank, -(incident.peak or 0), incident.opened_at, incident.incident_id)


class EventKind(StrEnum):
    """What may happen to an incident."""

    BEGAN = "began"  # the event itself; pages say it, and no row is kept
    OPENED = "opened"  # its finding
    WORSE = "worse"  # its severity rose
    BETTER = "better"  # its severity fell
    UNKNOWN = "unknown"  # its evidence could not be seen
    VISIBLE = "visible"  # its evidence could be seen again
    CONFIRMED = "confirmed"  # it was told by what had landed, and published facts show it
    ACKNOWLEDGED = "acknowledged"
    ESCALATED = "escalated"
    MUTED = "muted"
    UNMUTED = "unmuted"
    NOTIFIED = "notified"  # a receiver accepted a message that names it
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class IncidentEvent:
    """One thing that happened; `at` is the end of the interval that showed it, or the moment that somebody acted."""

    incident_id: str
    at: datetime
    kind: EventKind
    text: str  # one sentence, mostly of the catalogue
    by: str | None = None  # who did it, where a person did
