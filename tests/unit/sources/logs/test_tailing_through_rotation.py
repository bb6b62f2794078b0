"""Every line once, whatever happens to the files between two rounds."""

import gzip
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetguard.config import LogSource
from offsetguard.sources.logs.log_files import LogCursor
from offsetguard.sources.logs.tailing import LogLimits, read_logs
from offsetguard_peers.cases.running import examples

WINDOW = 4  # rotated files that are kept, as logback's fixed window


class RotatingWriter:
    """Writes numbered lines to `<folder>/broker.log`; `count` is the number of the last one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.live = folder / "broker.log"
        self.archive = folder / "otherdays"
        self.archive.mkdir()
        self.live.touch()
        self.count = 0
        self._rotations = 0
        self._half_line = b""

    def append(self, records: int, *, stack_trace: bool = False, half: float = 1.0) -> None:
        """Write whole records; of the last one only a part when `half` < 1, completed by the next call."""
        text = self._half_line
        self._half_line = b""
        for _ in range(records):
            self.count += 1
            at = datetime(2026, 11, 1) + timedelta(seconds=self.count)  # noqa: DTZ001 as logs write it
            text += f"{at} WARN Thread_1 - remove topic offset, T{self.count}@G\n".encode()
            if stack_trace:
                text += b"java.lang.IllegalStateException: 2026\n\tat org.apache.rocketmq.Broker.run(Broker.java:1)\n"
        if half < 1 and text:
            cut = max(1, int(len(text) * half))
            text, self._half_line = text[:cut], text[cut:]
        with self.live.open("ab") as file:
            file.write(text)

    def rename(self) -> None:
        """Rotate as logback does without compression: broker.1.log is the newest."""
        self.finish_line()
        self._make_room(".log")
        self.live.rename(self.archive / "broker.1.log")
        self.live.touch()

    def compress(self) -> None:
        """Rotate as logback does with compression."""
        self.finish_line()
        self._make_room(".log.gz")
        (self.archive / "broker.1.log.gz").write_bytes(gzip.compress(self.live.read_bytes()))
        self.live.unlink()
        self.live.touch()

    def copy_and_truncate(self) -> None:
        """Rotate as logrotate's copytruncate does."""
        self.finish_line()
        for number in range(WINDOW, 0, -1):
            older = self.folder / f"broker.log.{number}"
            if older.exists():
                older.rename(self.folder / f"broker.log.{number + 1}")
        (self.folder / f"broker.log.{WINDOW + 1}").unlink(missing_ok=True)
        shutil.copy(self.live, self.folder / "broker.log.1")
        self.live.write_bytes(b"")

    def gzip_the_newest(self) -> None:
        """Compress the newest rotated file that is not compressed, as logrotate's delaycompress does."""
        for path in self._newest_rotated():
            path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
            path.unlink()

    def begin_to_compress(self) -> None:
        """Be in the middle of a compression: both files are there, the compressed one is not complete."""
        for path in self._newest_rotated():
            data = gzip.compress(path.read_bytes())
            path.with_name(path.name + ".gz").write_bytes(data[: len(data) // 2])

    def rename_to_compress(self) -> None:
        """Rotate as logback does, as far as the rename before the compression."""
        self.finish_line()
        self._rotations += 1
        self.live.rename(self.folder / f"broker.log{1_795_247_178_918 + self._rotations}.tmp")
        self.live.touch()

    def truncate(self) -> None:
        """Empty the file, as people do."""
        self._half_line = b""
        self.live.write_bytes(b"")

    def lines_on_disk(self) -> set[str]:
        """Topics of the complete lines that can still be read."""
        found: set[str] = set()
        for path in (*self.folder.glob("broker*"), *self.archive.glob("broker*")):
            data = path.read_bytes()
            try:
                text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
            except EOFError:  # the uncompressed one is there, too
                continue
            found |= {
                line.split(b"offset, ")[1].split(b"@")[0].decode()
                for line in text.split(b"\n")[:-1]
                if b"remove topic offset, " in line
            }
        return found

    def finish_line(self) -> None:
        """Complete the half line."""
        with self.live.open("ab") as file:
            file.write(self._half_line)
        self._half_line = b""

    def _newest_rotated(self) -> list[Path]:
        return [path for path in (self.archive / "broker.1.log", self.folder / "broker.log.1") if path.exists()]

    def _make_room(self, suffix: str) -> None:
        for number in range(WINDOW, 0, -1):
            for path in self.archive.glob(f"broker.{number}.log*"):
                rest = path.name.removeprefix(f"broker.{number}")
                if number == WINDOW:
                    path.unlink()
                else:
                    path.rename(self.archive / f"broker.{number + 1}{rest}")


_ROTATIONS = (
    "rename",
    "compress",
    "copy_and_truncate",
    "gzip_the_newest",
    "begin_to_compress",
    "rename_to_compress",
    "truncate",
)
_APPEND = st.tuples(
    st.just("append"),
    st.fixed_dictionaries(
        {"records": st.integers(0, 40), "stack_trace": st.booleans(), "half": st.sampled_from([1.0, 0.99, 0.5])}
    ),
)


def steps_of(*more: str) -> st.SearchStrategy[list[tuple[str, dict[str, Any]]]]:
    """Return what may happen between the first round and the last ones."""
    return st.lists(st.one_of(_APPEND, st.tuples(st.sampled_from([*_ROTATIONS, *more]), st.just({}))), max_size=30)


class Reader:
    """Rounds over one folder; remembers everything that was read and told."""

    def __init__(self, folder: str, files: list[str], budget: int = 1 << 20) -> None:
        self._source = LogSource(name="broker-a", files=[f"{folder}/{name}" for name in files], broker_name="broker-a")
        self._limits = LogLimits(bytes_per_round=budget)
        self.cursors: tuple[LogCursor, ...] = ()
        self.topics: list[str] = []
        self.keys: list[tuple[str, int]] = []
        self.told: list[str] = []

    def round(self) -> bool:
        """Read once and keep the cursors; False when nothing changed."""
        reading = read_logs([self._source], self.cursors, self._limits)
        moved = reading.cursors != self.cursors or bool(reading.events)
        self.cursors = reading.cursors
        self.topics += [str(event.fields["topic"]) for event in reading.events]
        self.keys += [(event.origin.file, event.position) for event in reading.events]
        self.told += [gap.reason for gap in reading.gaps]
        self.told += [cursor.note for cursor in reading.cursors if cursor.note]
        return moved

    def take(self, steps: Sequence[tuple[str, dict[str, Any]]], writer: RotatingWriter) -> None:
        """Let the steps happen, the reader's own among them, and read until nothing is left."""
        for name, arguments in steps:
            if name == "read":
                self.round()
            elif name == "die":  # what was read is lost with the cursors
                read_logs([self._source], self.cursors, self._limits)
            elif name == "lose":
                self.cursors = ()
            else:
                getattr(writer, name)(**arguments)
        writer.finish_line()
        while self.round():
            pass


@given(steps_of("read", "die"), st.sampled_from([300, 5_000, 1 << 20]))
@settings(max_examples=examples(2))
def test_every_complete_line_is_read_once_while_the_cursor_is_durable(steps, budget):
    """A round that dies leaves the cursor where it was; lines are lost only with their file, and that is told."""
    with tempfile.TemporaryDirectory() as folder:
        writer = RotatingWriter(Path(folder))
        reader = Reader(folder, ["*.log"], budget)
        writer.append(1)
        reader.round()
        reader.take(steps, writer)
        assert len(reader.topics) == len(set(reader.topics))
        assert len(reader.keys) == len(set(reader.keys))
        assert writer.lines_on_disk() - set(reader.topics) == set()
        lost = {f"T{number}" for number in range(1, writer.count + 1)} - set(reader.topics)
        # Where two ways of rotating are mixed, or people truncate, a file may come and go while its elder stays.
        a_file_came_and_went_unseen = any(name in {"truncate", "copy_and_truncate"} for name, _ in steps)
        assert not lost or reader.told or a_file_came_and_went_unseen


@given(steps_of("read", "lose"))
def test_after_the_cursors_are_lost_the_same_lines_come_again_under_the_same_keys(steps):
    """So that a rerun replaces rows and adds none."""
    with tempfile.TemporaryDirectory() as folder:
        writer = RotatingWriter(Path(folder))
        reader = Reader(folder, ["broker*", "otherdays/*"])
        reader.take(steps, writer)
        assert len(set(reader.keys)) == len(set(reader.topics))
        assert len(set(zip(reader.keys, reader.topics, strict=True))) == len(set(reader.keys))
        assert writer.lines_on_disk() - set(reader.topics) == set()


@pytest.mark.parametrize("seed", range(3))
def test_every_line_is_read_once_while_another_thread_writes_and_rotates(tmp_path, seed):
    """Files are renamed, compressed and truncated in the middle of a round."""
    writer = RotatingWriter(tmp_path)
    reader = Reader(str(tmp_path), ["*.log"])
    writer.append(1)
    reader.round()
    chosen = random.Random(seed)  # noqa: S311 no secret
    done = threading.Event()
    rounds: list[bool] = []
    rotated: list[int] = []  # how many rounds there were before each rotation

    def write() -> None:
        for _ in range(150):
            writer.append(chosen.randint(0, 30), stack_trace=chosen.random() < 0.1)
            if chosen.random() < 0.2:
                # A file that is rotated away for good before a round could see it is told, and not the subject.
                while len(rotated) >= 2 and len(rounds) < rotated[-2] + 2:
                    time.sleep(0.001)
                getattr(writer, chosen.choice(["rename", "compress", "copy_and_truncate", "gzip_the_newest"]))()
                rotated.append(len(rounds))
        writer.finish_line()
        done.set()

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    while not done.is_set():
        rounds.append(reader.round())
    thread.join()
    for _ in range(5):
        reader.round()
    assert len(reader.keys) == len(set(reader.keys))
    assert len(reader.topics) == len(set(reader.topics))
    assert writer.lines_on_disk() - set(reader.topics) == set()
