"""Whatever is wrong with the file of a database, or with tables and rights of one, is named, with what to do."""

import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, select, text

from offsetguard.model.errors import StoreError
from offsetguard.model.incident import EventKind, IncidentEvent
from offsetguard.model.intervals import Interval
from offsetguard.store import incidents, published_intervals
from offsetguard.store.database import open_database, open_migrated, reading, writing
from offsetguard.store.database_errors import DatabaseNamed
from offsetguard.store.models import Base
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard_peers.databases import PostgresServer
from offsetguard_peers.judging.records import an_incident

START = datetime(2026, 11, 21, tzinfo=UTC)
PAGE = 4096
ADVICE = ("it is damaged: stop what writes to it, keep a copy", "bring the newest backup back")


def cut(data: bytes, place: int) -> bytes:
    return data[:place]


def zeroed(data: bytes, place: int) -> bytes:
    start = place - place % PAGE
    return data[:start] + bytes(PAGE) + data[start + PAGE :]


def overwritten(data: bytes, place: int) -> bytes:
    start = place - place % PAGE
    return data[:start] + random.Random(place).randbytes(PAGE) + data[start + PAGE :]  # noqa: S311 no secret


def in_its_schema(data: bytes, place: int) -> bytes:
    start = data.index(b"CREATE TABLE") + place % 1500
    return data[:start] + b"\xff\xfe" + data[start + 2 :]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the file of a database that a hundred intervals were published in."""
    file = tmp_path_factory.mktemp("whole") / "offsetguard.db"
    engine = open_database(f"sqlite:///{file}")
    for number in range(100):
        interval = Interval(START + timedelta(minutes=number))
        row = PublishedInterval("demo", interval, "run", START, "audited", {"queue_facts": number}, "{}")
        published_intervals.record(engine, row)
    engine.dispose()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    return file.read_bytes()


@pytest.mark.parametrize("damage", [cut, zeroed, overwritten, in_its_schema])
def test_a_damaged_file_is_named_with_what_to_do(
    tmp_path: Path, whole: bytes, damage: Callable[[bytes, int], bytes]
) -> None:
    places = [PAGE - 1, *range(PAGE, len(whole), len(whole) // 17)]
    found = 0
    for place in places:
        file = tmp_path / f"{place}.db"
        file.write_bytes(damage(whole, place))
        said = said_of(file)
        assert said is None or (str(file) in said and any(advice in said for advice in ADVICE))
        found += said is not None
    assert found > len(places) / 4, "the others hit pages that are free, or of indexes"


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("published_intervals", "published_at"),
        ("published_intervals", "snapshot_ids"),
        ("incidents", "opened_at"),
        ("incidents", "record_json"),
        ("incident_events", "kind"),
    ],
)
def test_a_value_that_is_none_of_its_column_is_named_with_what_to_do(tmp_path: Path, table: str, column: str) -> None:
    """The page around it is sound, so SQLite itself notices nothing."""
    database = open_database(f"sqlite:///{tmp_path / 'offsetguard.db'}")
    row = PublishedInterval("demo", Interval(START), "run", START, "audited", {"queue_facts": 1}, "{}")
    published_intervals.record(database, row)
    with writing(database) as session:
        incidents.save(session, [one := an_incident(cluster="demo")])
        incidents.record_events(session, [IncidentEvent(one.incident_id, START, EventKind.OPENED, "")])
        session.execute(text(f"UPDATE {table} SET {column} = 'a secret{{'"))
    with pytest.raises(DatabaseNamed) as caught:
        read_all(database)
    said = str(caught.value)
    assert said.count(str(tmp_path / "offsetguard.db")) == 1
    assert ADVICE[0] in said
    assert "secret" not in said
    database.dispose()


def read_all(database: Engine) -> None:
    published_intervals.newest(database, "demo")
    with reading(database) as session:
        for one in incidents.open_incidents(session, "demo"):
            incidents.events_of(session, one.incident_id)


def said_of(file: Path) -> str | None:
    """Read all of a database; returns what is said of it."""
    try:
        engine = open_migrated(f"sqlite:///{file}")
        with reading(engine) as session:
            for table in Base.metadata.sorted_tables:
                session.execute(select(table)).all()
        engine.dispose()
    except (StoreError, DatabaseNamed) as error:
        return str(error)
    return None


def test_a_table_that_is_gone_is_named_with_what_to_do(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE published_intervals RENAME TO elsewhere"))
    try:
        with pytest.raises(DatabaseNamed, match=r"published_intervals.*; bring the newest backup back"):
            published_intervals.newest(engine, "demo")
    finally:
        with engine.begin() as connection:
            connection.execute(text("ALTER TABLE elsewhere RENAME TO published_intervals"))


@pytest.mark.postgres
def test_a_role_without_rights_is_told_what_it_lacks(postgresql: PostgresServer) -> None:
    url = postgresql.url(postgresql.new_database())
    owner = open_database(url)
    with owner.begin() as connection:
        connection.execute(text("DROP ROLE IF EXISTS nobody_here"))
        connection.execute(text("CREATE ROLE nobody_here LOGIN"))
        connection.execute(text("GRANT SELECT ON alembic_version TO nobody_here"))
    one = open_migrated(owner.url.set(username="nobody_here").render_as_string(hide_password=False))
    with pytest.raises(DatabaseNamed, match=r"permission denied for table .*; this role may not do that: grant it"):
        published_intervals.newest(one, "demo")
    one.dispose()
    owner.dispose()
