"""Read what is new in the logs of a cluster: every line once, through rotation, truncation and compression.

Goal: the events of a round and the cursors behind them are one value, landed in one rename; a reader that is killed
has read nothing. So nothing is stored here, and nothing depends on the clock:
- only whole lines are read; a record whose next lines could change what it is (a stack trace) is held back until the
  next record begins, or until its file has not grown for a round;
- a round reads at most so many bytes, shared among the files so that a flood in one does not starve the others;
- a file is read only after it was made sure that it is the one that was placed;
- what cannot be read is a gap that names the path and what to do; what is gone before it was read is counted there.
How logs rotate, and how files are found again: `log_files.py`.
"""

import errno
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo

from offsetguard.config import LogSource
from offsetguard.model.errors import ConfigError
from offsetguard.model.intervals import zone_of
from offsetguard.sources.logs.events import LogEvent, LogOrigin, Unreadable, message_of, outcome_of
from offsetguard.sources.logs.log_files import (
    Family,
    LogCursor,
    LogFile,
    Placement,
    family_of,
    identity_of,
    log_file_of,
    place,
    sha256_of,
)
from offsetguard.sources.logs.log_stream import LogStream
from offsetguard.sources.logs.matching import ALL
from offsetguard.sources.logs.records import Record, RecordReader

_PIECE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class LogLimits:
    """What a round may cost, or one file's share of it. What is left over is read in the next rounds."""

    bytes_per_round: int = 16 * 1024 * 1024
    events_per_round: int = 50_000
    undecodable_kept: int = 100
    routine: bool = False  # also events that are written for ever, e.g. every counter of stats.log


@dataclass(slots=True)
class FilePart:
    """One file in one round: `cursor` is moved by `read`."""

    source: LogSource
    file: LogFile
    cursor: LogCursor
    matched: bool  # by a glob of the source
    zone: tzinfo  # of the times that stand in it
    events: list[LogEvent] = field(default_factory=list)
    undecodable: list[Unreadable] = field(default_factory=list)
    undecodable_count: int = 0
    bytes_read: int = 0
    failure: str | None = None  # why it could not be read to its end

    @property
    def waiting_bytes(self) -> int:
        """An estimate of what is unread; logs are compressed to about a tenth."""
        size = self.file.size * 10 if self.file.compressed else self.file.size
        return max(0, size - self.cursor.next_position)

    def read(self, share: LogLimits) -> None:
        """Read on, up to the share. Raises OSError where nothing could be read; the cursor then stays where it was."""
        if self.cursor.finished and self.file.compressed:  # nothing can follow; inflating it again would cost seconds
            self.cursor = replace(self.cursor, path=self.file.path, note=None)
            return
        with LogStream(self.file.path, end=self.file.end) as stream:
            now = log_file_of(stream)
            if now.inode != self.file.inode or not now.head.startswith(self.file.head):
                return  # replaced since it was placed: the next round finds both
            start = self._start(stream)
            stream.rewind()
            if not stream.go_to(start.next_position):
                note = f"ends before byte {start.next_position}: still being compressed"
                self.cursor = replace(start, note=note)
                return
            reader = RecordReader(start.next_position)
            self.failure = self._read_on(stream, reader, start, share)
            is_quiet = stream.whole or start.seen_bytes == stream.position
            if stream.at_end and (is_quiet or not _may_grow(reader)):
                self._take(reader.finish(with_half_line=stream.whole), start, share)
            if stream.begins_with(now.head):
                self.cursor = self._moved(start, stream, now, reader, is_quiet=is_quiet)
            else:  # truncated while it was read: who knows which file these lines are of
                self.events, self.undecodable, self.undecodable_count = [], [], 0

    def _start(self, stream: LogStream) -> LogCursor:
        """Return the cursor to start from: the file's start if it was cut back and has grown since, who knows where."""
        cursor = self.cursor
        if stream.compressed or stream.size >= cursor.next_position:
            return cursor
        identity, _, number = cursor.file.partition("~")
        file = f"{identity}~{int(number or 0) + 1}"  # the same positions may hold other lines from now on
        return replace(cursor, file=file, next_position=0, seen_bytes=0)

    def _read_on(self, stream: LogStream, reader: RecordReader, start: LogCursor, share: LogLimits) -> str | None:
        """Read until the share is used or the file ends; return why it could not be read any further."""
        while len(self.events) < share.events_per_round:
            if self.bytes_read >= share.bytes_per_round and reader.next_position > start.next_position:
                return None
            try:
                piece = stream.read(_PIECE_BYTES)
            except OSError as error:
                return error.strerror or str(error)
            if not piece:
                return None
            self.bytes_read += len(piece)
            self._take(reader.feed(piece), start, share)
        return None

    def _take(self, records: Iterable[Record], start: LogCursor, share: LogLimits) -> None:
        source = self.source
        origin = LogOrigin(
            source.name, start.file, source.broker_name, source.broker_id if source.broker_name is not None else None
        )
        for record in records:
            outcome = outcome_of(record, self.zone, origin)
            if isinstance(outcome, Unreadable):
                self.undecodable_count += 1
                if len(self.undecodable) < share.undecodable_kept:
                    self.undecodable.append(outcome)
            elif isinstance(outcome, LogEvent) and (share.routine or not outcome.routine):
                self.events.append(outcome)

    def _moved(
        self, start: LogCursor, stream: LogStream, file: LogFile, reader: RecordReader, *, is_quiet: bool
    ) -> LogCursor:
        # The file may have grown since its head was read.
        head_bytes = min(len(file.head), max(start.head_bytes, reader.complete_position))
        return LogCursor(
            source=start.source,
            file=start.file,
            path=file.path,
            next_position=reader.next_position,
            note=self._note(start, stream, reader),
            head_bytes=head_bytes,
            head_sha256=sha256_of(file.head[:head_bytes]),
            inode=file.inode,
            seen_bytes=stream.position if stream.at_end else stream.size * (not stream.compressed),
            began=file.began,
            finished=stream.whole or (stream.at_end and is_quiet and not self.matched),
        )

    def _note(self, start: LogCursor, stream: LogStream, reader: RecordReader) -> str | None:
        notes = []
        if start.file != self.cursor.file:
            notes.append(f"cut back below byte {self.cursor.next_position}: read again from its start")
        if not stream.at_end:
            left = "more" if stream.compressed else f"{max(0, stream.size - reader.next_position)} bytes"
            notes.append(f"{left} left for the next rounds")
        return "; ".join(notes) or None


def new_cursor(source: LogSource, file: LogFile, identity: str) -> LogCursor:
    """Return the cursor of a file that was never read; it knows what the file begins with from the start."""
    whole_lines = file.head.rfind(b"\n") + 1 or len(file.head)
    return LogCursor(
        source=source.name,
        file=identity,
        path=file.path,
        next_position=0,
        head_bytes=whole_lines,
        head_sha256=sha256_of(file.head[:whole_lines]),
        inode=file.inode,
        began=file.began,
    )


def _may_grow(reader: RecordReader) -> bool:
    message = message_of(reader.open_text) if reader.open_text is not None else None
    return message is not None and ALL.may_grow(message)


MISSING_ROUNDS = 3  # rounds for which the cursor of a file is kept that is found nowhere


@dataclass(frozen=True, slots=True)
class LogGap:
    """A log that could not be read, or that was gone before it was."""

    source: str
    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class LogReading:
    """What a round read; events of one file are in its order."""

    events: tuple[LogEvent, ...] = ()
    cursors: tuple[LogCursor, ...] = ()
    gaps: tuple[LogGap, ...] = ()
    undecodable: tuple[Unreadable, ...] = ()  # at most LogLimits.undecodable_kept; undecodable_count has them all
    undecodable_count: int = 0


_DEFAULT_LIMITS = LogLimits()


def read_logs(
    sources: Sequence[LogSource], cursors: Sequence[LogCursor], limits: LogLimits = _DEFAULT_LIMITS
) -> LogReading:
    """Read what is new since `cursors` (those of the last landed round; none: every matched file from its start)."""
    parts: list[FilePart] = []
    kept: list[LogCursor] = []
    gaps: list[LogGap] = []
    for source in sources:
        own = [cursor for cursor in cursors if cursor.source == source.name]
        try:
            zone = zone_of(source.time_zone)
        except ConfigError as error:
            kept += own
            gaps.append(LogGap(source.name, ", ".join(source.files), str(error)))
            continue
        placement = place(source, own)
        parts += _parts_of(source, placement, own, zone)
        kept_here, gaps_here = _not_found(source, placement, own)
        kept += kept_here
        gaps += gaps_here
    gaps += _read_within(parts, limits)
    undecodable = [unreadable for part in parts for unreadable in part.undecodable]
    return LogReading(
        events=tuple(event for part in parts for event in part.events),
        cursors=(*_worth_keeping(parts), *kept),
        gaps=tuple(gaps),
        undecodable=tuple(undecodable[: limits.undecodable_kept]),
        undecodable_count=sum(part.undecodable_count for part in parts),
    )


def _parts_of(source: LogSource, placement: Placement, cursors: Sequence[LogCursor], zone: tzinfo) -> list[FilePart]:
    """Pair every file that was found with its cursor; a new one gets an identity and its first cursor."""
    taken = {cursor.file for cursor in cursors}
    parts = []
    for file, cursor in placement.found:
        first_line = file.first_line
        if cursor is None and first_line is None:
            continue  # empty, or its first line is being written
        known = cursor or new_cursor(source, file, _new_identity(file, first_line or b"", taken))
        parts.append(FilePart(source, file, known, file.path in placement.matched, zone))
    return parts


def _new_identity(file: LogFile, first_line: bytes, taken: set[str]) -> str:
    """Name a file by what never changes: its log and its first line, which tells when it began."""
    base = identity_of(file.family, first_line)
    identity, number = base, 2
    while identity in taken:
        identity, number = f"{base}-{number}", number + 1
    taken.add(identity)
    return identity


def _not_found(
    source: LogSource, placement: Placement, cursors: Sequence[LogCursor]
) -> tuple[list[LogCursor], list[LogGap]]:
    """Return (cursors that are kept although their file was not found, gaps)."""
    if not placement.matched and not placement.found:  # the folder is not there: nothing can be said about its files
        reason = "no such file: is the folder mounted on this machine, and is the pattern right?"
        return list(cursors), [LogGap(source.name, ", ".join(source.files), reason)]
    gaps = [LogGap(source.name, path, _advice(reason)) for path, reason in sorted(placement.unreadable.items())]
    newest = {family: max(began) for family, began in _beginnings(cursors).items()}
    kept = []
    for cursor in placement.missing:
        if cursor.path in placement.unreadable:
            kept.append(cursor)
        elif cursor.finished and (cursor.began or "") < newest[family_of(cursor.path)]:
            continue
        elif cursor.missing_rounds < MISSING_ROUNDS:
            rounds = cursor.missing_rounds + 1
            note = f"found nowhere for {rounds} rounds: what was written behind byte {cursor.next_position} is not read"
            kept.append(replace(cursor, missing_rounds=rounds, note=note))
        elif cursor.seen_bytes > cursor.next_position:
            lost = cursor.seen_bytes - cursor.next_position
            gaps.append(LogGap(source.name, cursor.path, f"gone before it was read: at least {lost} bytes are lost"))
    return kept, gaps


def _beginnings(cursors: Iterable[LogCursor]) -> dict[Family, list[str]]:
    began: dict[Family, list[str]] = defaultdict(list)
    for cursor in cursors:
        began[family_of(cursor.path)].append(cursor.began or "")
    return began


def _read_within(parts: Sequence[FilePart], limits: LogLimits) -> list[LogGap]:
    """Read the files with the least to read first, each with an equal share of what is left; return the gaps."""
    gaps = []
    bytes_left, events_left = limits.bytes_per_round, limits.events_per_round
    for number, part in enumerate(sorted(parts, key=lambda part: part.waiting_bytes)):
        share = replace(limits, bytes_per_round=bytes_left // (len(parts) - number), events_per_round=events_left)
        if share.bytes_per_round <= 0 or share.events_per_round <= 0:
            part.cursor = replace(part.cursor, note=f"{part.waiting_bytes} bytes left for the next rounds")
            continue
        try:
            part.read(share)
        except FileNotFoundError:
            continue  # renamed since it was placed: the next round finds it
        except OSError as error:
            part.failure = error.strerror or str(error)
        if part.failure is not None:
            gaps.append(LogGap(part.source.name, part.file.path, _advice(part.failure)))
        bytes_left -= part.bytes_read
        events_left -= len(part.events)
    return gaps


def _worth_keeping(parts: Sequence[FilePart]) -> list[LogCursor]:
    """Return the cursors that later rounds need: not those of rotated files that were read to their end.

    The newest cursor of a log stays in any case: files that began before it are never read again.
    """
    newest: dict[tuple[str, Family], str] = defaultdict(str)
    for part in parts:
        log = (part.source.name, part.file.family)
        newest[log] = max(newest[log], part.cursor.began or "")
    return [
        part.cursor
        for part in parts
        if part.matched
        or not part.cursor.finished
        or (part.cursor.began or "") >= newest[part.source.name, part.file.family]
    ]


def _advice(reason: str) -> str:
    """Say what to do about an error of the operating system."""
    if reason == os.strerror(errno.EACCES):
        return f"{reason}: let the user that runs OffsetGuard read the file and enter its folders"
    return reason
