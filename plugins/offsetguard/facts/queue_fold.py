"""The windows of queues whose samples are in memory: `facts/queue_state.sql`, sample by sample, on DuckDB."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pyarrow as pa

from offsetguard.facts.duckdb_engine import DuckDBEngine
from offsetguard.facts.parameters import fold_parameters
from offsetguard.facts.texts import QUEUE_WINDOWS
from offsetguard.tables import QUEUE_SNAPSHOTS
from offsetguard.tables.arrow import arrow_schema
from offsetguard.tables.queue_state import WINDOW, QueueState, Sample

Row = Mapping[str, Any]


Key = TypeVar("Key")
_SAMPLE = tuple(one.name for one in fields(Sample))


def windows_of(
    histories: Mapping[Key, Iterable[tuple[datetime, Sample]]], window: timedelta = WINDOW
) -> dict[Key, QueueState]:
    """Return the windows of some queues in one query, each made of all its samples; one without samples has none.

    Samples are given with the starts of their intervals, in any order, one of each interval.
    """
    keys = list(histories)
    rows: list[Row] = [
        {"cluster": "", "broker_name": "", "topic": "", "queue_id": number, "consumer_group": ""}
        | {"interval_start": interval_start}
        | {name: getattr(sample, name) for name in _SAMPLE}
        for number, key in enumerate(keys)
        for interval_start, sample in histories[key]
    ]
    if not rows:
        return {}
    engine = DuckDBEngine()
    engine.add(f"{QUEUE_SNAPSHOTS.name}_history", pa.Table.from_pylist(rows, schema=arrow_schema(QUEUE_SNAPSHOTS)))
    starts = [row["interval_start"] for row in rows]
    parameters = fold_parameters(max(starts), first_interval_start=min(starts), window=window)
    windows = {row["queue_id"]: QueueState.from_row(row) for row in engine.rows(QUEUE_WINDOWS, parameters)}
    return {key: windows[number] for number, key in enumerate(keys) if number in windows}
