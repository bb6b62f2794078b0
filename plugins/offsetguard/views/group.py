"""One consumer group: what is wrong and what to do, its course, its topics, queues and members, what changed."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ConfigDict

from offsetguard.catalogue import Catalogue
from offsetguard.config.file import ConfigFile
from offsetguard.deliver.messages.wording import pasteable
from offsetguard.judge.incident_words import IncidentWords
from offsetguard.lake.reading import numbers_of
from offsetguard.model.incident import Incident, Kind, NamedChange
from offsetguard.model.intervals import INTERVAL_LENGTH
from offsetguard.model.offsets import sum_of_known
from offsetguard.model.verdicts import Severity, Stated
from offsetguard.model.views import Record
from offsetguard.store.changes import About
from offsetguard.store.notifications import Recipient
from offsetguard.views.course import WIDTH, AskedSpan, Band, Course, Name, band_of, course_of
from offsetguard.views.fleet import Trust
from offsetguard.views.outlook import (
    LossInSight,
    Outlook,
    is_behind,
    kept_since,
    loss_in_sight,
    outlooks,
    place_by_age,
)

COURSES = ("effective_lag", "lag_ms", "produce_tps", "consume_tps")
READ = ("interval_start", "topic", "unknown_queue_count", "broker_count")  # what was read, beside them
HELD = ("queue_count", "held_queue_count", "told_client_count", "online_client_count")  # who held the queues
UNHELD = "unheld_queue_count"  # made of these
REBALANCES = 20  # the newest
QUEUES = 20  # the worst
INCIDENTS = 50  # the newest
MARKS = 100  # likewise
LIMITS = ("max_lag_messages", "max_lag_ms", "allowed_lag", "lag_floor", "lag_floor_ms", "window_ms", "loss_horizon_ms")


class AskedGroup(AskedSpan):
    """One consumer group."""

    consumer_group: Name  # case matters


class TopicLine(Record):
    """The group in one topic."""

    topic: str
    queue_count: int | None = None
    unknown_queue_count: int | None = None
    suspect_queue_count: int | None = None
    effective_lag: int | None = None
    inflight: int | None = None
    lost: int | None = None
    beyond_end: int | None = None
    lag_ms: int | None = None
    produce_tps: float | None = None
    consume_tps: float | None = None
    violated_invariants: tuple[str, ...] = ()


class Retained(Record):
    """What is kept of a queue, from min to max, with the committed offset in it, before it or beyond it: as a picture.

    `pieces` are of the messages that were deleted unconsumed, are consumed, wait, and lie beyond the end; or one of all
    that are kept where nobody knows what was committed.
    """

    pieces: tuple[tuple[str, Band], ...]
    committed: float | None  # its place


class QueueLine(Record):
    """One queue that is not provably healthy."""

    topic: str
    broker_name: str
    queue_id: int
    min_offset: int | None = None
    consumer_offset: int | None = None
    pull_offset: int | None = None
    max_offset: int | None = None
    effective_lag: int | None = None
    beyond_end: int | None = None
    lag_ms: int | None = None
    holder_client_id: str | None = None  # the member that says it holds the queue; None: none said so
    holder_count: int | None = None  # members that say so; None: likewise

    @property
    def retained(self) -> Retained | None:
        """What is drawn of it; None: nobody knows which messages are kept."""
        first, end, committed = self.min_offset, self.max_offset, self.consumer_offset
        if first is None or end is None:
            return None
        at = first if committed is None else committed
        low, high = min(first, at), max(end, at)

        def place(offset: int) -> float:
            return WIDTH * (offset - low) / max(high - low, 1)

        pieces = (("deleted", at, first), ("consumed", first, min(at, end)), ("waiting", max(first, at), end))
        drawn = (*pieces, ("beyond", end, at)) if committed is not None else (("untold", first, end),)
        return Retained(
            pieces=tuple((name, Band(x=place(a), width=place(b) - place(a))) for name, a, b in drawn if a < b),
            committed=None if committed is None else place(committed),
        )


class MemberLine(Record):
    """One connected client."""

    client_id: str
    client_address: str | None = None
    language: str | None = None
    client_version_name: str | None = None
    own_subscriptions: tuple[str, ...] | None = None
    held_queue_count: int | None = None
    thread_count: int | None = None
    consume_rt_ms: float | None = None
    consumer_start_at: datetime | None = None
    lag: int | None = None  # messages in the queues that it says it holds: what is known; null: it did not say
    beyond_end: int | None = None  # likewise
    unknown_queue_count: int | None = None  # of these, or of all of the group, those of which nothing is known


class IncidentLine(Record):
    """One incident about the group, open or over, that was open within the span."""

    incident_id: str
    rule_id: str
    severity: Severity
    summary: str
    cause: str
    do_next: str
    commands: tuple[str, ...]
    thread_urls: tuple[str, ...]  # of its threads in Slack
    opened_at: datetime  # when it was first seen
    resolved_at: datetime | None  # when its end was seen
    resolution: str | None
    band: Band  # in the pictures


class LimitLine(Record):
    """A threshold that is in effect for the group, and the place of the configuration that says so."""

    name: str  # a field of `groups`; its suffix tells the unit
    value: int
    match: str | None  # the pattern of the entry of `groups` that sets it; null: the default
    file: str | None  # where that stands; null: the default
    line: int | None  # of the file


class ChangeLine(Record):
    """Something that changed."""

    at: datetime
    what: str
    band: Band


class Mark(ChangeLine):
    """A change of a kind that has its own mark in the pictures."""

    kind: Kind


class Rebalances(Record):
    """How often queues were dealt out anew within the span, and how long some had no holder."""

    count: int  # how often members came or went
    moves: tuple[ChangeLine, ...]  # who did, newest first
    unheld_ms: int | None  # of the minutes in which a queue had no holder; null: clients never said what they hold
    longest_unheld_ms: int | None  # of these, minutes on end
    most_unheld: int | None  # queues at once


class GroupView(Record):
    """The whole view."""

    at: datetime
    asked: AskedGroup
    trust: Trust
    facts_of: datetime | None
    since: datetime
    until: datetime
    open: tuple[IncidentLine, ...]  # worst first
    over: tuple[IncidentLine, ...]  # what ended last first
    courses: tuple[Course, ...]
    topics: tuple[TopicLine, ...]  # what waits longest first
    queues: tuple[QueueLine, ...]  # the worst first
    queue_count: int  # of all that are not provably healthy
    members: tuple[MemberLine, ...]
    changes: tuple[ChangeLine, ...]  # in the hour before the newest facts, newest first
    marks: tuple[Mark, ...]  # what changed within the span, newest first
    rebalances: Rebalances
    outlooks: tuple[Outlook, ...]  # that of its backlog, and that of the first loss; missing: unknown, or none in sight
    loss_in_sight: LossInSight
    is_behind: bool  # messages wait that are older than a minute, or may: queues or ages are not known
    kept_since: datetime | None  # every broker of the cluster keeps messages since then
    team: str | None  # None: the configuration cannot be read
    limits: tuple[LimitLine, ...]
    console_url: str | None = None


class GroupRows(Record):
    """What was published of the group, as rows of tables: of the newest interval, and of the span."""

    model_config = ConfigDict(arbitrary_types_allowed=True, frozen=True)

    facts_of: datetime | None
    history: pa.Table  # READ, HELD and COURSES of group_facts, a row for each topic and interval
    topics: Sequence[dict[str, Any]]
    queues: Sequence[dict[str, Any]]
    clients: Sequence[dict[str, Any]]
    brokers: Sequence[dict[str, Any]] = ()  # all of the cluster


def what_concerns(asked: AskedGroup, rows: GroupRows) -> About:
    """Return whose changes stand on the page: the group's, of its topics, and of brokers it has members or waits on."""
    return About(
        asked.consumer_group,
        topics=[row["topic"] for row in rows.topics],
        broker_names={row["broker_name"] for row in (*rows.clients, *rows.queues)},
        in_any_topic=True,
    )


def group_courses(history: pa.Table, since: datetime, until: datetime) -> tuple[Course, ...]:
    """Return the courses of a group over all its topics: messages and rates are sums, ages maxima.

    Where a queue of any topic was not read, they are of the others: `at_least`.
    """
    partly = _partly_read(history)
    how = {name: np.maximum if name.endswith("_ms") else np.add for name in COURSES}
    return tuple(course_of(history, name, since, until, how[name], partly_us=partly) for name in COURSES)


def _partly_read(history: pa.Table) -> np.ndarray[Any, Any]:
    """Return the starts of intervals in which a queue of any topic was not read, microseconds since 1970.

    The queues of a master that does not answer are in no facts: a topic lies on fewer brokers then than before.
    """
    unread = _starts_us(history)[numbers_of(history["unknown_queue_count"]) > 0]
    counted = history.filter(pc.is_valid(history["broker_count"]))
    counted = counted.sort_by([("topic", "ascending"), ("interval_start", "ascending")])
    topics = np.from_dlpack(counted["topic"].combine_chunks().dictionary_encode().indices).astype(np.int64)
    lies_on = (topics << 32) + numbers_of(counted["broker_count"])
    return np.concatenate([unread, _starts_us(counted)[lies_on < np.maximum.accumulate(lies_on)]])


def _starts_us(history: pa.Table) -> np.ndarray[Any, Any]:
    return numbers_of(history["interval_start"].cast(pa.int64()))


def unheld_queues(history: pa.Table) -> pa.Table:
    """Return UNHELD of each interval in which all clients of the group said which queues they hold, oldest first.

    `history`: with READ and HELD. Of a group without clients nothing is said, nor where not all queues were read.
    """
    told = pc.equal(history["told_client_count"], history["online_client_count"])
    known = history.filter(pc.and_(told, pc.is_valid(pc.subtract(history["queue_count"], history["held_queue_count"]))))
    free = (numbers_of(known["queue_count"]) - numbers_of(known["held_queue_count"])).clip(0)
    starts_us, places = np.unique(_starts_us(known), return_inverse=True)
    counts = np.bincount(places, weights=free, minlength=len(starts_us)).astype(np.int64)
    read = ~np.isin(starts_us, _partly_read(history))
    starts, counts = (  # `pa.array` imports pandas
        pa.Array.from_buffers(pa.int64(), len(one), [None, pa.py_buffer(one)])
        for one in (starts_us[read], counts[read])
    )
    return pa.table({"interval_start": starts.cast(history["interval_start"].type), UNHELD: counts})


def rebalances_of(unheld: pa.Table, count: int, moves: Sequence[ChangeLine]) -> Rebalances:
    """Return the rebalances of a span; `unheld`: as `unheld_queues` gives it; `moves`: the newest."""
    counts, starts_us = numbers_of(unheld[UNHELD]), _starts_us(unheld)
    minutes = starts_us[counts > 0] // (INTERVAL_LENGTH // timedelta(microseconds=1))
    lasted = np.bincount(minutes - np.arange(len(minutes)) - minutes[0]).max() if len(minutes) else 0
    minute_ms = INTERVAL_LENGTH // timedelta(milliseconds=1)
    known = bool(len(counts))
    return Rebalances(
        count=count,
        moves=tuple(moves),
        unheld_ms=len(minutes) * minute_ms if known else None,
        longest_unheld_ms=int(lasted) * minute_ms if known else None,
        most_unheld=int(counts.max()) if known else None,
    )


def topic_lines(rows: Sequence[dict[str, Any]]) -> tuple[TopicLine, ...]:
    """Return a group's topics, what waits longest first."""
    lines = [TopicLine(**{name: row[name] for name in TopicLine.model_fields}) for row in rows]
    return tuple(sorted(lines, key=lambda one: (*place_by_age(one.lag_ms, one.effective_lag), one.topic)))


def queue_lines(rows: Sequence[dict[str, Any]]) -> tuple[QueueLine, ...]:
    """Return the worst queues."""
    lines = [QueueLine(**{name: row[name] for name in QueueLine.model_fields}) for row in rows]
    order = sorted(lines, key=lambda one: (*place_by_age(one.lag_ms, one.effective_lag), one.topic, one.queue_id))
    return tuple(order[:QUEUES])


def member_lines(rows: GroupRows) -> tuple[MemberLine, ...]:
    """Return each client once: several brokers see the same one, and only one of them says what it does.

    In a queue of theirs that is not listed nothing waits, unless queues of the group were not read.
    """
    by_client: dict[str, dict[str, Any]] = {}
    for row in rows.clients:
        known = by_client.setdefault(row["client_id"], {})
        known.update({name: row[name] for name in MemberLine.model_fields if row.get(name) is not None})
    unread = sum(row["unknown_queue_count"] or 0 for row in rows.topics)
    lines = []
    for client in sorted(by_client):
        held = [row for row in rows.queues if row["holder_client_id"] == client]
        lags = [row["effective_lag"] for row in held]
        line = MemberLine(**by_client[client])
        if line.held_queue_count is not None:
            waits = {
                "lag": sum(one or 0 for one in lags),
                "beyond_end": sum_of_known(row["beyond_end"] for row in held),
                "unknown_queue_count": lags.count(None) + unread,
            }
            line = line.model_copy(update=waits)
        lines.append(line)
    return tuple(lines)


def limit_lines(file: ConfigFile, cluster: str, consumer_group: str) -> tuple[LimitLine, ...]:
    """Return the thresholds that are in effect for the group."""
    config = file.config
    policy, deciders = config.policy(cluster, consumer_group), config.policy_deciders(cluster, consumer_group)
    lines = []
    for name in LIMITS:
        place = deciders.get(name)
        line = LimitLine(name=name, value=getattr(policy, name), match=None, file=None, line=None)
        if place is not None:
            where = {"match": config.groups[place].match, "line": file.document.line(("groups", place, name))}
            line = line.model_copy(update={**where, "file": file.path.name})
        lines.append(line)
    return tuple(lines)


def incident_line(
    incident: Incident, words: Catalogue, since: datetime, until: datetime, recipients: Iterable[Recipient] = ()
) -> IncidentLine:
    """Return an incident in the reader's words, and where it lies in the pictures."""
    said = IncidentWords(incident, words.locale)
    return IncidentLine(
        incident_id=incident.incident_id,
        rule_id=incident.shown_by,
        severity=incident.evidence.severity,
        summary=said.summary,
        cause=said.cause,
        do_next=said.do_next,
        commands=pasteable(said.commands),
        thread_urls=tuple(filter(None, map(thread_url, recipients))),
        opened_at=incident.first_seen_at,
        resolved_at=incident.ended_at,
        resolution=said.resolution,
        band=band_of(incident.opened_at, incident.resolved_at or until, since, until),
    )


def thread_url(recipient: Recipient) -> str | None:
    """Return the address of a receiver's thread in Slack; without the workspace's id it is the reader's own one."""
    if recipient.channel != "slack" or recipient.receipt is None:
        return None
    channel, *between, parent = recipient.receipt.split()
    place = {"channel": channel, "message": parent}
    if between and not between[0][0].isdigit():
        place = {"team": between[0], **place}
    return f"https://slack.com/app_redirect?{urlencode(place)}"


def change_lines(
    changes: Sequence[NamedChange], words: Catalogue, since: datetime, until: datetime
) -> tuple[ChangeLine, ...]:
    """Return changes in the reader's words, and where they lie in the pictures."""
    return tuple(
        ChangeLine(
            at=one.at,
            what=words.read(one.what),
            band=band_of(one.at, one.at, since, until),
        )
        for one in changes
    )


def marks_of(changes: Sequence[NamedChange], words: Catalogue, since: datetime, until: datetime) -> tuple[Mark, ...]:
    """Return the changes of the span in the reader's words, and where they lie in the pictures."""
    return tuple(
        Mark(at=one.at, what=words.read(one.what), band=band_of(one.at, one.at, since, until), kind=one.kind)
        for one in changes
        if one.kind is not None and since <= one.at <= until
    )


def group_view(
    asked: AskedGroup,
    rows: GroupRows,
    incidents: Sequence[IncidentLine],
    changes: Sequence[ChangeLine],
    now: datetime,
    *,
    marks: Sequence[Mark] = (),
    members_changed: int = 0,
    stated: Sequence[Stated] = (),
    **of_configuration: Any,
) -> GroupView:
    """Return the view; `members_changed`: how often; `stated`: open forecasts.

    `of_configuration`: `team`, `limits` and `console_url`.
    """
    trust, since, until = asked.shown(rows.facts_of, now)
    ended = [one for one in incidents if one.resolved_at is not None]
    beyond, kept = outlooks(stated, rows.topics, since, until), kept_since(rows.brokers)
    unheld = unheld_queues(rows.history)
    held = course_of(unheld, UNHELD, since, until, np.maximum)
    moves = [one for one in marks if one.kind is Kind.MEMBERS][:REBALANCES]
    return GroupView(
        at=now,
        asked=asked,
        trust=trust,
        facts_of=rows.facts_of,
        since=since,
        until=until,
        open=tuple(sorted((one for one in incidents if one.resolved_at is None), key=lambda one: -one.severity.rank)),
        over=tuple(sorted(ended, key=lambda one: one.resolved_at or now, reverse=True)),
        courses=(*group_courses(rows.history, since, until), *((held,) if held.greatest else ())),
        topics=topic_lines(rows.topics),
        queues=queue_lines(rows.queues),
        queue_count=len(rows.queues),
        members=member_lines(rows),
        changes=tuple(changes),
        marks=tuple(marks),
        rebalances=rebalances_of(unheld, members_changed, moves),
        outlooks=beyond,
        loss_in_sight=loss_in_sight(beyond, rows.topics, kept),
        is_behind=any(map(is_behind, rows.topics)),
        kept_since=kept,
        **of_configuration,
    )
