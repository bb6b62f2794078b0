"""What a value must be, written beside its type, and checked by pydantic where a record is read from outside.

Records that commands need at their start (configuration, manifest) are plain dataclasses: pydantic alone would be a
fifth of the time that `offsetguard collect` takes from its start to its snapshot. Only who reads a file or a text from
outside imports it, through `read_python` and `read_json`.
Source of the protocol: https://docs.pydantic.dev/latest/concepts/types/#customizing-validation-with-__get_pydantic_core_schema__
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import GetCoreSchemaHandler, TypeAdapter
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

RecordT = TypeVar("RecordT")
NO_OTHER_FIELDS = {"extra": "forbid"}  # `__pydantic_config__` of a record: an unknown field is a mistake


class BrokenRule(Exception):
    """A value is not what a rule allows; `kind` is stable, `hint` says what to write."""

    def __init__(self, kind: str, hint: str) -> None:
        """Take both."""
        super().__init__(hint)
        self.kind = kind
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Number:
    """Of an int: nothing else is taken for one, and its limits."""

    ge: int | None = None
    gt: int | None = None
    le: int | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Tell pydantic."""
        limits = {"ge": self.ge, "gt": self.gt, "le": self.le}
        schema: Any = {**handler(source), "strict": True, **{k: v for k, v in limits.items() if v is not None}}
        checked: CoreSchema = schema
        return checked


@dataclass(frozen=True, slots=True)
class Exactly:
    """Of a text or a truth value: nothing is converted into it."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Tell pydantic."""
        schema: Any = {**handler(source), "strict": True}
        checked: CoreSchema = schema
        return checked


@dataclass(frozen=True, slots=True)
class NotEmpty:
    """Of a list or mapping."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Tell pydantic."""
        schema: Any = {**handler(source), "min_length": 1}
        checked: CoreSchema = schema
        return checked


@dataclass(frozen=True, slots=True)
class Checked:
    """Of a value that passed everything before it: `rule` raises BrokenRule."""

    rule: Callable[[Any], None]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Tell pydantic."""

        def check(value: Any) -> Any:
            try:
                self.rule(value)
            except BrokenRule as broken:
                raise PydanticCustomError(broken.kind, "{hint}", {"hint": broken.hint}) from broken
            return value

        return core_schema.no_info_after_validator_function(check, handler(source))


Text = Annotated[str, Exactly()]
Flag = Annotated[bool, Exactly()]
Count = Annotated[int, Number(ge=0)]


def read_python(kind: type[RecordT], values: Any) -> RecordT:
    """Return a record made of plain values; raises pydantic's ValidationError."""
    record: RecordT = _adapter(kind).validate_python(values)  # type: ignore[arg-type]  # a class is hashable
    return record


def read_json(kind: type[RecordT], text: str | bytes) -> RecordT:
    """Return a record made of JSON; raises pydantic's ValidationError."""
    record: RecordT = _adapter(kind).validate_json(text)  # type: ignore[arg-type]  # likewise
    return record


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
