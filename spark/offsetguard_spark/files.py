"""Parquet files as Spark reads them: what has landed, and what a publication has made and hands over.

Local ones it reads itself. In an object store it finds what the Iceberg catalog names: there such files are a table of
the catalog until the next publication begins. (Hadoop's own client for S3 would need two SDKs of Amazon's in a mix that
nobody supports; rows of a large snapshot that are sent instead end a server of 2 GB.)
"""

import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from offsetguard.config import object_store
from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import CATALOG_NAME, catalog_errors_named, catalog_shown, location_of, sql_catalog
from offsetguard.lake.creation import schema_of
from offsetguard.tables import Table
from offsetguard_spark.tables import spark_schema

NAMESPACE = "handed_over"  # of the catalog: one publication at a time has tables in it


@dataclass(frozen=True, slots=True)
class SparkFiles:
    """The files of one publication."""

    workspace: Workspace

    def read(self, spark: SparkSession, table: Table, files: Sequence[Path]) -> DataFrame:
        """Return the rows of some files; nothing is read yet."""
        if self.workspace.store:
            return spark.table(self._named(table, files))
        return spark.read.schema(spark_schema(table)).parquet(*map(str, files))

    @contextmanager
    def handed_over(self, spark: SparkSession, table: Table, rows: pa.Table) -> Iterator[DataFrame]:
        """Give rows that Python has, in a file for as long as Spark reads them."""
        file = self.workspace.handed_over_folder / f"{table.name}-{uuid.uuid4().hex}.parquet"
        object_store.make_folder(file.parent)
        try:
            with file.open("wb") as written:
                pq.write_table(rows, written)
            yield self.read(spark, table, [file])
        finally:
            file.unlink(missing_ok=True)

    def clear(self) -> None:
        """Delete what the publication before has left; the files of snapshots stay."""
        folder = self.workspace.handed_over_folder
        if not self.workspace.store:
            shutil.rmtree(folder, ignore_errors=True)
            return
        catalog = sql_catalog(self.workspace)
        with catalog_errors_named(catalog_shown(self.workspace)):
            catalog.create_namespace_if_not_exists(NAMESPACE)
            for name in catalog.list_tables(NAMESPACE):
                catalog.drop_table(name)
        object_store.delete(folder)

    def _named(self, table: Table, files: Sequence[Path]) -> str:
        """Make files a table of the catalog; returns its name."""
        name = f"{table.name}_{uuid.uuid4().hex}"
        catalog = sql_catalog(self.workspace)
        with catalog_errors_named(catalog_shown(self.workspace)):
            made = catalog.create_table(
                (NAMESPACE, name),
                schema_of(table, with_required=False),
                location=f"{location_of(self.workspace.handed_over_folder)}/{name}",
            )
            made.add_files(list(map(str, files)), check_duplicate_files=False)
        return f"{CATALOG_NAME}.{NAMESPACE}.{name}"
