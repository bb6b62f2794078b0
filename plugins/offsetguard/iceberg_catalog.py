"""Where the Iceberg tables are found: one catalog, written by Spark (JDBC catalog) and read by pyiceberg (SQL catalog).

Both keep the same two tables in one SQLite file; `jdbc.schema-version=V1` is the layout that pyiceberg knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from offsetguard.workspace import Workspace

CATALOG_NAME = "offsetguard"
NAMESPACE = "facts"
BUSY_TIMEOUT_MS = 10_000


def jdbc_properties(workspace: Workspace) -> dict[str, str]:
    """Return the properties of Spark's catalog, without their `spark.sql.catalog.<name>.` prefix."""
    return {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{workspace.catalog_file}?journal_mode=WAL&busy_timeout={BUSY_TIMEOUT_MS}",
        "jdbc.schema-version": "V1",
        "warehouse": workspace.warehouse_folder.as_uri(),
        # One process writes at a time and reads what it has just written: a cache could only be stale.
        "cache-enabled": "false",
    }


def sql_properties(workspace: Workspace) -> dict[str, str]:
    """Return the properties of pyiceberg's catalog; a reader creates no tables in it."""
    return {
        "uri": f"sqlite:///{workspace.catalog_file}",
        "warehouse": workspace.warehouse_folder.as_uri(),
        "init_catalog_tables": "false",
    }
