"""The picture of a heat map: a pixel for each step of each queue, as a PNG of a palette.

It is dark where nothing waits, and the brighter the more waits, on a logarithmic scale: one that is told apart without
seeing colours (viridis). What is not known is transparent, so that the page's own hatching shows in either theme.
"""

import math
import struct
import zlib
from collections.abc import Sequence

_UNKNOWN, _NOTHING, _LEAST, _MOST = 0, 1, 2, 63  # numbers in the palette
_DARK = (38, 50, 63)
_SCALE = ((59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))  # #3b528b to #fde725, evenly


def draw(lines: Sequence[Sequence[int | None]]) -> bytes:
    """Return the PNG of lines of one length, at least one of each; None is not known."""
    most = max((one for line in lines for one in line if one is not None), default=0)
    rows = b"".join(b"\0" + bytes(_number(one, most) for one in line) for line in lines)  # 0: no filter
    header = struct.pack(">IIBBBBB", len(lines[0]), len(lines), 8, 3, 0, 0, 0)  # of a palette, a byte a pixel
    chunks = (
        (b"IHDR", header),
        (b"PLTE", _palette()),
        (b"tRNS", b"\0"),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def _number(lag: int | None, most: int) -> int:
    if lag is None:
        return _UNKNOWN
    if lag <= 0:
        return _NOTHING
    return _LEAST + round((_MOST - _LEAST) * math.log1p(lag) / math.log1p(most))


def _palette() -> bytes:
    steps = _MOST - _LEAST
    return bytes((0, 0, 0, *_DARK)) + b"".join(_colour((len(_SCALE) - 1) * n / steps) for n in range(steps + 1))


def _colour(place: float) -> bytes:
    """Return the colour between two of the scale."""
    below = min(int(place), len(_SCALE) - 2)
    part = place - below
    return bytes(round(low + part * (high - low)) for low, high in zip(_SCALE[below], _SCALE[below + 1], strict=True))
