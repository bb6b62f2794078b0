"""What repositories share: column types, rows as records, keys in portions, counts of changed rows, figures as JSON.

A moment is `{"moment": "..."}`, a sentence `{"said": key, "figures": [...], "text": English}`, several are a list.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from sqlalchemy import CursorResult, DateTime, Delete, Dialect, Update
from sqlalchemy.orm import Session
from sqlalchemy.types import TypeDecorator

from offsetguard.catalogue import Sentence
from offsetguard.model.verdicts import Figure

_Record = TypeVar("_Record")


def record_of(kind: type[_Record], row: object, **given: Any) -> _Record:
    """Return a record (a dataclass) of a row: each field that is not given is the column of its name."""
    names = {one.name for one in dataclasses.fields(kind)} - given.keys()  # type: ignore[arg-type]
    return kind(**{name: getattr(row, name) for name in names}, **given)


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


class UtcDateTime(TypeDecorator[datetime]):
    """An aware moment in UTC, microseconds; SQLite would lose the zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

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


def figures_to_json(figures: Mapping[str, Any]) -> list[list[Any]]:
    """Keep names, order and kinds: `[name, value]`."""
    return [[name, figure_to_json(figure)] for name, figure in figures.items()]


def figures_from_json(figures: Iterable[tuple[str, Any]]) -> dict[str, Figure]:
    """Return what `figures_to_json` kept."""
    return {name: figure_from_json(figure) for name, figure in figures}


def figure_to_json(figure: Any) -> Any:
    """Keep a sentence with its key and figures, a moment as such, anything else as it is."""
    if isinstance(figure, datetime):
        return {"moment": figure.astimezone(UTC).isoformat()}
    if isinstance(figure, Sentence):
        return {"said": figure.key, "figures": figures_to_json(figure.figures), "text": str(figure)}
    return [figure_to_json(one) for one in figure] if isinstance(figure, tuple) else figure


def figure_from_json(kept: Any) -> Any:
    """Return what `figure_to_json` kept."""
    if isinstance(kept, list):
        return tuple(figure_from_json(one) for one in kept)
    if not isinstance(kept, dict):
        return kept
    if "moment" in kept:
        return datetime.fromisoformat(kept["moment"])
    try:
        return Sentence(kept["said"], **figures_from_json(kept["figures"]))
    except KeyError:  # of a release that has other sentences
        return kept["text"]
