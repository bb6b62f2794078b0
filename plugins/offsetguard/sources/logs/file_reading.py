"""One file's part of a round: open it, make sure that it is the one that was placed, read on, move its cursor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import tzinfo

from offsetguard.config import LogSource
from offsetguard.sources.logs.events import LogEvent, LogOrigin, Unreadable, message_of, outcome_of
from offsetguard.sources.logs.log_files import LogCursor, LogFile, looked_at, sha256_of
from offsetguard.sources.logs.log_stream import LogStream
from offsetguard.sources.logs.matching import ALL
from offsetguard.sources.logs.records import Record, RecordReader

_PIECE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Share:
    """What one file may take of a round."""

    max_bytes: int
    max_events: int
    max_undecodable: int
    routine: bool


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

    def read(self, share: Share) -> None:
        """Read on, up to the share. Raises OSError where nothing could be read; the cursor then stays where it was."""
        if self.cursor.finished and self.file.compressed:  # nothing can follow; inflating it again would cost seconds
            self.cursor = replace(self.cursor, path=self.file.path, note=None)
            return
        with LogStream(self.file.path) as stream:
            now = looked_at(stream)
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

    def _read_on(self, stream: LogStream, reader: RecordReader, start: LogCursor, share: Share) -> str | None:
        """Read until the share is used or the file ends; return why it could not be read any further."""
        while len(self.events) < share.max_events:
            if self.bytes_read >= share.max_bytes and reader.next_position > start.next_position:
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

    def _take(self, records: Iterable[Record], start: LogCursor, share: Share) -> None:
        source = self.source
        origin = LogOrigin(
            source.name, start.file, source.broker_name, source.broker_id if source.broker_name is not None else None
        )
        for record in records:
            outcome = outcome_of(record, self.zone, origin)
            if isinstance(outcome, Unreadable):
                self.undecodable_count += 1
                if len(self.undecodable) < share.max_undecodable:
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
