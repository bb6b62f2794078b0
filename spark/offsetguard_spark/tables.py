"""The tables of `offsetguard.tables` in Spark: their schemas and names, and bringing them to this release's columns.

Spark's server commits rows by its clock, this process commits branches by its own, and in a table's metadata times must
not go back (`offsetguard.lake.upkeep.commit_times`). So a difference of more than a minute stops a run before it
writes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from grpc import RpcError
from pyiceberg.table import Table as IcebergTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType
from pyspark.sql.utils import is_remote

from offsetguard.catalogue.text import format_moment
from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import CATALOG_NAME, NAMESPACE, load_table, open_catalog
from offsetguard.lake.creation import RESERVED_PROPERTY, create_missing_tables, properties_of
from offsetguard.lake.upkeep.commit_times import TOLERATED, check_times
from offsetguard.model.errors import PublishError
from offsetguard.tables import PUBLISHED, Table
from offsetguard.tables.table import arrow_schema
from offsetguard_spark.connect import telling_line


def spark_schema(table: Table) -> StructType:
    """Return the Spark schema of a table, in column order."""
    return from_arrow_schema(arrow_schema(table), prefer_timestamp_ntz=False)


@dataclass(frozen=True, slots=True)
class Query:
    """A query in SQL."""

    text: str
    parameters: dict[str, Any]  # by the names that the text has for them

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return its rows, which are analysed now, and computed when they are used."""
        return spark.sql(self.text, self.parameters)


def nothing(spark: SparkSession, table: Table) -> DataFrame:
    """Return no rows of a table: the server need not look for it, and what is joined with it costs nothing."""
    return spark.createDataFrame([], spark_schema(table)).where(F.lit(False))  # by this the planner knows


def as_frame(spark: SparkSession, table: Table, rows: pa.Table) -> DataFrame:
    """Return rows that Python has, sent as Arrow: by any other way a Python worker would be started to convert them."""
    if not len(rows):
        return nothing(spark, table)
    try:
        return spark.createDataFrame(rows)
    except RpcError as error:  # of the upload, which PySpark gives no error of its own
        raise PublishError(
            f"{table.name}: Spark's server could not keep {len(rows):,} rows that were sent to it; is its disk full? "
            f"{telling_line(str(error))}"
        ) from error


def table_name(table: Table, branch: str | None = None) -> str:
    """Return the table's name in Spark SQL, or that of one of its branches."""
    name = f"{CATALOG_NAME}.{NAMESPACE}.{table.name}"
    return name if branch is None else f"{name}.branch_{branch}"


def prepare_tables(spark: SparkSession, workspace: Workspace, say: Callable[[str], None]) -> dict[Table, IcebergTable]:
    """Create the tables that do not exist yet and evolve the others; returns the metadata of all. Says what it did.

    Raises PublishError where a clock has damaged the times of commits, or would do so now.
    """
    create_missing_tables(workspace)
    states = load_tables(workspace)
    check_times(states.values(), agreed_time(spark))
    statements = [one for table, created in states.items() for one in _evolutions(table, created)]
    for statement in statements:
        spark.sql(statement)
        say(f"tables: {statement}")
    return load_tables(workspace) if statements else states


def load_tables(workspace: Workspace) -> dict[Table, IcebergTable]:
    """Load the metadata of every published table."""
    catalog = open_catalog(workspace)
    return {table: load_table(catalog, table) for table in PUBLISHED}


def _evolutions(table: Table, created: IcebergTable) -> list[str]:
    """Return the ALTER TABLE statements that bring a table of an earlier release to this one's columns.

    Only metadata change: old rows stay where they are and show NULL in a new column, which is nullable there even if
    new rows must have a value. Published snapshots keep the schema that they were written with.
    """
    alter = f"ALTER TABLE {table_name(table)}"
    fields = {field.name: field for field in created.schema().fields}
    statements = []
    for column in table.columns:
        field = fields.get(column.name)
        if field is None:
            column_type = spark_schema(table)[column.name].dataType.simpleString()
            comment = quoted(column.meaning)
            statements.append(f"{alter} ADD COLUMN {column.name} {column_type} COMMENT {comment}")
            continue
        if field.required and column.nullable:
            statements.append(f"{alter} ALTER COLUMN {column.name} DROP NOT NULL")
        if field.doc != column.meaning:
            statements.append(f"{alter} ALTER COLUMN {column.name} COMMENT {quoted(column.meaning)}")
    wanted = {name: value for name, value in properties_of(table).items() if name != RESERVED_PROPERTY}
    if changed := {name: value for name, value in wanted.items() if created.properties.get(name) != value}:
        assignments = ", ".join(f"{quoted(name)} = {quoted(value)}" for name, value in changed.items())
        statements.append(f"{alter} SET TBLPROPERTIES ({assignments})")
    return statements


def quoted(text: str) -> str:
    """Return a text as Spark SQL's literal."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


_THIS_HOST = frozenset({"localhost", "127.0.0.1", "::1"})


def agreed_time(spark: SparkSession) -> datetime:
    """Return the time by whichever clock is behind; raises PublishError, with both, where they differ by too much."""
    here = server = datetime.now(UTC)
    if is_remote() and _host_of(spark) not in _THIS_HOST:  # else it has the same clock, and need not be asked
        (row,) = spark.sql("SELECT unix_millis(current_timestamp()) AS now_ms").collect()
        server = datetime.fromtimestamp(row["now_ms"] / 1000, UTC)
    return agreed(here, server)


def _host_of(spark: Any) -> str:  # PySpark types a Connect session's client as what a classic one has
    host: str = spark.client.host
    return host


def agreed(here: datetime, server: datetime) -> datetime:
    """Return the earlier of two clocks' times; raises PublishError where they differ by more than a minute."""
    if abs(here - server) > TOLERATED:
        raise PublishError(
            f"the clock of this host says {format_moment(here)}, the Spark server {format_moment(server)}: both "
            "commit to the same tables, in which times must not go back; nothing was written; set both by NTP"
        )
    return min(here, server)
