"""Opening our database: SQLite by default, PostgreSQL in production, the same migrations on both."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import alembic.command
from alembic.config import Config as AlembicConfig
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, OperationalError
from sqlalchemy.orm import Session

from offsetguard.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

BUSY_TIMEOUT_MS = 10_000
_MIGRATIONS = Path(__file__).parent / "migrations"
_WRITES = "offsetguard_writes"


def open_database(url: str) -> Engine:
    """Open a database and bring its tables to the newest revision; any number of processes may do so at once.

    `url`: an SQLAlchemy URL, `sqlite:///file` or `postgresql+psycopg://...`. Raises StoreError, which never shows
    the password.
    """
    parsed = _parse(url)
    engine = create_engine(parsed, pool_pre_ping=parsed.get_backend_name() == "postgresql")
    if engine.dialect.name == "sqlite":
        _prepare_sqlite(engine)
    try:
        _migrate(engine)
    except OperationalError as error:
        engine.dispose()
        shown = parsed.render_as_string(hide_password=True)
        raise StoreError(f"{shown}: cannot be opened: {error.orig}; check OFFSETGUARD_DATABASE_URL") from error
    return engine


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
    with Session(engine.execution_options(**{_WRITES: True})) as session, session.begin():
        yield session


def serialize(session: Session, name: str) -> None:
    """Wait until no other transaction holds `name`, and hold it to the end of this one."""
    _take_lock(session.connection(), name)


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
    if parsed.get_backend_name() == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise StoreError("an SQLite database needs a file: two processes must see the same incidents")
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
    return parsed


def _prepare_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver would open and close transactions behind our back
        for pragma in (f"busy_timeout = {BUSY_TIMEOUT_MS}", "foreign_keys = ON", "journal_mode = WAL"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _migrate(engine: Engine) -> None:
    config = AlembicConfig()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    newest = ScriptDirectory.from_config(config).get_current_head()
    with engine.connect() as connection:
        if MigrationContext.configure(connection).get_current_revision() == newest:
            return
    with engine.connect().execution_options(**{_WRITES: True}) as connection, connection.begin():
        _take_lock(connection, "migrations")
        config.attributes["connection"] = connection
        alembic.command.upgrade(config, "head")
