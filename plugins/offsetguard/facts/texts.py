"""The SQL texts of facts: one file per fact table or step, for Spark as written, for DuckDB as translated.

`facts/NAME.sql` is Spark SQL and the one definition; `facts/duckdb/NAME.sql` is made of it by `make facts-sql`, so that
nothing is translated at run time. A text reads relations by name: a table's own name (the rows of the intervals that
are asked about), another file's name (a step that several facts share), or `NAME_before` and `NAME_history` for rows of
earlier intervals. What varies is a parameter, `:name` on Spark and `$name` on DuckDB. No functions of our own:
Iceberg's SQL extension, which most Spark servers with Iceberg have, refuses CREATE FUNCTION with parameters.

`queue_windows` makes the windows of queues of many snapshots at once, by the step that `queue_state.sql` is. Why not
snapshot by snapshot: a backfill without a state to go on from would need 120 joins, and `diagnose` one for each round;
each costs a query. Why not a file of its own: the step is fifty formulas, and there must be one of each. So the text is
put together from the numbered parts of that file: each part is a struct of its columns, made of the state before, the
sample, and the parts above it; `aggregate` applies them to each queue's samples in order of time. It reads
`queue_snapshots_history`: rows of the intervals from `:first_interval_start` to `:interval_start`, of an interval one
row per queue. Its rows are those that folding these intervals one by one would give.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache, partial
from importlib.resources import files

from offsetguard.tables import QUEUE_SNAPSHOTS, QUEUE_STATE
from offsetguard.tables.table import ColumnType

QUEUE_WINDOWS = "queue_windows"
_READ = re.compile(r"(?<!'' )\b(?:FROM|JOIN)\s+([a-z_]\w*)")  # not `TRIM(BOTH '' FROM x)`
_STEP = re.compile(r"\b([a-z_]\w*) AS \(")
_PARAMETER = re.compile(r"(?<![:\w])[:$]([a-z_]\w*)")
_PART = re.compile(r"^ *-- [123]\. .*\n", re.MULTILINE)
_COMMENT = re.compile(r"--[^\n]*")
_NAME = re.compile(r"(?<![.:\w])[a-z_]+\b")
_KEY = QUEUE_STATE.key
_STATE = tuple(column for column in QUEUE_STATE.columns if column.name not in _KEY)
_TYPES = {
    ColumnType.STRING: "STRING",
    ColumnType.INT32: "INT",
    ColumnType.INT64: "BIGINT",
    ColumnType.TIMESTAMP: "TIMESTAMP",
}


def names() -> list[str]:
    """Return the names of all queries, sorted."""
    written = (one.name.removesuffix(".sql") for one in files(__package__).iterdir() if one.name.endswith(".sql"))
    return sorted([*written, QUEUE_WINDOWS])


@cache
def spark_text(name: str) -> str:
    """Return a query in Spark's SQL; raises FileNotFoundError."""
    if name == QUEUE_WINDOWS:
        return _windows_of(spark_text("queue_state"))
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


def _windows_of(step: str) -> str:
    """Return the text of `queue_windows` in Spark's SQL, made of that of `queue_state.sql`."""
    key = ", ".join(_KEY)
    in_snapshots = {column.name for column in QUEUE_SNAPSHOTS.columns}
    sample = ", ".join(column.name for column in _STATE if column.name in in_snapshots)
    nothing = ", ".join(f"CAST(NULL AS {_TYPES[column.type]}) AS {column.name}" for column in _STATE)
    columns = ", ".join(name if name in _KEY else f"state.{name}" for name in (one.name for one in QUEUE_STATE.columns))
    return f"""
WITH samples AS (
  SELECT {key}, COALESCE(SORT_ARRAY(COLLECT_LIST(STRUCT({sample}))), ARRAY()) AS samples
  FROM queue_snapshots_history
  WHERE interval_start BETWEEN :first_interval_start AND :interval_start
  GROUP BY {key}
),
folded AS (
  SELECT {key}, AGGREGATE(samples, STRUCT({nothing}), (before, sample) -> {_applied(step)}) AS state
  FROM samples
)
SELECT {columns}
FROM folded
"""


def _applied(step: str) -> str:
    """Return the step as one expression of `before` and `sample`, whose value has the columns of the state."""
    parts = _PART.split(step.partition("FROM queue_state_before")[0])[1:]
    types = {column.name: _TYPES[column.type] for column in _STATE}
    structs, above = [], dict[str, str]()
    for number, part in enumerate(parts, start=1):
        qualified = _NAME.sub(partial(_in_its_part, above), _COMMENT.sub("", part))
        formulas = dict(_columns(qualified))
        above |= {name: f"part_{number}.{name}" for name in formulas}
        typed = {name: f"CAST({one} AS {types[name]})" if name in types else one for name, one in formulas.items()}
        structs.append(f"STRUCT({', '.join(f'{formula} AS {name}' for name, formula in typed.items())})")
    applied = structs[-1]
    for number in range(len(parts) - 1, 0, -1):
        applied = f"TRANSFORM(ARRAY({structs[number - 1]}), part_{number} -> {applied})[0]"
    return applied


def _in_its_part(above: Mapping[str, str], name: re.Match[str]) -> str:
    return above.get(name[0], name[0])


def _columns(part: str) -> Iterator[tuple[str, str]]:
    """Yield (name, formula) of the columns of a part: what lies between commas that are in no brackets."""
    depth, begin = 0, 0
    for position, character in enumerate(f"{part.rstrip().rstrip(',')},"):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth:
            formula, _, name = part[begin:position].rpartition(" AS ")
            yield name.strip(), " ".join(formula.split())
            begin = position + 1
