"""What each receiver was told is kept as long as anything of it goes on, and survives an upgrade."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine, select

from offsetguard.decide.incidents.timing import NEVER_NOTIFIED
from offsetguard.model.notification import (
    Channel,
    GroupKey,
    MuteReason,
    NotificationKey,
    Notified,
    NotifiedIncident,
)
from offsetguard.model.verdicts import Severity
from offsetguard.store import notifications
from offsetguard.store.database import open_database, reading, writing
from offsetguard.store.models import LastNotificationRow

AT = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
GROUP = GroupKey("ops", "demo", "accumulation")
KEY = NotificationKey(GROUP, Channel.MAIL, "ops@example.org")
LAST = Notified(
    AT,
    "thread",
    {"a": NotifiedIncident(Severity.WARNING, AT - timedelta(hours=1), AT, 3)},
    {"b": MuteReason.SILENCE},
    2,
)


def test_what_is_kept_is_read_back(each_engine: Engine) -> None:
    other = NotificationKey(GROUP, Channel.SLACK, "#ops")
    elsewhere = NotificationKey(GroupKey("ops", "other", "accumulation"), Channel.MAIL, "ops@example.org")
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


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
keys = st.builds(NotificationKey, st.builds(GroupKey, names, st.just("demo"), names), st.sampled_from(Channel), names)


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
