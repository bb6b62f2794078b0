"""What is over long enough is deleted with all that belongs to it, and nothing that somebody may still need."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, func, select

from offsetguard.model.incident import EventKind, Incident, IncidentEvent
from offsetguard.model.notification import (
    GroupKey,
    Matchers,
    MuteReason,
    NotificationKey,
    Notified,
    NotifiedIncident,
    Silence,
)
from offsetguard.model.verdicts import Severity
from offsetguard.store import ageing, incidents, models, notifications, outbox, silences
from offsetguard.store.columns import KEYS_PER_QUERY
from offsetguard.store.database import reading, writing
from offsetguard.store.outbox import Lane
from offsetguard_peers.cases.messages import VIEW
from offsetguard_peers.databases import newest_accepted
from offsetguard_peers.judging.records import an_incident

NOW = datetime(2026, 11, 21, tzinfo=UTC)
DAY = timedelta(days=1)
OLD = NOW - DAY
KEY = NotificationKey(GroupKey("orders", "main", "accumulation"), "mail", "orders@example.org")


def incident(name: str, resolved_at: datetime | None) -> Incident:
    opened = NOW - 9 * DAY
    return an_incident(incident_id=name, consumer_group=name, opened_at=opened, resolved_at=resolved_at)


def keep(engine: Engine, name: str, resolved_at: datetime | None = None) -> None:
    """Keep an incident that somebody acknowledged before it ended."""
    with writing(engine) as session:
        incidents.save(session, [incident(name, None)])
        silences.acknowledge(session, incident(name, None), author="li", comment="", now=OLD)
        incidents.record_events(session, [IncidentEvent(name, OLD, EventKind.OPENED, "")])
        incidents.save(session, [incident(name, resolved_at)])


def claimed(engine: Engine, at: datetime, receiver: str = KEY.receiver) -> models.OutboxRow:
    message = outbox.claim_next(engine, Lane("mail", receiver), now=at)
    assert message is not None
    return message


def send(engine: Engine, key: str, *, thread: str, at: datetime, receiver: str = KEY.receiver) -> None:
    """Write a message and let its receiver accept it."""
    write(engine, key, thread=thread, at=at, receiver=receiver)
    message = claimed(engine, at, receiver)
    assert message.idempotency_key == key
    assert outbox.mark_accepted(engine, message, accepted_at=at, receipt=f"<{key}>")


def write(engine: Engine, key: str, *, thread: str, at: datetime, receiver: str = KEY.receiver) -> None:
    view = VIEW.model_copy(update={"thread_key": thread})
    with writing(engine) as session:
        assert outbox.enqueue(session, idempotency_key=key, channel="mail", receiver=receiver, view=view, now=at)


def is_told(engine: Engine, known: Notified) -> None:
    with writing(engine) as session:
        notifications.save(session, {KEY: known})


def names(engine: Engine, row: type[models.Base], column: str) -> set[object]:
    with reading(engine) as session:
        return set(session.scalars(select(getattr(row, column))))


def keys(engine: Engine) -> set[str]:
    return {message.idempotency_key for message in outbox.messages(engine)}


def test_incidents_that_ended_before_the_moment_go_with_their_history_and_acknowledgements(engine: Engine) -> None:
    keep(engine, "ended", OLD)
    keep(engine, "ended just now", NOW)
    keep(engine, "open")
    assert ageing.delete_older(engine, NOW).incidents == 1
    for row in (models.IncidentRow, models.IncidentEventRow, models.AcknowledgementRow):
        assert names(engine, row, "incident_id") == {"ended just now", "open"}


def test_an_incident_whose_end_somebody_has_not_heard_stays(engine: Engine) -> None:
    for name in ("told", "muted", "of nobody"):
        keep(engine, name, OLD)
    firing = {"told": NotifiedIncident(Severity.WARNING, OLD, OLD)}
    is_told(engine, Notified(OLD, "thread", firing, {"muted": MuteReason.SILENCE}))
    assert ageing.delete_older(engine, NOW).incidents == 1
    assert names(engine, models.IncidentRow, "incident_id") == {"told", "muted"}


def test_accepted_messages_go_with_the_log_of_their_thread_but_for_the_newest_of_a_receiver(engine: Engine) -> None:
    send(engine, "warning", thread="over", at=OLD)
    send(engine, "resolved", thread="over", at=OLD)
    send(engine, "newest", thread="newest", at=OLD)
    send(engine, "only one", thread="only one", at=OLD, receiver="billing@example.org")
    assert ageing.delete_older(engine, NOW).messages == 2
    assert keys(engine) == {"newest", "only one"}
    assert {entry.receipt for entry in newest_accepted(engine)} == {"<newest>", "<only one>"}


def test_what_was_dismissed_goes_like_what_was_accepted(engine: Engine) -> None:
    send(engine, "newest", thread="newest", at=OLD)
    write(engine, "refused", thread="over", at=OLD)
    outbox.mark_failed(engine, claimed(engine, OLD), error="550 no such user")
    outbox.dismiss(engine)
    ageing.delete_older(engine, NOW)
    assert keys(engine) == {"newest"}


@pytest.mark.parametrize("goes_on", ["told", "newer", "pending", "failed"])
def test_a_thread_that_goes_on_stays_whole_however_old_it_is(engine: Engine, goes_on: str) -> None:
    send(engine, "warning", thread="long", at=OLD)
    send(engine, "sent later", thread="other", at=OLD)
    if goes_on == "told":
        is_told(engine, Notified(OLD, "long", {"any": NotifiedIncident(Severity.WARNING, OLD, OLD)}))
    elif goes_on == "newer":
        send(engine, "news", thread="long", at=NOW)
    else:
        write(engine, "news", thread="long", at=OLD)
    if goes_on == "failed":
        assert outbox.mark_failed(engine, claimed(engine, OLD), error="550 no such user")
    before = keys(engine) - ({"sent later"} if goes_on == "newer" else set())
    ageing.delete_older(engine, NOW)
    assert keys(engine) == before


def test_silences_that_are_over_go(engine: Engine) -> None:
    silence = Silence(Matchers(cluster="main"), "li", "load test", NOW - 3 * DAY, NOW + DAY, NOW - 3 * DAY)
    given = (
        silence,
        replace(silence, comment="ended by hand", expired_at=OLD),
        replace(silence, comment="over", ends_at=OLD),
        replace(silence, comment="over just now", ends_at=NOW),
    )
    with writing(engine) as session:
        for one in given:
            silences.add(session, one)
    assert ageing.delete_older(engine, NOW).silences == 2
    assert names(engine, models.SilenceRow, "comment") == {"load test", "over just now"}


def test_more_than_one_transaction_s_worth_goes_at_once_and_what_stays_is_passed_over(engine: Engine) -> None:
    count = KEYS_PER_QUERY + 2
    many = [incident(f"{number:04}", OLD) for number in range(count)]
    with writing(engine) as session:
        incidents.save(session, many)
    first = {one.incident_id: NotifiedIncident(Severity.WARNING, OLD, OLD) for one in many[: count - 1]}
    is_told(engine, Notified(OLD, "thread", first))
    assert ageing.delete_older(engine, NOW) == ageing.Aged(1, 0, 0)
    is_told(engine, Notified(None))
    assert ageing.delete_older(engine, NOW) == ageing.Aged(count - 1, 0, 0)
    with reading(engine) as session:
        assert session.scalar(select(func.count()).select_from(models.NotificationLogRow)) == 0
