"""The tables of our own database: what was published, judged, opened, and is to be or was sent.

Facts live in Iceberg; here lives what must change in one transaction. Each table has one repository file of its name.
Changing a table = changing it here and adding a file to `migrations/versions/`; a test compares the two.
"""

import enum
from datetime import datetime
from enum import StrEnum

from sqlalchemy import BigInteger, Double, Enum, ForeignKey, Index, Integer, MetaData, String, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, MappedAsDataclass, mapped_column

from offsetguard.model.incident import EventKind
from offsetguard.model.incident import Kind as ChangeKind
from offsetguard.model.intervals import Interval
from offsetguard.model.notification import Channel
from offsetguard.model.verdicts import Basis, Kind, Outcome
from offsetguard.model.views import AnyView, read_view
from offsetguard.store.columns import NAME_LIMIT, Json, UtcDateTime


class Mode(StrEnum):
    """What judging an interval was allowed to do."""

    LIVE = "live"  # changed incidents and could send messages
    LATE = "late"  # changed incidents; older than notify_within_ms: nothing was sent, unless it was asked for
    HISTORY = "history"  # a newer interval had been judged: nothing but this row
    AHEAD = "ahead"  # lay ahead of an interval that was judged later: counts as not judged


class Status(StrEnum):
    """What became of a message in the outbox."""

    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"  # sending the same again cannot help; kept until it is re-driven or dismissed
    OFF = "off"  # its receiver wants nothing any more: re-driving or dismissing all that are off switches it on again
    DISMISSED = "dismissed"  # failed, and an operator has looked: nobody will get it
    MERGED = "merged"  # too many waited: a digest that took its place says it


# SQLite counts rows by itself only in a column of type INTEGER
_RowNumber = BigInteger().with_variant(Integer(), "sqlite")


class Base(DeclarativeBase):
    """Base of all models; constraint names are fixed so that later migrations can name them."""

    metadata = MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "uq": "uq_%(table_name)s_%(column_0_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s",
        }
    )
    type_annotation_map = {  # noqa: RUF012 SQLAlchemy's form
        datetime: UtcDateTime(),
        str: String(NAME_LIMIT),
        int: BigInteger(),
        enum.Enum: Enum(
            enum.Enum, native_enum=False, length=NAME_LIMIT, values_callable=lambda kind: [one.value for one in kind]
        ),
    }


class PublishedIntervalRow(Base):
    """One published interval of a cluster: the snapshot ids make all tables visible at once."""

    __tablename__ = "published_intervals"
    __table_args__ = (Index("ix_published_intervals_published_at", "cluster", "published_at"),)

    cluster: Mapped[str] = mapped_column(primary_key=True)
    interval_start: Mapped[datetime] = mapped_column(primary_key=True)
    run_id: Mapped[str] = mapped_column(Text)
    published_at: Mapped[datetime]
    verdict: Mapped[str]
    snapshot_ids: Mapped[dict[str, int]] = mapped_column(Json)  # Iceberg table name -> snapshot id
    manifest_json: Mapped[str] = mapped_column(Text)
    settled: Mapped[bool] = mapped_column(default=False)  # its ids stand in settled_snapshots now


class ChangeRow(Base):
    """Something that was other than before; see `model.changes.NamedChange`. Names are empty where they are None."""

    __tablename__ = "changes"

    cluster: Mapped[str] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(primary_key=True)
    identity: Mapped[str] = mapped_column(String(32), primary_key=True)  # of what it is of: see `store.changes`
    interval_start: Mapped[datetime]  # that showed it
    kind: Mapped[ChangeKind | None]
    consumer_group: Mapped[str]
    topic: Mapped[str]
    broker_name: Mapped[str]
    what_json: Mapped[str] = mapped_column(Text)  # a sentence: see `store.columns.to_json`

    __table_args__ = (
        Index("ix_changes_interval_start", "cluster", "interval_start"),
        # all that changes are counted and chosen by, so that no texts are read for it
        Index("ix_changes_listed", "cluster", "at", "consumer_group", "topic", "broker_name", "identity", "kind"),
    )


class RecordedChangesRow(Base):
    """A published interval of which it is written down what changed."""

    __tablename__ = "recorded_changes"

    cluster: Mapped[str] = mapped_column(primary_key=True)
    interval_start: Mapped[datetime] = mapped_column(primary_key=True)
    run_id: Mapped[str] = mapped_column(Text)  # that published what was compared


class SettledSnapshotsRow(Base):
    """The one row of the snapshots that hold every settled interval; see `store.published_intervals`."""

    __tablename__ = "settled_snapshots"

    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)  # always 1
    snapshot_ids: Mapped[dict[str, int]] = mapped_column(Json)  # Iceberg table name -> snapshot id
    kept_from: Mapped[dict[str, str]] = mapped_column(Json)  # table name -> oldest interval start kept, ISO 8601
    settled_at: Mapped[datetime]


class CycleRow(MappedAsDataclass, Base):
    """One run of a publication, from its begin on. Figures of steps that it did not reach are missing."""

    __tablename__ = "cycles"

    cluster: Mapped[str] = mapped_column(primary_key=True)
    interval_start: Mapped[datetime] = mapped_column(primary_key=True)
    run_id: Mapped[str] = mapped_column(primary_key=True)
    started_at: Mapped[datetime]
    finished_at: Mapped[datetime]  # of one that runs or was killed: when its newest step began
    verdict: Mapped[str | None]  # what became of the interval; None: it failed, or runs
    error: Mapped[str | None] = mapped_column(Text, default=None)  # why it failed
    failed_step: Mapped[str | None] = mapped_column(default=None)  # the step that it was in, or is in
    seconds: Mapped[dict[str, float]] = mapped_column(Json, default_factory=dict)  # step -> how long, in their order
    rows: Mapped[dict[str, int]] = mapped_column("row_counts", Json, default_factory=dict)  # table -> of the interval
    files: Mapped[dict[str, int]] = mapped_column(
        "file_counts", Json, default_factory=dict
    )  # table -> data files of all intervals
    violations: Mapped[dict[str, int]] = mapped_column(Json, default_factory=dict)  # invariant -> those above 0
    duplicates: Mapped[int | None] = mapped_column(default=None)  # landed rows that repeated a key
    quarantined: Mapped[int | None] = mapped_column(default=None)  # rows left out of the facts
    running_under: Mapped[str | None] = mapped_column(default=None)  # token of its lock; None: it has ended

    __table_args__ = (Index("ix_cycles_started_at", "started_at"),)

    @property
    def interval(self) -> Interval:
        """What it was to publish."""
        return Interval(self.interval_start)

    @property
    def failed(self) -> bool:
        """It ended with an error; readers see its rows only if it failed after the step `show`."""
        return self.verdict is None and self.running_under is None

    @property
    def duration_s(self) -> float:
        """Seconds from start to end, waiting for other publications included."""
        return (self.finished_at - self.started_at).total_seconds()


class JudgedIntervalRow(MappedAsDataclass, Base):
    """What judging one interval of a cluster gave; its presence makes judging again a no-op."""

    __tablename__ = "judged_intervals"

    cluster: Mapped[str] = mapped_column(primary_key=True)
    interval_start: Mapped[datetime] = mapped_column(primary_key=True)
    judged_at: Mapped[datetime]
    mode: Mapped[Mode]
    finding_count: Mapped[int]
    opened_count: Mapped[int]
    resolved_count: Mapped[int]
    message_count: Mapped[int]


class IncidentRow(Base):
    """One incident: a finding over time. `open_key` is set while it is open: one open incident per finding."""

    __tablename__ = "incidents"

    incident_id: Mapped[str] = mapped_column(String(32), primary_key=True)
    open_key: Mapped[str | None] = mapped_column(String(64), unique=True)
    cluster: Mapped[str]
    rule_id: Mapped[str]
    consumer_group: Mapped[str | None]
    topic: Mapped[str | None]
    severity: Mapped[str]
    state: Mapped[str]
    opened_at: Mapped[datetime]  # start of the interval that first showed it
    last_seen_at: Mapped[datetime]  # start of the newest interval that showed it
    seen_count: Mapped[int]
    unknown_since: Mapped[datetime | None]
    resolved_at: Mapped[datetime | None]
    resolution: Mapped[str | None] = mapped_column(Text)
    is_pending: Mapped[bool] = mapped_column(default=False)  # nobody was notified yet
    record_json: Mapped[str] = mapped_column(Text)  # evidence and counts: see `store.incidents`

    __table_args__ = (
        # all that lists of incidents ask for, so that they read no records; beside an index that begins with `cluster`
        # SQLite would not take it. PostgreSQL's B-tree has 2,704 bytes for an entry: the longest names have 2,300
        Index(
            "ix_incidents_listed",
            *("resolved_at", "incident_id", "severity", "cluster", "rule_id", "consumer_group", "topic"),
            *("opened_at", "is_pending"),
        ),
    )


class IncidentEventRow(Base):
    """One thing that happened to an incident; see `model.incident.IncidentEvent`."""

    __tablename__ = "incident_events"
    __table_args__ = (
        Index("ix_incident_events_incident", "incident_id", "id"),
        Index("ix_incident_events_kind", "kind", "at"),
    )

    id: Mapped[int] = mapped_column(_RowNumber, primary_key=True, autoincrement=True)
    incident_id: Mapped[str] = mapped_column(String(32))
    at: Mapped[datetime]
    kind: Mapped[EventKind]
    text: Mapped[str] = mapped_column(Text)  # English
    said_json: Mapped[str | None] = mapped_column(Text)  # the same for every reader: see `store.columns.to_json`
    by: Mapped[str | None]


class AcknowledgementRow(Base):
    """Somebody looks after an incident; the newest one counts. See `model.notification.Acknowledgement`."""

    __tablename__ = "acknowledgements"
    __table_args__ = (Index("ix_acknowledgements_incident", "incident_id", "id"),)

    id: Mapped[int] = mapped_column(_RowNumber, primary_key=True, autoincrement=True)
    incident_id: Mapped[str] = mapped_column(String(32), ForeignKey("incidents.incident_id"))
    author: Mapped[str]
    comment: Mapped[str] = mapped_column(Text)
    at: Mapped[datetime]


class SilenceRow(Base):
    """Incidents that somebody wants to hear nothing of for a time; see `model.notification.Silence`."""

    __tablename__ = "silences"
    __table_args__ = (Index("ix_silences_ends_at", "ends_at"),)

    id: Mapped[int] = mapped_column(_RowNumber, primary_key=True, autoincrement=True)
    matchers: Mapped[dict[str, str]] = mapped_column(Json)  # those that are set: cluster, consumer_group, topic, ...
    author: Mapped[str]
    comment: Mapped[str] = mapped_column(Text)
    starts_at: Mapped[datetime]
    ends_at: Mapped[datetime]
    created_at: Mapped[datetime]
    expired_at: Mapped[datetime | None]  # ended before its time


class OutboxRow(MappedAsDataclass, Base, kw_only=True):
    """One message to one receiver; stays here until it is accepted, and then as long as `store.ageing` says.

    Whoever reads it has it as it stood then; `claimed_until` identifies the reader's claim.
    """

    __tablename__ = "outbox"

    id: Mapped[int] = mapped_column(_RowNumber, primary_key=True, autoincrement=True, init=False)
    idempotency_key: Mapped[str] = mapped_column(String(64), unique=True)
    channel: Mapped[Channel]
    receiver: Mapped[str]  # mail address, Slack channel, or Airflow connection of a webhook
    team: Mapped[str]
    cluster: Mapped[str]
    rule_id: Mapped[str]
    thread_key: Mapped[str]
    interval_start: Mapped[datetime]
    view_json: Mapped[str] = mapped_column(Text)  # see `view`
    created_at: Mapped[datetime]
    status: Mapped[Status]
    attempts: Mapped[int]  # attempts started, that of a claim included
    next_attempt_at: Mapped[datetime]
    claimed_until: Mapped[datetime | None] = mapped_column(default=None)
    last_error: Mapped[str | None] = mapped_column(Text, default=None)
    is_details: Mapped[bool] = mapped_column(default=False)  # of a message before it: no message and no state by itself

    __table_args__ = (
        Index("ix_outbox_status_next_attempt_at", "status", "next_attempt_at"),
        Index("ix_outbox_lane", "status", "channel", "receiver", "id"),
        Index("ix_outbox_thread", "thread_key", "receiver", "status"),
        Index("ix_outbox_created_at", "status", "created_at"),
        Index("ix_outbox_team", "team", "created_at"),
    )

    @property
    def view(self) -> AnyView:
        """What the message says; raises pydantic.ValidationError when it lacks what every message has."""
        return read_view(self.view_json)


class NotificationLogRow(MappedAsDataclass, Base, kw_only=True):
    """A receiver accepted a message: written in the transaction that marks the outbox row as sent."""

    __tablename__ = "notification_log"

    id: Mapped[int] = mapped_column(_RowNumber, primary_key=True, autoincrement=True, init=False)
    outbox_id: Mapped[int] = mapped_column(_RowNumber, ForeignKey("outbox.id"), unique=True)
    channel: Mapped[Channel]
    receiver: Mapped[str]
    thread_key: Mapped[str]
    accepted_at: Mapped[datetime]
    receipt: Mapped[str] = mapped_column(Text)  # Message-ID of the mail, `channel ts` of the Slack message

    __table_args__ = (
        Index("ix_notification_log_thread", "thread_key", "receiver"),
        Index("ix_notification_log_receiver", "channel", "receiver", "id"),
    )


class SendBudgetRow(Base):
    """How many messages a receiver may be sent at a moment; see `store.notifications`."""

    __tablename__ = "send_budgets"

    channel: Mapped[Channel] = mapped_column(primary_key=True)
    receiver: Mapped[str] = mapped_column(primary_key=True)
    left: Mapped[float]  # at that moment; below 0 where two deliverers took one at the same time
    at: Mapped[datetime]


class LastNotificationRow(Base):
    """What a receiver was last notified of about one (team, cluster, rule); see `model.notification.Notified`."""

    __tablename__ = "last_notifications"
    __table_args__ = (Index("ix_last_notifications_cluster", "cluster"),)

    key: Mapped[str] = mapped_column(String(64), primary_key=True)  # digest of NotificationKey
    team: Mapped[str]
    cluster: Mapped[str]
    rule_id: Mapped[str]
    channel: Mapped[Channel]
    receiver: Mapped[str] = mapped_column(Text)
    notified_at: Mapped[datetime | None]  # start of the interval of the last message
    thread_key: Mapped[str]
    firing_json: Mapped[str] = mapped_column(Text)  # incident id -> model.notification.NotifiedIncident
    muted_json: Mapped[str] = mapped_column(Text)  # incident id -> muting.MuteReason
    repeat_count: Mapped[int]
    ended: Mapped[str | None]  # the worst severity of the spell that has ended


class ForecastRow(Base):
    """One forecast of a (consumer group, topic); see `model.verdicts.Stated`. Open until its outcome is known."""

    __tablename__ = "forecasts"
    __table_args__ = (Index("ix_forecasts_open", "cluster", "outcome"), Index("ix_forecasts_made_at", "made_at"))

    id: Mapped[int] = mapped_column(_RowNumber, primary_key=True, autoincrement=True)
    cluster: Mapped[str]
    consumer_group: Mapped[str]
    topic: Mapped[str]
    kind: Mapped[Kind]
    made_at: Mapped[datetime]  # end of the interval that it was made of
    low_ms: Mapped[int]
    high_ms: Mapped[int]
    basis: Mapped[Basis]
    outcome: Mapped[Outcome | None]  # None: not known yet
    known_at: Mapped[datetime | None]  # end of the interval that showed it


class ForecastScoresRow(Base):
    """How many forecasts of a cluster, kind and basis had which outcome, by the day (UTC) on which it became known."""

    __tablename__ = "forecast_scores"

    cluster: Mapped[str] = mapped_column(primary_key=True)
    day: Mapped[datetime] = mapped_column(primary_key=True)
    kind: Mapped[Kind] = mapped_column(primary_key=True)
    basis: Mapped[Basis] = mapped_column(primary_key=True)
    inside_count: Mapped[int]
    early_count: Mapped[int]
    late_count: Mapped[int]
    void_count: Mapped[int]


class BrokerMarkRow(Base):
    """How far a master's commit log reached at a moment; see `model.fact_records.BrokerMark`."""

    __tablename__ = "broker_marks"

    cluster: Mapped[str] = mapped_column(primary_key=True)
    broker_name: Mapped[str] = mapped_column(primary_key=True)
    at: Mapped[datetime] = mapped_column(primary_key=True)
    commit_log_min_offset: Mapped[int]
    commit_log_max_offset: Mapped[int]
    earliest_message_at: Mapped[datetime | None]
    disk_ratio: Mapped[float | None] = mapped_column(Double)


class AbsenceRow(Base):
    """A time in which no client of a consumer group was online; see `store.judge_memory`."""

    __tablename__ = "absences"

    cluster: Mapped[str] = mapped_column(primary_key=True)
    consumer_group: Mapped[str] = mapped_column(primary_key=True)
    began_at: Mapped[datetime] = mapped_column(primary_key=True)  # the first look without a client
    ended_at: Mapped[datetime | None]  # the first one with a client again; NULL: it goes on
    seen_at: Mapped[datetime | None]  # of one that goes on: a look of the last day; NULL: none but the first


class LockRow(Base):
    """Who holds a lock, and until when; see `store.locks`."""

    __tablename__ = "locks"

    name: Mapped[str] = mapped_column(primary_key=True)
    token: Mapped[str]  # of the block of code that holds it
    holder: Mapped[str]  # for people
    process: Mapped[str]  # boot, process namespace, number and start: whether it lives can be seen from its own host
    held_since: Mapped[datetime]
    held_until: Mapped[datetime]
