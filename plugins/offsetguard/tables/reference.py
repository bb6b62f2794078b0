"""docs/tables.md, made from the tables: `python -m offsetguard.tables.reference > docs/tables.md`."""

import sys
from collections.abc import Iterator

from offsetguard.tables import LANDED, PUBLISHED, Column, Table

_INTRODUCTION = """\
# Tables

Made from `plugins/offsetguard/tables/` by `python -m offsetguard.tables.reference`; edit there.

**Landed** tables are the Parquet files that a collection round writes, one folder per cluster and interval.
**Published** tables are Iceberg tables that Spark makes of them; all rows of an interval become visible at once.
Times are UTC. A figure that is not known is NULL, never 0.
"""


def tables_page() -> str:
    """Return the whole page as Markdown."""
    tables = tuple(dict.fromkeys((*LANDED, *PUBLISHED)))
    return "\n".join((_INTRODUCTION, *_summary(tables), "", *(_section(table) for table in tables)))


def _summary(tables: tuple[Table, ...]) -> Iterator[str]:
    yield "| table | landed | published | holds |"
    yield "|---|---|---|---|"
    for table in tables:
        landed, published = ("yes" if table in some else "" for some in (LANDED, PUBLISHED))
        yield f"| [{table.name}](#{table.name}) | {landed} | {published} | {table.meaning} |"


def _section(table: Table) -> str:
    return "\n".join(
        (
            f"## {table.name}\n\n{table.meaning[0].upper()}{table.meaning[1:]}.\n",
            "A row is identified by " + ", ".join(f"`{name}`" for name in table.key) + ".",
            f"Partitioned by {' and '.join(table.partition)}; {_kept(table)}.\n",
            "| column | type | NULL | meaning |",
            "|---|---|---|---|",
            *(_row(column) for column in table.columns),
            "",
        )
    )


def _kept(table: Table) -> str:
    return "only the newest rows are kept" if table.retention is None else f"kept for {table.retention.days} days"


def _row(column: Column) -> str:
    meaning = column.meaning.replace("|", "\\|")
    return f"| `{column.name}` | {column.type} | {'yes' if column.nullable else 'never'} | {meaning} |"


if __name__ == "__main__":
    sys.stdout.write(tables_page())
