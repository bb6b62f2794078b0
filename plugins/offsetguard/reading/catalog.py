"""The catalog that Spark writes, opened by pyiceberg; what is wrong with it is said with the file and the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from sqlalchemy.exc import SQLAlchemyError

from offsetguard.errors import PublishError
from offsetguard.iceberg_catalog import CATALOG_NAME, NAMESPACE, sql_properties

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable

    from offsetguard.tables import Table
    from offsetguard.workspace import Workspace

NO_SNAPSHOT = -1  # published before anything was ever written to the table; Iceberg's own number for that


def open_catalog(workspace: Workspace) -> SqlCatalog:
    """Open the catalog that Spark writes; raises PublishError when there is none."""
    if not workspace.catalog_file.exists():
        raise PublishError(
            f"{workspace.catalog_file}: there is no catalog, so nothing was published in this workspace;"
            " check OFFSETGUARD_HOME, or run spark/jobs/publish_interval.py first"
        )
    return SqlCatalog(CATALOG_NAME, **sql_properties(workspace))


def load_table(catalog: SqlCatalog, table: Table) -> IcebergTable:
    """Load one of our tables; raises PublishError naming the catalog's file and the table when it cannot be."""
    try:
        return catalog.load_table((NAMESPACE, table.name))
    except NoSuchTableError:
        raise PublishError(f"{_file_of(catalog)}: table {NAMESPACE}.{table.name} does not exist") from None
    except SQLAlchemyError as error:
        reason = getattr(error, "orig", None) or error
        raise PublishError(f"{_file_of(catalog)}: table {NAMESPACE}.{table.name}: cannot be read: {reason}") from error
    except (OSError, ValueError) as error:
        raise PublishError(f"{_file_of(catalog)}: table {NAMESPACE}.{table.name}: cannot be read: {error}") from error


def _file_of(catalog: SqlCatalog) -> str:
    return str(catalog.properties["uri"]).removeprefix("sqlite:///")
