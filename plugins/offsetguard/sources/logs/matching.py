"""Which pattern a line is of, and the values of its fields, without trying a hundred patterns on each.

Most lines of a log are none that we know, so they must cost little: patterns are looked for by the first character
that a message may begin with, and by a text that it must contain.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from offsetguard.sources.logs import broker, client, lock, store
from offsetguard.sources.logs.pattern import REPEATS, SIGN, FieldType, Pattern, is_literal

Value = str | int | float | None
_INT64 = range(-(2**63), 2**63)


PATTERNS = (
    *broker.PATTERNS,
    *lock.PATTERNS,
    *store.PATTERNS,
    *client.PATTERNS,
)


@dataclass(frozen=True, slots=True)
class Recognised:
    """A message's pattern and its fields by name; None = absent, empty, or no number of the type."""

    pattern: Pattern
    fields: dict[str, Value]


class Matcher:
    """Patterns in their order, found fast: most of a log's lines are none of them."""

    def __init__(self, patterns: Sequence[Pattern] = PATTERNS) -> None:
        """Sort the patterns by the characters that a message may begin with; every pattern begins with some text."""
        firsts = [{text[:1] for text in beginnings(pattern.regex)} for pattern in patterns]
        self._by_first = {
            first: tuple(pattern for pattern, its in zip(patterns, firsts, strict=True) if first in its)
            for first in set().union(*firsts)
        }
        self._spanning = tuple(pattern for pattern in patterns if pattern.spans_lines)

    def recognise(self, message: str) -> Recognised | None:
        """Return the first pattern that a message (continuation lines included) is of, or None."""
        for pattern in self._by_first.get(message[:1], ()):
            if pattern.must_contain in message:
                match = _compiled(pattern.regex).search(message)
                if match is not None:
                    return Recognised(pattern, _fields(pattern, match))
        return None

    def may_grow(self, message: str) -> bool:
        """Whether lines that are still to come could change what a message is recognised as."""
        return any(
            pattern.must_contain in message and _compiled(pattern.regex).search(message) is None
            for pattern in self._spanning
        )


def _fields(pattern: Pattern, match: re.Match[str]) -> dict[str, Value]:
    fields = {field.name: _typed(text, field.type) for field, text in zip(pattern.fields, match.groups(), strict=True)}
    for part in pattern.parts:
        found = _compiled(part.regex).search(str(fields[part.of] or ""))
        fields[part.name] = _typed(found.group(1) if found else None, part.type)
    return fields


def _typed(text: str | None, wanted: FieldType) -> Value:
    if not text:
        return None
    if wanted is FieldType.TEXT:
        return text
    try:
        if wanted is FieldType.INT:
            number = int(text)
            return number if number in _INT64 else None
        real = float(text)
    except ValueError:  # e.g. "-" or "N/A"
        return None
    return real if math.isfinite(real) else None


@cache
def _compiled(regex: str) -> re.Pattern[str]:
    return re.compile(regex)


def beginnings(regex: str) -> frozenset[str]:
    """Return texts of which each message that the regex finds begins with one; `""` when that can be anything.

    Understands what patterns may hold (`pattern.py`): literals, groups with alternatives, `?`; stops at what varies.
    """
    signs = SIGN.findall(regex.removeprefix("^"))[::-1]
    return frozenset(text for text, _ in _alternatives(signs))


# A beginning is (text, whether what follows can make it longer). Of the signs still to be read the last is the next.
_Beginnings = set[tuple[str, bool]]


def _alternatives(signs: list[str]) -> _Beginnings:
    """Read up to the end of the regex or of the group."""
    found = _sequence(signs)
    while signs and signs[-1] == "|":
        signs.pop()
        found |= _sequence(signs)
    return found


def _sequence(signs: list[str]) -> _Beginnings:
    found = {("", True)}
    while signs and signs[-1] not in {"|", ")"}:
        if not any(is_open for _, is_open in found):
            _skip(signs)
            break
        following = _item(signs)
        closed = {one for one in found if not one[1]}
        found = closed | {(text + more, goes_on) for text, ok in found if ok for more, goes_on in following}
    return found


def _item(signs: list[str]) -> _Beginnings:
    """Read one literal or group, with `?` behind it; anything else ends what is known."""
    sign = signs.pop()
    if sign == "(" and signs[-2:] != ["!", "?"]:
        if signs[-1] == "?":  # "(?:"
            del signs[-2:]
        found = _alternatives(signs)
        signs.pop()  # ")"
    elif is_literal(sign):
        found = {(sign[-1], True)}
    else:
        signs.append(sign)
        _skip(signs)
        return {("", False)}
    if signs and signs[-1] in REPEATS:
        return {("", False)}
    if signs and signs[-1] == "?":
        signs.pop()
        found |= {("", True)}
    return found


def _skip(signs: list[str]) -> None:
    """Go to the `|`, `)` or end behind this sequence."""
    depth = 0
    while signs and (depth or signs[-1] not in {"|", ")"}):
        sign = signs.pop()
        depth += (sign == "(") - (sign == ")")


ALL = Matcher()
