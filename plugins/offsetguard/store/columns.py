"""What repositories share: column types, parts of texts, rows as records, keys in portions, counts, records as JSON.

A moment is `{"@moment": "..."}`, a sentence `{"@sentence": key, "figures": {...}, "text": English}`, a text in
every language `{"@texts": {language: text}}`.
"""

import dataclasses
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Set
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from sqlalchemy import JSON, ColumnElement, CursorResult, DateTime, Delete, Dialect, Update
from sqlalchemy.orm import InstrumentedAttribute, Session
from sqlalchemy.types import TypeDecorator

from offsetguard.catalogue import Sentence, Translated
from offsetguard.store.database_errors import DamagedValue

_Record = TypeVar("_Record")
_MOMENT, _SENTENCE, _TEXTS = "@moment", "@sentence", "@texts"  # no figure has such a name


def has_part(session: Session, column: InstrumentedAttribute[Any], part: str) -> ColumnElement[bool]:
    """Whether a text has a part, in any case."""
    # SQLite's LIKE itself knows no case of ASCII's letters; `lower` is ours there, and costs most of a search
    is_enough = part.isascii() and session.connection().dialect.name == "sqlite"
    return (column.contains if is_enough else column.icontains)(part, autoescape=True)


def record_of(kind: type[_Record], row: object, **given: Any) -> _Record:
    """Return a record (a dataclass) of a row: what is not given is the column of its name, or has its default."""
    names = {one.name for one in dataclasses.fields(kind)}  # type: ignore[arg-type]
    columns = {name: getattr(row, name) for name in names - given.keys() if hasattr(row, name)}
    return kind(**columns, **given)


def record_from(kind: type[_Record], kept: Mapping[str, Any]) -> _Record:
    """Return a record of what `to_json` kept of one, maybe in another release."""
    return kind(**fields_from(kind, kept))


def fields_from(kind: type, kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `to_json` kept of a record's fields as the types that they have now, records within them too."""
    wanted = _types_of(kind)
    return {name: _as(wanted[name], value) for name, value in kept.items() if name in wanted}


@cache
def _types_of(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _as(wanted: Any, kept: Any) -> Any:
    """Return what was kept as the type that a field has."""
    inner = [one for one in get_args(wanted) if one is not NoneType]
    plain: type = get_origin(wanted) or wanted
    if plain is UnionType:
        return kept if kept is None or len(inner) > 1 else _as(inner[0], kept)
    if plain is tuple:
        return tuple(_as(inner[0], one) for one in kept)
    if dataclasses.is_dataclass(plain):
        return record_from(plain, kept)
    if issubclass(plain, tuple):  # with names
        return plain(*kept)
    return plain(kept) if issubclass(plain, Enum | frozenset) else kept


def values_of(record: Any, *left_out: str) -> dict[str, Any]:
    """Return the fields of a record (a dataclass) as the values of columns of the same names."""
    return {one.name: getattr(record, one.name) for one in dataclasses.fields(record) if one.name not in left_out}


def count_changed(session: Session, statement: Update | Delete) -> int:
    """Run a statement; returns how many rows it changed."""
    changed = session.execute(statement.execution_options(synchronize_session=False))
    if not isinstance(changed, CursorResult):
        raise TypeError(f"{type(statement).__name__} gave {type(changed).__name__}, not a CursorResult")
    return changed.rowcount


KEYS_PER_QUERY = 500


def chunks(keys: Collection[str]) -> Iterator[list[str]]:
    """Yield all keys in ascending order, at most KEYS_PER_QUERY at once."""
    wanted = sorted(keys)
    for start in range(0, len(wanted), KEYS_PER_QUERY):
        yield wanted[start : start + KEYS_PER_QUERY]


NAME_LIMIT = 255  # characters of the column of a name


def storable(text: str) -> str:
    """Return a text that people or clusters gave as every database can hold it: PostgreSQL refuses NUL."""
    return text.replace("\0", "\ufffd")


_Value = TypeVar("_Value")


class _Checked(TypeDecorator[_Value]):
    """A value of which SQLite checks nothing: where it cannot be read, the file is damaged."""

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], _Value | None] | None:
        """Return how a value of a row is read; it raises DamagedValue."""
        read = super().result_processor(dialect, coltype)
        return None if read is None else lambda value: _undamaged(read, value)


class Json(_Checked[Any]):
    """A document; a mapping, as a rule."""

    impl = JSON
    cache_ok = True


class UtcDateTime(_Checked[datetime]):
    """An aware moment in UTC, microseconds; SQLite would lose the zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], datetime | None] | None:
        """Read SQLite's texts at once: a page of a month reads 43,200 of them."""
        return _moment_of if dialect.name == "sqlite" else super().result_processor(dialect, coltype)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse naive moments: nobody could say which zone was meant."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone; pass an aware moment")
        utc = value.astimezone(UTC)
        return utc.replace(tzinfo=None) if dialect.name == "sqlite" else utc

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return an aware moment in UTC."""
        del dialect
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def _moment_of(kept: str | None) -> datetime | None:
    try:
        return None if kept is None else datetime.fromisoformat(f"{kept}+00:00")
    except (ValueError, TypeError) as error:
        raise _damaged(kept, error) from error


def from_text(kept: str) -> Any:
    """Return what the text of a `to_json` says; raises DamagedValue."""
    return _undamaged(lambda text: from_json(json.loads(text)), kept)


def _undamaged(read: Callable[[Any], Any], value: Any) -> Any:
    try:
        return read(value)
    except (ValueError, TypeError, AttributeError) as error:
        raise _damaged(value, error) from error


def _damaged(value: object, error: Exception) -> DamagedValue:
    return DamagedValue(f"a value of {len(str(value))} characters: {type(error).__name__}")


def to_json(value: Any) -> Any:
    """Keep what records are made of: other records by their fields, moments and sentences as such, sets in order."""
    if isinstance(value, datetime):
        return {_MOMENT: value.astimezone(UTC).isoformat()}
    if isinstance(value, Sentence):
        return {_SENTENCE: value.key, "figures": to_json(value.figures), "text": str(value)}
    if isinstance(value, Translated):
        value = {_TEXTS: value.texts}
    if dataclasses.is_dataclass(value):
        return to_json(values_of(value))
    if isinstance(value, Mapping):
        return {name: to_json(below) for name, below in value.items()}
    if isinstance(value, Set):
        return sorted(value)
    return [to_json(below) for below in value] if isinstance(value, tuple) else value


def from_json(kept: Any) -> Any:
    """Return what `to_json` kept; records are mappings, and sets tuples."""
    if isinstance(kept, list):
        return tuple(from_json(below) for below in kept)
    if not isinstance(kept, dict):
        return kept
    if _MOMENT in kept:
        return datetime.fromisoformat(kept[_MOMENT])
    if _SENTENCE in kept:
        return _sentence(kept)
    read = {name: from_json(below) for name, below in kept.items()}
    return Translated(read[_TEXTS]) if _TEXTS in read else read


def _sentence(kept: dict[str, Any]) -> str:
    try:
        return Sentence(kept[_SENTENCE], **from_json(kept["figures"]))
    except KeyError:  # of a release that has other sentences
        return str(kept["text"])
