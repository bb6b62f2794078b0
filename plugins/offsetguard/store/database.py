"""Opening our database: SQLite by default, PostgreSQL in production, the same migrations on both."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, func, inspect, make_url, select, text
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError
from sqlalchemy.orm import Session

from offsetguard.config.disk import disk_advice, takes_nothing, why_unwritten
from offsetguard.config.workspace import Workspace
from offsetguard.model.errors import StoreError

BUSY_TIMEOUT_MS = 10_000
NEWEST_REVISION = "0013"  # a test compares it with the files
_MIGRATIONS = Path(__file__).parent / "migrations"
_WRITES = "offsetguard_writes"
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
    if (parsed := _parse(url)).get_backend_name() == "sqlite":
        _make_folder(Path(parsed.database or "").parent)
    engine = connect(url)
    try:
        migrate(engine)
    except OperationalError as error:
        engine.dispose()
        raise _cannot_be_opened(url, error) from error
    return engine


def open_migrated(url: str, *, read_only: bool = False) -> Engine:
    """Open a database whose tables are of this release, and change nothing; raises StoreError where they are not.

    `read_only`: the database itself refuses whatever would change it later.
    """
    file = parsed.database if (parsed := _parse(url)).get_backend_name() == "sqlite" else None
    if file and not _is_there(Path(file)):
        raise StoreError(
            f"{file} does not exist: nothing was collected here yet, or OFFSETGUARD_HOME (or OFFSETGUARD_DATABASE_URL) "
            "is another one where Airflow runs"
        )
    engine = connect(url, read_only=read_only)
    try:
        revision = _revision(engine)
    except OperationalError as error:
        engine.dispose()
        raise _cannot_be_opened(url, error) from error
    if revision != NEWEST_REVISION:
        engine.dispose()
        found = "has no tables of OffsetGuard yet" if revision is None else f"is of revision {revision}"
        raise StoreError(
            f"{_shown(url)} {found}, and this release needs {NEWEST_REVISION}: the next task of the DAG "
            "brings it there; restart what still runs an earlier release"
        )
    return engine


def connect(url: str, *, read_only: bool = False) -> Engine:
    """Return an engine; the database may be empty or old. Raises StoreError."""
    parsed = _parse(url)
    is_sqlite = parsed.get_backend_name() == "sqlite"
    options: dict[str, Any] = {"execution_options": {"postgresql_readonly": True}} if read_only else {}
    if read_only and is_sqlite:
        address = f"{Path(parsed.database or '').resolve().as_uri()}?mode=ro"
        options["creator"] = lambda: sqlite3.connect(address, uri=True, check_same_thread=False)
    engine = create_engine(parsed, pool_pre_ping=not is_sqlite, hide_parameters=True, **options)
    if is_sqlite:
        _prepare_sqlite(engine, read_only=read_only)
    else:
        event.listen(engine, "handle_error", _leave_rows_out)
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
            f"{engine.url.render_as_string()} is of revision {revision}, which this release ({NEWEST_REVISION}) does"
            " not know: run the release that made it, or name an empty database in OFFSETGUARD_DATABASE_URL"
        )
    with engine.connect().execution_options(**{_WRITES: True}) as connection, connection.begin():
        _take_lock(connection, "migrations")
        config.attributes["connection"] = connection
        alembic.command.upgrade(config, "head")


@contextmanager
def reading(engine: Engine) -> Iterator[Session]:
    """Open a session that only reads: it sees one consistent state on SQLite and never blocks a writer."""
    with Session(engine) as session:
        yield session


@contextmanager
def writing(engine: Engine) -> Iterator[Session]:
    """Open a session that writes: commits at the end, rolls back on any error.

    On SQLite it takes the write lock at once (BEGIN IMMEDIATE), so what it reads cannot be stale when it writes.
    """
    writer = engine.execution_options(**{_WRITES: True})
    with Session(writer, expire_on_commit=False) as session, session.begin():  # its rows are read after the end, too
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
        parsed = make_url(url)
        parsed.get_dialect()
    except (ArgumentError, NoSuchModuleError):
        raise StoreError(
            "OFFSETGUARD_DATABASE_URL is not an SQLAlchemy URL; use sqlite:///FILE or "
            "postgresql+psycopg://USER:PASSWORD@HOST/DATABASE"
        ) from None
    if parsed.get_backend_name() not in ("sqlite", "postgresql"):
        raise StoreError(f"{parsed.get_backend_name()} is not supported; use sqlite or postgresql")
    if parsed.get_backend_name() == "sqlite" and (not parsed.database or parsed.database == ":memory:"):
        raise StoreError("an SQLite database needs a file: two processes must see the same incidents")
    return parsed


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{why_unwritten(folder, error)}; check OFFSETGUARD_DATABASE_URL") from error


def _leave_rows_out(context: ExceptionContext) -> None:
    """Let an error say what is wrong, and not for which row: PostgreSQL quotes its values in "DETAIL"."""
    primary = getattr(getattr(context.original_exception, "diag", None), "message_primary", None)
    if primary is not None:
        context.original_exception.args = (primary,)
        if context.sqlalchemy_exception is not None:
            context.sqlalchemy_exception.args = (primary,)


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

    @event.listens_for(engine, "handle_error", retval=True)
    def _name_disk(context: ExceptionContext) -> Exception | None:
        file, error = Path(engine.url.database or ""), context.original_exception
        if not isinstance(error, sqlite3.OperationalError) or "locked" in str(error) or not takes_nothing(file):
            return None
        return OperationalError(None, None, sqlite3.OperationalError(f"{error}: {file}: {disk_advice(file)}"))


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


def _cannot_be_opened(url: str, error: OperationalError) -> StoreError:
    parsed, advice = make_url(url), "check OFFSETGUARD_DATABASE_URL"
    if parsed.get_backend_name() == "sqlite":
        file = Path(parsed.database or "")
        if not all(os.access(path, os.R_OK | os.W_OK) for path in (file, file.parent) if path.exists()):
            advice = _RIGHTS_NEEDED
    return StoreError(f"{_shown(url)}: cannot be opened: {error.orig}; {advice}")


def _shown(url: str) -> str:
    return make_url(url).render_as_string(hide_password=True)
