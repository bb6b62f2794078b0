"""Opening our database: SQLite by default, PostgreSQL in production, the same migrations on both."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, inspect, select, text
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.orm import Session

from offsetguard.config.workspace import Workspace, why_unwritten
from offsetguard.model.errors import StoreError
from offsetguard.store.database_errors import (
    DAMAGED,
    DatabaseNamed,
    name_errors,
    naming_values,
    read_url,
    shown,
    what_failed,
)

BUSY_TIMEOUT_MS = 10_000
NEWEST_REVISION = "0001"  # a test compares it with the files
_MIGRATIONS = Path(__file__).parent / "migrations"
_WRITES = "offsetguard_writes"
_VARIABLE = "OFFSETGUARD_DATABASE_URL"
_USE = "use sqlite:///FILE or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE"
_WAL_PAUSE_S = 0.01
_RIGHTS_NEEDED = "run this as the user that Airflow runs as: who reads must be allowed to write there, as SQLite does"


def our_database() -> Engine:
    """Open the database that Airflow uses: OFFSETGUARD_DATABASE_URL, or SQLite in OFFSETGUARD_HOME; makes none."""
    return open_migrated(Workspace.from_environment().database_url)


def open_database(url: str) -> Engine:
    """Open a database and bring its tables to the newest revision; any number of processes may do so at once.

    `url`: an SQLAlchemy URL, `sqlite:///file` or `postgresql+psycopg://...`. Raises StoreError, which never shows
    the password.
    """
    if file := sqlite_file(url):
        _make_folder(file.parent)
    engine = connect(url)
    with _opening(engine):
        migrate(engine)
    return engine


def open_migrated(url: str, *, read_only: bool = False) -> Engine:
    """Open a database whose tables are of this release, and change nothing; raises StoreError where they are not.

    `read_only`: the database itself refuses whatever would change it later.
    """
    file = sqlite_file(url)
    if file and not _is_there(file):
        raise StoreError(
            f"{file} does not exist: nothing was collected here yet, or OFFSETGUARD_HOME (or OFFSETGUARD_DATABASE_URL) "
            "is another one where Airflow runs"
        )
    engine = connect(url, read_only=read_only)
    with _opening(engine):
        revision = _revision(engine)
    if revision != NEWEST_REVISION:
        engine.dispose()
        found = "has no tables of OffsetGuard yet" if revision is None else f"is of revision {revision}"
        raise StoreError(
            f"{shown(engine.url)} {found}, and this release needs {NEWEST_REVISION}: the next task of the DAG "
            "brings it there; restart what still runs an earlier release"
        )
    return engine


def sqlite_file(url: str) -> Path | None:
    """Return the file of a database, None where it is in PostgreSQL; raises StoreError for a wrong URL."""
    parsed = _parse(url)
    return Path(parsed.database or "") if parsed.get_backend_name() == "sqlite" else None


def connect(url: str, *, read_only: bool = False) -> Engine:
    """Return an engine; the database may be empty or old. Raises StoreError."""
    parsed = _parse(url)
    is_sqlite = parsed.get_backend_name() == "sqlite"
    options: dict[str, Any] = {"execution_options": {"postgresql_readonly": True}} if read_only else {}
    if read_only and is_sqlite:
        address = f"{Path(parsed.database or '').resolve().as_uri()}?mode=ro"
        options["creator"] = lambda: sqlite3.connect(address, uri=True, check_same_thread=False)
    try:
        engine = create_engine(parsed, pool_pre_ping=not is_sqlite, hide_parameters=True, **options)
        engine.dialect.create_connect_args(parsed)
        if engine.dialect.is_async:
            raise TypeError
    except (ArgumentError, ImportError, TypeError, ValueError):  # their texts may have the URL
        raise StoreError(
            f"{_VARIABLE}: {parsed.drivername} cannot be opened: its driver is not installed or asynchronous, or"
            f" does not take what stands behind the ?; {_USE}"
        ) from None
    name_errors(engine)
    if is_sqlite:
        _prepare_sqlite(engine, read_only=read_only)
    return engine


def migrate(engine: Engine) -> None:
    """Bring the tables to the newest revision, in one transaction; whoever comes second finds it done.

    Raises StoreError where another release made them, which this one does not know.
    """
    revision = _revision(engine)
    if revision == NEWEST_REVISION:
        return
    import alembic.command  # noqa: PLC0415 half a second that a process on a migrated database need not pay
    from alembic.config import Config  # noqa: PLC0415
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    if revision not in {None, *(one.revision for one in ScriptDirectory.from_config(config).walk_revisions())}:
        raise StoreError(
            f"{shown(engine.url)} is of revision {revision}, which this release ({NEWEST_REVISION}) does"
            " not know: run the release that made it, or name an empty database in OFFSETGUARD_DATABASE_URL"
        )
    with engine.connect().execution_options(**{_WRITES: True}) as connection, connection.begin():
        _take_lock(connection, "migrations")
        config.attributes["connection"] = connection
        alembic.command.upgrade(config, "head")


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """Open a session that only reads: it sees one consistent state on SQLite and never blocks a writer."""
    with naming_values(engine.url), Session(engine) as session:
        yield session


@contextmanager
def writing(engine: Engine) -> Iterator[Session]:
    """Open a session that writes: commits at the end, rolls back on any error.

    On SQLite it takes the write lock at once (BEGIN IMMEDIATE), so what it reads cannot be stale when it writes.
    """
    writer = engine.execution_options(**{_WRITES: True})
    with (
        naming_values(engine.url),
        Session(writer, expire_on_commit=False) as session,
        session.begin(),
    ):  # its rows are read after the end, too
        yield session


def serialize(session: Session, name: str) -> None:
    """Wait until no other transaction holds `name`, and hold it to the end of this one."""
    _take_lock(session.connection(), name)


def current_time(session: Session) -> datetime:
    """Return the database's time, aware, in UTC: what hosts whose clocks differ agree on. SQLite has the host's."""
    if session.connection().dialect.name == "sqlite":
        return datetime.now(UTC)
    moment: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
    return moment.astimezone(UTC)


def database_time(engine: Engine) -> datetime:
    """Return the same to who has no session: whatever is due, over or late is told by this clock and no other."""
    with reading(engine) as session:
        return current_time(session)


def _take_lock(connection: Connection, name: str) -> None:
    if connection.dialect.name == "postgresql":  # on SQLite BEGIN IMMEDIATE did it already
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name))"), {"name": f"offsetguard {name}"})


def _parse(url: str) -> URL:
    try:
        parsed = read_url(url)
    except ValueError as error:
        raise StoreError(f"{_VARIABLE} {error}; {_USE}") from None
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise StoreError(f"{parsed.get_backend_name()} is not supported; use sqlite or postgresql")
    if parsed.get_backend_name() == "sqlite" and (not parsed.database or parsed.database == ":memory:"):
        raise StoreError("an SQLite database needs a file: two processes must see the same incidents")
    return parsed


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{why_unwritten(folder, error)}; check {_VARIABLE}") from error


def _prepare_sqlite(engine: Engine, *, read_only: bool) -> None:
    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver would open and close transactions behind our back
        # SQLite's own knows the letters of ASCII only, PostgreSQL's all
        connection.create_function("lower", 1, _lower, deterministic=True)
        for pragma in (f"busy_timeout = {BUSY_TIMEOUT_MS}", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}")
        if not read_only:
            _switch_to_wal(connection)

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _lower(text: str | None) -> str | None:
    return None if text is None else text.lower()


def _switch_to_wal(connection: Any) -> None:
    """Make a database one of write-ahead logging; of several who do so at once SQLite turns some away without waiting.

    Its busy time-out does not hold for this pragma: https://www.sqlite.org/c3ref/busy_handler.html
    """
    give_up_at = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_at:
                raise
            time.sleep(_WAL_PAUSE_S)
        else:
            return


def _revision(engine: Engine) -> str | None:
    with engine.connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return None
        revision: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        return revision


def _is_there(file: Path) -> bool:
    """Whether there is a file; raises StoreError where this user may not even look."""
    try:
        file.stat()
    except PermissionError as error:
        raise StoreError(f"{file}: cannot be opened: {error.strerror}; {_RIGHTS_NEEDED}") from error
    except OSError:
        return False
    return True


@contextmanager
def _opening(engine: Engine) -> Iterator[None]:
    """Raise StoreError for what keeps a database from being opened, and close it."""
    try:
        yield
    except (DBAPIError, UnicodeDecodeError) as error:
        engine.dispose()
        if isinstance(error, UnicodeDecodeError):  # what SQLite says of a damaged schema quotes it
            said = f"{shown(engine.url)}: {error}; {DAMAGED}"
        elif isinstance(error, DatabaseNamed):
            said = what_failed(error)
        else:
            said = f"{shown(engine.url)}: cannot be opened: {what_failed(error)}; {_opening_advice(engine.url)}"
        raise StoreError(said) from error


def _opening_advice(url: URL) -> str:
    if url.get_backend_name() == "sqlite":
        file = Path(url.database or "")
        if not all(os.access(path, os.R_OK | os.W_OK) for path in (file, file.parent) if path.exists()):
            return _RIGHTS_NEEDED
    return f"check {_VARIABLE}"
