"""What docs/invariants.md says of each invariant."""

from collections.abc import Iterator
from itertools import groupby

from offsetguard_expectations.invariant import MAX_CORRUPT_SHARE, MIN_CORRUPT_ROWS
from offsetguard_expectations.invariants import ALL
from offsetguard_expectations.reference import section_of


def made() -> str:
    """Return all invariants as Markdown, a row and a section each."""
    return "\n".join((*_summary(), "", *_tables()))


def _summary() -> Iterator[str]:
    yield f"**Very many** are at least {MIN_CORRUPT_ROWS} rows, and more than {MAX_CORRUPT_SHARE:.0%} of the table.\n"
    yield "| id | what holds | a violation means | severity |"
    yield "|---|---|---|---|"
    for one in ALL:
        yield f"| [{one.id}](#{one.id.lower()}) | {one.title} | {one.violation_means} | {one.severity} |"


def _tables() -> Iterator[str]:
    for table, invariants in groupby(ALL, key=lambda invariant: invariant.table):
        yield f"## {table.name}\n\n{table.meaning[0].upper()}{table.meaning[1:]}.\n"
        yield from map(section_of, invariants)
