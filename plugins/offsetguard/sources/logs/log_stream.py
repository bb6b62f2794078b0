"""The text of a log file as a stream of bytes, compressed or not: told apart by its first bytes, not by its name."""

import os
import zlib
from io import BufferedIOBase, FileIO
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 31  # zlib: with the header and trailer of gzip
_PIECE_BYTES = 256 * 1024
_BEGINNING_BYTES = 4096  # of the compressed bytes: two logs never share them


class LogStream:
    """An open log file; `read` gives uncompressed bytes. Raises OSError for whatever cannot be read."""

    def __init__(self, path: str, file: BinaryIO | None = None, *, end: int | None = None) -> None:
        """Open it; nothing else is done by name afterwards, so that a rotation between two steps does no harm.

        `file`: read this instead, e.g. the standard input, which can be read once only. `end`: take it for a file of so
        many bytes at most.
        """
        self.path, self.end = path, end
        self.inode = self.size = 0  # on the disk; not known of a given file
        if file is None:
            self._file: BinaryIO | FileIO = Path(path).open("rb", buffering=0)  # noqa: SIM115 closed by __exit__
            status = os.fstat(self._file.fileno())
            self.inode, self.size = status.st_ino, self._within(status.st_size)
        else:
            self._file = file
        self.position = 0  # of the uncompressed text
        self.at_end = False  # everything was read that is there
        self._pushed_back = b""
        while len(self._pushed_back) < self._within(len(_GZIP_MAGIC)) and (byte := self._file.read(1)):
            self._pushed_back += byte
        self.compressed = self._pushed_back == _GZIP_MAGIC
        self._beginning = (
            os.pread(self._file.fileno(), _BEGINNING_BYTES, 0) if self.compressed and file is None else b""
        )
        self._inflater = zlib.decompressobj(_GZIP_WINDOW)
        self._compressed_input = b""

    def __enter__(self) -> Self:
        """Use it in a `with`."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self._file.close()

    @property
    def whole(self) -> bool:
        """Nothing can follow: it is compressed, and the end marker was read."""
        return self.at_end and self.compressed and self._inflater.eof

    def read(self, length: int) -> bytes:
        """Return up to `length` bytes, b"" at the end. A compressed file that is still being written ends early."""
        piece = self._inflate(length) if self.compressed else self._read(length)
        self.position += len(piece)
        self.at_end = not piece
        return piece

    def read_fully(self, length: int) -> bytes:
        """Return `length` bytes, fewer only at the end."""
        pieces = []
        while length > 0 and (piece := self.read(length)):
            pieces.append(piece)
            length -= len(piece)
        return b"".join(pieces)

    def rewind(self) -> None:
        """Begin again at the first byte."""
        self._file.seek(0)
        self._pushed_back = b""
        self.position, self.at_end = 0, False
        self._inflater, self._compressed_input = zlib.decompressobj(_GZIP_WINDOW), b""

    def go_to(self, position: int) -> bool:
        """Go on at a byte of the uncompressed text, at or behind the present one; False when the text ends before."""
        if not self.compressed:
            self._file.seek(position)
            self._pushed_back = b""
            self.position = position
            return position <= self.size
        while self.position < position:
            if not self.read(min(_PIECE_BYTES, position - self.position)):
                return False
        return True

    def head(self, length: int) -> bytes:
        """Return its first bytes; of an uncompressed file in one call, or a truncation could mix two files in them."""
        return self.read_fully(length) if self.compressed else os.pread(self._file.fileno(), self._within(length), 0)

    def begins_with(self, head: bytes) -> bool:
        """Whether the file still begins so: it may have been truncated and filled again since it was opened."""
        beginning = self._beginning if self.compressed else head
        return os.pread(self._file.fileno(), len(beginning), 0) == beginning

    def _read(self, length: int) -> bytes:
        if self._pushed_back:
            piece, self._pushed_back = self._pushed_back, b""
            return piece
        if isinstance(self._file, BufferedIOBase):
            return self._file.read1(length)  # what a pipe has, without waiting for more
        if self.end is not None:
            length = min(length, max(0, self.end - self._file.tell()))
        return self._file.read(length) or b""

    def _within(self, length: int) -> int:
        return length if self.end is None else min(length, self.end)

    def _inflate(self, length: int) -> bytes:
        try:
            while True:
                if self._inflater.eof:  # files may be several compressed ones in a row
                    rest = self._inflater.unused_data or self._read(_PIECE_BYTES)
                    if not rest.strip(b"\0"):
                        return b""
                    self._inflater, self._compressed_input = zlib.decompressobj(_GZIP_WINDOW), rest
                elif not self._compressed_input:
                    self._compressed_input = self._read(_PIECE_BYTES)
                    if not self._compressed_input:
                        return self._inflater.decompress(b"", length)  # what it still holds
                piece = self._inflater.decompress(self._compressed_input, length)
                self._compressed_input = self._inflater.unconsumed_tail
                if piece:
                    return piece
        except zlib.error as error:
            msg = f"{self.path}: damaged compressed data ({error})"
            raise OSError(msg) from error
