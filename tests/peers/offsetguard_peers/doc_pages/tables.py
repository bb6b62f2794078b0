"""What docs/tables.md says of each table and its columns."""

from collections.abc import Iterator

from offsetguard.tables import LANDED, PUBLISHED, Column, Table


def made() -> str:
    """Return the tables as Markdown."""
    tables = tuple(dict.fromkeys((*LANDED, *PUBLISHED)))
    return "\n".join((*_summary(tables), "", *(_section(table) for table in tables)))


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
