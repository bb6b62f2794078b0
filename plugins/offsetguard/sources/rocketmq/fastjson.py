"""Reader for the JSON that fastjson writes, which is not JSON.

Goal: bodies whose map keys are numbers (`{0:1}`) or objects (`{{"topic":"T",..}:{..}}`), and strict JSON as well, at
the speed of `json.loads`: a body of code 43 with 81,000 offsets is read in a fraction of a second.
Plan: try strict JSON; if it is not, rewrite it in one linear scan and try again. The scan walks over whole strings, so
that braces and digits in names are left alone; a number or a flat object in the place of a key becomes a string.
A key that was an object is then its own text: `json_fields.message_queue_key` reads it.
Not done here: no pattern that can run back over what it has read (every quantifier is possessive, an unterminated
string swallows the rest), since the bytes may come from anybody.
Source: `JSON.toJSONString` of fastjson 1.2.69 .. 1.2.83 and fastjson2, as seen in bodies of 4.9.8, 5.3.3 and 5.5.1.
"""

import json
import re
from json.encoder import encode_basestring
from typing import Any

from offsetguard.sources.rocketmq.json_fields import MalformedBytes

MAX_DOCUMENT_BYTES = 16 * 1024 * 1024  # a frame cannot carry more
MAX_DEPTH = 64  # real bodies have five levels
MAX_BRACKETS, MAX_COMMAS = 1_000_000, 2_000_000  # each makes objects of many times its size; real bodies have fewer
MAX_UNDECODABLE_BYTES = 1_000  # of a text: a few names may be in another encoding, a body of nothing else is no text

Json = Any  # what json.loads gives: dict, list, str, int, float, bool or None

_STRING = r'"(?:[^"\\]++|\\.?)*+(?:"|\Z)'
_FLAT_OBJECT_KEY = rf'\{{(?:[^{{}}"]++|{_STRING})*+\}}(?=\s*+:)'
_BARE_KEY = r"[{,]\s*+(?:-?[0-9][0-9.eE+-]*+|null|true|false)(?=\s*+:)"
_KEYS = re.compile(rf"(?P<string>{_STRING})|(?P<object>{_FLAT_OBJECT_KEY})|(?P<bare>{_BARE_KEY})", re.DOTALL)
_PLAIN_OBJECT_KEY = re.compile(r"\{[^{}]*+\}(?=\s*+:)")
_BRACKETS = re.compile(rf"{_STRING}|[\[{{]++|[\]}}]++", re.DOTALL)
_SURROGATE_ESCAPES = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_UNDECODABLE_BYTE = re.compile("[\udc80-\udcff]")
_ALL_BUT_BRACKETS_AND_QUOTES = bytes(set(range(256)) - set(b'[]{}"'))
_USUAL_DEPTH = 8
_STRICT = json.JSONDecoder(parse_constant=lambda _: None)  # NaN and Infinity


def decode(body: bytes) -> Json:
    """Return what a body says; keys are texts, also where they were numbers or objects. Raises MalformedBytes.

    Bytes that are not UTF-8 become U+FFFD and their hex digits, so that two different names stay different.
    NaN and Infinity are None.
    """
    if len(body) > MAX_DOCUMENT_BYTES:
        raise MalformedBytes(f"body: {len(body)} bytes exceed the limit of {MAX_DOCUMENT_BYTES}")
    for what, count, most in (
        ("objects and lists", body.count(b"{") + body.count(b"["), MAX_BRACKETS),
        ("elements", body.count(b","), MAX_COMMAS),
    ):
        if count > most:
            raise MalformedBytes(f"body: {count} {what} exceed the limit of {most}")
    text = _whole_surrogates(decode_text(body))
    is_usual = _is_usually_deep(body)
    if not is_usual:
        _check_depth(text)
    try:
        if is_usual and "{{" in text:  # no string has a bracket in it, so keys that are objects are found at once
            return _loads(_PLAIN_OBJECT_KEY.sub(lambda match: encode_basestring(match[0]), text))
        return _loads(text)
    except ValueError:
        pass  # no strict JSON: numbers as keys, for one
    try:
        return _loads(_KEYS.sub(_strict_key, text))
    except ValueError as error:
        raise MalformedBytes(f"body: no JSON: {error}; it starts with {text[:40]!r}") from error


def decode_object(body: bytes) -> dict[str, Json]:
    """Return a body that must be an object; raises MalformedBytes."""
    document = decode(body)
    if not isinstance(document, dict):
        raise MalformedBytes(f"body: expected an object, found {type(document).__name__}")
    return document


def decode_text(data: bytes) -> str:
    """Return UTF-8 text; each byte that is not UTF-8 becomes U+FFFD and its two hex digits.

    Raises MalformedBytes for more than MAX_UNDECODABLE_BYTES: each would become three characters.
    """
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        text = data.decode(errors="surrogateescape")
        if (count := len(text) - len(data.decode(errors="ignore"))) > MAX_UNDECODABLE_BYTES:
            raise MalformedBytes(f"{count} of {len(data)} bytes are not UTF-8") from error
        return _UNDECODABLE_BYTE.sub(lambda match: f"\ufffd{ord(match[0]) - 0xDC00:02x}", text)


def _loads(text: str) -> Json:
    if text.startswith("\ufeff"):
        raise ValueError("it starts with a byte order mark")
    return _STRICT.decode(text)


def _strict_key(match: re.Match[str]) -> str:
    token = match[0]
    if match.lastgroup == "string":
        return token
    if match.lastgroup == "object":
        return encode_basestring(token)
    return f'{token[0]}"{token[1:].strip()}"'


def _whole_surrogates(text: str) -> str:
    r"""Replace `\ud800` and the like without their other half: no file could store such a text."""
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _SURROGATE_ESCAPES.sub(lambda match: "\\ufffd" if match["lone"] else match[0], text)


def _is_usually_deep(body: bytes) -> bool:
    """Whether brackets are sure to be no deeper than usual: innermost pairs are taken away until nothing is left.

    Ten times faster than looking at each of them. Says no when quotes are escaped or strings contain brackets.
    """
    if b"\\" in body:
        return False
    brackets = body.translate(None, _ALL_BUT_BRACKETS_AND_QUOTES).replace(b'""', b"")
    for _ in range(_USUAL_DEPTH):
        if not brackets:
            return True
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
    return not brackets


def _check_depth(text: str) -> None:
    """Refuse what would exhaust the stack of any reader."""
    depth = 0
    for match in _BRACKETS.finditer(text):
        first = match[0][0]
        if first in "[{":
            depth += len(match[0])
            if depth > MAX_DEPTH:
                raise MalformedBytes(f"body: nested deeper than {MAX_DEPTH} levels")
        elif first != '"':
            depth -= len(match[0])
