"""`python -m offsetguard_peers.facts.sql`: check facts/*.sql, and write DuckDB's text of each.

Some constructs translate without a word into another meaning. All that are known are refused here, with what to write
instead: an example that happens to show the difference comes up in few of thousands of generated intervals.
"""

import re
import sys
from pathlib import Path

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, UnsupportedError

import offsetguard.facts
from offsetguard.facts import texts

FOLDER = Path(offsetguard.facts.__file__).parent

# Function -> what to write instead. Names as they stand in Spark SQL.
REFUSED_FUNCTIONS = {
    "unix_millis": "FLOOR(UNIX_MICROS(t) / 1000): DuckDB rounds",
    "timestampdiff": "(UNIX_MICROS(b) - UNIX_MICROS(a)) DIV 1000: DuckDB rounds",
    "timestampadd": "t + INTERVAL: rounded otherwise",
    "trim": "TRIM(BOTH ' ' FROM x): DuckDB strips no-break spaces, too",
    "ltrim": "TRIM(LEADING ' ' FROM x)",
    "rtrim": "TRIM(TRAILING ' ' FROM x)",
    "max_by": "MAX(STRUCT(k, v)).v with a k that is never NULL: DuckDB skips rows whose v is NULL",
    "min_by": "MIN(STRUCT(k, v)).v with a k that is never NULL: DuckDB skips rows whose v is NULL",
    "count_if": "COUNT(CASE WHEN c THEN 1 END): NULL of nothing on DuckDB",
    "array_distinct": "ARRAY_DISTINCT(ARRAY_COMPACT(xs)): DuckDB drops NULL",
    "any_value": "MAX(x): which value is another on each engine",
    "first": "FIRST_VALUE(x) IGNORE NULLS OVER (... ORDER BY ...), or MIN",
    "last": "LAST_VALUE(x) IGNORE NULLS OVER (... ORDER BY ...), or MAX",
    "dayofweek": "WEEKDAY or a sum of days: Sunday is 1 on Spark, 0 on DuckDB",
    "array_contains": "SIZE(FILTER(xs, x -> x = y)) > 0: NULL is another thing",
    "exists": "SIZE(FILTER(xs, x -> ...)) > 0",
    "substring_index": "SPLIT_PART",
    "get": "TRY_ELEMENT_AT(xs, n), which counts from 1",
    "pmod": "((a % b) + b) % b",
    "array_union": "FLATTEN(ARRAY(a, b)) and a GROUP BY",
    "inline": "EXPLODE in a SELECT list of its own",
    "zip_with": "a join of two exploded arrays",
    "timestamp_millis": "TIMESTAMP '1970-01-01 00:00:00' + MAKE_DT_INTERVAL",
    "try_divide": "CASE WHEN b <> 0 THEN a / b END",
}
_REFUSED: dict[str, str] = {
    **{
        rf"(?<![\w.]){name}\s*\((?!\s*(both|leading|trailing|array_compact)\b)": what
        for name, what in REFUSED_FUNCTIONS.items()
    },
    r"(?<!\bcoalesce\()(?<!\bsort_array\()\bcollect_(set|list)\s*\(": "COALESCE(collect(...), ARRAY())",
    r"(?<!\bcoalesce\()\bsort_array\(collect_": "COALESCE(SORT_ARRAY(collect(...)), ARRAY())",
    r"\blateral\s+view\b|\bqualify\b": "a SELECT of its own",
    r"\blike\b[^\n]*\bescape\b": "STARTSWITH, or [|] in a regular expression",
}
_TEXT = re.compile(r"--[^\n]*|'(?:[^']|'')*'")


def problems(name: str, text: str) -> list[str]:
    """Return what the rules refuse in a text, each with its line; none: it means the same on both engines."""
    code = _TEXT.sub(lambda match: " " * len(match.group()), text)  # blanks instead: positions stay
    found = [
        (match.start(), f"{match.group().rstrip('(').strip()}: write {instead}")
        for pattern, instead in _REFUSED.items()
        for match in re.finditer(f"(?i){pattern}", code)
    ]
    found += [
        (match.start(), f"{match.group()}: a quote within a text is read in two ways")
        for match in _TEXT.finditer(text)
        if match.group().startswith("'") and "''" in match.group()[1:-1]
    ]
    return [f"facts/{name}.sql:{code.count(chr(10), 0, at) + 1}: {what}" for at, what in sorted(found)]


def translate(name: str, text: str) -> str:
    """Return the text for DuckDB; raises ValueError with everything that the rules refuse, or sqlglot's error."""
    if refused := problems(name, text):
        raise ValueError("\n".join(refused))
    queries = sqlglot.parse(text, "spark")
    if len(queries) != 1 or queries[0] is None:
        raise ValueError(f"facts/{name}.sql: one query, not {len(queries)}")
    query = queries[0].transform(_null_of_malformed_json)
    made = query.sql("duckdb", pretty=True, comments=False, unsupported_level=ErrorLevel.RAISE)
    source = "queue_state" if name == texts.QUEUE_WINDOWS else name  # put together of that
    return f"-- Made of ../{source}.sql by `make facts-sql`: change that file.\n{made}\n"


def _null_of_malformed_json(node: exp.Expression) -> exp.Expression:
    """Let DuckDB answer NULL of a text that is no JSON, as Spark does, and not end the whole query."""
    of_json = isinstance(node, exp.JSONExtractScalar) and not isinstance(node.parent, exp.Try)
    return exp.Try(this=node.copy()) if of_json else node


def write_all() -> list[Path]:
    """Write the text of each file anew; returns those that changed or went."""
    made = {f"{name}.sql": translate(name, texts.spark_text(name)) for name in texts.names()}
    changed = [path for path in (FOLDER / "duckdb").glob("*.sql") if path.name not in made]
    for path in changed:
        path.unlink()
    for name, text in made.items():
        path = FOLDER / "duckdb" / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            changed.append(path)
    return changed


def main() -> int:
    """Write all; what is refused is told."""
    try:
        changed = write_all()
    except (ValueError, ParseError, UnsupportedError) as error:
        print(error, file=sys.stderr)
        return 1
    for path in changed:
        print(f"{'written' if path.exists() else 'removed'}: {path.relative_to(FOLDER)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
