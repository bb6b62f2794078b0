"""The facts of a published interval, read with pyiceberg: no Spark, milliseconds.

Readers see the tables at the snapshot ids of the `published_intervals` row, so a half-published or newer state never
shows; a deleted row is not missed and a rerun is not seen before it is whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import And, EqualTo, Reference
from pyiceberg.expressions.literals import literal
from sqlalchemy.exc import SQLAlchemyError

from offsetguard.errors import PublishError
from offsetguard.facts import GroupFacts, IntervalFacts, InvariantResult, OffsetMoveFacts, QueueFacts
from offsetguard.iceberg_catalog import CATALOG_NAME, NAMESPACE, sql_properties
from offsetguard.offsets import MessageQueue, QueueOffsets
from offsetguard.tables import GROUP_FACTS, INVARIANT_RESULTS, OFFSET_MOVE_FACTS, QUEUE_FACTS, Table

if TYPE_CHECKING:
    from pyiceberg.table import Table as IcebergTable

    from offsetguard.collect.manifest import Manifest
    from offsetguard.store.published_intervals import PublishedInterval
    from offsetguard.workspace import Workspace

Row = dict[str, Any]

NO_SNAPSHOT = -1  # published before anything was ever written to the table; Iceberg's own number for that


def read_interval_facts(workspace: Workspace, published: PublishedInterval, manifest: Manifest) -> IntervalFacts:
    """Return what the rules read about one published interval.

    Raises PublishError when the catalog, a table or a published snapshot is not there.
    """
    catalog = open_catalog(workspace)

    def rows(table: Table) -> list[Row]:
        return read_rows(catalog, table, published)

    return IntervalFacts(
        cluster=published.cluster,
        interval=published.interval,
        now=published.interval.end,
        queues=tuple(_queue_facts(row) for row in rows(QUEUE_FACTS)),
        groups=tuple(_group_facts(row) for row in rows(GROUP_FACTS)),
        offset_moves=tuple(_offset_move_facts(row) for row in rows(OFFSET_MOVE_FACTS)),
        invariant_results=tuple(_invariant_result(row) for row in rows(INVARIANT_RESULTS)),
        gaps=tuple(gap.as_fact() for gap in manifest.gaps),
        unseen_broker_names=frozenset(manifest.unseen_broker_names),
        cluster_unseen=manifest.cluster_unseen,
    )


def open_catalog(workspace: Workspace) -> SqlCatalog:
    """Open the catalog that Spark writes; raises PublishError when there is none."""
    if not workspace.catalog_file.exists():
        raise PublishError(
            f"{workspace.catalog_file}: there is no catalog, so nothing was published in this workspace;"
            " check OFFSETGUARD_HOME, or run spark/jobs/publish_interval.py first"
        )
    return SqlCatalog(CATALOG_NAME, **sql_properties(workspace))


def load_table(catalog: SqlCatalog, table: Table) -> IcebergTable:
    """Load one of our tables; raises PublishError naming it when it cannot be."""
    try:
        return catalog.load_table((NAMESPACE, table.name))
    except NoSuchTableError:
        raise PublishError(f"{_file_of(catalog)}: table {NAMESPACE}.{table.name} does not exist") from None
    except (SQLAlchemyError, OSError, ValueError) as error:
        raise PublishError(f"{_file_of(catalog)}: table {NAMESPACE}.{table.name}: cannot be read: {error}") from error


def read_rows(catalog: SqlCatalog, table: Table, published: PublishedInterval) -> list[Row]:
    """Return a table's rows of one published interval, ordered by key; only its own files are opened."""
    snapshot_id = published.snapshot_ids.get(table.name)
    if snapshot_id == NO_SNAPSHOT:
        return []
    iceberg_table = load_table(catalog, table)
    if snapshot_id is None or iceberg_table.snapshot_by_id(snapshot_id) is None:
        raise PublishError(
            f"{table.name}: the published snapshot {snapshot_id} of {published.cluster} {published.interval.name}"
            " is not in the table any more; publish the interval again (--again)"
        )
    only_this = And(
        EqualTo(term=Reference("cluster"), value=literal(published.cluster)),
        EqualTo(term=Reference("interval_start"), value=literal(published.interval.start.isoformat())),
    )
    try:
        found = iceberg_table.scan(row_filter=only_this, snapshot_id=snapshot_id).to_arrow()
    except OSError as error:
        raise PublishError(f"{table.name}: a data file of snapshot {snapshot_id} cannot be read: {error}") from error
    rows: list[Row] = found.to_pylist()
    return sorted(rows, key=lambda row: [(row[name] is not None, row[name]) for name in table.key])


def _file_of(catalog: SqlCatalog) -> str:
    return str(catalog.properties["uri"]).removeprefix("sqlite:///")


def _message_queue(row: Row) -> MessageQueue:
    return MessageQueue(row["topic"], row["broker_name"], row["queue_id"])


def _queue_facts(row: Row) -> QueueFacts:
    return QueueFacts(
        consumer_group=row["consumer_group"],
        message_queue=_message_queue(row),
        offsets=QueueOffsets(row["min_offset"], row["max_offset"], row["consumer_offset"], row["pull_offset"]),
        last_timestamp=row["last_timestamp"],
        lag_ms=row["lag_ms"],
        violated_invariants=tuple(row["violated_invariants"]),
    )


def _group_facts(row: Row) -> GroupFacts:
    return GroupFacts(
        consumer_group=row["consumer_group"],
        topic=row["topic"],
        topic_kind=row["topic_kind"],
        queue_count=row["queue_count"],
        unknown_queue_count=row["unknown_queue_count"],
        never_committed_queue_count=row["never_committed_queue_count"],
        lag=row["lag"],
        effective_lag=row["effective_lag"],
        inflight=row["inflight"],
        available=row["available"],
        lost=row["lost"],
        lag_ms=row["lag_ms"],
        online_client_count=row["online_client_count"],
        message_model=row["message_model"],
        declared_orderly=row["declared_orderly"],
        lock_interval_ms=row["lock_interval_ms"],
        lock_max_live_time_ms=row["lock_max_live_time_ms"],
        violated_invariants=tuple(row["violated_invariants"]),
    )


def _offset_move_facts(row: Row) -> OffsetMoveFacts:
    return OffsetMoveFacts(
        consumer_group=row["consumer_group"],
        client_id=row["client_id"],
        topic=row["topic"],
        broker_name=row["broker_name"],
        queue_id=row["queue_id"],
        requested_offset=row["requested_offset"],
        corrected_offset=row["corrected_offset"],
        move_count=row["move_count"],
        first_moved_at=row["first_moved_at"],
        last_moved_at=row["last_moved_at"],
        origin=row.get("origin", "event"),  # published by release 0.1: it knew only events
    )


def _invariant_result(row: Row) -> InvariantResult:
    return InvariantResult(
        invariant_id=row["invariant_id"],
        table_name=row["table_name"],
        violation_means=row["violation_means"],
        rows_checked=row["rows_checked"],
        violations=row["violations"],
        examples=tuple(row["examples"]),
    )
