"""One incident: its words, its timeline, the course of what it is about, and what was lost in its time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field

from offsetguard.catalogue import Catalogue
from offsetguard.deliver.messages.wording import pasteable
from offsetguard.judge.incident_words import IncidentWords
from offsetguard.lake.reading import numbers_of
from offsetguard.model.incident import EventKind, Incident, IncidentEvent, Subject
from offsetguard.model.intervals import INTERVAL_LENGTH
from offsetguard.model.notification import Acknowledgement, Channel, MuteReason
from offsetguard.model.verdicts import Severity
from offsetguard.model.views import FigureView, QueueView, Record, StackView
from offsetguard.store.notifications import Recipient
from offsetguard.views.course import Band, Course, Span, band_of, course_of, microseconds
from offsetguard.views.group import group_courses, thread_url
from offsetguard.views.incidents import AboutIncidents, IncidentSummary, SilenceLine, silence_lines, summary_of
from offsetguard.views.topic import COURSES as TOPIC_COURSES

EVENTS = 200  # of a timeline, the newest
CLUSTER_COURSES = ("effective_lag", "put_tps", "get_tps")  # of cluster_facts
AROUND = timedelta(hours=1)  # what a course shows before and after


class AskedIncident(BaseModel):
    """One incident."""

    model_config = ConfigDict(frozen=True)

    incident_id: Annotated[str, Field(pattern="^[0-9A-Za-z]{1,32}$")]  # all of it


class EventLine(Record):
    """One thing that happened."""

    at: datetime  # of the event itself; when it was seen, or done
    kind: EventKind
    text: str
    by: str | None  # who did it, where a person did


class RecipientLine(Record):
    """One receiver: what it was told, and why it is told nothing now."""

    team: str
    channel: Channel
    receiver: str
    severity: Severity | None  # as it was last told; None: it was not
    first_notified_at: datetime | None
    reminder_count: int
    muted: MuteReason | None  # None: it is not
    thread_url: str | None  # of its thread in Slack
    undelivered: str | None  # why the newest message did not reach it, as `offsetguard outbox list` says


class IncidentPage(IncidentSummary):
    """One incident: what the list says of it, and all the rest."""

    at: datetime
    cause: str
    do_next: str
    commands: tuple[str, ...]
    audited: bool  # False: told by what has landed, before it was published
    seen_count: int  # intervals that showed it
    peak: str | None  # its worst figure so far
    escalation_level: int  # how often it was escalated
    acknowledged_at: datetime | None
    acknowledgement: str | None  # the comment
    figures: tuple[FigureView, ...]
    queues: tuple[QueueView, ...]  # the worst
    queue_count: int  # all of them
    changes: tuple[str, ...]  # of the hour before it, newest first
    stacks: tuple[StackView, ...]  # what the threads of a client did
    explains: tuple[str, ...]  # findings that have the same cause
    cannot_tell: tuple[str, ...]  # what could not be judged beside it
    silences: tuple[SilenceLine, ...]  # about it, that hold now
    recipients: tuple[RecipientLine, ...]  # who knows of it and not of its end
    timeline: tuple[EventLine, ...]  # first things first
    has_earlier_events: bool
    since: datetime  # of the courses
    until: datetime
    courses: tuple[Course, ...]  # of its group, in its topic if it has one; of its topic; else of its cluster
    band: Band  # where it lies in them
    lost: int | None  # messages that were deleted before its group had consumed them, in its time; None: unknown
    lost_is_least: bool  # of some minutes nothing is known
    unreadable: str | None  # why published facts cannot be read
    console_url: str | None


@dataclass(frozen=True, slots=True)
class IncidentRecords:
    """All that is kept and published about one incident; `history`: as `PublishedFacts.of_subject` gives it."""

    incident: Incident
    acknowledgement: Acknowledgement | None
    recipients: Sequence[Recipient]
    events: Sequence[IncidentEvent]  # at most one more than EVENTS
    history: pa.Table
    since: datetime
    until: datetime
    unreadable: str | None = None  # why `history` has nothing


def incident_page(records: IncidentRecords, about: AboutIncidents) -> IncidentPage:
    """Return one incident."""
    incident, given, words = records.incident, records.acknowledgement, about.words
    evidence, subject, said = incident.evidence, incident.subject, IncidentWords(incident, words.locale)
    since, until = records.since, records.until
    ended_at = min(incident.resolved_at or until, until)
    lost, lost_is_least = lost_within(records.history, incident.opened_at, ended_at)
    return IncidentPage(
        **summary_of(incident, about, given),
        at=about.now,
        cause=said.cause,
        do_next=said.do_next,
        commands=pasteable(said.commands),
        audited=evidence.audited,
        seen_count=incident.seen_count,
        peak=said.peak,
        escalation_level=incident.escalation_level,
        acknowledged_at=given.at if given else None,
        acknowledgement=(given.comment or None) if given else None,
        figures=said.figures(),
        queues=said.queues(len(evidence.queues)),
        queue_count=evidence.queue_count,
        changes=tuple(said.changes()),
        stacks=tuple(said.stacks()),
        explains=tuple(said.explains()),
        cannot_tell=tuple(said.cannot_tell()),
        silences=silence_lines(about.muting(incident)),
        recipients=tuple(_recipient(one) for one in records.recipients),
        timeline=_timeline(records, said, words),
        has_earlier_events=len(records.events) > EVENTS,
        since=since,
        until=until,
        courses=_courses(subject, records.history, since, until),
        band=band_of(incident.opened_at, ended_at, since, until),
        lost=lost,
        lost_is_least=lost_is_least,
        unreadable=records.unreadable,
        console_url=about.config.delivery.console_address(subject.cluster, subject.consumer_group, subject.topic)
        if about.config
        else None,
    )


def span_around(incident: Incident, known_until: datetime) -> tuple[datetime, datetime]:
    """Return from when to when its course is shown: an hour more on both sides, but no more than a month.

    `known_until`: what comes later is not due yet.
    """
    until = max(min((incident.resolved_at or known_until) + AROUND, known_until), incident.opened_at + INTERVAL_LENGTH)
    return max(incident.opened_at - AROUND, until - Span.MONTH.length), until


def lost_within(history: pa.Table, start: datetime, end: datetime) -> tuple[int | None, bool]:
    """Return how many messages were lost in [start, end), and whether more may have been: of a minute nothing is known.

    `lost` of group_facts counts what was deleted before the committed offset, and falls once that moves on: so its
    rises are counted, from the last figure before `start` on. None: not known, or only of some minutes, without loss.
    """
    if "lost" not in history.column_names:
        return None, False
    known = history.filter(pc.is_valid(history["lost"]))
    if not known.num_rows:
        return None, False
    known = known.sort_by([("topic", "ascending"), ("interval_start", "ascending")])
    topics = np.from_dlpack(known["topic"].combine_chunks().dictionary_encode().indices)
    starts_us, lost = numbers_of(known["interval_start"].cast(pa.int64())), numbers_of(known["lost"])
    rises = np.where(np.diff(topics, prepend=-1) == 0, np.diff(lost, prepend=0), lost).clip(0)
    before = starts_us < microseconds(end)
    within = before & (starts_us >= microseconds(start))
    if not before.any():
        return None, False
    counts = np.bincount(topics[within], minlength=topics[before].max() + 1)
    is_least = bool((counts[np.unique(topics[before])] < (end - start) // INTERVAL_LENGTH).any())
    count = int(rises[within].sum())
    return (count, is_least) if count or (within.any() and not is_least) else (None, is_least)


def _courses(subject: Subject, history: pa.Table, since: datetime, until: datetime) -> tuple[Course, ...]:
    if not history.num_rows:
        return ()
    if subject.consumer_group is not None:
        return group_courses(history, since, until)
    figures = CLUSTER_COURSES if subject.topic is None else TOPIC_COURSES
    return tuple(course_of(history, name, since, until) for name in figures)


def _timeline(records: IncidentRecords, said: IncidentWords, words: Catalogue) -> tuple[EventLine, ...]:
    """Return what happened, first things first: the event itself too, where its rule knows the moment."""
    newest = records.events[-EVENTS:]
    lines = [EventLine(at=one.at, kind=one.kind, text=words.read(one.text), by=one.by) for one in newest]
    if said.began_at is not None:
        lines.append(EventLine(at=said.began_at, kind=EventKind.BEGAN, text="", by=None))
    return tuple(sorted(lines, key=lambda one: (one.at, one.kind is not EventKind.BEGAN)))


def _recipient(recipient: Recipient) -> RecipientLine:
    told = recipient.notified
    return RecipientLine(
        team=recipient.team,
        channel=recipient.channel,
        receiver=recipient.receiver,
        severity=told.severity if told else None,
        first_notified_at=recipient.told_at,
        reminder_count=told.repeats if told else 0,
        muted=recipient.muted,
        thread_url=thread_url(recipient),
        undelivered=recipient.undelivered,
    )
