"""Published rows as the typed records of `facts`: a field is the column of its name.

A column that a row does not have, or that is NULL because an earlier release wrote the row, is the field's default.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, TypeVar

from offsetguard.facts import GroupFacts, OnlineGroupFacts, QueueFacts, TrafficHour
from offsetguard.offsets import MessageQueue, QueueOffsets
from offsetguard.queue_state import QueueState
from offsetguard.tables.baselines import Baseline
from offsetguard.traffic_baselines import unfold

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from _typeshed import DataclassInstance

    Row = Mapping[str, Any]
    Record = TypeVar("Record", bound=DataclassInstance)


def record_of(kind: type[Record], row: Row) -> Record:
    """Return a record of the row's columns; lists become tuples."""
    return kind(**_known_columns(kind, row))


def group_facts_of(row: Row) -> GroupFacts:
    """Return a `group_facts` row as a record."""
    return record_of(GroupFacts, row)


def queue_facts_of(row: Row) -> QueueFacts:
    """Return a `queue_facts` row as a record."""
    queue = {
        "message_queue": MessageQueue(row["topic"], row["broker_name"], row["queue_id"]),
        "offsets": QueueOffsets(row["min_offset"], row["max_offset"], row["consumer_offset"], row["pull_offset"]),
        "window": None if row.get("sample_count") is None else QueueState.from_row(row),
    }
    return QueueFacts(**(_known_columns(QueueFacts, row) | queue))


def traffic_hour_of(row: Row) -> Iterator[TrafficHour]:
    """Give what a row of `traffic_baselines` says of a topic beside the weeks before; of groups nothing."""
    if row["consumer_group"] is not None:
        return
    before = unfold(Baseline(row["mean_tps"], row["spread_tps"], row["week_count"]), row["hour_tps"])
    if before is not None:
        usual = (before.mean_tps, before.spread_tps, before.week_count)
        yield TrafficHour(row["topic"], row["hour_start_at"], row["hour_tps"], *usual)


def online_groups_of(rows: Iterable[Row]) -> Iterator[OnlineGroupFacts]:
    """Yield the groups with clients online of `group_snapshots` rows."""
    for row in rows:
        if row.get("message_model") is not None:
            yield record_of(OnlineGroupFacts, row)


def _known_columns(kind: type[DataclassInstance], row: Row) -> dict[str, Any]:
    columns = {}
    for field in fields(kind):
        value = row.get(field.name)
        if value is not None or (field.default is MISSING and field.default_factory is MISSING):
            columns[field.name] = tuple(value) if isinstance(value, list) else value
    return columns
