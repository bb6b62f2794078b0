"""What each receiver was told is kept as long as anything of it goes on, and survives an upgrade."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Engine

from offsetguard.decide.incidents.timing import NOTHING_TOLD
from offsetguard.model.told import Channel, GroupKey, MuteReason, Told, ToldIncident, ToldKey
from offsetguard.model.verdicts import Severity
from offsetguard.store import told
from offsetguard.store.database import open_database, reading, writing

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
