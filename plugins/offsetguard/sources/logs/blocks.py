r"""Where the blocks of a log file begin that Spark reads: a few bytes read at each, by whoever starts the job.

A task of Spark reads the lines that begin behind one block's start, up to and including the one that begins at the next
block's start, and says neither where they begin nor what follows. Both stand around the blocks' boundaries, so they are
looked up there: two reads of at most 64 KiB, mostly of one line, for many MiB that Spark reads.

Source: org.apache.hadoop.mapreduce.lib.input.LineRecordReader (Hadoop 3.4).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from offsetguard.sources.logs.layouts import RECORD_START
from offsetguard.sources.logs.log_stream import LogStream
from offsetguard.sources.logs.records import MAX_RECORD_BYTES

_STARTS_RECORD = re.compile(RECORD_START.encode())


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a file that one task reads."""

    start: int  # byte at which Spark says that it begins
    first_position: int  # byte at which its first line begins
    end_position: int | None  # first byte behind its last line; None: the file's end
    continuation: str | None  # lines behind it that belong to its last record, of at most 64 KiB


def blocks_of(path: str, block_bytes: int) -> Iterator[Block]:
    """Yield the blocks of a file, of `block_bytes` each; a compressed file is one. Raises OSError."""
    with LogStream(path) as stream:
        size = 0 if stream.compressed else stream.size
    with Path(path).open("rb") as file:
        first, start = 0, 0
        while start + block_bytes < size:
            following = _next_line(file, start + block_bytes)
            yield Block(start, first, following, _continuation(file, following))
            first, start = following, start + block_bytes
        yield Block(start, first, None, None)


def _next_line(file: BinaryIO, position: int) -> int:
    """Return where the first line behind a position begins: after the first line feed from there on."""
    file.seek(position)
    while piece := file.read(MAX_RECORD_BYTES):
        end = piece.find(b"\n")
        if end >= 0:
            return position + end + 1
        position += len(piece)
    return position


def _continuation(file: BinaryIO, position: int) -> str | None:
    """Return the lines from a position up to where a record begins."""
    file.seek(position)
    lines: list[bytes] = []
    read = 0
    while read < MAX_RECORD_BYTES and (line := file.readline(MAX_RECORD_BYTES)):
        read += len(line)
        text = line.lstrip(b"\0").removesuffix(b"\n").removesuffix(b"\r")
        if _STARTS_RECORD.match(text):
            break
        lines.append(text)
    return b"\n".join(lines).decode("utf-8", "replace") if lines else None
