"""Facts of a snapshot, or of several rounds of one cluster, in memory: for `check` and `diagnose`; no Spark, no tables.

Goal: they read what the pipeline's Spark job makes of its tables, of a few rounds in memory. The queries are those that
the pipeline runs on Spark (`facts/*.sql`). What has no earlier round is not known: growth of counters, baselines.
Plan: `facts_from_snapshot` makes what stands in the last round, and what is looked back for: the windows of the queues,
what was said meanwhile (offset moves, log lines). What grows (offsets, counters, the commit log) is compared with a
round about a minute back, as the pipeline compares its intervals; a queue whose offset was not known there yet with the
first round since that knows it.
Rates of queues are not those of `queue_figures.sql`: these lie between the newest two samples, here seconds apart,
where brokers count a minute; and each queue has a base of its own, with one time for what was written and another for
what was committed.
Not here: baselines of earlier weeks. A few minutes do not know them.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from offsetguard.collect.landing import Row
from offsetguard.collect.manifest import Manifest
from offsetguard.collect.snapshot import Snapshot
from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts, facts_of
from offsetguard.facts.queries import FactQueries, Moment, MomentQueries
from offsetguard.model.intervals import INTERVAL_LENGTH, Interval
from offsetguard.model.offsets import growth, milliseconds_between, per_second, sum_of_known
from offsetguard.tables import (
    BROKER_FACTS,
    CLIENT_SNAPSHOTS,
    GROUP_FACTS,
    GROUP_SNAPSHOTS,
    LOCK_WAIT_FACTS,
    LOG_EVENTS,
    LOG_LINE_FACTS,
    OFFSET_MOVE_FACTS,
    OFFSET_MOVES,
    QUEUE_SNAPSHOTS,
    SUBSCRIPTION_FACTS,
    TOPIC_FACTS,
    TOPIC_QUEUE_SNAPSHOTS,
    TRAFFIC_BASELINES,
    Table,
)
from offsetguard.tables.group_facts import GroupFacts

COUNTED_OVER = INTERVAL_LENGTH  # as the pipeline, which compares intervals; brokers' rates cover as much
_QUEUE = ("consumer_group", "topic", "broker_name", "queue_id")
_TOPIC_QUEUE = ("topic", "broker_name", "queue_id")
_Key = tuple[Any, ...]


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
    asked = {
        OFFSET_MOVE_FACTS: queries.of_all.have(OFFSET_MOVES),
        LOCK_WAIT_FACTS: have_lines,
        SUBSCRIPTION_FACTS: have_lines or len(tables.get(CLIENT_SNAPSHOTS.name, ())) > 1,
        LOG_LINE_FACTS: have_lines,
        TRAFFIC_BASELINES: False,
    }

    def rows(table: Table) -> Sequence[Row]:
        if table == GROUP_SNAPSHOTS:
            return rows_of(tables.get(table.name, ()))
        found = queries.rows(table.name) if asked.get(table, True) else ()
        if table in (GROUP_FACTS, TOPIC_FACTS, BROKER_FACTS):
            return sorted(found, key=lambda row: [row[name] for name in table.key])
        return found

    return facts_of(manifest, interval, now, rows)


def rows_of(table: pa.Table | Sequence[Row]) -> Sequence[Row]:
    """Return a table as dictionaries, if it is not that already."""
    if isinstance(table, Sequence):
        return table
    rows: list[Row] = table.to_pylist()
    return rows


def facts_of_rounds(
    rounds: Sequence[Snapshot],
    config: Config,
    *,
    now: datetime | None = None,
    state: pa.Table | None = None,
) -> IntervalFacts:
    """Return the facts at the end of some rounds of one cluster, oldest first, at least one.

    `now`: the moment up to which ages count; by default the end of the last round. `state`: of FactQueries.
    """
    moment = len(rounds), now or rounds[-1].manifest.finished_at
    return next(facts_of_moments(rounds, [moment], config, state=state))


def facts_of_moments(
    rounds: Sequence[Snapshot],
    moments: Sequence[tuple[int, datetime]],
    config: Config,
    *,
    state: pa.Table | None = None,
) -> Iterator[IntervalFacts]:
    """Yield the facts of each moment: how many of the rounds were over, and up to when ages count; in order of time."""
    asked = [
        Moment(count - 1, rounds[count - 1].manifest.interval_start, now, base_round(rounds[:count]))
        for count, now in moments
    ]
    queries = FactQueries([one.tables for one in rounds], asked, config.judgement, state=state)
    rates = (_queue_rates(rounds[:count], queries.about(place)) for place, (count, _) in enumerate(moments))
    queries.rate_queues([row | {"cluster": str(place)} for place, some in enumerate(rates) for row in some])
    for place, (count, now) in enumerate(moments):
        yield _facts_of(rounds[:count], config, now, queries.about(place))


def _facts_of(rounds: Sequence[Snapshot], config: Config, now: datetime, queries: MomentQueries) -> IntervalFacts:
    last = rounds[-1]
    facts = facts_from_snapshot(
        last.manifest,
        last.tables,
        config,
        Interval(last.manifest.interval_start),
        now=now,
        queries=queries,
    )
    base = base_round(rounds)
    if base is not None:
        facts = _with_written(facts, rounds[base:-1], last)
        facts = replace(facts, groups=tuple(_with_counters(facts.groups, rounds[base + 1 :])))
    return facts


def base_round(rounds: Sequence[Snapshot]) -> int | None:
    """Return the position of the round that the last one is compared with.

    It is the newest that is COUNTED_OVER older, else the first. A round that saw nothing is none; None = no other.
    """
    last = rounds[-1].manifest.started_at
    seen = [(place, one) for place, one in enumerate(rounds[:-1]) if not one.manifest.cluster_unseen]
    far_back = [place for place, one in seen if last - one.manifest.started_at >= COUNTED_OVER]
    return far_back[-1] if far_back else next((place for place, _ in seen), None)


def _queue_rates(rounds: Sequence[Snapshot], queries: MomentQueries) -> Iterator[Row]:
    """Yield how fast each queue of the last round was written and consumed since the one that it is compared with."""
    base = base_round(rounds)
    if base is None:
        return
    since, last = rounds[base:-1], rounds[-1]
    filtered = {(row["consumer_group"], row["topic"]) for row in queries.rows("subscribed") if row["filtered"]}
    queues = _by_key(last, QUEUE_SNAPSHOTS, _QUEUE)
    before = _rows_before(since, queues, QUEUE_SNAPSHOTS, _QUEUE, ("max_offset",))
    # A group commits some time after it has started. What it consumed and what was written is then of the same time.
    before |= _rows_before(since, queues, QUEUE_SNAPSHOTS, _QUEUE, ("max_offset", "consumer_offset"))
    if filtered:  # brokers count a minute of what a filter let through: less time says nothing of its share
        in_base = _by_key(since[0], QUEUE_SNAPSHOTS, _QUEUE)
        before |= {queue: in_base.get(queue) for queue in queues if queue[:2] in filtered}
    consumed = _rates(before, queues, "consumer_offset", "consumer_offset_read_at")
    produced = _rates(before, queues, "max_offset", "max_offset_read_at")
    for queue in queues:
        yield dict(zip(_QUEUE, queue, strict=True)) | {"produce_tps": produced[queue], "consume_tps": consumed[queue]}


def _with_written(facts: IntervalFacts, since: Sequence[Snapshot], last: Snapshot) -> IntervalFacts:
    """Add messages per second of topics; `since`: the rounds from the base round on, without the last."""
    ends = _by_key(last, TOPIC_QUEUE_SNAPSHOTS, _TOPIC_QUEUE)
    ends_before = _rows_before(since, ends, TOPIC_QUEUE_SNAPSHOTS, _TOPIC_QUEUE, ("max_offset",))
    written: defaultdict[str, list[float | None]] = defaultdict(list)
    for (topic, *_), rate in _rates(ends_before, ends, "max_offset", "read_at").items():
        written[topic].append(rate)
    topics = (replace(one, produce_tps=sum_of_known(written[one.topic])) for one in facts.topics)
    return replace(facts, topics=tuple(topics))


def _by_key(one: Snapshot, table: Table, key: Sequence[str]) -> dict[_Key, Row]:
    return {tuple(row[name] for name in key): row for row in rows_of(one.tables[table.name])}


def _rows_before(
    since: Sequence[Snapshot], rows: Collection[_Key], table: Table, key: Sequence[str], figures: Sequence[str]
) -> dict[_Key, Row | None]:
    """Return for each key its row of the first of some rounds in which all figures were known, if there is one."""
    found: dict[_Key, Row | None] = {}
    for one in since:
        if len(found) == len(rows):
            break
        for place, row in _by_key(one, table, key).items():
            if place in rows and all(row[name] is not None for name in figures):
                found.setdefault(place, row)
    return found


def _rates(
    before: Mapping[_Key, Row | None], rows: Mapping[_Key, Row], figure: str, read_at: str
) -> dict[_Key, float | None]:
    """Return by key how much a figure grew per second; `read_at`: the column of when it was read."""
    rates: dict[_Key, float | None] = dict.fromkeys(rows)
    for place, now in rows.items():
        if (one := before.get(place)) is not None:
            elapsed_ms = milliseconds_between(one[read_at], now[read_at])
            rates[place] = per_second(growth(now[figure], one[figure]), elapsed_ms)
    return rates


def _with_counters(groups: Iterable[GroupFacts], rounds: Iterable[Snapshot]) -> Iterable[GroupFacts]:
    """Add up by how much retry and dead-letter topics grew: each round tells its growth since the one before it."""
    grown: dict[str, dict[str, list[int | None]]] = defaultdict(lambda: defaultdict(list))
    for one in rounds:
        for row in rows_of(one.tables[GROUP_SNAPSHOTS.name]):
            for name in ("retry_growth", "dead_letter_growth"):
                grown[row["consumer_group"]][name].append(row[name])
    for group in groups:
        figures = {name: sum_of_known(some) for name, some in grown[group.consumer_group].items()}
        yield replace(group, **figures)  # type: ignore[arg-type]
