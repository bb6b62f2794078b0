"""Keys in portions: SQLite and PostgreSQL bound the number of parameters of a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

KEYS_PER_QUERY = 500


def chunks(keys: Collection[str]) -> Iterator[list[str]]:
    """Yield all keys in ascending order, at most KEYS_PER_QUERY at once."""
    wanted = sorted(keys)
    for start in range(0, len(wanted), KEYS_PER_QUERY):
        yield wanted[start : start + KEYS_PER_QUERY]
