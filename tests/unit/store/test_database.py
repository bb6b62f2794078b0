"""Opening a database migrates it once, whoever else opens it; no writer sees what another has half written."""

import subprocess
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, event, insert, inspect, text
from sqlalchemy.exc import DBAPIError, IntegrityError, StatementError

from offsetguard.model.errors import StoreError
from offsetguard.model.intervals import Interval
from offsetguard.store import database, published_intervals
from offsetguard.store.database import open_database, reading, serialize, writing
from offsetguard.store.models import Base, OutboxRow, Status
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard_peers.waiting import at_once


def test_the_migrations_make_exactly_the_tables_that_the_models_describe(engine: Engine) -> None:
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


def test_the_newest_revision_is_the_newest_migration_file() -> None:
    folder = Path(database.__file__).parent / "migrations"
    assert ScriptDirectory(str(folder)).get_current_head() == database.NEWEST_REVISION


def test_many_may_open_an_empty_database_at_once(database_url: str) -> None:
    opened = at_once(4, lambda: open_database(database_url))
    for engine in opened:
        engine.dispose()


def test_who_only_reads_is_told_of_an_older_database_and_changes_nothing(database_url: str) -> None:
    engine = database.connect(database_url)
    if engine.dialect.name == "sqlite":
        with pytest.raises(StoreError, match=r"\.db does not exist: nothing was collected here yet"):
            database.open_migrated(database_url)
    assert inspect(engine).get_table_names() == []
    with pytest.raises(StoreError, match=rf"has no tables of OffsetGuard yet.* needs {database.NEWEST_REVISION}"):
        database.open_migrated(database_url)
    database.migrate(engine)
    database.open_migrated(database_url).dispose()
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0000'"))
    with pytest.raises(StoreError, match="is of revision 0000"):
        database.open_migrated(database_url)
    with pytest.raises(
        StoreError, match=rf"is of revision 0000, which .* \({database.NEWEST_REVISION}\) does not know"
    ):
        open_database(database_url)
    engine.dispose()


def test_a_database_that_is_opened_to_read_refuses_to_be_changed_while_others_write(each_engine: Engine) -> None:
    url = each_engine.url.render_as_string(hide_password=False)
    one = PublishedInterval(
        "main", Interval(datetime(2026, 11, 21, tzinfo=UTC)), "run", datetime.now(UTC), "audited", {}, "{}"
    )
    readers = database.open_migrated(url, read_only=True)
    with pytest.raises(DBAPIError, match=r"read-?only"):
        published_intervals.record(readers, one)
    published_intervals.record(each_engine, one)
    assert published_intervals.clusters(readers) == ["main"]
    readers.dispose()


def test_opening_a_migrated_database_runs_no_migration(database_url: str) -> None:
    open_database(database_url).dispose()
    statements: list[str] = []

    def heard(*arguments: object) -> None:
        statements.append(str(arguments[2]))

    engine = database.connect(database_url)
    event.listen(engine, "before_cursor_execute", heard)
    database.migrate(engine)
    engine.dispose()
    assert [statement for statement in statements if "CREATE" in statement or "INSERT" in statement] == []


def test_a_writer_sees_what_the_writer_before_it_wrote(engine: Engine) -> None:
    """Two that read, add one and write must end at two: nobody writes on what is stale."""
    with writing(engine) as session:
        session.execute(text("CREATE TABLE tally (number INTEGER)"))
        session.execute(text("INSERT INTO tally VALUES (0)"))

    def add_one() -> None:
        with writing(engine) as session:
            serialize(session, "tally")
            number = session.execute(text("SELECT number FROM tally")).scalar_one()
            session.execute(text("UPDATE tally SET number = :next"), {"next": number + 1})

    at_once(3, add_one)
    assert numbers(engine) == [3]


def test_a_reader_that_is_not_done_keeps_no_writer_waiting(engine: Engine) -> None:
    with writing(engine) as session:
        session.execute(text("CREATE TABLE tally (number INTEGER)"))
    with reading(engine) as reader:
        assert reader.execute(text("SELECT number FROM tally")).all() == []
        with writing(engine) as session:
            session.execute(text("INSERT INTO tally VALUES (7)"))
    assert numbers(engine) == [7]


def test_what_fails_half_way_leaves_nothing(engine: Engine) -> None:
    with writing(engine) as session:
        session.execute(text("CREATE TABLE tally (number INTEGER PRIMARY KEY)"))
    both = text("INSERT INTO tally VALUES (:number)")
    with pytest.raises(IntegrityError), writing(engine) as session:
        session.execute(both, [{"number": 1}, {"number": 1}])
    assert numbers(engine) == []


def test_a_log_entry_without_its_message_is_refused(engine: Engine) -> None:
    columns = "outbox_id, channel, receiver, thread_key, accepted_at, receipt"
    row = "4711, 'mail', 'a@example.org', 't', '2026-11-21 10:39:00', 'r'"
    with pytest.raises(IntegrityError), writing(engine) as session:
        session.execute(text(f"INSERT INTO notification_log ({columns}) VALUES ({row})"))


SECRET = "what only its receiver may read"


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ({"team": None}, IntegrityError),  # PostgreSQL quotes the row
        ({}, IntegrityError),  # twice: PostgreSQL quotes the key
        ({"created_at": SECRET}, StatementError),  # before it is sent
    ],
    ids=["missing", "there already", "of another type"],
)
def test_an_error_shows_no_value(engine: Engine, values: dict[str, object], kind: type[Exception]) -> None:
    row: dict[str, object] = {
        name: SECRET for name, column in OutboxRow.__table__.columns.items() if column.type.python_type is str
    }
    row |= {"channel": "mail", "status": Status.PENDING, "attempts": 0}
    row |= dict.fromkeys(("interval_start", "created_at", "next_attempt_at"), datetime(2026, 11, 21, tzinfo=UTC))
    row |= values
    with pytest.raises(kind) as caught, writing(engine) as session:
        session.execute(insert(OutboxRow), [row, row])
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown
    assert "outbox" in shown, "the statement says where"


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("nonsense", "is not an SQLAlchemy URL"),
        ("mysql://host/database", "use sqlite or postgresql"),
        ("nosuch+driver://host/database", "is not an SQLAlchemy URL"),
        ("sqlite://", "needs a file"),
        ("sqlite:///:memory:", "needs a file"),
        ("sqlite:////proc/offsetguard.db", "/proc/offsetguard.db: unable to open database file; "),
        ("sqlite://user:s3cret@host/file.db", "its driver is not installed or asynchronous, or does not take"),
        ("sqlite:////tmp/none.db?timeout=s3cret", "does not take what stands behind the ?"),
        ("postgresql+psycopg://user:s3cret@127.0.0.1:1/none", "cannot be opened"),
        ("postgresql+psycopg://user@127.0.0.1:1/none?password=s3cret&sslpassword=s3cret", "cannot be opened"),
        ("postgresql+psycopg://user@127.0.0.1:1/none?nosuch=s3cret", "cannot be opened"),
        ("postgresql+psycopg://user@127.0.0.1:s3cret/none", "is not an SQLAlchemy URL"),
        ("postgresql+psycopg://user:p@s3cret@127.0.0.1/none", "%40"),
        ("postgresql+asyncpg://user:s3cret@127.0.0.1:1/none", "asynchronous"),
    ],
)
def test_a_database_that_cannot_be_used_is_named_without_its_password(url: str, says: str) -> None:
    with pytest.raises(StoreError, match=says) as caught:
        open_database(url)
    assert "s3cret" not in str(caught.value)
    assert isinstance(caught.value.__cause__, DBAPIError | OSError | None), "and nothing of another has the URL"
    assert "s3cret" not in f"{caught.value.__cause__}"


def test_an_sqlite_file_gets_its_folder(tmp_path: Path) -> None:
    open_database(f"sqlite:///{tmp_path / 'new' / 'folder' / 'offsetguard.db'}").dispose()
    assert (tmp_path / "new" / "folder" / "offsetguard.db").exists()


# What the judge holds when it is killed: the cluster's lock and rows that were not committed
HALF_A_JUDGEMENT = """
import sys
from sqlalchemy import text
from offsetguard.store.database import connect, serialize, writing
with writing(connect(sys.argv[1])) as session:
    serialize(session, "judge demo")
    session.execute(text("INSERT INTO tally VALUES (1)"))
    print("written", flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_a_killed_writer_leaves_nothing_and_blocks_nobody(database_url: str) -> None:
    engine = open_database(database_url)
    with writing(engine) as session:
        session.execute(text("CREATE TABLE tally (number INTEGER)"))
    with subprocess.Popen(
        [sys.executable, "-c", HALF_A_JUDGEMENT, database_url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        assert numbers(engine) == []
        writer.kill()
    with writing(engine) as session:
        serialize(session, "judge demo")
        session.execute(text("INSERT INTO tally VALUES (2)"))
    assert numbers(engine) == [2]
    engine.dispose()


def numbers(engine: Engine) -> list[int]:
    with reading(engine) as session:
        return list(session.scalars(text("SELECT number FROM tally")))
