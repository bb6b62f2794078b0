"""The facts of a published interval as the judge reads them, without Spark.

Readers see the tables at the snapshot ids of the `published_intervals` row, so a half-published or newer state never
shows; a deleted row is not missed and a rerun is not seen before it is whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pyiceberg.catalog.sql import SqlCatalog

from offsetguard.collect.manifest import Manifest
from offsetguard.config.workspace import Workspace
from offsetguard.facts.interval import (
    IntervalFacts,
    group_facts_of,
    online_groups_of,
    queue_facts_of,
    record_of,
    traffic_hour_of,
)
from offsetguard.lake.catalog import open_catalog
from offsetguard.lake.reading import read_interval
from offsetguard.store.published_intervals import RETENTION_PASSED, PublishedInterval
from offsetguard.tables import (
    BROKER_FACTS,
    CLUSTER_FACTS,
    GROUP_FACTS,
    GROUP_SNAPSHOTS,
    INVARIANT_RESULTS,
    LOCK_WAIT_FACTS,
    LOG_LINE_FACTS,
    OFFSET_MOVE_FACTS,
    QUEUE_FACTS,
    SUBSCRIPTION_FACTS,
    TOPIC_FACTS,
    TRAFFIC_BASELINES,
    Table,
)
from offsetguard.tables.broker_facts import BrokerFacts, ClusterFacts
from offsetguard.tables.facts import OffsetMoveFacts, TopicFacts
from offsetguard.tables.gate import InvariantResult
from offsetguard.tables.log_facts import LockWaitFacts, LogLineFacts, SubscriptionFacts

Row = dict[str, Any]
Record = TypeVar("Record")


def read_interval_facts(workspace: Workspace, published: PublishedInterval, manifest: Manifest) -> IntervalFacts:
    """Return what the rules read about one published interval.

    Raises PublishError when the catalog, a table, a published snapshot or a data file is not there.
    """
    catalog = open_catalog(workspace)

    def records(table: Table, record: Callable[[Row], Record]) -> tuple[Record, ...]:
        return tuple(record(row) for row in read_rows(catalog, table, published))

    def records_of(table: Table, kind: type[Any]) -> tuple[Any, ...]:
        return records(table, lambda row: record_of(kind, row))

    return IntervalFacts(
        cluster=published.cluster,
        interval=published.interval,
        now=published.interval.end,
        queues=records(QUEUE_FACTS, queue_facts_of),
        groups=records(GROUP_FACTS, group_facts_of),
        topics=records_of(TOPIC_FACTS, TopicFacts),
        brokers=records_of(BROKER_FACTS, BrokerFacts),
        cluster_facts=next(iter(records_of(CLUSTER_FACTS, ClusterFacts)), None),
        offset_moves=records_of(OFFSET_MOVE_FACTS, OffsetMoveFacts),
        lock_waits=records_of(LOCK_WAIT_FACTS, LockWaitFacts),
        subscriptions=records_of(SUBSCRIPTION_FACTS, SubscriptionFacts),
        log_lines=records_of(LOG_LINE_FACTS, LogLineFacts),
        online_groups=tuple(online_groups_of(_kept_rows(catalog, GROUP_SNAPSHOTS, published))),
        invariant_results=records_of(INVARIANT_RESULTS, InvariantResult),
        gaps=manifest.gap_facts(),
        unseen_brokers=tuple(one.as_fact() for one in manifest.unseen_brokers),
        traffic_hours=tuple(
            one for row in read_rows(catalog, TRAFFIC_BASELINES, published) for one in traffic_hour_of(row)
        ),
        unseen_broker_names=frozenset(manifest.unseen_broker_names),
        cluster_unseen=manifest.cluster_unseen,
        logs_read=bool(manifest.log_cursors),
    )


def read_rows(catalog: SqlCatalog, table: Table, published: PublishedInterval) -> list[Row]:
    """Return a table's rows of one published interval, ordered by key; raises PublishError as the reader does."""
    rows: list[Row] = read_interval(catalog, table, published).to_pylist()
    return rows


def _kept_rows(catalog: SqlCatalog, table: Table, published: PublishedInterval) -> list[Row]:
    """Do the same of a table of snapshots, which are kept for days only; none when they are gone."""
    gone = published.snapshot_ids.get(table.name) == RETENTION_PASSED
    return [] if gone else read_rows(catalog, table, published)
