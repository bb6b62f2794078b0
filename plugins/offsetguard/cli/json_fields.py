"""Reading fields of JSON objects that people and scripts write: what is wrong is told by the field's name."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LONGEST_INTEGER = 2**63 - 1  # of RocketMQ's offsets
LATEST_MS = 253_402_300_799_999  # the end of the year 9999


class FieldError(Exception):
    """A field is not what it should be; the text is `field x: what to write`."""

    def __init__(self, path: str, text: str) -> None:
        """Take the field's path, e.g. `samples[3].at_ms`."""
        super().__init__(f"field {path}: {text}")


@dataclass(frozen=True, slots=True)
class Fields:
    """One JSON object. A field that is null is as one that is missing."""

    values: Mapping[str, Any]
    path: str = ""

    @classmethod
    def read(cls, text: bytes) -> Fields:
        """Return the object of one line; raises FieldError when it is none."""
        try:
            return cls.of(json.loads(text, parse_constant=_refuse), "(line)")._named("")
        except (ValueError, RecursionError) as error:
            raise FieldError("(line)", f"is no JSON: {str(error)[:200]}") from error

    @classmethod
    def of(cls, value: object, path: str) -> Fields:
        """Return a value that must be an object."""
        if not isinstance(value, dict):
            raise FieldError(path, f"is no JSON object but {_shown(value)}")
        return cls(value, path)

    def moment_ms(self, name: str) -> int:
        """Return milliseconds since 1970; they must be there."""
        found = self.integer(name, most=LATEST_MS)
        if found is None:
            raise FieldError(self._of(name), "is missing: milliseconds since 1970")
        return found

    def integer(self, name: str, *, least: int = 0, most: int = LONGEST_INTEGER) -> int | None:
        """Return a whole number within limits."""
        value = self.values.get(name)
        if value is None:
            return None
        return whole_number(value, self._of(name), least=least, most=most)

    def flag(self, name: str) -> bool | None:
        """Return true or false."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, bool):
            raise FieldError(self._of(name), f"is {_shown(value)}: write true, false or null")
        return value

    def word(self, name: str, known: Iterable[str]) -> str | None:
        """Return one of some words, in lower case."""
        value, words = self.values.get(name), tuple(known)
        if value is None:
            return None
        if not isinstance(value, str) or value.casefold() not in words:
            raise FieldError(self._of(name), f"is {_shown(value)}: write {' or '.join(words)} or null")
        return value.casefold()

    def objects(self, name: str) -> Iterator[Fields]:
        """Yield the objects of a list that must be there."""
        for position, value in enumerate(self.items(name)):
            yield Fields.of(value, f"{self._of(name)}[{position}]")

    def items(self, name: str) -> list[Any]:
        """Return a list that must be there."""
        value = self.values.get(name)
        if not isinstance(value, list):
            raise FieldError(self._of(name), "is missing: a list" if value is None else f"is no list: {_shown(value)}")
        return value

    def ids(self, name: str, *, needed: bool = True) -> frozenset[str]:
        """Return a list of texts or whole numbers as a set; 1 and "1" are two. null is an empty list."""
        if name not in self.values and not needed:
            return frozenset()
        found = [] if name in self.values and self.values[name] is None else self.items(name)
        for position, value in enumerate(found):
            if isinstance(value, bool) or not isinstance(value, str | int):
                raise FieldError(f"{self._of(name)}[{position}]", f"is {_shown(value)}: write a text or a whole number")
        return frozenset(map(json.dumps, found))

    def inner(self, name: str) -> Fields:
        """Return an object inside this one; null is an empty one."""
        value = self.values.get(name)
        return Fields.of({} if value is None else value, self._of(name))

    def _of(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def _named(self, path: str) -> Fields:
        return Fields(self.values, path)


def whole_number(value: object, path: str, *, least: int = 0, most: int = LONGEST_INTEGER) -> int:
    """Return a whole number within limits; 1.0 is one, true and "1" are not."""
    if isinstance(value, float) and math.isfinite(value) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise FieldError(path, f"is {_shown(value)}: write a whole number or null")
    if not least <= value <= most:
        raise FieldError(path, f"is {_shown(value)}: it must be from {least} to {most}")
    return value


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
