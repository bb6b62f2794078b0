"""The facts of a published interval, read with pyiceberg: no Spark, milliseconds.

Readers see the tables at the snapshot ids of the `published_intervals` row, so a half-published or newer state never
shows; a deleted row is not missed and a rerun is not seen before it is whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offsetguard.facts import GroupFacts, IntervalFacts, InvariantResult, OffsetMoveFacts, QueueFacts
from offsetguard.offsets import MessageQueue, QueueOffsets
from offsetguard.reading.catalog import NO_SNAPSHOT, load_table, open_catalog
from offsetguard.reading.snapshot_reader import SnapshotReader
from offsetguard.tables import GROUP_FACTS, INVARIANT_RESULTS, OFFSET_MOVE_FACTS, QUEUE_FACTS, Table

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

    from offsetguard.collect.manifest import Manifest
    from offsetguard.store.published_intervals import PublishedInterval
    from offsetguard.workspace import Workspace

Row = dict[str, Any]

__all__ = ["NO_SNAPSHOT", "load_table", "open_catalog", "read_interval_facts", "read_rows"]


def read_interval_facts(workspace: Workspace, published: PublishedInterval, manifest: Manifest) -> IntervalFacts:
    """Return what the rules read about one published interval.

    Raises PublishError when the catalog, a table or a published snapshot is not there.
    """
    catalog = open_catalog(workspace)

    reader = SnapshotReader(lambda: catalog)

    def rows(table: Table) -> list[Row]:
        found: list[Row] = reader.interval(table, published).to_pylist()
        return found

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


def read_rows(catalog: SqlCatalog, table: Table, published: PublishedInterval) -> list[Row]:
    """Return a table's rows of one published interval, ordered by key; raises PublishError as the reader does."""
    rows: list[Row] = SnapshotReader(lambda: catalog).interval(table, published).to_pylist()
    return rows


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
        origin=row["origin"] or "event",  # published by release 0.1: it knew only events
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
