"""Facts without a JVM: the texts of `facts/*.sql` on an in-memory DuckDB, and what two of them make.

Windows of queues (`windows_of`), and ages of messages (`time_lags`): how old is the message at an offset? Facts have
the ages of their own moment. Verdicts ask for those of other moments, and `explain` for those of samples that somebody
gives. A query costs as much for thousands of offsets as for one: who asks for many asks for all at once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from functools import cache
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

import duckdb
import pyarrow as pa

from offsetguard.facts import texts
from offsetguard.facts.parameters import fold_parameters
from offsetguard.tables import QUEUE_SNAPSHOTS
from offsetguard.tables.queue_state import WINDOW, QueueState, Sample
from offsetguard.tables.table import arrow_schema

Row = Mapping[str, Any]
Key = TypeVar("Key")
_SAMPLE = tuple(one.name for one in fields(Sample))
_THREADS = 1  # a second one costs small rows more than it brings


class DuckDBEngine:
    """Relations by name, and the queries over them; as many clusters at once as the relations hold."""

    def __init__(self) -> None:
        self._connection = _database().cursor()  # which has relations of its own

    def add(self, name: str, rows: pa.Table) -> None:
        """Let queries read `rows` by a name."""
        self._connection.register(name, rows)

    def view(self, name: str, query: str) -> None:
        """Let queries read by a name what another one gives, in DuckDB's SQL."""
        self._connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS {query}")

    def rows(self, name: str, parameters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Return the rows of `facts/NAME.sql`. Of `parameters` those count that the text names."""
        result = self._connection.execute(_statement(name), _of_text(name, parameters))
        columns = [column[0] for column in result.description]
        return [dict(zip(columns, row, strict=True)) for row in result.fetchall()]

    def table(self, name: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """Return the rows of `facts/NAME.sql` as a table."""
        return self._connection.sql(_statement(name), params=_of_text(name, parameters)).to_arrow_table()

    def keep(self, name: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run a query that other queries read by its name."""
        self._connection.execute(_statement(name, kept=True), _of_text(name, parameters))

    def rename(self, kept: str, name: str) -> None:
        """Let what is kept have another name."""
        self._connection.execute(f"ALTER TABLE {kept} RENAME TO {name}")


def _of_text(name: str, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    return {one: (parameters or {})[one] for one in texts.parameters_of(texts.duckdb_text(name))}


@cache
def _statement(name: str, *, kept: bool = False) -> duckdb.Statement:
    """Return a query, or what keeps its rows: parsed once, since a text takes longer to parse than small rows take."""
    text = texts.duckdb_text(name)
    (statement,) = _database().extract_statements(f"CREATE TEMP TABLE {name} AS {text}" if kept else text)
    return statement


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """Return the process's one: it takes ten times as long to make as a small query."""
    database = duckdb.connect(":memory:", config={"threads": _THREADS})
    database.execute("SET GLOBAL TimeZone = 'UTC'")
    return database


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
    windows = {row["queue_id"]: QueueState.from_row(row) for row in engine.rows(texts.QUEUE_WINDOWS, parameters)}
    return {key: windows[number] for number, key in enumerate(keys) if number in windows}


Point = tuple[int, int]
"""(max offset, when it was read in ms since 1970)."""

_LATEST_MS = 253_402_300_799_999  # the end of the year 9999


class TimeLag(NamedTuple):
    """An age and how it is known, or why it is not; None = unknown."""

    lag_ms: int | None
    basis: str
    """end_reached, interpolated, extrapolated; offset_unknown, curve_unknown, before_curve (too old for it),
    rounds_missed (nobody looked for a while, about when it was written)."""


class CurvePlace(NamedTuple):
    """An offset on the producer curve of its queue, whose age is asked for; None = not known."""

    curve: Sequence[Point]  # oldest first, neither offsets nor times going back
    offset: int | None
    now_ms: int
    unbroken_since_ms: int | None = None  # the first look behind rounds that were missed; None = none were


def time_lags(places: Sequence[CurvePlace]) -> list[TimeLag]:
    """Return the age of the message at each place, ms, at least 0."""
    if not places:
        return []
    engine = DuckDBEngine()
    engine.add("queue_curves", _queue_curves(places))
    found = {row["number"]: row["ages"][0] for row in engine.rows("time_lags")}
    return [TimeLag(found[number]["lag_ms"], found[number]["basis"]) for number in range(len(places))]


def _queue_curves(places: Sequence[CurvePlace]) -> pa.Table:
    points = [point for one in places for point in one.curve]
    offsets = pa.array([offset for offset, _ in points], pa.int64())
    moments = pa.array([min(at_ms, _LATEST_MS) for _, at_ms in points], pa.int64())
    ends = accumulate((len(one.curve) for one in places), initial=0)
    return pa.table(
        {
            "number": pa.array(range(len(places)), pa.int64()),
            "places": pa.ListArray.from_arrays(
                pa.array(range(len(places) + 1), pa.int32()), pa.array([one.offset for one in places], pa.int64())
            ),
            "points": pa.ListArray.from_arrays(
                pa.array(ends, pa.int32()), pa.StructArray.from_arrays([offsets, moments], ["max_offset", "at_ms"])
            ),
            "as_of_ms": pa.array([one.now_ms for one in places], pa.int64()),
            "unbroken_since_ms": pa.array([one.unbroken_since_ms for one in places], pa.int64()),
        }
    )


def producer_curve(points: Iterable[tuple[int | None, int | None]]) -> list[Point]:
    """Return the usable points in order of time: those after the max offset last moved back (the queue was recreated).

    Of several points of one moment the highest counts. Points without an offset or a time are left out.
    """
    known = sorted((at_ms, offset) for offset, at_ms in points if offset is not None and at_ms is not None)
    curve: list[Point] = []
    for at_ms, offset in known:
        if curve and curve[-1][1] == at_ms:
            curve.pop()
        if curve and offset < curve[-1][0]:
            curve.clear()
        curve.append((offset, at_ms))
    return curve
