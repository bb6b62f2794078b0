"""Hostile bytes made from real ones: what a broken, half-dead or malicious peer might send.

Every input is given by (seed, number) alone, so that a finding can be made again. An input is a real one with one to
four mutations, each cheap: a run makes millions of them. Half of the inputs are mutated politely, so that they stay
JSON and get as far as the fields; the other half any way at all.
"""

import random
import re
import struct
from collections.abc import Sequence

MAX_INPUT_BYTES = 64 * 1024

TOKENS = (
    b"{", b"}", b"[", b"]", b":", b",", b'"', b"\\", b"\n", b"\r\n", b"\0", b" ", b"@", b"=", b"%",
    b"{{", b"}}", b"{0:", b"{-1:", b"{null:", b"{1e9:", b'{{"topic":', b"[[[[[[[[", b"{{{{{{{{",
    b"null", b"true", b"false", b"NaN", b"Infinity", b"-Infinity", b"undefined",
    b"0", b"-0", b"-1", b"00", b"1.5", b"1e999", b"-1e999", b"1e-999", b"2147483648", b"9223372036854775807",
    b"9223372036854775808", b"-9223372036854775809", b"9" * 25, b"9" * 400, b"253402300800000",
    b"\\u0000", b"\\ud800", b"\\udc00\\ud800", b"\\u202e", b"\\/", b"\\x", b"\\u12",
    b"\xff", b"\xfe\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x80\xae", b"\xef\xbb\xbf",
    b"\x1f\x8b",
    b"<script>", b"=cmd|' /C calc'!A0", b"../../etc/passwd", b"%RETRY%", b"%DLQ%", b"%LMQ%$", b"@broadcast",
    b"2026-11-21 06:45:30 ", b"MessageQueue [topic=", b"PULL_OFFSET_MOVED:", b" - ",
    b"!!bool ", b"!!int ", b"!!float ", b"!!timestamp ", b"!!binary ", b"!!set ", b"!!omap ", b"!!null ",
    b"!!python/x ", b"!!str ", b"!", b"&a ", b"*a", b"<<: ", b"? ", b"- ", b"\n  ", b"|\n", b">-\n", b"\n---\n",
    b"%YAML 9.9\n", b"\t", b"#",
)  # fmt: skip
"""What JSON dialects, headers, logs and readers of names have trouble with."""

LENGTHS = (0, 1, 2, 3, 4, 5, 20, 127, 128, 255, 256, 65_535, 65_536, 2**24 - 1, 2**24, 2**31 - 1, -1, -2, -(2**31))
_DIGITS = re.compile(rb"-?[0-9]+")
_TEXT = re.compile(rb'"[^"]{0,64}"')
_VALUE = re.compile(rb'(?<=[:,\[])(?:-?[0-9.eE+-]+|"[^"]{0,64}"|true|false|null)(?=[,}\]])')
_SCALAR = re.compile(rb"(?<=: )[^\n,}]{1,64}")
_SCALARS = (
    b"!!bool maybe",
    b"!!int ''",
    b"!!int x",
    b"!!float .",
    b"!!timestamp x",
    b"!!timestamp 2026-13-45",
    b"!!binary \xff",
    b"!!null 1",
    b"!!set {a, b}",
    b"!!omap [1]",
    b"!!map 1",
    b"!!seq {}",
    b"!!python/object:os.system x",
    b"!x y",
    b"0o9",
    b"1:99:99",
    b"-.inf",
    b".nan",
    b"9999-12-31T23:59:59-23:59",
    b"0001-01-01T00:00:00+23:59",
    b"2026-02-30",
    b"0x",
    b"~",
    b"&a [*a]",
    b"*unknown",
    b"=",
    b"<<",
    b"1_",
    b"+",
    b"2026-11-21t1:1:1 +99:99",
    b'"\\xd8"',
    b'"\\ud800"',
)
_VALUES = (
    b"null", b"true", b"0", b"-1", b"1.5", b"1e999", b"9223372036854775808", b'""', b'"x"', b'"\\ud800"', b"[]", b"[1]",
    b"[[]]", b'["x"]', b"{}", b'{"a":1}', b"{0:1}", b'{{"topic":"T","brokerName":"b","queueId":0}:{}}',
)  # fmt: skip


def hostile(seed: int, number: int, originals: Sequence[bytes]) -> bytes:
    """Return input `number` of the run with this seed; at most MAX_INPUT_BYTES."""
    chance = random.Random(seed << 40 | number)  # noqa: S311  it must be the same again
    data = bytearray(chance.choice(originals))
    mutations = POLITE if data[:1] == b"{" and chance.randrange(2) else RUDE
    for _ in range(chance.randrange(1, 5)):
        chance.choice(mutations)(chance, data, originals)
        del data[MAX_INPUT_BYTES:]
    return bytes(data)


def _span(chance: random.Random, data: bytearray, longest: int = 64) -> tuple[int, int]:
    start = chance.randrange(len(data) + 1)
    return start, min(len(data), start + chance.randrange(1, longest + 1))


def _flip_bits(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    for _time in range(chance.randrange(1, 8)):
        if data:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _overwrite(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    start, end = _span(chance, data)
    data[start:end] = chance.randbytes(end - start)


def _remove(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    start, end = _span(chance, data)
    del data[start:end]


def _insert_token(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    start = chance.randrange(len(data) + 1)
    data[start:start] = chance.choice(TOKENS)


def _overwrite_with_token(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    start = chance.randrange(len(data) + 1)
    token = chance.choice(TOKENS)
    data[start : start + len(token)] = token


def _truncate(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    del data[chance.randrange(len(data) + 1) :]


def _splice(chance: random.Random, data: bytearray, originals: Sequence[bytes]) -> None:
    """End as another input ends."""
    other = chance.choice(originals)
    data[chance.randrange(len(data) + 1) :] = other[chance.randrange(len(other) + 1) :]


def _copy_span(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    start, end = _span(chance, data, 256)
    target = chance.randrange(len(data) + 1)
    data[target:target] = data[start:end]


def _repeat(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    """Say something thousands of times: what is not linear shows."""
    if chance.randrange(16):  # such inputs cost most of the time
        return _copy_span(chance, data, ())
    start, end = _span(chance, data, 32)
    piece = bytes(data[start:end]) or chance.choice(TOKENS)
    data[start:start] = piece * (chance.randrange(1, MAX_INPUT_BYTES) // len(piece))
    return None


def _nest(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    opening = chance.choice((b"{", b"[", b'{"a":', b"{{", b'{{"a":1}:', b'[{"', b"("))
    start = chance.randrange(len(data) + 1)
    data[start:start] = opening * chance.choice((8, 63, 65, 1000, 5000))


def _other_length(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    """Declare another length where one might be declared."""
    form = chance.choice((">i", ">i", ">h", ">q"))
    size = struct.calcsize(form)
    start = chance.choice((0, 4, chance.randrange(len(data) + 1)))
    bits = 8 * size
    value = (chance.choice(LENGTHS) + chance.randrange(-2, 3)) & (1 << bits) - 1
    data[start : start + size] = value.to_bytes(size, "big")


def _other_number(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    _replace_match(chance, data, _DIGITS, str(chance.choice(LENGTHS) * chance.choice((1, 1, 2**31, 2**40))).encode())


def _other_text(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    _replace_match(chance, data, _TEXT, b'"' + chance.choice(TOKENS) + b'"')


def _other_value(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    _replace_match(chance, data, _VALUE, chance.choice(_VALUES))


def _other_name(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    _replace_match(chance, data, _TEXT, chance.choice((b'"other"', b'""', b'"topic"', b'"T@G"', b'"0"')))


def _other_scalar(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    """Put another value behind a key of YAML, or behind a word of a log."""
    _replace_match(chance, data, _SCALAR, chance.choice(_SCALARS))


def _no_text(chance: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    """Say bytes that are no UTF-8 where a text stands."""
    no_text = (b"\xff\xfe", b"\xc0\xaf", b"a\xed\xa0\x80b", b"\xe4\xb8", b"\xb6\xa9\xb5\xa5", b"\0")
    _replace_match(chance, data, _TEXT, b'"' + chance.choice(no_text) + b'"')


def _replace_match(chance: random.Random, data: bytearray, pattern: re.Pattern[bytes], replacement: bytes) -> None:
    found = pattern.search(data, chance.randrange(len(data) + 1))
    if found is not None:
        data[found.start() : found.end()] = replacement


POLITE = (_other_number, _other_value, _other_value, _other_name, _no_text)
RUDE = (
    *POLITE,
    _other_scalar,
    _other_text,
    _other_length,
    _other_length,
    _flip_bits,
    _overwrite,
    _remove,
    _insert_token,
    _insert_token,
    _overwrite_with_token,
    _truncate,
    _splice,
    _copy_span,
    _repeat,
    _nest,
)
