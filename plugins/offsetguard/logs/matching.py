"""Which pattern a message is of, and the values of its fields: what Spark's columns must agree with."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from offsetguard.logs.pattern import FieldType, Pattern
from offsetguard.logs.patterns import PATTERNS

if TYPE_CHECKING:
    from collections.abc import Sequence

Value = str | int | float | None
_INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Recognised:
    """A message's pattern and its fields by name; None = absent, empty, or no number of the type."""

    pattern: Pattern
    fields: dict[str, Value]


class Matcher:
    """Patterns in their order, found fast: most of a log's lines are none of them."""

    def __init__(self, patterns: Sequence[Pattern] = PATTERNS) -> None:
        """Sort the patterns by the character that a message must begin with; `None` holds those that may be first."""
        beginnings = {beginning for pattern in patterns if (beginning := _first_character(pattern.regex))}
        self._by_beginning = {
            beginning: tuple(pattern for pattern in patterns if _first_character(pattern.regex) in {None, beginning})
            for beginning in (None, *beginnings)
        }
        self._spanning = tuple(pattern for pattern in patterns if pattern.spans_lines)

    def recognise(self, message: str) -> Recognised | None:
        """Return the first pattern that a message (continuation lines included) is of, or None."""
        for pattern in self._by_beginning.get(message[:1], self._by_beginning[None]):
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


def _first_character(regex: str) -> str | None:
    """Return the character that every match begins with, None where there are several."""
    begins = re.match(r"\^(?:([A-Za-z])|\\(\[))(?![?*{|])", regex)
    return (begins[1] or begins[2]) if begins else None


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


ALL = Matcher()
