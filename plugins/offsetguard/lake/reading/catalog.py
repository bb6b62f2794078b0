"""The catalog that Spark writes, opened by pyiceberg; what is wrong with it is said with the database and the table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table as IcebergTable
from sqlalchemy import NullPool, create_engine, inspect, select
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from offsetguard.config.workspace import Workspace
from offsetguard.lake.iceberg_catalog import (
    CATALOG_NAME,
    NAMESPACE,
    URL_VARIABLE,
    catalog_shown,
    shown,
    sql_properties,
    sqlite_file,
)
from offsetguard.model.errors import PublishError
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import Table

_ADVICE = {"locked": "another process holds it: run it again", "full": "make room on the disk"}
NO_SNAPSHOT = -1  # published before anything was ever written to the table; Iceberg's own number for that


def catalog_exists(workspace: Workspace) -> bool:
    """Whether there is a catalog: SQLite's file, or its tables in PostgreSQL. Raises PublishError when that is away."""
    file = sqlite_file(workspace)
    if file is not None:
        return file.exists()
    engine = create_engine(sql_properties(workspace)["uri"], poolclass=NullPool)
    with catalog_errors_named(catalog_shown(workspace)), engine.connect() as connection:
        return inspect(connection).has_table(IcebergTables.__tablename__)


def open_catalog(workspace: Workspace) -> SqlCatalog:
    """Open the catalog that Spark writes; raises PublishError when there is none."""
    if not catalog_exists(workspace):
        raise PublishError(
            f"{catalog_shown(workspace)}: there is no catalog, so nothing was published in this workspace;"
            f" check {_variable(workspace)}, or run spark/jobs/publish_interval.py first"
        )
    with catalog_errors_named(catalog_shown(workspace)):
        return SqlCatalog(CATALOG_NAME, **sql_properties(workspace))


def check_catalog_is_there(workspace: Workspace, newest: PublishedInterval | None) -> None:
    """Refuse to begin a new catalog where intervals were published: nobody could read them any more.

    `newest`: the newest published interval, None when there is none. Raises PublishError.
    """
    if newest is not None and not catalog_exists(workspace):
        raise PublishError(
            f"{catalog_shown(workspace)}: missing, although {newest.cluster} {newest.interval.name} was published with"
            f" it; check {_variable(workspace)} and OFFSETGUARD_DATABASE_URL, or bring it back from a backup"
        )


def load_table(catalog: SqlCatalog, table: Table) -> IcebergTable:
    """Load one of our tables; raises PublishError naming the catalog's database and the table when it cannot be."""
    database = _database_of(catalog)
    try:
        with catalog_errors_named(database):
            return catalog.load_table((NAMESPACE, table.name))
    except NoSuchTableError:
        raise _does_not_exist(database, table) from None
    except (OSError, ValueError) as error:
        raise PublishError(
            f"{database}: table {NAMESPACE}.{table.name}: cannot be read: {error}; if its folder is lost, bring it back"
            " from a backup"
        ) from error


def metadata_location(catalog: SqlCatalog, table: Table) -> str:
    """Return where a table's newest metadata are: a file that never changes. Raises PublishError."""
    database = _database_of(catalog)
    own = (IcebergTables.catalog_name == CATALOG_NAME) & (IcebergTables.table_namespace == NAMESPACE)
    query = select(IcebergTables.metadata_location).where(own, IcebergTables.table_name == table.name)
    with catalog_errors_named(database), catalog.engine.connect() as connection:
        location: str | None = connection.scalar(query)
    if location is None:
        raise _does_not_exist(database, table)
    return location


def table_names(catalog: SqlCatalog) -> set[str]:
    """Return the names of the tables that were created; raises PublishError when the catalog cannot be read."""
    with catalog_errors_named(_database_of(catalog)):
        return {name[-1] for name in catalog.list_tables(NAMESPACE)}


@contextmanager
def catalog_errors_named(database: str) -> Iterator[None]:
    """Raise PublishError naming the catalog's database (`catalog_shown`) when it cannot be read or written."""
    try:
        yield
    except SQLAlchemyError as error:
        reason = " ".join(str(getattr(error, "orig", None) or error).split())
        advice = next((told for said, told in _ADVICE.items() if said in reason), "bring it back from a backup")
        if database.startswith("postgresql") and isinstance(error, OperationalError):
            advice = f"check {URL_VARIABLE}, its password file, and that the server runs"
        raise PublishError(f"{database}: the catalog cannot be used: {reason}; {advice}") from error


def _does_not_exist(database: str, table: Table) -> PublishError:
    return PublishError(f"{database}: table {NAMESPACE}.{table.name} does not exist")


def _database_of(catalog: SqlCatalog) -> str:
    return shown(str(catalog.properties["uri"]))


def _variable(workspace: Workspace) -> str:
    """Return the environment variable that says where the catalog is."""
    return URL_VARIABLE if workspace.catalog_url else "OFFSETGUARD_HOME"
