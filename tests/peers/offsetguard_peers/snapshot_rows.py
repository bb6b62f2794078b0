"""A snapshot's tables as dictionaries, which tests compare."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from offsetguard.collect.landing import Row


def as_rows(tables: Mapping[str, pa.Table]) -> dict[str, list[Row]]:
    """Return the rows of every table, by its name."""
    return {name: table.to_pylist() for name, table in tables.items()}
