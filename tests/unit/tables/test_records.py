"""Rows as typed records: what a row does not say is nothing, and every column has its place."""

import dataclasses
import importlib
import pkgutil
from collections.abc import Iterator

from offsetguard import tables
from offsetguard.tables import QUEUE_STATE, Table
from offsetguard.tables.table import Column

NOTHING = (None, 0, (), "{}")
SAID = {("OffsetMoveFacts", "origin"), ("Sample", "origin")}  # where a figure comes from


def defaults() -> Iterator[tuple[str, str, object]]:
    for module in pkgutil.iter_modules(tables.__path__, f"{tables.__name__}."):
        for name, record in vars(importlib.import_module(module.name)).items():
            is_record = isinstance(record, type) and dataclasses.is_dataclass(record) and record not in (Column, Table)
            if is_record and record.__module__ == module.name:
                for field in dataclasses.fields(record):
                    if field.default is not dataclasses.MISSING:
                        yield name, field.name, field.default


def test_what_a_row_does_not_say_is_nothing() -> None:
    found = list(defaults())
    assert {"SubscriptionFacts", "Folded", "LogLineFacts"} <= {record for record, _, _ in found}
    made_up = [one for one in found if one[2] not in NOTHING and one[:2] not in SAID]
    assert made_up == []


def test_the_window_of_a_queue_keeps_five_points_each_with_all_its_columns() -> None:
    parts = ("at", "max_offset", "committed_offset")
    columns = [column.name for column in QUEUE_STATE.columns if column.name.startswith("point_")]
    assert columns == [f"point_{number}_{part}" for number in range(1, 6) for part in parts]
