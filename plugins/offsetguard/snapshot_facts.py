"""Facts of snapshots in memory, for `check` and `diagnose`: no Spark, no tables, nothing kept.

The queries are those that the pipeline runs on Spark (`facts/*.sql`). Growth of counters and baselines are None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offsetguard.broker_facts import BrokerSources, broker_facts, cluster_facts
from offsetguard.fact_queries import FactQueries, Moment
from offsetguard.fact_rows import group_facts_of, online_groups_of, queue_facts_of
from offsetguard.facts import IntervalFacts, LockWaitFacts, LogLineFacts, OffsetMoveFacts, SubscriptionFacts
from offsetguard.facts.parameters import parameters_of
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
    from offsetguard.fact_queries import Tables
    from offsetguard.intervals import Interval

_TABLES_READ = (
    TOPIC_QUEUE_SNAPSHOTS,
    TOPIC_SETTINGS,
    GROUP_SNAPSHOTS,
    CLIENT_SNAPSHOTS,
    BROKER_SNAPSHOTS,
    BROKER_STATS,
)


@dataclass(frozen=True, slots=True)
class Look:
    """A snapshot to make facts of; ages count up to `now`.

    `earlier`: the tables of earlier snapshots, oldest first; their queues are folded into the windows, and what they
    tell of offset moves and log lines counts.
    """

    manifest: Manifest
    tables: Tables
    interval: Interval
    now: datetime
    earlier: Sequence[Tables] = ()

    @property
    def moment(self) -> Moment:
        """What queries are asked about."""
        return Moment([*self.earlier, self.tables], self.now)


def facts_from_snapshot(
    manifest: Manifest,
    tables: Mapping[str, pa.Table | Sequence[Row]],
    config: Config,
    interval: Interval,
) -> IntervalFacts:
    """Return what the rules read, made of one snapshot's tables (pyarrow, or the dictionaries of `collect.landing`).

    As for published facts, ages count up to the interval's end.
    """
    return facts_of([Look(manifest, tables, interval, interval.end)], config)[0]


def facts_of(looks: Sequence[Look], config: Config) -> list[IntervalFacts]:
    """Return the facts of each of several looks at one cluster; the queues of all of them take a few queries."""
    last = looks[-1]
    parameters = parameters_of(config.judgement, last.interval, last.now)
    queries = FactQueries([one.moment for one in looks], parameters)
    names = ("queue_figures", QUEUE_FACTS.name, GROUP_FACTS.name)
    found = zip(looks, *(queries.rows(name) for name in names), strict=True)
    return [_facts(one, config, figures, queues, groups) for one, figures, queues, groups in found]


def _facts(
    look: Look, config: Config, figures: Sequence[Row], queues: Sequence[Row], groups: Sequence[Row]
) -> IntervalFacts:
    manifest = look.manifest
    rows = {table.name: rows_of(look.tables.get(table.name, ())) for table in _TABLES_READ}
    topics, settings = rows[TOPIC_QUEUE_SNAPSHOTS.name], rows[GROUP_SNAPSHOTS.name]
    added_up = [QueueFigures(row) for row in figures]
    brokers = broker_facts(BrokerSources(rows[BROKER_SNAPSHOTS.name], added_up, topics, before={}))
    queries = FactQueries([look.moment], parameters_of(config.judgement, look.interval, look.now))
    have_lines = queries.have(LOG_EVENTS)
    have_subscriptions = have_lines or len(rows[CLIENT_SNAPSHOTS.name]) > 1
    return IntervalFacts(
        cluster=manifest.cluster,
        interval=look.interval,
        now=look.now,
        queues=tuple(queue_facts_of(row) for row in queues),
        groups=tuple(group_facts_of(row) for row in sorted(groups, key=_pair)),
        topics=tuple(topic_facts(added_up, topics, rows[TOPIC_SETTINGS.name], rows[BROKER_STATS.name])),
        brokers=tuple(brokers),
        cluster_facts=cluster_facts(brokers, len({row["topic"] for row in topics}), settings),
        offset_moves=queries.records(OFFSET_MOVE_FACTS.name, OffsetMoveFacts) if queries.have(OFFSET_MOVES) else (),
        lock_waits=queries.records(LOCK_WAIT_FACTS.name, LockWaitFacts) if have_lines else (),
        subscriptions=queries.records(SUBSCRIPTION_FACTS.name, SubscriptionFacts) if have_subscriptions else (),
        log_lines=queries.records(LOG_LINE_FACTS.name, LogLineFacts) if have_lines else (),
        online_groups=tuple(online_groups_of(settings)),
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
