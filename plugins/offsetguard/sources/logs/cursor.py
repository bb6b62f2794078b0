"""How far a log was read. The newest landed manifest is the durable cursor: it lands in one rename with the events."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ConfigDict, NonNegativeInt


@dataclass(frozen=True, slots=True, kw_only=True)
class LogCursor:
    """How far one log file was read; a rotated, copied or compressed file keeps its cursor under its new name.

    A file is known by its first bytes; the inode only helps where two files begin alike.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    source: str  # name of the log source
    file: str  # `log_events.file`: identity of the file, the same after its rotation
    path: str  # where it was last seen
    next_position: NonNegativeInt  # first byte not read yet, in the uncompressed file; always the start of a line
    note: str | None = None  # e.g. truncated: read again from its start
    head_bytes: NonNegativeInt = 0  # how many first bytes `head_sha256` covers: what was read, 4 KiB at most
    head_sha256: str = ""
    inode: NonNegativeInt | None = None
    seen_bytes: NonNegativeInt = 0  # length of the file, uncompressed, when it was last read; 0 = not known
    began: str | None = None  # the time stamp that the file begins with, as it stands there
    finished: bool = False  # rotated away, or compressed, and read to its end
    missing_rounds: NonNegativeInt = 0  # rounds in which it was found nowhere
