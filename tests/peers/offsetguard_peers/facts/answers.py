"""What `facts/*.sql` say on DuckDB of the rows, samples or states that a test gives."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

import pyarrow as pa

from offsetguard.config.groups import Judgement
from offsetguard.facts.duckdb_engine import DuckDBEngine
from offsetguard.facts.interval import Record
from offsetguard.facts.parameters import fold_parameters
from offsetguard.facts.queries import FactQueries, Moment, Tables
from offsetguard.model.intervals import Interval
from offsetguard.tables import CLIENT_SNAPSHOTS, QUEUE_SNAPSHOTS, QUEUE_STATE, Table
from offsetguard.tables.queue_state import Sample
from offsetguard.tables.table import arrow_schema


def answers(table: Table, kind: type[Record], rows: Tables, interval: Interval) -> list[Record]:
    """Return the facts of a table as records, in a fixed order. `rows`: by name of the landed table."""
    queries = FactQueries([rows], [Moment(0, interval.start, interval.end)], Judgement())
    return sorted(queries.about(0).records(table, kind), key=repr)


Row = dict[str, Any]
History = list[tuple["datetime", Sample]]
"""Samples with the starts of their intervals, in any order."""

_KEY = {"broker_name": "b", "topic": "t", "queue_id": 0, "consumer_group": "g"}


def sample_at(at: datetime | None, low: int | None, committed: int | None, high: int | None) -> Sample:
    """Return what one look saw, everything at once; None: nothing was seen."""
    return Sample(
        min_offset=low, consumer_offset=committed, max_offset=high, consumer_offset_read_at=at, max_offset_read_at=at
    )


def states_of(histories: Sequence[History]) -> list[Row]:
    """Return the `queue_state` row of each history, as many snapshots at once make it."""
    engine = DuckDBEngine()
    engine.add(f"{QUEUE_SNAPSHOTS.name}_history", _table(QUEUE_SNAPSHOTS, sample_rows(histories)))
    starts = [start for history in histories for start, _ in history]
    parameters = fold_parameters(max(starts), first_interval_start=min(starts))
    return _in_order(engine.rows("queue_windows", parameters))


def stepped(before: Sequence[Row], newest: Sequence[History]) -> list[Row]:
    """Return the states after one more snapshot, of each queue one sample or none; what belongs together by places."""
    engine = DuckDBEngine()
    engine.add(f"{QUEUE_STATE.name}_before", _table(QUEUE_STATE, before))
    engine.add(QUEUE_SNAPSHOTS.name, _table(QUEUE_SNAPSHOTS, sample_rows(newest)))
    return _in_order(
        engine.rows(QUEUE_STATE.name, fold_parameters(max(start for samples in newest for start, _ in samples)))
    )


def sample_rows(histories: Sequence[History]) -> list[Row]:
    """Return `queue_snapshots` rows; each history is of a cluster of its own."""
    return [
        {"cluster": str(number), **_KEY, "interval_start": start}
        | {one.name: getattr(sample, one.name) for one in fields(Sample)}
        for number, history in enumerate(histories)
        for start, sample in history
    ]


def figures_of(states: Sequence[Row], moments: Sequence[datetime]) -> list[Row]:
    """Return the `queue_figures` row of each state, as of the moment at its place."""
    engine = DuckDBEngine()
    parameters = fold_parameters(max(moments))
    intervals = [
        {"cluster": one["cluster"], "interval_start": one["interval_start"], "now": now}
        for one, now in zip(states, moments, strict=True)
    ]
    engine.add("intervals", pa.Table.from_pylist(intervals))
    engine.add(QUEUE_STATE.name, _table(QUEUE_STATE, states))
    engine.add(CLIENT_SNAPSHOTS.name, _table(CLIENT_SNAPSHOTS, []))
    for step in ("clients", "group_clients", "queue_curves", "time_lags"):
        engine.keep(step, parameters)
    return _in_order(engine.rows("queue_figures", parameters))


def _table(table: Table, rows: Sequence[Row]) -> pa.Table:
    schema = pa.schema([column.with_nullable(True) for column in arrow_schema(table)])
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema=schema)


def _in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: int(row["cluster"]))
