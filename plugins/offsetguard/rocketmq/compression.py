"""Decompression of message bodies: zlib, LZ4 frames and zstd, never into more than `MAX_BODY_BYTES`.

The types are RocketMQ's `CompressionType` in bits 8-10 of the sys flag (5.x); 4.x knows only zlib and writes 0.
LZ4 and zstd are read by pyarrow, imported when the first such message comes.
"""

from __future__ import annotations

import zlib

from offsetguard.rocketmq.malformed import MalformedBytes

MAX_BODY_BYTES = 64 * 1024 * 1024  # brokers take 4 MiB by default; more than this is a bomb

_PIECE_BYTES = 256 * 1024
_ZLIB_TYPES = (0, 3)
_PYARROW_CODECS = {1: "lz4", 2: "zstd"}  # pyarrow's "lz4" is the LZ4 frame format


def decompress(data: bytes, compression_type: int) -> bytes:
    """Return the plain bytes; raises MalformedBytes for broken data, too much of it, or an unknown type."""
    if compression_type in _ZLIB_TYPES:
        plain = _decompress_zlib(data)
    elif compression_type in _PYARROW_CODECS:
        plain = _decompress_with_pyarrow(data, _PYARROW_CODECS[compression_type])
    else:
        raise MalformedBytes(f"message: unknown compression type {compression_type}")
    if len(plain) > MAX_BODY_BYTES:
        raise MalformedBytes(f"message: the body is larger than {MAX_BODY_BYTES} bytes when decompressed")
    return plain


def _decompress_zlib(data: bytes) -> bytes:
    decompressor = zlib.decompressobj()
    try:
        plain = decompressor.decompress(data, MAX_BODY_BYTES + 1)
    except zlib.error as error:
        raise MalformedBytes(f"message: the compressed body is broken: {error}") from error
    if not decompressor.eof and len(plain) <= MAX_BODY_BYTES:
        raise MalformedBytes("message: the compressed body is cut off")
    return plain


def _decompress_with_pyarrow(data: bytes, codec: str) -> bytes:
    import pyarrow as pa  # noqa: PLC0415  # heavy, and few messages need it

    pieces: list[pa.Buffer] = []
    size = 0
    try:
        with pa.CompressedInputStream(pa.py_buffer(data), codec) as stream:
            # by pieces and as buffers: `read` allocates all that it may give, and keeps it when the data is broken
            while size <= MAX_BODY_BYTES and (piece := stream.read_buffer(_PIECE_BYTES)).size:
                pieces.append(piece)
                size += piece.size
    except OSError as error:
        raise MalformedBytes(f"message: the {codec} body is broken: {error}") from error
    return b"".join(pieces)
