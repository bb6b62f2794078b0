"""The outbox: one row per message and receiver, written in the transaction of the verdict; who sends which, and when.

    pending --claim_next--> pending, claimed --mark_accepted--> sent (and notification_log, same transaction)
       ^                        |---mark_retry---> pending, later
       |                        |---mark_failed--> failed, or off: kept with its reason
       |                        '---deliverer died: the claim ends at claimed_until
       '--redrive-- failed, off

Of what waits for a receiver that takes so many a minute, a digest may take the place (`merge_waiting`).
A lane is one receiver. Within it the oldest message goes first, and no message of a thread goes before an earlier one
of it is sent or failed: never "resolved" before the warning that it resolves. A digest is of many threads, so it waits
for everything before it, and everything after it waits for it.
A claim is a compare-and-set on (status, claimed_until), with row locks that others skip on PostgreSQL: two deliverers
never hold one row at once. `now` is by the database's clock: hosts need not agree on the time. A deliverer that dies
between the receiver's acceptance and `mark_accepted` leaves a row that is sent once more.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Engine, and_, case, func, or_, select, tuple_, update
from sqlalchemy.orm import Session, aliased

from offsetguard.catalogue import Sentence
from offsetguard.model.fact_records import Unreached
from offsetguard.model.incident import EventKind, IncidentEvent, digest_of
from offsetguard.model.notification import Channel
from offsetguard.model.views import DIGEST, AnyView, Cause, DetailsView, DigestView, MessageView
from offsetguard.store.columns import count_changed
from offsetguard.store.database import current_time, reading, writing
from offsetguard.store.incidents import record_events
from offsetguard.store.models import NotificationLogRow, OutboxRow, Status

CLAIM_MS = 120_000  # longer than any channel's time-outs together
LONGEST_WAIT = timedelta(hours=1)  # before a further attempt: no receiver's wish is heeded for longer
CLOCK_ERROR = timedelta(seconds=10)  # by so much NTP may set the database's clock back, and nobody minds
MAX_ERROR_LENGTH = 2_000
REFUSED = (Status.FAILED, Status.OFF)  # for good: an operator re-drives or dismisses them
MOST_MERGED = 500  # messages, into one digest
WAITS_FOR_EARLIER = "not tried: an earlier message of the same thread, or a digest, has to go first"


def enqueue(
    session: Session, *, idempotency_key: str, channel: Channel, receiver: str, view: AnyView, now: datetime
) -> bool:
    """Add a message for one receiver, due at once; False when the key is there already (nothing is changed).

    `now` is by the clock of whoever judges; where that is ahead of the database's, by which messages are sent, the
    latter counts.
    """
    if session.scalar(select(OutboxRow.id).where(OutboxRow.idempotency_key == idempotency_key)) is not None:
        return False
    written_at = min(now, current_time(session))
    session.add(
        OutboxRow(
            idempotency_key=idempotency_key,
            channel=channel,
            receiver=receiver,
            team=view.team,
            cluster=view.cluster,
            rule_id=view.rule_id,
            thread_key=view.thread_key,
            interval_start=view.interval_start,
            view_json=view.model_dump_json(),
            created_at=written_at,
            status=Status.PENDING,
            attempts=0,
            next_attempt_at=written_at,
            is_details=isinstance(view, DetailsView),
        )
    )
    session.flush()
    return True


def known_keys(session: Session, idempotency_keys: Iterable[str]) -> set[str]:
    """Return those of some keys whose messages are in the outbox, whatever became of them."""
    key = OutboxRow.idempotency_key
    return set(session.scalars(select(key).where(key.in_(idempotency_keys))))


def forget_what_lies_ahead(engine: Engine, *, now: datetime, claim_ms: int = CLAIM_MS) -> None:
    """Let nothing wait for times that were written before the database's clock was put back."""
    row, latest = OutboxRow, now + CLOCK_ERROR
    claim_ends = now + timedelta(milliseconds=claim_ms)
    of_claims = (row.status == Status.PENDING, row.claimed_until > claim_ends + CLOCK_ERROR)
    of_waits = (
        row.status == Status.PENDING,
        or_(row.created_at > latest, row.next_attempt_at > latest + LONGEST_WAIT),
    )
    with reading(engine) as session:
        if session.scalar(select(row.id).where(or_(and_(*of_claims), and_(*of_waits))).limit(1)) is None:
            return  # nearly always: no write lock for it
    with writing(engine) as session:
        _count_changed(session, of_claims, claimed_until=claim_ends)
        _count_changed(
            session, of_waits, created_at=case((row.created_at > now, now), else_=row.created_at), next_attempt_at=now
        )


@dataclass(frozen=True, slots=True)
class Backlog:
    """What no receiver has accepted."""

    waiting_count: int
    oldest_at: datetime | None  # when the oldest of those was written
    failed_count: int  # refused for good


def backlog(session: Session) -> Backlog:
    """Return how much waits, and since when."""
    query = (
        select(OutboxRow.status, func.count(), func.min(OutboxRow.created_at))
        .where(OutboxRow.status.in_([Status.PENDING, *REFUSED]))  # few; all the others were sent
        .group_by(OutboxRow.status)
    )
    found = {status: (count, oldest) for status, count, oldest in session.execute(query)}
    waiting, oldest = found.get(Status.PENDING, (0, None))
    return Backlog(waiting, oldest, sum(found.get(one, (0, None))[0] for one in REFUSED))


def unreached(session: Session, cluster: str, moment: datetime) -> tuple[Unreached, ...]:
    """Return the teams of which nobody accepted anything of an interval of a cluster that was written before a moment.

    Looked at are the oldest intervals of which something was not accepted: `MOST_MERGED`.
    """
    row = OutboxRow
    query = (
        select(row.team, row.interval_start, func.min(row.created_at), func.count(), func.max(row.last_error))
        .where(row.cluster == cluster, row.status.in_([Status.PENDING, *REFUSED]), row.created_at <= moment)
        .group_by(row.team, row.interval_start)
        .order_by(row.team, row.interval_start)
    )
    found: dict[str, Unreached] = {}
    for team, interval_start, since, count, because in session.execute(query.limit(MOST_MERGED)).all():
        of_it = (row.team == team, row.cluster == cluster, row.interval_start == interval_start)
        accepted = select(row.id).where(
            *of_it, row.created_at >= interval_start, row.status.in_([Status.SENT, Status.DISMISSED])
        )
        if session.scalar(accepted.limit(1)) is None:
            before = found.get(team, Unreached(team, since, 0, because or ""))
            found[team] = replace(before, message_count=before.message_count + count)
    return tuple(found.values())


def redrive(engine: Engine, *, ids: Sequence[int] | None = None) -> int:
    """Make failed rows (all of them, or those with the given ids) due again, as they were; returns how many.

    They count as tried once, so that Slack is asked for what it may have before it is posted again. With a message that
    is off, all that are off for its receiver: it is switched on again.
    """
    off = aliased(OutboxRow)
    lanes = select(off.channel, off.receiver).where(off.id.in_(ids or ()), off.status == Status.OFF)
    with_it = (OutboxRow.status == Status.OFF) & tuple_(OutboxRow.channel, OutboxRow.receiver).in_(lanes)
    where = () if ids is None else (or_(OutboxRow.id.in_(ids), with_it),)
    return _change_refused(engine, *where, status=Status.PENDING, attempts=1)


def dismiss(engine: Engine, *, ids: Sequence[int] | None = None) -> int:
    """Let failed rows (all of them, or those with the given ids) count as seen; returns how many.

    They keep their reason and are trouble no more.
    """
    return _change_refused(engine, *(() if ids is None else (OutboxRow.id.in_(ids),)), status=Status.DISMISSED)


def _change_refused(engine: Engine, *where: ColumnElement[bool], **values: Any) -> int:
    with writing(engine) as session:
        return _count_changed(session, (OutboxRow.status.in_(REFUSED), *where), **values)


def why_off(engine: Engine, lane: "Lane") -> str | None:
    """Return why a receiver is switched off; None: it is not."""
    query = select(OutboxRow.last_error).where(_of(lane), OutboxRow.status == Status.OFF).order_by(OutboxRow.id)
    with reading(engine) as session:
        return session.scalar(query.limit(1))


def messages(engine: Engine, *, status: Status | None = None, limit: int = 1_000) -> list[OutboxRow]:
    """Return rows, newest first, for people who want to know what became of them."""
    query = select(OutboxRow).order_by(OutboxRow.id.desc()).limit(limit)
    if status is not None:
        query = query.where(OutboxRow.status == status)
    with reading(engine) as session:
        return list(session.scalars(query))


def undelivered(session: Session, thread_keys: Iterable[str]) -> dict[tuple[str, Channel, str], str]:
    """Return by thread, channel and receiver why the newest message that was tried, or had to wait, has not arrived."""
    row = OutboxRow
    query = select(row.thread_key, row.channel, row.receiver, row.last_error).where(
        row.thread_key.in_(thread_keys), row.status.in_([Status.PENDING, *REFUSED]), row.last_error.is_not(None)
    )
    found = session.execute(query.order_by(row.id))
    return {(thread_key, channel, receiver): why or "" for thread_key, channel, receiver, why in found}


class Lane(NamedTuple):
    """One receiver, whom messages reach one after the other."""

    channel: Channel
    receiver: str


def due_lanes(engine: Engine, *, now: datetime) -> list[Lane]:
    """Return the receivers for whom a message can be claimed at `now`, whoever waits longest first."""
    query = (
        select(OutboxRow.channel, OutboxRow.receiver)
        .where(_free_at(now), _is_first_of_its_thread())
        .group_by(OutboxRow.channel, OutboxRow.receiver)
        .order_by(func.min(OutboxRow.id))
    )
    with reading(engine) as session:
        return [Lane(channel, receiver) for channel, receiver in session.execute(query)]


def claim_next(engine: Engine, lane: Lane, *, now: datetime, claim_ms: int = CLAIM_MS) -> OutboxRow | None:
    """Begin an attempt at the oldest message of a lane whose time has come; nobody else gets it for `claim_ms`."""
    due = (
        select(OutboxRow.id)
        .where(_of(lane), _free_at(now), _is_first_of_its_thread())
        .order_by(OutboxRow.id)
        .limit(1)
        .with_for_update(skip_locked=True, of=OutboxRow)
    )
    with writing(engine) as session:
        row_id = session.scalar(due)
        if row_id is None or not _change(
            session,
            (OutboxRow.id == row_id, _free_at(now)),
            claimed_until=now + timedelta(milliseconds=claim_ms),
            attempts=OutboxRow.attempts + 1,
        ):
            return None
        return session.get_one(OutboxRow, row_id)


def merge_waiting(
    engine: Engine,
    lane: Lane,
    *,
    now: datetime,
    more_than: int,
    digest: Callable[[Sequence[MessageView], str], AnyView],
) -> int:
    """Let one digest take the place of messages that are due in a lane, if more than so many are; returns how many.

    They are of one team and cluster, in one language and time zone: the largest part of what waits.
    """
    due = (_of(lane), _free_at(now), OutboxRow.rule_id != DIGEST)
    with reading(engine) as session:
        if (session.scalar(select(func.count()).where(*due)) or 0) <= more_than:
            return 0
    with writing(engine) as session:
        parts: defaultdict[tuple[str, ...], list[tuple[OutboxRow, MessageView]]] = defaultdict(list)
        query = select(OutboxRow).where(*due).order_by(OutboxRow.id).limit(MOST_MERGED)
        for row in session.scalars(query.with_for_update(skip_locked=True)):
            if isinstance(view := row.view, MessageView):
                parts[view.team, view.cluster, view.language, view.time_zone].append((row, view))
        largest = max(parts.values(), key=len, default=[])
        if len(largest) <= 1:
            return 0
        key = digest_of("merged", *(row.idempotency_key for row, _ in largest))
        view = digest([one for _, one in largest], key[:32])
        enqueue(session, idempotency_key=key, channel=lane.channel, receiver=lane.receiver, view=view, now=now)
        ids = [row.id for row, _ in largest]
        return _count_changed(session, (OutboxRow.id.in_(ids),), status=Status.MERGED, last_error=f"digest {key[:8]}")


def mark_accepted(
    engine: Engine, message: OutboxRow, *, accepted_at: datetime, receipt: str, follow_up: AnyView | None = None
) -> bool:
    """Record that the receiver accepted: status, notification log and history of incidents in one transaction.

    `receipt`: the mail's Message-ID or the Slack message's `channel ts`. `follow_up`: a message that is put into the
    outbox with it, so that it fails and is tried again by itself. False when it was recorded before.
    """
    with writing(engine) as session:
        sent = _change(
            session,
            (OutboxRow.id == message.id, OutboxRow.status != Status.SENT),
            status=Status.SENT,
            claimed_until=None,
            last_error=None,
        )
        if sent:
            session.add(
                NotificationLogRow(
                    outbox_id=message.id,
                    channel=message.channel,
                    receiver=message.receiver,
                    thread_key=message.thread_key,
                    accepted_at=accepted_at,
                    receipt=receipt,
                )
            )
            record_events(session, _notified(message, accepted_at))
            if follow_up is not None:
                enqueue(
                    session,
                    idempotency_key=digest_of("follow-up", message.idempotency_key),
                    channel=message.channel,
                    receiver=message.receiver,
                    view=follow_up,
                    now=accepted_at,
                )
    return sent


def _notified(message: OutboxRow, accepted_at: datetime) -> Iterator[IncidentEvent]:
    """Give what goes into the history of each incident that a message names."""
    view = message.view
    if isinstance(view, DetailsView):  # its message says so
        return
    causes: Sequence[Cause] = (
        view.sections if isinstance(view, DigestView) else [view] if isinstance(view, Cause) else []
    )
    channel = Sentence(f"channel_{message.channel}")
    for cause in causes:
        for one in (*cause.firing, *cause.resolved):
            why = Sentence("resolved" if one.resolved_at else f"why_{cause.reason}")
            text = Sentence("event_notified", channel=channel, receiver=message.receiver, team=message.team, why=why)
            yield IncidentEvent(one.incident_id, accepted_at, EventKind.NOTIFIED, text)


def mark_retry(engine: Engine, message: OutboxRow, *, next_attempt_at: datetime, error: str) -> bool:
    """Give the row back for a later attempt; False when the claim had ended and somebody else holds it."""
    with writing(engine) as session:
        return _change(
            session,
            _held_by(message),
            claimed_until=None,
            next_attempt_at=next_attempt_at,
            last_error=error[:MAX_ERROR_LENGTH],
        )


def mark_failed(engine: Engine, message: OutboxRow, *, error: str, off: bool = False) -> bool:
    """Keep the row as undeliverable with its reason; False when the claim had ended and somebody else holds it.

    `off`: its receiver is switched off.
    """
    with writing(engine) as session:
        return _change(
            session,
            _held_by(message),
            status=Status.OFF if off else Status.FAILED,
            claimed_until=None,
            last_error=error[:MAX_ERROR_LENGTH],
        )


def postpone(engine: Engine, lane: Lane, *, now: datetime, until: datetime, reason: str) -> int:
    """Let everything that is due in a lane wait with the reason, untried; returns how many messages wait."""
    with writing(engine) as session:
        where = (_of(lane), _free_at(now), OutboxRow.next_attempt_at < until)
        return _count_changed(session, where, next_attempt_at=until, last_error=reason[:MAX_ERROR_LENGTH])


def say_what_waits_for_whom(engine: Engine, *, now: datetime) -> int:
    """Write the reason to messages that are due and may not go yet, since an earlier one of their thread waits."""
    where = (_free_at(now), OutboxRow.last_error.is_(None), ~_is_first_of_its_thread())
    with reading(engine) as session:
        if session.scalar(select(OutboxRow.id).where(*where).limit(1)) is None:  # nearly always: no write lock for it
            return 0
    with writing(engine) as session:
        return _count_changed(session, where, last_error=WAITS_FOR_EARLIER)


def _of(lane: Lane) -> ColumnElement[bool]:
    return (OutboxRow.channel == lane.channel) & (OutboxRow.receiver == lane.receiver)


def _free_at(now: datetime) -> ColumnElement[bool]:
    unclaimed = or_(OutboxRow.claimed_until.is_(None), OutboxRow.claimed_until <= now)
    return (OutboxRow.status == Status.PENDING) & (OutboxRow.next_attempt_at <= now) & unclaimed


def _is_first_of_its_thread() -> ColumnElement[bool]:
    of_the_thread, digest = aliased(OutboxRow), aliased(OutboxRow)
    # two questions, since each has an index of its own
    return ~_earlier(of_the_thread, of_the_thread.thread_key == OutboxRow.thread_key) & ~_earlier(
        digest, or_(digest.rule_id == DIGEST, OutboxRow.rule_id == DIGEST)
    )


def _earlier(other: type[OutboxRow], related: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return whether another message to the same receiver that is related was written before and waits."""
    found = select(other.id).where(
        other.status == Status.PENDING,
        other.channel == OutboxRow.channel,
        other.receiver == OutboxRow.receiver,
        other.id < OutboxRow.id,
        related,
    )
    return found.correlate(OutboxRow).exists()


def _held_by(message: OutboxRow) -> tuple[ColumnElement[bool], ...]:
    # attempts grows with each claim, so it tells claims apart even when they end at the same moment
    return (
        OutboxRow.id == message.id,
        OutboxRow.status == Status.PENDING,
        OutboxRow.claimed_until == message.claimed_until,
        OutboxRow.attempts == message.attempts,
    )


def _change(session: Session, where: tuple[ColumnElement[bool], ...], **values: Any) -> bool:
    return _count_changed(session, where, **values) == 1


def _count_changed(session: Session, where: tuple[ColumnElement[bool], ...], **values: Any) -> int:
    return count_changed(session, update(OutboxRow).where(*where).values(**values))
