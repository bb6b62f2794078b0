"""The manifest of a landed snapshot: what was asked, what answered, what did not, and how far events were read.

The ledger of a round counts every request by its outcome, and keeps the gaps that they leave, for the manifest.
"""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from pydantic import NonNegativeInt, TypeAdapter

from offsetguard.model import errors
from offsetguard.model.fact_records import CollectionGap, UnseenBrokerFacts, VanishedFacts
from offsetguard.sources.logs.log_files import LogCursor

GAPS_FILE_NAME = "gaps.jsonl"  # beside it: everything that was not seen, one Gap per line


class Outcome(StrEnum):
    """What became of one request."""

    ANSWERED = "answered"
    REFUSED = "refused"  # a response code other than SUCCESS
    TIMED_OUT = "timed_out"
    UNREACHABLE = "unreachable"  # no connection
    CONNECTION_LOST = "connection_lost"  # closed before the answer
    UNDECODABLE = "undecodable"
    NOT_RECORDED = "not_recorded"  # a bundle or state files do not hold it


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCounts:
    """Requests of one round; `asked` is the sum of all outcomes."""

    asked: NonNegativeInt = 0
    answered: NonNegativeInt = 0
    refused: NonNegativeInt = 0
    timed_out: NonNegativeInt = 0
    unreachable: NonNegativeInt = 0
    connection_lost: NonNegativeInt = 0
    undecodable: NonNegativeInt = 0
    not_recorded: NonNegativeInt = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EventCursor:
    """How far OFFSET_MOVED_EVENT of one broker was read; the newest landed manifest *is* the durable cursor."""

    broker_name: str
    from_offset: NonNegativeInt  # first event offset asked for in this round
    next_offset: NonNegativeInt  # where the next round goes on
    note: str | None = None  # e.g. the topic was recreated: reading starts again at its min offset


@dataclass(frozen=True, slots=True, kw_only=True)
class NotAsked:
    """Something left out on purpose, e.g. details of groups that are provably healthy: not a gap, yet not seen."""

    what: str
    count: NonNegativeInt
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingMaster:
    """A master that an earlier round listed and the name server does not list any more."""

    broker_name: str
    address: str  # where it was
    missing_since: datetime  # start of the first interval without it


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Something asked for and not seen; see `facts.CollectionGap`."""

    address: str
    broker_name: str | None = None  # None: of no broker, a name server for one
    broker_id: int | None = None
    what: str
    outcome: Outcome
    reason: str

    def to_json(self) -> str:
        """Return one line of JSON."""
        return _GAP.dump_json(self).decode()

    @property
    def kind(self) -> str:
        """What gaps are counted by, e.g. `timed_out GET_TOPIC_STATS_INFO`."""
        return f"{self.outcome.value} {self.what.partition('(')[0]}"

    def as_fact(self, first_missed_at: datetime | None = None) -> CollectionGap:
        """Return the record that rules read."""
        return CollectionGap(
            self.address, self.broker_name, self.broker_id, self.what, self.outcome.value, self.reason, first_missed_at
        )


@dataclass(frozen=True, slots=True)
class Deletion:
    """What a line of a broker's log says was deleted there, a topic or a consumer group."""

    name: str
    is_group: bool
    broker_name: str
    at: datetime
    thread: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Written last into a landed snapshot; a folder without one is not a snapshot."""

    cluster: str
    interval_start: datetime
    started_at: datetime
    finished_at: datetime
    requests: RequestCounts
    gaps: tuple[Gap, ...] = ()  # at most MAX_GAPS; gap_count has them all
    gap_count: NonNegativeInt = 0
    gap_kinds: dict[str, NonNegativeInt] = field(
        default_factory=dict
    )  # e.g. "timed_out GET_TOPIC_STATS_INFO" -> how often; gaps.jsonl names each one
    row_counts: dict[str, NonNegativeInt]  # table name -> landed rows
    event_cursors: tuple[EventCursor, ...] = ()
    log_cursors: tuple[LogCursor, ...] = ()
    not_asked: tuple[NotAsked, ...] = ()
    master_broker_names: tuple[str, ...] = ()  # masters that the name server lists, or that the last round listed
    unseen_broker_names: tuple[str, ...] = ()  # of these, the ones that gave no offsets
    unseen_brokers: tuple[UnseenBrokerFacts, ...] = ()  # these, with what lay there, and slaves that answered nothing
    gap_kinds_since: dict[str, datetime] = field(
        default_factory=dict
    )  # start of the first of the rounds in a row that had the kind; empty: no round before this one
    missing_masters: tuple[MissingMaster, ...] = ()  # remembered for a day, then taken for removed on purpose
    vanished: tuple[VanishedFacts, ...] = ()  # topics and groups that masters have no longer; remembered likewise
    deletions: tuple[Deletion, ...] = ()  # that came after the settings were read, or of a master that gave none
    cluster_unseen: bool = False  # no name server answered
    format: int = 1

    def to_json(self, indent: int | None = None) -> str:
        """Return the text that `from_json` reads; the same manifest always gives the same text."""
        return _MANIFEST.dump_json(self, indent=indent).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> "Manifest":
        """Read the text of a manifest; raises pydantic's ValidationError, a ValueError."""
        return _MANIFEST.validate_json(text)

    def gap_facts(self) -> tuple[CollectionGap, ...]:
        """Return the gaps as rules read them."""
        return tuple(gap.as_fact(self._first_missed_at(gap)) for gap in self.gaps)

    def _first_missed_at(self, gap: Gap) -> datetime | None:
        """Return since when gaps of its kind come; what stands for others ("the rest ...") is of theirs."""
        alike = [at for kind, at in self.gap_kinds_since.items() if kind.startswith(f"{gap.outcome.value} ")]
        return self.gap_kinds_since.get(gap.kind) or min(alike, default=None)

    @property
    def row_count(self) -> int:
        """Rows that landed, of all tables."""
        return sum(self.row_counts.values())

    @property
    def complete(self) -> bool:
        """Everything that was asked for was seen."""
        return self.gap_count == 0 and not self.unseen_broker_names and not self.cluster_unseen


_GAP, _MANIFEST = TypeAdapter(Gap), TypeAdapter(Manifest)
MAX_GAPS = 200
MAX_HIDDEN_GROUPS = 100


MAX_LISTED = 100_000  # lines of gaps.jsonl; a whole cluster's worth

_OUTCOMES: tuple[tuple[type[errors.RocketMQError], Outcome], ...] = (
    (errors.BrokerRefused, Outcome.REFUSED),
    (errors.RequestTimedOut, Outcome.TIMED_OUT),
    (errors.PeerUnreachable, Outcome.UNREACHABLE),
    (errors.UndecodableResponse, Outcome.UNDECODABLE),
    (errors.ConnectionLost, Outcome.CONNECTION_LOST),
    (errors.NotRecorded, Outcome.NOT_RECORDED),
)


def outcome_of(error: errors.RocketMQError) -> Outcome:
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
