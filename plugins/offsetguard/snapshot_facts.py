"""Facts of one snapshot in memory, for `check` and `diagnose`: no Spark, no tables, nothing kept.

The queries are those that the pipeline runs on Spark (`facts/*.sql`). Growth of counters and baselines are None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from offsetguard.broker_facts import BrokerSources, broker_facts, cluster_facts
from offsetguard.fact_queries import FactQueries, Moment
from offsetguard.fact_rows import group_facts_of, online_groups_of, queue_facts_of
from offsetguard.facts import IntervalFacts, LockWaitFacts, LogLineFacts, OffsetMoveFacts, SubscriptionFacts
from offsetguard.queue_sums import QueueFigures
from offsetguard.tables import (
    BROKER_SNAPSHOTS,
    BROKER_STATS,
    CLIENT_SNAPSHOTS,
    GROUP_FACTS,
    GROUP_SNAPSHOTS,
    LOCK_WAIT_FACTS,
    LOG_EVENTS,
    LOG_LINE_FACTS,
    OFFSET_MOVE_FACTS,
    OFFSET_MOVES,
    QUEUE_FACTS,
    SUBSCRIPTION_FACTS,
    TOPIC_QUEUE_SNAPSHOTS,
    TOPIC_SETTINGS,
)
from offsetguard.topic_facts import topic_facts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    import pyarrow as pa

    from offsetguard.collect.landing import Row
    from offsetguard.collect.manifest import Manifest
    from offsetguard.config import Config
    from offsetguard.fact_queries import MomentQueries
    from offsetguard.intervals import Interval

_TABLES_READ = (
    TOPIC_QUEUE_SNAPSHOTS,
    TOPIC_SETTINGS,
    GROUP_SNAPSHOTS,
    CLIENT_SNAPSHOTS,
    BROKER_SNAPSHOTS,
    BROKER_STATS,
)


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
    rows = {table.name: rows_of(tables.get(table.name, ())) for table in _TABLES_READ}
    topics, groups = rows[TOPIC_QUEUE_SNAPSHOTS.name], rows[GROUP_SNAPSHOTS.name]
    queues = [QueueFigures(row) for row in queries.rows("queue_figures")]
    brokers = broker_facts(BrokerSources(rows[BROKER_SNAPSHOTS.name], queues, topics, before={}))
    have_lines = queries.of_all.have(LOG_EVENTS)
    have_subscriptions = have_lines or len(rows[CLIENT_SNAPSHOTS.name]) > 1
    return IntervalFacts(
        cluster=manifest.cluster,
        interval=interval,
        now=now,
        queues=tuple(map(queue_facts_of, queries.rows(QUEUE_FACTS.name))),
        groups=tuple(map(group_facts_of, sorted(queries.rows(GROUP_FACTS.name), key=_pair))),
        topics=tuple(topic_facts(queues, topics, rows[TOPIC_SETTINGS.name], rows[BROKER_STATS.name])),
        brokers=tuple(brokers),
        cluster_facts=cluster_facts(brokers, len({row["topic"] for row in topics}), groups),
        offset_moves=queries.records(OFFSET_MOVE_FACTS, OffsetMoveFacts) if queries.of_all.have(OFFSET_MOVES) else (),
        lock_waits=queries.records(LOCK_WAIT_FACTS, LockWaitFacts) if have_lines else (),
        subscriptions=queries.records(SUBSCRIPTION_FACTS, SubscriptionFacts) if have_subscriptions else (),
        log_lines=queries.records(LOG_LINE_FACTS, LogLineFacts) if have_lines else (),
        online_groups=tuple(online_groups_of(groups)),
        gaps=manifest.gap_facts(),
        unseen_brokers=tuple(one.as_fact() for one in manifest.unseen_brokers),
        unseen_broker_names=frozenset(manifest.unseen_broker_names),
        cluster_unseen=manifest.cluster_unseen,
        logs_read=bool(manifest.log_cursors),
    )


def _pair(row: Row) -> tuple[str, str]:
    return row["consumer_group"], row["topic"]


def rows_of(table: pa.Table | Sequence[Row]) -> Sequence[Row]:
    """Return a table as dictionaries, if it is not that already."""
    if isinstance(table, Sequence):
        return table
    rows: list[Row] = table.to_pylist()
    return rows
