"""What readers are told when a table, its catalog or one of its files is not what it was."""

import shutil
import sqlite3
import traceback
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from offsetguard.lake.catalog import load_table, open_catalog
from offsetguard.model.errors import PublishError
from offsetguard.model.intervals import Interval
from offsetguard.tables import GROUP_FACTS
from offsetguard_peers.lake.warehouse import Warehouse, group_rows, minute


def _tables_folder(warehouse: Warehouse) -> Path:
    return warehouse.workspace.warehouse_folder / "facts" / "group_facts"


def _each(pattern: str, damage: Callable[[Path], object]) -> Callable[[Warehouse], None]:
    """Return what damages the files of the table that are called so."""

    def damage_all(warehouse: Warehouse) -> None:
        files = [*_tables_folder(warehouse).rglob(pattern)]
        assert files
        for file in files:
            damage(file)

    return damage_all


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda w: w.workspace.catalog_file.unlink(), r"catalog\.db: there is no catalog"),
        (
            lambda w: w.workspace.catalog_file.write_bytes(b"no database " * 1_000),
            r"catalog\.db: the catalog cannot be used: file is not a database; bring it back",
        ),
        (lambda w: w.workspace.catalog_file.write_bytes(b""), r"catalog\.db: "),
        (
            lambda w: shutil.rmtree(_tables_folder(w)),
            r"catalog\.db: table facts\.group_facts: cannot be read: .*No such file",
        ),
        (
            _each("*.metadata.json", lambda file: file.write_bytes(file.read_bytes()[:5_000])),
            r"table facts\.group_facts: cannot be read: /.*\.metadata\.json: .*bring it back from a backup",
        ),
        (_each("*.metadata.json", lambda file: file.write_bytes(b"[]")), r"cannot be read: /.*\.metadata\.json: "),
        (
            _each("*-m0.avro", lambda file: file.write_bytes(file.read_bytes()[:5_000])),
            r"group_facts: snapshot \d+: cannot be read: manifests in /.*/group_facts/metadata: ",
        ),
        (_each("snap-*.avro", lambda file: file.write_bytes(b"{}")), r"group_facts: snapshot \d+: .*: EOFError"),
        (_each("*.avro", Path.unlink), r"group_facts: snapshot \d+: .*No such file"),
        (_each("*.avro", lambda file: file.write_bytes(b"no avro")), r"group_facts: snapshot \d+: "),
        (  # a length of 2 GiB: pyiceberg's compiled decoder would read so far
            _each("*.avro", lambda file: file.write_bytes(file.read_bytes()[:5] + b"\xfe\xff\xff\xff\x0f")),
            r"group_facts: snapshot \d+: .*: EOFError",
        ),
        (_each("*.parquet", Path.unlink), r"group_facts: snapshot \d+: data files cannot be read: .*\.parquet"),
        (
            _each("*.parquet", lambda file: file.write_bytes(file.read_bytes()[:-7])),
            r"group_facts: snapshot \d+: data files cannot be read: .*\.parquet",
        ),
    ],
)
def test_what_cannot_be_read_is_named(warehouse: Warehouse, damage: Callable[[Warehouse], None], said: str) -> None:
    """For one interval, and for a past; a reader that knows nothing yet cannot make it up."""
    warehouse.show_minutes([0], warehouse.append(GROUP_FACTS, [group_rows(["billing"], [0])]))
    warehouse.catalog.close()
    damage(warehouse)
    readings = [
        lambda: warehouse.reader().interval(GROUP_FACTS, "demo", Interval(minute(0))),
        lambda: warehouse.reader().group_history("demo", "billing", minute(0), minute(9)),
    ]
    for read in readings:
        with pytest.raises(PublishError, match=f"(?s){said}"):
            read()


@pytest.mark.parametrize("pattern", ["*-m0.avro", "snap-*.avro"])
def test_no_damaged_manifest_ends_the_process(warehouse: Warehouse, pattern: str) -> None:
    warehouse.show_minutes([0], warehouse.append(GROUP_FACTS, [group_rows(["billing"], [0])]))
    (file,) = _tables_folder(warehouse).rglob(pattern)
    whole, chance, refused = file.read_bytes(), Random(1), 0  # noqa: S311
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(3):
            damaged[chance.randrange(len(whole))] = chance.choice((0x00, 0x80, 0xFF))
        file.write_bytes(damaged[: chance.choice((len(whole), chance.randrange(len(whole))))])
        try:
            warehouse.reader().interval(GROUP_FACTS, "demo", Interval(minute(0)))
        except PublishError:
            refused += 1
    assert refused > 30


def test_an_error_of_the_catalog_shows_no_value(warehouse: Warehouse) -> None:
    with sqlite3.connect(warehouse.workspace.catalog_file) as catalog:
        catalog.execute("DROP TABLE iceberg_tables")
    with pytest.raises(PublishError) as caught:
        load_table(open_catalog(warehouse.workspace), GROUP_FACTS)
    shown = "".join(traceback.format_exception(caught.value))
    assert "SQL parameters hidden" in shown
    assert "parameters: (" not in shown
