r"""Bytes of a log in, records out: which lines belong together, where each begins, and what stands before its message.

Goal: every record exactly once, in linear time and bounded memory, whatever the bytes. No I/O.
- A record begins with a line that begins with a time stamp (`RECORD_START`); it ends where the next one begins (or
  with `finish`). Every other line continues it: stack traces, and remarks of brokers with a line break in them. Its
  message is what follows the head of its layout, the continuation lines included.
- Only whole lines count. What has no line feed yet is not consumed.
- A record keeps at most MAX_RECORD_BYTES of its text, and a line no more; the rest is left out. A record that
  is longer is handed out at once, so that an endless stack trace holds nothing back.
- Lines at the very beginning of a file that belong to no record make one record without a head. Where reading goes on
  in the middle of a file they continue a record that was handed out before, and are left out.
Bytes that are no UTF-8 stay visible as \\xNN. Layouts are data, like the patterns.

Source: logback_broker.xml of 4.9.8, rmq.broker.logback.xml and rmq.client.logback.xml of 5.5.0 (as in 5.3.3), the
client's built-in layout of 4.9.8; live output of 4.9.7, 4.9.8, 5.3.3 and 5.5.0.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

SECOND = r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}"
_LEVEL = r"([A-Z]{4,5})"
# applications write the client's lines into their own log: `[id] 2025-10-16 20:40:50,965`, `[2019-09-25T18:29:19,853]`,
# `WARN  2022-10-14 10:19:19.123`, `2022-10-14T10:19:19.123Z` (Spring Boot 3); `broker_1  | ` is put before by compose
_TIME = "([0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)"
_APPLICATION = r"^(?:\[[^\]\n]{1,64}\] |[A-Z]{4,5} {1,3}|[A-Za-z0-9_.-]{1,64} {0,40}\| )?\[?" + _TIME
# an object a line: encoders for JSON, and Docker's `{"log":"...","stream":"stdout","time":"2025-10-16T20:40:50Z"}`
_OBJECT = r'^\{"(?:[^\n]{0,16384}?")?(?:@timestamp|timestamp|time)" ?: ?"' + _TIME
RECORD_START = f"^{SECOND}[ ,.]|{_APPLICATION}|{_OBJECT}"


@dataclass(frozen=True, slots=True)
class Layout:
    """The head of a record; `fields` name the groups. Brokers print GMT+8, 4.x clients the zone of their host."""

    name: str
    regex: str
    fields: tuple[str, ...]
    example: str


# In this order: a line of stats.log would pass for one of broker.log with a strange thread name.
LAYOUTS = (
    Layout(
        "client 5.x",
        f"^({SECOND}\\.[0-9]{{3}}) {_LEVEL} {{1,2}}\\[[^\\]\\n]{{0,40}}\\] \\[([^\\]\\n]{{0,255}})\\] "
        r"\[[^\]\n]{0,255}\] - ",
        ("at", "level", "thread"),
        "2026-11-21 16:49:33.210 INFO  [21613] [main] [RocketmqRemoting#?:?] - ",
    ),
    Layout(
        "client 4.x",
        f"^({SECOND},[0-9]{{3}}) {_LEVEL} {{1,2}}[^ \\n]{{1,255}} - ",
        ("at", "level"),
        "2026-11-20 22:47:01,278 WARN RocketmqClient - ",
    ),
    Layout("stats", f"^({SECOND}) {_LEVEL} - ", ("at", "level"), "2026-11-21 06:46:00 INFO - "),
    Layout("watermark", f"^({SECOND}) - ", ("at",), "2026-11-21 06:44:37 - "),
    Layout(
        "broker",
        f"^({SECOND}) {_LEVEL} ([^\\n]{{1,255}}?) - ",
        ("at", "level", "thread"),
        "2026-11-21 06:45:30 WARN PullMessageThread_3 - ",
    ),
)


APPLICATION_HEAD = re.compile(_APPLICATION)
"""What a record of an application begins with; group 1 is its time. Its message stands behind one of SEPARATORS."""

OBJECT_HEAD = re.compile(_OBJECT)
"""What a record that is a JSON object begins with; group 1 is its time."""

SEPARATORS = re.compile(r"(?<= )- |: |[\]}] +|\| ?|(?<=[\t ]msg)[:=]")

MAX_RECORD_BYTES = 64 * 1024
STARTS_RECORD = re.compile(RECORD_START.encode())


@dataclass(frozen=True, slots=True)
class Record:
    """Lines that belong together."""

    position: int  # byte at which it begins
    line: int  # number of its first line, from 1 where reading began
    line_count: int
    text: str  # without the last line feed
    has_head: bool = True  # False: lines before the first time stamp of a file


class RecordReader:
    """Takes a log in pieces of any size; `position` is where the first piece begins in the file."""

    def __init__(self, position: int = 0) -> None:
        """Begin at the start of a file or (position > 0) of any line that a reader said was next."""
        self._is_file_start = position == 0
        self._line_start = position  # of the line that is not complete yet
        self._line_number = 1
        self._half_line = bytearray()
        self._hole = 0  # zero bytes before it: what a truncated file begins with when its writer goes on where it was
        self._dropped = 0  # of it, bytes beyond MAX_RECORD_BYTES
        self._record: _OpenRecord | None = None

    @property
    def next_position(self) -> int:
        """First byte that no handed-out record covers: the start of the open record, or of the half line."""
        if self._record is not None:
            return self._record.position
        return self._line_start if self._half_line else self._line_start + self._hole

    @property
    def complete_position(self) -> int:
        """First byte behind the last whole line."""
        return self._line_start

    @property
    def open_text(self) -> str | None:
        """The complete lines of the record that may still grow; None when there is none."""
        return None if self._record is None else self._record.text()

    def feed(self, piece: bytes) -> Iterator[Record]:
        """Yield the records that this piece completes: those behind which another one begins."""
        *ends_of_lines, rest = piece.split(b"\n")
        for end in ends_of_lines:
            if self._half_line or self._hole or end[:1] == b"\0":
                self._extend_half_line(end)
                yield from self._take_half_line(line_feed=1)
            else:
                yield from self._take_line(end, self._line_start, len(end) + 1)
        self._extend_half_line(rest)

    def finish(self, *, with_half_line: bool = False) -> Iterator[Record]:
        """Yield the open record: nothing more will come. `with_half_line`: a last line without line feed, too."""
        if with_half_line and self._half_line:
            yield from self._take_half_line(line_feed=0)
        if self._record is not None:
            yield self._record.closed()
            self._record = None

    def _extend_half_line(self, piece: bytes) -> None:
        if not self._half_line:
            text = piece.lstrip(b"\0")
            self._hole += len(piece) - len(text)
            piece = text
        kept = piece[: MAX_RECORD_BYTES - len(self._half_line)]
        self._half_line += kept
        self._dropped += len(piece) - len(kept)

    def _take_half_line(self, *, line_feed: int) -> Iterator[Record]:
        line, start = bytes(self._half_line), self._line_start + self._hole
        length = self._hole + len(line) + self._dropped + line_feed
        self._half_line, self._hole, self._dropped = bytearray(), 0, 0
        yield from self._take_line(line, start, length)

    def _take_line(self, line: bytes, start: int, length: int) -> Iterator[Record]:
        is_first = self._is_file_start and self._line_number == 1
        if STARTS_RECORD.match(line):
            if self._record is not None:
                yield self._record.closed()
            self._record = _OpenRecord(start, self._line_number, has_head=True)
        elif is_first:
            self._record = _OpenRecord(self._line_start, self._line_number, has_head=False)
        self._line_start += length
        self._line_number += 1
        if self._record is not None:
            self._record.add(line)
            if self._record.is_full:
                yield self._record.closed()
                self._record = None


class _OpenRecord:
    """A record that may still grow."""

    def __init__(self, position: int, line: int, *, has_head: bool) -> None:
        self.position = position
        self._line = line
        self._has_head = has_head
        self._lines: list[bytes] = []
        self._size = 0

    @property
    def is_full(self) -> bool:
        return self._size >= MAX_RECORD_BYTES

    def add(self, line: bytes) -> None:
        kept = line.removesuffix(b"\r")[: MAX_RECORD_BYTES - self._size]
        self._lines.append(kept)
        self._size += len(kept) + 1

    def text(self) -> str:
        return b"\n".join(self._lines).decode("utf-8", "backslashreplace")

    def closed(self) -> Record:
        return Record(self.position, self._line, len(self._lines), self.text(), self._has_head)
