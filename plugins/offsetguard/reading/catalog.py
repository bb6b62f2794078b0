"""The catalog that Spark writes, opened by pyiceberg; what is wrong with it is said with the file and the table."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from offsetguard.errors import PublishError
from offsetguard.iceberg_catalog import CATALOG_NAME, NAMESPACE, sql_properties

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table as IcebergTable

    from offsetguard.store.published_intervals import PublishedInterval
    from offsetguard.tables import Table
    from offsetguard.workspace import Workspace

_ADVICE = {"locked": "another process holds it: run it again", "full": "make room on the disk"}
NO_SNAPSHOT = -1  # published before anything was ever written to the table; Iceberg's own number for that


def open_catalog(workspace: Workspace) -> SqlCatalog:
    """Open the catalog that Spark writes; raises PublishError when there is none."""
    if not workspace.catalog_file.exists():
        raise PublishError(
            f"{workspace.catalog_file}: there is no catalog, so nothing was published in this workspace;"
            " check OFFSETGUARD_HOME, or run spark/jobs/publish_interval.py first"
        )
    with catalog_errors_named(workspace.catalog_file):
        return SqlCatalog(CATALOG_NAME, **sql_properties(workspace))


def check_catalog_is_there(workspace: Workspace, newest: PublishedInterval | None) -> None:
    """Refuse to begin a new catalog where intervals were published: nobody could read them any more.

    `newest`: the newest published interval, None when there is none. Raises PublishError.
    """
    if newest is not None and not workspace.catalog_file.exists():
        raise PublishError(
            f"{workspace.catalog_file}: missing, although {newest.cluster} {newest.interval.name} was published with"
            " it; check OFFSETGUARD_HOME and OFFSETGUARD_DATABASE_URL, or bring it back from a backup"
        )


def load_table(catalog: SqlCatalog, table: Table) -> IcebergTable:
    """Load one of our tables; raises PublishError naming the catalog's file and the table when it cannot be."""
    file = _file_of(catalog)
    try:
        with catalog_errors_named(file):
            return catalog.load_table((NAMESPACE, table.name))
    except NoSuchTableError:
        raise _does_not_exist(file, table) from None
    except (OSError, ValueError) as error:
        raise PublishError(
            f"{file}: table {NAMESPACE}.{table.name}: cannot be read: {error}; if its folder is lost, bring it back"
            " from a backup"
        ) from error


def metadata_location(catalog: SqlCatalog, table: Table) -> str:
    """Return where a table's newest metadata are: a file that never changes. Raises PublishError."""
    file = _file_of(catalog)
    own = (IcebergTables.catalog_name == CATALOG_NAME) & (IcebergTables.table_namespace == NAMESPACE)
    query = select(IcebergTables.metadata_location).where(own, IcebergTables.table_name == table.name)
    with catalog_errors_named(file), catalog.engine.connect() as connection:
        location: str | None = connection.scalar(query)
    if location is None:
        raise _does_not_exist(file, table)
    return location


def table_names(catalog: SqlCatalog) -> set[str]:
    """Return the names of the tables that were created; raises PublishError when the catalog cannot be read."""
    with catalog_errors_named(_file_of(catalog)):
        return {name[-1] for name in catalog.list_tables(NAMESPACE)}


@contextmanager
def catalog_errors_named(file: Path) -> Iterator[None]:
    """Raise PublishError naming the catalog's file when SQLite cannot read or write it."""
    try:
        yield
    except SQLAlchemyError as error:
        reason = getattr(error, "orig", None) or error
        advice = next((told for said, told in _ADVICE.items() if said in str(reason)), "bring it back from a backup")
        raise PublishError(f"{file}: the catalog cannot be used: {reason}; {advice}") from error


def _does_not_exist(file: Path, table: Table) -> PublishError:
    return PublishError(f"{file}: table {NAMESPACE}.{table.name} does not exist")


def _file_of(catalog: SqlCatalog) -> Path:
    return Path(str(catalog.properties["uri"]).removeprefix("sqlite:///"))
