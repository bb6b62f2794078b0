"""What readers are told when a table, its catalog or one of its files is not what it was."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from offsetguard.model.errors import PublishError
from offsetguard.model.intervals import Interval
from offsetguard.tables import GROUP_FACTS
from offsetguard_peers.lake.warehouse import Warehouse, group_rows, minute


def _catalog_missing(warehouse: Warehouse) -> None:
    warehouse.workspace.catalog_file.unlink()


def _catalog_garbage(warehouse: Warehouse) -> None:
    warehouse.workspace.catalog_file.write_bytes(b"no database " * 1_000)


def _catalog_empty(warehouse: Warehouse) -> None:
    warehouse.workspace.catalog_file.write_bytes(b"")


def _folder_gone(warehouse: Warehouse) -> None:
    shutil.rmtree(warehouse.workspace.warehouse_folder / "facts" / "group_facts")


def _manifests_gone(warehouse: Warehouse) -> None:
    for file in (warehouse.workspace.warehouse_folder / "facts" / "group_facts" / "metadata").glob("*.avro"):
        file.unlink()


def _manifests_damaged(warehouse: Warehouse) -> None:
    for file in (warehouse.workspace.warehouse_folder / "facts" / "group_facts" / "metadata").glob("*.avro"):
        file.write_bytes(b"no avro")


def _file_gone(warehouse: Warehouse) -> None:
    warehouse.data_files()[0].unlink()


def _file_truncated(warehouse: Warehouse) -> None:
    file = warehouse.data_files()[0]
    file.write_bytes(file.read_bytes()[:-7])


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_catalog_missing, r"catalog\.db: there is no catalog"),
        (_catalog_garbage, r"catalog\.db: the catalog cannot be used: file is not a database; bring it back"),
        (_catalog_empty, r"catalog\.db: "),
        (_folder_gone, r"catalog\.db: table facts\.group_facts: cannot be read: .*No such file"),
        (_manifests_gone, r"group_facts: snapshot \d+: .*No such file"),
        (_manifests_damaged, r"group_facts: snapshot \d+: "),
        (_file_gone, r"group_facts: snapshot \d+: data files cannot be read: .*\.parquet"),
        (_file_truncated, r"group_facts: snapshot \d+: data files cannot be read: .*\.parquet"),
    ],
)
def test_what_cannot_be_read_is_named(warehouse: Warehouse, damage: Callable[[Warehouse], None], said: str) -> None:
    """For one interval, and for a past; a reader that knows nothing yet cannot make it up."""
    warehouse.publish([0], warehouse.append(group_rows(["billing"], [0])))
    warehouse.catalog.close()
    damage(warehouse)
    readings = [
        lambda: warehouse.reader().interval(GROUP_FACTS, "demo", Interval(minute(0))),
        lambda: warehouse.reader().group_history("demo", "billing", minute(0), minute(9)),
    ]
    for read in readings:
        with pytest.raises(PublishError, match=f"(?s){said}"):
            read()
