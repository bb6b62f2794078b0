"""Min and max offsets from the files of consume queues."""

import struct
from pathlib import Path

import pytest

from offsetguard.sources.state_files.transport import UNIT_BYTES, read_topic

UNITS_PER_FILE = 50


def write_queue(store: Path, topic: str, queue_id: int, positions: range, *, first: int = 0) -> None:
    """Write units for messages at commit-log `positions`; unit number `first` is the first one kept."""
    folder = store / "consumequeue" / topic / str(queue_id)
    folder.mkdir(parents=True)
    units = b"".join(struct.pack(">qiq", position, 100, 0) for position in positions)
    for start in range(0, max(len(units), 1), UNITS_PER_FILE * UNIT_BYTES):
        part = units[start : start + UNITS_PER_FILE * UNIT_BYTES]
        file = folder / f"{first * UNIT_BYTES + start:020}"
        file.write_bytes(part.ljust(UNITS_PER_FILE * UNIT_BYTES, b"\0"))


def write_commit_log(store: Path, first: int = 0) -> None:
    (store / "commitlog").mkdir(parents=True)
    (store / "commitlog" / f"{first:020}").write_bytes(b"")


@pytest.mark.parametrize("count", [0, 1, UNITS_PER_FILE - 1, UNITS_PER_FILE, UNITS_PER_FILE + 1, 3 * UNITS_PER_FILE])
def test_the_end_is_the_first_unit_that_is_not_filled(tmp_path: Path, count: int) -> None:
    write_commit_log(tmp_path)
    write_queue(tmp_path, "orders", 3, range(0, count * 100, 100))
    (end,) = read_topic(tmp_path, "orders")
    assert (end.queue_id, end.min_offset, end.max_offset) == (3, 0, count)


def test_an_empty_newest_file_ends_where_it_begins(tmp_path: Path) -> None:
    write_commit_log(tmp_path)
    write_queue(tmp_path, "orders", 0, range(0, UNITS_PER_FILE * 100, 100))
    folder = tmp_path / "consumequeue" / "orders" / "0"
    (folder / f"{UNITS_PER_FILE * UNIT_BYTES:020}").write_bytes(b"\0" * UNITS_PER_FILE * UNIT_BYTES)
    (end,) = read_topic(tmp_path, "orders")
    assert (end.min_offset, end.max_offset) == (0, UNITS_PER_FILE)


@pytest.mark.parametrize(("commit_log_min", "min_offset"), [(0, 1000), (100_700, 1007), (105_000, 1050), (10**9, 1060)])
def test_messages_that_the_commit_log_has_lost_are_below_the_min_offset(tmp_path, commit_log_min, min_offset):
    write_commit_log(tmp_path, commit_log_min)
    write_queue(tmp_path, "orders", 0, range(100_000, 106_000, 100), first=1000)
    (end,) = read_topic(tmp_path, "orders")
    assert (end.min_offset, end.max_offset) == (min_offset, 1060)


def test_a_store_without_its_commit_log_cannot_tell_the_oldest_message(tmp_path: Path) -> None:
    write_queue(tmp_path, "orders", 0, range(0, 500, 100))
    with pytest.raises(ValueError, match="holds no file of a commit log"):
        read_topic(tmp_path, "orders")


def test_consume_queues_in_rocksdb_are_not_taken_for_empty_ones(tmp_path: Path) -> None:
    write_commit_log(tmp_path)
    (tmp_path / "consumequeue").mkdir()
    (tmp_path / "consumequeue" / "CURRENT").write_text("MANIFEST-000001\n")
    with pytest.raises(ValueError, match="is RocksDB"):
        read_topic(tmp_path, "orders")


def test_other_files_are_not_taken_for_a_consume_queue(tmp_path: Path) -> None:
    write_commit_log(tmp_path)
    folder = tmp_path / "consumequeue" / "orders" / "0"
    folder.mkdir(parents=True)
    (folder / f"{0:020}").write_bytes(b"x" * 33)
    with pytest.raises(ValueError, match="no file of a consume queue"):
        read_topic(tmp_path, "orders")


@pytest.mark.parametrize("topic", ["..", ".", "", "../consumequeue/orders", "a\0b"])
def test_a_topic_cannot_lead_out_of_the_store(tmp_path: Path, topic: str) -> None:
    write_commit_log(tmp_path)
    write_queue(tmp_path, "orders", 0, range(0, 500, 100))
    assert read_topic(tmp_path, topic) == []
