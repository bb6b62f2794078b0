"""Landing: whole or not at all, one round at a time, leftovers removed, errors that name file and column."""

import asyncio
import json
from array import array
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.collect.columns import RUN_GAP, MostlyAlike, NumberColumn, arrow_array
from offsetguard.collect.earlier_round import earlier_round
from offsetguard.collect.landing import (
    collecting_lock,
    land,
    landed_after,
    newest_manifest,
    read_manifest,
    read_parts,
    read_table,
    snapshot_folder,
)
from offsetguard.config.workspace import MANIFEST_FILE_NAME
from offsetguard.model.errors import SnapshotError
from offsetguard.model.intervals import Interval
from offsetguard.tables import TOPIC_QUEUE_SNAPSHOTS, ColumnType
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.disks import TAKES_NOTHING, TinyDisk

INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
NEXT = Interval(INTERVAL.end)
ROW = {
    "cluster": "main",
    "interval_start": INTERVAL.start,
    "topic": "orders",
    "broker_name": "broker-a",
    "queue_id": 0,
    "min_offset": None,
    "max_offset": 2**62,
    "last_update_at": None,
    "read_at": INTERVAL.start + timedelta(microseconds=1),
}
MANIFEST = manifest_of(INTERVAL)


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    folder = land(tmp_path, MANIFEST, {TOPIC_QUEUE_SNAPSHOTS.name: [ROW]})
    assert read_table(folder, TOPIC_QUEUE_SNAPSHOTS).to_pylist() == [ROW]
    assert read_manifest(folder) == MANIFEST


def test_an_interval_that_has_landed_stays_as_it_is(tmp_path: Path) -> None:
    land(tmp_path, MANIFEST, {TOPIC_QUEUE_SNAPSHOTS.name: [ROW]})
    folder = land(tmp_path, MANIFEST, {})
    assert read_table(folder, TOPIC_QUEUE_SNAPSHOTS).num_rows == 1


def _renamed(rows: pa.Table) -> pa.Table:
    return rows.rename_columns(["topic" if name == "broker_name" else name for name in rows.schema.names])


def _with(name: str, *values: object) -> Callable[[pa.Table], pa.Table]:
    return lambda rows: rows.set_column(rows.schema.get_field_index(name), name, pa.array(*values))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_renamed, "cannot be read as Parquet"),
        (lambda rows: rows.drop_columns(["topic"]), "column topic is missing"),
        (_with("topic", [b"\xff\xfe"]), "column topic is .*binary"),
        (lambda rows: _with("topic", [b"\xff\xfe"])(rows).cast(rows.schema, safe=False), "cannot be read as Parquet"),
        (_with("read_at", [2**62], pa.timestamp("us", "UTC")), "cannot be read as Parquet: .*out of range"),
    ],
)
def test_a_damaged_file_is_told_by_name_to_whoever_reads_it(
    tmp_path: Path, damage: Callable[[pa.Table], pa.Table], words: str
) -> None:
    folder = land(tmp_path, MANIFEST, {TOPIC_QUEUE_SNAPSHOTS.name: [ROW]})
    file = folder / "topic_queue_snapshots.parquet"
    pq.write_table(damage(pq.ParquetFile(file).read()), file, store_schema=False)
    with pytest.raises(SnapshotError, match=f"{file}: {words}"):
        read_table(folder, TOPIC_QUEUE_SNAPSHOTS)
    with pytest.raises(SnapshotError, match=f"{file}: {words}"):
        list(read_parts(folder, TOPIC_QUEUE_SNAPSHOTS, ["broker_name", "topic", "read_at"]))


def test_a_column_that_came_with_an_upgrade_is_null_in_what_was_landed_before(tmp_path: Path) -> None:
    folder = land(tmp_path, MANIFEST, {TOPIC_QUEUE_SNAPSHOTS.name: [ROW]})
    file = folder / "topic_queue_snapshots.parquet"
    pq.write_table(pq.ParquetFile(file).read().drop_columns(["max_offset"]), file)
    assert read_table(folder, TOPIC_QUEUE_SNAPSHOTS).to_pylist() == [ROW | {"max_offset": None}]
    (part,) = read_parts(folder, TOPIC_QUEUE_SNAPSHOTS, ["topic", "max_offset"])
    assert part.to_pylist() == [{"topic": ROW["topic"], "max_offset": None}]


def test_columns_that_nobody_knows_are_left_out(tmp_path: Path) -> None:
    folder = land(tmp_path, MANIFEST, {TOPIC_QUEUE_SNAPSHOTS.name: [ROW]})
    file = folder / "topic_queue_snapshots.parquet"
    pq.write_table(pq.ParquetFile(file).read().append_column("more", pa.array([1])), file)
    assert read_table(folder, TOPIC_QUEUE_SNAPSHOTS).to_pylist() == [ROW]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"queue_id": "zero"}, "topic_queue_snapshots.parquet: column queue_id"),
        ({"max_offset": 2**63}, "topic_queue_snapshots.parquet: column max_offset"),
        ({"topic": None}, "column topic: 1 rows have no value"),
    ],
)
def test_a_row_that_does_not_fit_is_told_by_file_and_column_and_nothing_lands(
    tmp_path: Path, change: dict[str, object], words: str
) -> None:
    with pytest.raises(SnapshotError, match=words):
        land(tmp_path, MANIFEST, {TOPIC_QUEUE_SNAPSHOTS.name: [{**ROW, **change}]})
    assert list((tmp_path / "main").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told_by_name(tmp_path: Path) -> None:
    (tmp_path / "main").write_text("a file where a folder should be")
    with pytest.raises(SnapshotError, match=r"main/20261121T103900Z: cannot be written: .*OFFSETGUARD_HOME"):
        land(tmp_path, MANIFEST, {})


@pytest.mark.parametrize("how", TAKES_NOTHING)
def test_a_disk_that_takes_nothing_is_told_and_nothing_of_the_round_stays(disk: TinyDisk, how: str) -> None:
    break_it, said = TAKES_NOTHING[how]
    break_it(disk)
    with pytest.raises(SnapshotError, match=f"20261121T103900Z: cannot be written: {said}"):
        land(disk.folder, MANIFEST, {TOPIC_QUEUE_SNAPSHOTS.name: [ROW]})
    assert disk.files() == []


def test_a_disk_that_is_read_only_is_told_before_anything_is_asked(disk: TinyDisk) -> None:
    async def wait_for_the_turn() -> None:
        async with collecting_lock(disk.folder, "main", wait_s=1):
            pass

    disk.make_read_only()
    with pytest.raises(SnapshotError, match="main: cannot be written: Read-only file system; its disk is mounted"):
        asyncio.run(wait_for_the_turn())


def test_the_newest_manifest_is_the_one_before_and_a_folder_without_one_is_none(tmp_path: Path) -> None:
    assert newest_manifest(tmp_path, "main", NEXT, on_damage=print) is None
    land(tmp_path, MANIFEST, {})
    (tmp_path / "main" / "20261121T103930Z").mkdir()
    found = newest_manifest(tmp_path, "main", NEXT, on_damage=print)
    assert found is not None
    assert found.interval_start == INTERVAL.start
    assert newest_manifest(tmp_path, "main", INTERVAL, on_damage=print) is None
    assert landed_after(tmp_path, "main", Interval(INTERVAL.start - timedelta(minutes=1)))
    assert not landed_after(tmp_path, "main", INTERVAL)


def test_a_damaged_manifest_is_told_and_the_one_before_it_is_gone_on_from(tmp_path: Path) -> None:
    landing = tmp_path / "disk: the large one"
    land(landing, MANIFEST, {})
    land(landing, manifest_of(NEXT), {})
    file = snapshot_folder(landing, "main", NEXT) / MANIFEST_FILE_NAME
    file.write_text('{"cluster": "main"')
    earlier = earlier_round(landing, "main", Interval(NEXT.end))
    assert earlier.manifest == MANIFEST
    (damage,) = earlier.damages
    assert damage.source == str(file)
    assert damage.reason.startswith("not a manifest of OffsetGuard")


def test_a_manifest_that_a_later_release_landed_is_read_without_what_this_one_does_not_know(tmp_path: Path) -> None:
    folder = land(tmp_path, MANIFEST, {})
    file = folder / MANIFEST_FILE_NAME
    written = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps(written | {"of_tomorrow": 1, "requests": written["requests"] | {"slow": 3}}))
    assert read_manifest(folder) == MANIFEST


def test_leftovers_of_killed_rounds_go_and_everything_else_stays(tmp_path: Path) -> None:
    leftover = tmp_path / "main" / f".{INTERVAL.name}.{'0f' * 16}"
    others = [tmp_path / "main" / ".mine", tmp_path / "other" / leftover.name, tmp_path / "main" / INTERVAL.name]
    for folder in (leftover, *others):
        folder.mkdir(parents=True)

    async def hold() -> None:
        async with collecting_lock(tmp_path, "main", wait_s=0):
            pass

    asyncio.run(hold())
    assert not leftover.exists()
    assert all(folder.exists() for folder in others)


def test_a_second_round_waits_for_the_first_and_says_so_when_it_may_not(tmp_path: Path) -> None:
    async def run() -> list[str]:
        order: list[str] = []

        async def second() -> None:
            async with collecting_lock(tmp_path, "main", wait_s=5):
                order.append("second")

        async with collecting_lock(tmp_path, "main", wait_s=0):
            waiting = asyncio.create_task(second())
            with pytest.raises(SnapshotError, match="another round of cluster main is running"):
                async with collecting_lock(tmp_path, "main", wait_s=0):
                    pass
            async with collecting_lock(tmp_path, "other", wait_s=0):
                order.append("first")
        await waiting
        return order

    assert asyncio.run(run()) == ["first", "second"]


@pytest.mark.parametrize(("hostile", "kept"), [("a\0b", "a?b"), ("größe\0", "größe?"), ("a\ud800b", "a?b")])
def test_nul_and_half_a_surrogate_pair_become_question_marks(hostile: str, kept: str) -> None:
    assert arrow_array(ColumnType.STRING, [hostile, None, "c"]).to_pylist() == [kept, None, "c"]
    assert arrow_array(ColumnType.STRING_LIST, [[hostile, "c"]]).to_pylist() == [[kept, "c"]]


@given(
    st.lists(st.tuples(st.none() | st.integers(-5, 5), st.integers(0, 5))), st.lists(st.integers(-(2**63), 2**63 - 1))
)
def test_a_column_grows_by_values_runs_and_arrays(runs: list[tuple[int | None, int]], numbers: list[int]) -> None:
    column = NumberColumn()
    expected: list[int | None] = []
    for value, times in runs:
        column.add(value, times)
        expected += [value] * times
    column.extend(array("q", numbers))
    column.extend([None, 7])
    expected += [*numbers, None, 7]
    column.put(len(expected) - 1, None)
    expected[-1] = None
    made = column.to_arrow()
    made.validate(full=True)
    assert made.to_pylist() == expected


@given(
    st.integers(0, 5 * RUN_GAP),
    st.none() | st.integers(0, 9),
    st.dictionaries(st.integers(0, 5 * RUN_GAP - 1), st.none() | st.integers(10, 19), max_size=6),
)
def test_mostly_alike_numbers_are_what_they_were(length: int, value: int | None, others: dict[int, int | None]) -> None:
    others = {row: other for row, other in others.items() if row < length}
    alike = MostlyAlike()
    for _ in range(2):  # the second column shares what the first one made
        made = alike.to_arrow(ColumnType.INT64, value, others, length)
        made.validate(full=True)
        assert made.to_pylist() == [others.get(row, value) for row in range(length)]
