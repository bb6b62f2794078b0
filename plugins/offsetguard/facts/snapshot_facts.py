"""Facts of one snapshot in memory, for `check` and `diagnose`: no Spark, no tables, nothing kept.

The queries are those that the pipeline runs on Spark (`facts/*.sql`). What has no earlier round is not known:
growth of counters, baselines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import pyarrow as pa

from offsetguard.collect.landing import Row
from offsetguard.collect.manifest import Manifest
from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts, group_facts_of, online_groups_of, queue_facts_of
from offsetguard.facts.queries import FactQueries, Moment, MomentQueries
from offsetguard.model.intervals import Interval
from offsetguard.tables import (
    BROKER_FACTS,
    CLIENT_SNAPSHOTS,
    CLUSTER_FACTS,
    GROUP_FACTS,
    GROUP_SNAPSHOTS,
    LOCK_WAIT_FACTS,
    LOG_EVENTS,
    LOG_LINE_FACTS,
    OFFSET_MOVE_FACTS,
    OFFSET_MOVES,
    QUEUE_FACTS,
    SUBSCRIPTION_FACTS,
    TOPIC_FACTS,
)
from offsetguard.tables.broker_facts import BrokerFacts, ClusterFacts
from offsetguard.tables.facts import OffsetMoveFacts, TopicFacts
from offsetguard.tables.log_facts import LockWaitFacts, LogLineFacts, SubscriptionFacts


def facts_from_snapshot(
    manifest: Manifest,
    tables: Mapping[str, pa.Table | Sequence[Row]],
    config: Config,
    interval: Interval,
    *,
    now: datetime | None = None,
    queries: MomentQueries | None = None,
) -> IntervalFacts:
    """Return what the rules read, made of one snapshot's tables (pyarrow, or the dictionaries of `collect.landing`).

    `now`: by default the interval's end, as for published facts; ages count up to it, and what was said is looked back
    for from it. `queries`: about this moment, where somebody asks about several at once, or earlier snapshots count.
    """
    now = now or interval.end
    if queries is None:
        queries = FactQueries([tables], [Moment(0, interval.start, now)], config.judgement).about(0)
    have_lines = queries.of_all.have(LOG_EVENTS)
    have_subscriptions = have_lines or len(tables.get(CLIENT_SNAPSHOTS.name, ())) > 1
    return IntervalFacts(
        cluster=manifest.cluster,
        interval=interval,
        now=now,
        queues=tuple(map(queue_facts_of, queries.rows(QUEUE_FACTS.name))),
        groups=tuple(map(group_facts_of, sorted(queries.rows(GROUP_FACTS.name), key=_pair))),
        topics=tuple(sorted(queries.records(TOPIC_FACTS, TopicFacts), key=lambda one: one.topic)),
        brokers=tuple(sorted(queries.records(BROKER_FACTS, BrokerFacts), key=_replica)),
        cluster_facts=next(iter(queries.records(CLUSTER_FACTS, ClusterFacts)), None),
        offset_moves=queries.records(OFFSET_MOVE_FACTS, OffsetMoveFacts) if queries.of_all.have(OFFSET_MOVES) else (),
        lock_waits=queries.records(LOCK_WAIT_FACTS, LockWaitFacts) if have_lines else (),
        subscriptions=queries.records(SUBSCRIPTION_FACTS, SubscriptionFacts) if have_subscriptions else (),
        log_lines=queries.records(LOG_LINE_FACTS, LogLineFacts) if have_lines else (),
        online_groups=tuple(online_groups_of(rows_of(tables.get(GROUP_SNAPSHOTS.name, ())))),
        gaps=manifest.gap_facts(),
        unseen_brokers=tuple(one.as_fact() for one in manifest.unseen_brokers),
        unseen_broker_names=frozenset(manifest.unseen_broker_names),
        cluster_unseen=manifest.cluster_unseen,
        logs_read=bool(manifest.log_cursors),
    )


def _replica(broker: BrokerFacts) -> tuple[str, int]:
    return broker.broker_name, broker.broker_id


def _pair(row: Row) -> tuple[str, str]:
    return row["consumer_group"], row["topic"]


def rows_of(table: pa.Table | Sequence[Row]) -> Sequence[Row]:
    """Return a table as dictionaries, if it is not that already."""
    if isinstance(table, Sequence):
        return table
    rows: list[Row] = table.to_pylist()
    return rows
