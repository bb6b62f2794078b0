"""What each receiver was told is kept as long as anything of it goes on, and survives an upgrade."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, select

from offsetguard.catalogue import Sentence
from offsetguard.decide.incidents.timing import NEVER_NOTIFIED
from offsetguard.model.incident import EventKind, IncidentEvent
from offsetguard.model.notification import (
    DECLARED,
    GroupKey,
    MuteReason,
    NotificationKey,
    Notified,
    NotifiedIncident,
)
from offsetguard.model.verdicts import Severity
from offsetguard.store import incidents, notifications
from offsetguard.store.database import open_database, reading, writing
from offsetguard.store.models import LastNotificationRow
from offsetguard_peers.judging.records import an_incident

AT = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
GROUP = GroupKey("ops", "demo", "accumulation")
KEY = NotificationKey(GROUP, "mail", "ops@example.org")
LAST = Notified(
    AT,
    "thread",
    {"a": NotifiedIncident(Severity.WARNING, AT - timedelta(hours=1), AT, 3)},
    {"b": MuteReason.SILENCE},
    2,
)


def test_what_is_kept_is_read_back(each_engine: Engine) -> None:
    other = NotificationKey(GROUP, "slack", "#ops")
    elsewhere = NotificationKey(GroupKey("ops", "other", "accumulation"), "mail", "ops@example.org")
    kept = {
        KEY: LAST,
        other: Notified(muted={"b": MuteReason.QUIET_HOURS}),
        elsewhere: Notified(AT, "t", ended=Severity.WARNING),
    }
    with writing(each_engine) as session:
        notifications.save(session, kept)
    with writing(each_engine) as session:
        assert notifications.of_cluster(session, "demo") == {key: kept[key] for key in (KEY, other)}
        notifications.save(session, {KEY: NEVER_NOTIFIED, other: LAST})
    with reading(each_engine) as session:
        assert notifications.of_cluster(session, "demo") == {other: LAST}
        assert notifications.of_cluster(session, "other") == {elsewhere: kept[elsewhere]}


def test_what_another_release_kept_is_read(each_engine: Engine) -> None:
    with writing(each_engine) as session:
        notifications.save(session, {KEY: LAST})
        session.flush()
        (row,) = session.scalars(select(LastNotificationRow))
        known = {name: value for name, value in json.loads(row.firing_json)["a"].items() if name != "repeats"}
        row.firing_json = json.dumps({"a": known | {"of_tomorrow": 1}})
        row.muted_json = json.dumps({"b": MuteReason.SILENCE, "c": "muted_by_tomorrow"})
    with reading(each_engine) as session:
        (found,) = notifications.of_cluster(session, "demo").values()
    assert found == replace(LAST, firing={"a": replace(LAST.firing["a"], repeats=0)})


def test_a_receiver_was_told_when_it_accepted_the_first_message_and_not_at_a_minutes_start(each_engine: Engine) -> None:
    incident = an_incident(incident_id="a")
    said = {"channel": Sentence("channel_mail"), "receiver": KEY.receiver, "team": "ops", "why": Sentence("why_first")}
    events = [
        IncidentEvent("a", AT + timedelta(seconds=n), EventKind.NOTIFIED, Sentence("event_notified", **said))
        for n in (103, 900)
    ]
    other = NotificationKey(GROUP, "slack", "#ops")
    with writing(each_engine) as session:
        notifications.save(session, {KEY: LAST, other: Notified(AT, muted={"a": MuteReason.SILENCE})})
        incidents.record_events(session, events)
    with reading(each_engine) as session:
        found = notifications.recipients_of(session, incident)
    assert [one.told_at for one in found] == [AT + timedelta(seconds=103), None]


def test_a_timeline_is_in_order_although_minutes_are_judged_after_people_have_acted(each_engine: Engine) -> None:
    events = [
        IncidentEvent("a", AT + timedelta(seconds=seconds), kind, "")
        for kind, seconds in ((EventKind.OPENED, 60), (EventKind.ACKNOWLEDGED, 130), (EventKind.WORSE, 120))
    ]
    with writing(each_engine) as session:
        incidents.record_events(session, events)
    with reading(each_engine) as session:
        found = incidents.events_of(session, "a")
    assert [one.kind for one in found] == [EventKind.OPENED, EventKind.WORSE, EventKind.ACKNOWLEDGED]


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
keys = st.builds(
    NotificationKey, st.builds(GroupKey, names, st.just("demo"), names), st.sampled_from(sorted(DECLARED)), names
)


@given(rows=st.dictionaries(keys, st.builds(lambda name: Notified(AT, name), names), max_size=4))
def test_names_of_any_kind_are_told_apart(
    tmp_path_factory: pytest.TempPathFactory, rows: dict[NotificationKey, Notified]
) -> None:
    kept = {key: Notified(one.at, one.thread_key, LAST.firing) for key, one in rows.items()}
    engine = open_database(f"sqlite:///{tmp_path_factory.getbasetemp()}/notifications.db")
    with writing(engine) as session:
        notifications.save(session, dict.fromkeys(notifications.of_cluster(session, "demo"), NEVER_NOTIFIED))
        notifications.save(session, kept)
        assert notifications.of_cluster(session, "demo") == kept
    engine.dispose()
