"""What each receiver was told is kept as long as anything of it goes on, and survives an upgrade."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.decide.incidents.timing import NOTHING_TOLD
from offsetguard.model.receivers import Channel
from offsetguard.model.told import GroupKey, MuteReason, Told, ToldIncident, ToldKey
from offsetguard.model.verdicts import Severity
from offsetguard.store import database, told
from offsetguard.store.database import open_database, reading, writing

if TYPE_CHECKING:
    import pytest
    from sqlalchemy import Engine

AT = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
GROUP = GroupKey("ops", "demo", "accumulation")
KEY = ToldKey(GROUP, Channel.MAIL, "ops@example.org")
TOLD = Told(
    AT,
    "thread",
    {"a": ToldIncident(Severity.WARNING, AT - timedelta(hours=1), AT, 3)},
    {"b": MuteReason.SILENCE},
    2,
)


def test_what_is_kept_is_read_back(each_engine: Engine) -> None:
    other = ToldKey(GROUP, Channel.SLACK, "#ops")
    elsewhere = ToldKey(GroupKey("ops", "other", "accumulation"), Channel.MAIL, "ops@example.org")
    kept = {
        KEY: TOLD,
        other: Told(muted={"b": MuteReason.QUIET_HOURS}),
        elsewhere: Told(AT, "t", ended=Severity.WARNING),
    }
    with writing(each_engine) as session:
        told.save(session, kept)
    with writing(each_engine) as session:
        assert told.of_cluster(session, "demo") == {key: kept[key] for key in (KEY, other)}
        told.save(session, {KEY: NOTHING_TOLD, other: TOLD})
    with reading(each_engine) as session:
        assert told.of_cluster(session, "demo") == {other: TOLD}
        assert told.of_cluster(session, "other") == {elsewhere: kept[elsewhere]}


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
keys = st.builds(ToldKey, st.builds(GroupKey, names, st.just("demo"), names), st.sampled_from(Channel), names)


@given(rows=st.dictionaries(keys, st.builds(lambda name: Told(AT, name), names), max_size=4))
def test_names_of_any_kind_are_told_apart(tmp_path_factory: pytest.TempPathFactory, rows: dict[ToldKey, Told]) -> None:
    kept = {key: Told(one.at, one.thread_key, TOLD.firing) for key, one in rows.items()}
    engine = open_database(f"sqlite:///{tmp_path_factory.getbasetemp()}/told.db")
    with writing(engine) as session:
        told.save(session, dict.fromkeys(told.of_cluster(session, "demo"), NOTHING_TOLD))
        told.save(session, kept)
        assert told.of_cluster(session, "demo") == kept
    engine.dispose()


def test_an_upgrade_remembers_the_newest_message_to_each_receiver(tmp_path: Path) -> None:
    """So that nobody is told again what the release before told."""
    engine = database.connect(f"sqlite:///{tmp_path}/old.db")
    _upgrade(engine, "0004")
    with writing(engine) as session:
        for number, (receiver, firing) in enumerate(
            [
                ("ops@example.org", ["a"]),
                ("ops@example.org", ["a", "b"]),
                ("well@example.org", ["a"]),
                ("well@example.org", []),
            ]
        ):
            session.execute(sa.text(_OLD_ROW), _old_row(number, receiver, firing))
    database.migrate(engine)
    with reading(engine) as session:
        known = {one: ToldIncident(Severity.WARNING, AT + 60 * _SECOND, AT + 60 * _SECOND) for one in ("a", "b")}
        assert told.of_cluster(session, "demo") == {KEY: Told(AT + 60 * _SECOND, "thread", known)}
    engine.dispose()


_SECOND = timedelta(seconds=1)
_OLD_ROW = (
    "INSERT INTO outbox (idempotency_key, channel, receiver, team, cluster, rule_id, thread_key, interval_start,"
    " view_json, created_at, status, attempts, next_attempt_at) VALUES (:key, 'mail', :receiver, 'ops', 'demo',"
    " 'accumulation', 'thread', :at, :view, :at, 'sent', 1, :at)"
)


def _old_row(number: int, receiver: str, firing: list[str]) -> dict[str, object]:
    at = (AT + number * 60 * _SECOND).strftime("%Y-%m-%d %H:%M:%S.%f")
    view = {"firing": [{"incident_id": one, "severity": "warning"} for one in firing], "resolved": []}
    return {"key": f"k{number}", "receiver": receiver, "at": at, "view": json.dumps(view)}


def _upgrade(engine: Engine, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(Path(database.__file__).parent / "migrations"))
    with engine.connect().execution_options(offsetguard_writes=True) as connection, connection.begin():
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
