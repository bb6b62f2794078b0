"""The facts of an interval as the judge reads them, without Spark: published, or landed and not yet published.

Readers see the tables at the snapshot ids of the `published_intervals` row, so a half-published or newer state never
shows; a deleted row is not missed and a rerun is not seen before it is whole.

While Spark is late, the judge goes on with what has landed: whoever is woken up must not wait for the heaviest part.
The figures are those that the pipeline will publish, by the same SQL on DuckDB. The newest published `queue_state` is
folded on by every round that has landed since, so that nothing that it remembers is lost; counters and rates are
compared with landed rounds, as `check` does; log lines and moves are looked back for in landed rounds. Not here, and so
"not audited": no invariant was checked, and a row that cannot be right is not in quarantine. Nor is there the usual
traffic of earlier weeks. Nothing of it is written: the next publication makes the facts that stay.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from sqlalchemy import Engine

from offsetguard.collect.landing import landed_intervals, read_manifest, read_table, snapshot_folder
from offsetguard.collect.manifest import Manifest
from offsetguard.collect.snapshot import Snapshot
from offsetguard.config import Config
from offsetguard.config.workspace import Workspace
from offsetguard.facts.interval import IntervalFacts, facts_of
from offsetguard.facts.queries import fold
from offsetguard.facts.rounds import facts_of_rounds
from offsetguard.lake.catalog import open_catalog
from offsetguard.lake.reading import read_interval, read_queue_state, table_schema
from offsetguard.model.errors import PublishError, SnapshotError
from offsetguard.model.intervals import INTERVAL_LENGTH, Interval
from offsetguard.store import cycles, published_intervals
from offsetguard.store.models import CycleRow
from offsetguard.store.published_intervals import RETENTION_PASSED, PublishedInterval
from offsetguard.tables import GROUP_SNAPSHOTS, LANDED, LOG_EVENTS, OFFSET_MOVES, QUEUE_SNAPSHOTS, QUEUE_STATE, Table

Row = dict[str, Any]


def read_interval_facts(workspace: Workspace, published: PublishedInterval, manifest: Manifest) -> IntervalFacts:
    """Return what the rules read about one published interval.

    Raises PublishError when the catalog, a table, a published snapshot or a data file is not there.
    """
    catalog = open_catalog(workspace)

    def rows(table: Table) -> list[Row]:
        if table == GROUP_SNAPSHOTS and published.snapshot_ids.get(table.name) == RETENTION_PASSED:
            return []  # snapshots are kept for days only
        return read_rows(catalog, table, published)

    return facts_of(manifest, published.interval, published.interval.end, rows)


def read_rows(catalog: SqlCatalog, table: Table, published: PublishedInterval) -> list[Row]:
    """Return a table's rows of one published interval, ordered by key; raises PublishError as the reader does."""
    rows: list[Row] = read_interval(catalog, table, published).to_pylist()
    return rows


LOOK_BACK = timedelta(hours=2)
"""A state that is older is not gone on from; then what has landed within it is folded, as `rebuild` does on Spark."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_COMPARED = 3  # rounds before the newest: rates and counters ask for one that is a minute older
_SAID = (LOG_EVENTS, OFFSET_MOVES)  # what older rounds are still looked through for
_NOTHING = {table.name: table_schema(table).empty_table() for table in LANDED}


def unaudited_facts(
    workspace: Workspace,
    engine: Engine,
    cluster: str,
    interval: Interval,
    config: Config,
    *,
    say: Callable[[str], object],
) -> IntervalFacts:
    """Return what the rules read about a landed interval; raises SnapshotError where a landed file is damaged.

    `say` is told what cannot be read of the published state, or of earlier rounds: then the others have to do.
    """
    published = published_intervals.newest(engine, cluster, before=interval.start)
    state = _state_after(workspace, published, interval, say)
    judgement, oldest = config.judgement, interval.start - LOOK_BACK
    folded_from = published.interval.start if published and len(state) else oldest - INTERVAL_LENGTH
    said_from = interval.start - timedelta(milliseconds=max(judgement.log_window_ms, judgement.offset_move_window_ms))
    since = min(folded_from, said_from)
    landed = landed_intervals(workspace.landing_folder, cluster, since, interval.start - INTERVAL_LENGTH)
    rounds = []
    for place, one in enumerate([*landed, interval]):
        is_compared = place >= len(landed) - _COMPARED
        folded = (QUEUE_SNAPSHOTS,) if one.start > folded_from else ()
        try:
            taken = _landed(workspace, cluster, one, LANDED if is_compared else (*_SAID, *folded))
        except SnapshotError as error:
            if one == interval:
                raise
            say(f"{error}; going on without this round")
            continue
        state = fold(state, taken.tables[QUEUE_SNAPSHOTS.name])
        rounds.append(taken if is_compared else _without_queues(taken))
    facts = facts_of_rounds(rounds, config, now=interval.end, state=state)
    landed_so_far = landed_intervals(workspace.landing_folder, cluster, _LONG_AGO, interval.start)
    cycle = _publication_of(engine, published)
    return replace(
        facts,
        audited=False,
        unpublished_since=published.interval.end if published else None,
        first_landed_at=None if published else landed_so_far[0].start,
        publication_ended_at=cycle.finished_at if cycle else None,
        publication_ms=round(cycle.duration_s * 1000) if cycle else None,
    )


def _publication_of(engine: Engine, published: PublishedInterval | None) -> CycleRow | None:
    """Return the record of the run that published an interval; None where it could not be written."""
    if published is None:
        return None
    runs = cycles.newest(engine, cluster=published.cluster, interval=published.interval)
    return next((one for one in runs if one.verdict is not None), None)


def _state_after(
    workspace: Workspace, published: PublishedInterval | None, interval: Interval, say: Callable[[str], object]
) -> pa.Table:
    """Return the state of the queues that was published last; none if it is too old or cannot be read."""
    if published is not None and interval.start - published.interval.start <= LOOK_BACK:
        try:
            return read_queue_state(open_catalog(workspace), published)
        except PublishError as error:
            say(f"{error}; going on with the rounds that have landed since")
    return table_schema(QUEUE_STATE).empty_table()


def _landed(workspace: Workspace, cluster: str, interval: Interval, wanted: Sequence[Table]) -> Snapshot:
    folder = snapshot_folder(workspace.landing_folder, cluster, interval)
    manifest = read_manifest(folder)
    there = [table for table in wanted if table.name in manifest.row_counts]
    # one schema for all: in the file of a table without rows other columns may be required than in one with rows
    read = {table.name: read_table(folder, table).cast(table_schema(table)) for table in there}
    return Snapshot(manifest, _NOTHING | read)


def _without_queues(one: Snapshot) -> Snapshot:
    """Let go what was folded: of a large cluster two hours of it would fill the memory."""
    return replace(one, tables={**one.tables, QUEUE_SNAPSHOTS.name: _NOTHING[QUEUE_SNAPSHOTS.name]})
