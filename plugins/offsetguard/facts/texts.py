"""The SQL texts of facts: one file per fact table or step, for Spark as written, for DuckDB as translated.

`facts/NAME.sql` is Spark SQL and the one definition; `facts/duckdb/NAME.sql` is made of it by `make facts-sql`, so that
nothing is translated at run time. A text reads relations by name: a table's own name (the rows of the intervals that
are asked about), another file's name (a step that several facts share), or `NAME_before` and `NAME_history` for rows of
earlier intervals. What varies is a parameter, `:name` on Spark and `$name` on DuckDB. No functions of our own:
Iceberg's SQL extension, which most Spark servers with Iceberg have, refuses CREATE FUNCTION with parameters.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from offsetguard.facts import queue_windows

QUEUE_WINDOWS = "queue_windows"
_READ = re.compile(r"(?<!'' )\b(?:FROM|JOIN)\s+([a-z_]\w*)")  # not `TRIM(BOTH '' FROM x)`
_STEP = re.compile(r"\b([a-z_]\w*) AS \(")
_PARAMETER = re.compile(r"(?<![:\w])[:$]([a-z_]\w*)")


def names() -> list[str]:
    """Return the names of all queries, sorted."""
    written = (one.name.removesuffix(".sql") for one in files(__package__).iterdir() if one.name.endswith(".sql"))
    return sorted([*written, QUEUE_WINDOWS])


@cache
def spark_text(name: str) -> str:
    """Return a query in Spark's SQL; raises FileNotFoundError."""
    if name == QUEUE_WINDOWS:
        return queue_windows.text_of(spark_text("queue_state"))
    return files(__package__).joinpath(f"{name}.sql").read_text("utf-8")


@cache
def duckdb_text(name: str) -> str:
    """Return a query in DuckDB's SQL; raises FileNotFoundError."""
    return files(__package__).joinpath("duckdb", f"{name}.sql").read_text("utf-8")


@cache
def parameters_of(text: str) -> frozenset[str]:
    """Return the names of a text's parameters."""
    return frozenset(_PARAMETER.findall(_without_texts(text)))


@cache
def relations_of(name: str) -> frozenset[str]:
    """Return the names of what a query reads: landed tables, histories, other queries."""
    code = _without_texts(spark_text(name))
    return frozenset(_READ.findall(code)) - frozenset(_STEP.findall(code))


def _without_texts(text: str) -> str:
    return re.sub(r"--[^\n]*|'[^']*'", "''", text)
