"""Copies what is written to logs while a bundle is recorded: whole lines, from the end that a file had at first.

A rotated file is read to its end under its new name, since it stays open; its successor is read from its start.
"""

import glob
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from offsetguard.config import LogSource
from offsetguard.config.secret_values import open_block, text_without_secrets
from offsetguard.config.workspace import why_unwritten
from offsetguard.model.errors import BundleError
from offsetguard.sources.bundle.layout import CLIENTS, LOGS, broker_of, safe_name
from offsetguard.sources.bundle.log_replay import log_source

CLIENT_LOG = "rocketmq_client.log"
MAX_EXCERPT_BYTES = 64 * 1024 * 1024  # of one file
_READ_BYTES = 1024 * 1024
_ANY_LOGS = frozenset({"logs", "log", "rocketmqlogs"})  # folders that do not tell whose logs they hold
_DEPTH = 4  # folders below the given one that are looked through


@dataclass(frozen=True, slots=True)
class LogFolder:
    """A folder of logs and where its excerpts go: `logs/<broker>-<id>` or `clients/<name>`."""

    folder: Path
    place: str
    pattern: str = "*.log"


@dataclass(slots=True)
class _Tail:
    opened: BinaryIO
    skip_to_line_end: bool
    rest: bytes = b""  # of a line that is still being written


@dataclass(slots=True)
class LogExcerpts:
    """The logs of some folders; `begin` marks their ends, `copy` appends what has come since."""

    bundle_folder: Path
    folders: Sequence[LogFolder]
    byte_counts: dict[str, int] = field(default_factory=dict)  # file of the bundle -> bytes
    notes: list[str] = field(default_factory=list)
    _tails: dict[Path, _Tail] = field(default_factory=dict)

    def begin(self) -> None:
        """Go to the end of every log that is there."""
        for _, file in self._files():
            self._open(file, at_end=True)

    def copy(self) -> None:
        """Append what was written since the last time; a log that cannot be read becomes a note."""
        for place, file in self._files():
            try:
                self._copy(place, file)
            except OSError as error:
                self._note(f"{file}: could not be read: {error.strerror or error}")

    def broker_sources(self, time_zone: str, labels: Collection[str]) -> Iterator[LogSource]:
        """Yield what was copied of brokers' logs, as a round reads them; `labels`: of the cluster's replicas."""
        by_place = {f"{LOGS}/{safe_name(label)}": broker_of(label) for label in labels}
        for place in dict.fromkeys(name.rpartition("/")[0] for name in self.byte_counts):
            if (broker := by_place.get(place)) is not None:
                yield log_source(place, self.bundle_folder / place, "*.log", time_zone, broker)

    def close(self) -> None:
        """Close the logs."""
        for tail in self._tails.values():
            tail.opened.close()
        self._tails.clear()

    def _files(self) -> Iterator[tuple[str, Path]]:
        for one in self.folders:
            try:
                files = sorted(
                    path for path in one.folder.glob(one.pattern) if path.suffix == ".log" and path.is_file()
                )
            except OSError as error:
                self._note(f"{one.folder}: could not be read: {error.strerror or error}")
                continue
            for file in files:
                yield one.place, file

    def _open(self, file: Path, *, at_end: bool) -> _Tail | None:
        try:
            opened = file.open("rb")
        except OSError as error:
            self._note(f"{file}: could not be opened: {error.strerror or error}")
            return None
        size = opened.seek(0, 2) if at_end else 0
        in_line = False
        if size:
            opened.seek(size - 1)
            in_line = opened.read(1) != b"\n"
        tail = self._tails[file] = _Tail(opened, skip_to_line_end=in_line)
        return tail

    def _copy(self, place: str, file: Path) -> None:
        tail = self._tails.get(file)
        if tail is not None and not _is_same_file(tail.opened, file):
            self._append(place, file, tail)  # the end of the rotated one
            tail.opened.close()
            tail = None
        if tail is None:
            tail = self._open(file, at_end=False)
        if tail is None:
            return
        if tail.opened.tell() > file.stat().st_size:
            tail.opened.seek(0)
            tail.rest, tail.skip_to_line_end = b"", False
            self._note(f"{file}: was truncated while it was read; copied from its new start on")
        self._append(place, file, tail)

    def _append(self, place: str, file: Path, tail: _Tail) -> None:
        name = f"{place}/{safe_name(file.stem)}.log"
        while data := tail.opened.read(_READ_BYTES):
            if tail.skip_to_line_end:
                _, newline, data = data.partition(b"\n")
                tail.skip_to_line_end = not newline
            lines, newline, tail.rest = (tail.rest + data).rpartition(b"\n")
            if (start := open_block(lines)) < len(lines):
                lines, newline, tail.rest = lines[:start], b"", lines[start:] + newline + tail.rest
            if len(tail.rest) > _READ_BYTES:  # no log has such lines
                tail.rest, tail.skip_to_line_end = b"", True
            kept = text_without_secrets(lines + newline)
            if self.byte_counts.get(name, 0) + len(kept) > MAX_EXCERPT_BYTES:
                self._note(f"{file}: more than {MAX_EXCERPT_BYTES} bytes were written; the rest is left out")
                tail.opened.seek(0, 2)
                return
            if kept:
                self._write(name, kept)

    def _write(self, name: str, lines: bytes) -> None:
        target = self.bundle_folder / name
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("ab") as opened:
                opened.write(lines)
        except OSError as error:
            raise BundleError(why_unwritten(target, error)) from error
        self.byte_counts[name] = self.byte_counts.get(name, 0) + len(lines)

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def log_folders_of(sources: Sequence[LogSource]) -> list[LogFolder]:
    """Return the folders that the log sources of a configuration name; those that are not there give nothing."""
    found = []
    for source in sources:
        label = f"{source.broker_name}-{source.broker_id}"
        place = f"{LOGS}/{safe_name(label)}" if source.broker_name else f"{CLIENTS}/{safe_name(source.name)}"
        for pattern in source.files:
            folder, _, name = pattern.rpartition("/")
            found += [LogFolder(Path(path), place, name) for path in sorted(glob.glob(folder or "."))]  # noqa: PTH207
    return found


def find_log_folders(wanted: Sequence[tuple[str | None, Path]], labels: Collection[str]) -> list[LogFolder]:
    """Return the folders with logs, and whose they are; `labels` are the replicas of the cluster, `broker-a-0`.

    `wanted`: (name or None, folder). Without a name, a part of the path tells it (`/srv/broker-a-0/logs`), or the
    cluster has one replica only. Raises BundleError saying what to write where nothing tells it.
    """
    found: dict[Path, LogFolder] = {}
    for name, top in wanted:
        folders = list(_with_logs(top, _DEPTH))
        if not folders:
            raise BundleError(f"--logs: {top}: holds no *.log; name the folder with broker.log or {CLIENT_LOG}")
        for folder in folders:
            found[folder] = LogFolder(folder, _place(name, folder, labels))
    places = [one.place for one in found.values()]
    for one in found.values():
        if places.count(one.place) > 1:
            raise BundleError(f"--logs: {one.place} would come from several folders, among them {one.folder}")
    return list(found.values())


def _place(name: str | None, folder: Path, labels: Collection[str]) -> str:
    is_client = (folder / CLIENT_LOG).is_file() and not (folder / "broker.log").is_file()
    if name is not None:
        return f"{LOGS if name in labels or not is_client else CLIENTS}/{safe_name(name)}"
    parts = folder.resolve().parts
    if is_client:
        return f"{CLIENTS}/{safe_name(next((part for part in reversed(parts) if part not in _ANY_LOGS), 'client'))}"
    known = next((part for part in reversed(parts) if part in labels), None)
    if known is None and len(labels) == 1:
        known = next(iter(labels))
    if known is None:
        example = min(labels, default="broker-a-0")
        raise BundleError(f"--logs: whose logs are in {folder}? write for example --logs {example}={folder}")
    return f"{LOGS}/{safe_name(known)}"


def _with_logs(folder: Path, depth: int) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise BundleError(f"--logs: {folder}: cannot be read: {error.strerror}") from error
    if any(path.suffix == ".log" and path.is_file() for path in entries):
        yield folder
    elif depth:
        for path in entries:
            if path.is_dir() and not path.is_symlink():
                yield from _with_logs(path, depth - 1)


def _is_same_file(opened: BinaryIO, file: Path) -> bool:
    there, held = file.stat(), os.fstat(opened.fileno())
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)
