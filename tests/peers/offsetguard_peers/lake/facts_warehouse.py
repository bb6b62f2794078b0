"""A warehouse whose intervals are published without Spark: the same catalog, tables, files and rows in the database.

For tests and benchmarks of readers and of housekeeping, which need thousands of publications in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import And, EqualTo, Reference
from pyiceberg.expressions.literals import literal
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table as IcebergTable
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

from offsetguard.collect.landing import table_of
from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import CATALOG_NAME, NAMESPACE, NO_SNAPSHOT, sql_properties
from offsetguard.lake.upkeep.packing import live_files, write_file
from offsetguard.model.intervals import Interval
from offsetguard.store import published_intervals
from offsetguard.store.published_intervals import CLUSTER_PROPERTY, RUN_PROPERTY, PublishedInterval
from offsetguard.tables import ColumnType, Table
from offsetguard_peers.databases import fresh_database

Row = dict[str, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_TYPES: dict[ColumnType, IcebergType] = {
    ColumnType.STRING: StringType(),
    ColumnType.INT32: IntegerType(),
    ColumnType.INT64: LongType(),
    ColumnType.FLOAT64: DoubleType(),
    ColumnType.BOOLEAN: BooleanType(),
    ColumnType.TIMESTAMP: TimestamptzType(),
}
# As spark/offsetguard_spark/tables.py sets them.
_PROPERTIES = {
    "format-version": "2",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


@dataclass
class FactsWarehouse:
    """A workspace with some published tables."""

    workspace: Workspace
    tables: Sequence[Table]

    def __post_init__(self) -> None:
        self.workspace.home.mkdir(parents=True, exist_ok=True)
        self.engine = fresh_database(self.workspace.database_url)
        properties = sql_properties(self.workspace) | {"init_catalog_tables": "true"}
        self.catalog = SqlCatalog(CATALOG_NAME, **properties)
        self.catalog.create_namespace_if_not_exists(NAMESPACE)
        for table in self.tables:
            schema = iceberg_schema(table)
            self.catalog.create_table(
                (NAMESPACE, table.name), schema, None, _spec(table, schema), properties=_PROPERTIES
            )

    def iceberg_table(self, table: Table) -> IcebergTable:
        """Load a table."""
        return self.catalog.load_table((NAMESPACE, table.name))

    def publish(
        self,
        cluster: str,
        interval: Interval,
        rows: Mapping[Table, Sequence[Row]],
        *,
        run_id: str | None = None,
        show: bool = True,
        again: bool = False,
    ) -> str:
        """Write an interval's rows and show them; returns the run id.

        `show=False`: a run that was killed before its last step. `again`: the interval may have rows already.
        """
        run_id = run_id or f"{interval.name}_{abs(hash((cluster, interval))):012x}"[:29]
        properties = {RUN_PROPERTY: run_id, CLUSTER_PROPERTY: cluster}
        for table, new in rows.items():
            complete = [{"cluster": cluster, "interval_start": interval.start, **row} for row in new]
            self._write(table, cluster, interval, complete, properties, again=again)
        if show:
            self.show(cluster, interval, run_id)
        return run_id

    def _write(
        self,
        table: Table,
        cluster: str,
        interval: Interval,
        rows: Sequence[Row],
        properties: dict[str, str],
        *,
        again: bool,
    ) -> None:
        iceberg_table = self.iceberg_table(table)
        arrow = table_of(table, rows).cast(schema_to_pyarrow(iceberg_table.schema(), include_field_ids=True))
        is_state = table.partition == ("cluster",)  # replaced as a whole
        old = [
            file
            for file in (live_files(iceberg_table) if again or is_state else ())
            if is_state or file.first == file.last == interval.start
        ]
        with iceberg_table.transaction() as transaction:
            update = transaction.update_snapshot(snapshot_properties=properties)
            with update.overwrite() if old else update.fast_append() as producer:
                for file in old:
                    producer.delete_data_file(file.data_file)
                if rows:
                    by_day = () if is_state else ((interval.start - _EPOCH).days,)
                    partition = Record(*by_day, cluster)
                    producer.append_data_file(write_file(iceberg_table, table, arrow, partition, spec_id=0))

    def show(self, cluster: str, interval: Interval, run_id: str) -> None:
        """Make an interval visible to readers."""
        heads = {table.name: self.iceberg_table(table).current_snapshot() for table in self.tables}
        ids = {name: NO_SNAPSHOT if head is None else head.snapshot_id for name, head in heads.items()}
        published_at = interval.end + timedelta(seconds=5)
        published_intervals.record(
            self.engine, PublishedInterval(cluster, interval, run_id, published_at, "audited", ids, "{}")
        )

    def rows(self, table: Table, cluster: str, interval: Interval) -> list[Row]:
        """Return what a reader of the interval sees, in the order of the key."""
        published = published_intervals.get(self.engine, cluster, interval)
        if published is None:
            raise LookupError(f"{cluster} {interval.name} is not published")
        snapshot_id = published.snapshot_ids[table.name]
        if snapshot_id == NO_SNAPSHOT:
            return []
        scan = self.iceberg_table(table).scan(_this(cluster, interval), snapshot_id=snapshot_id)
        found: list[Row] = scan.to_arrow().to_pylist()
        return sorted(found, key=lambda row: [(row[name] is not None, row[name]) for name in table.key])


def iceberg_schema(table: Table) -> Schema:
    """Return a table's schema for pyiceberg."""
    fields = [
        NestedField(number, column.name, _type(column.type), required=not column.nullable, doc=column.meaning)
        for number, column in enumerate(table.columns, 1)
    ]
    return assign_fresh_schema_ids(Schema(*fields))


def _type(type_: ColumnType) -> IcebergType:
    if type_ in _TYPES:
        return _TYPES[type_]
    element = {"string list": StringType(), "int64 list": LongType(), "timestamp list": TimestamptzType()}[type_.value]
    return ListType(element_id=1_000, element_type=element, element_required=False)


def _spec(table: Table, schema: Schema) -> PartitionSpec:
    fields = []
    for number, transform in enumerate(table.partition, 1_000):
        column = transform.removeprefix("days(").removesuffix(")")
        source = schema.find_field(column).field_id
        by_day = transform.startswith("days(")
        name = f"{column}_day" if by_day else column
        fields.append(PartitionField(source, number, DayTransform() if by_day else IdentityTransform(), name))
    return PartitionSpec(*fields)


def _this(cluster: str, interval: Interval) -> And:
    return And(
        EqualTo(term=Reference("cluster"), value=literal(cluster)),
        EqualTo(term=Reference("interval_start"), value=literal(interval.start.isoformat())),
    )
