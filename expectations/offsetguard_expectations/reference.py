"""docs/invariants.md, made from the invariants: `python -m offsetguard_expectations.reference > docs/invariants.md`."""

from __future__ import annotations

import sys
from itertools import groupby
from typing import TYPE_CHECKING

from offsetguard_expectations.invariant import ViolationMeans
from offsetguard_expectations.invariants import ALL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from offsetguard_expectations.invariant import Invariant

_INTRODUCTION = """\
# Invariants

Made from `expectations/offsetguard_expectations/` by `python -m offsetguard_expectations.reference`; edit there.

Each interval, Spark checks these on the facts before anybody reads them. A violation means one of two things:

- **trouble**: the row is right and the cluster is not. The row stays, is marked, and becomes a finding.
- **corrupt**: the row cannot be right. It goes to the table `quarantine` with the id, and no figure is made from it.

A condition that is neither true nor false (SQL NULL) counts as violated, never as held. What `applies to` leaves out
is not checked: a position that nobody knows cannot be compared.

**What our own reading cannot cause.** Offsets move while they are read. Within one round the consumer offset is read
first, then the pull offset, then min and max; all of them only grow in a healthy queue, so consumer <= pull <= max
holds whatever happens in between. Only min <= consumer can be broken by the order of reading (the broker deletes and
the group commits in between). What looks broken is therefore read again before it is reported: min, consumer, pull,
max, in this order.
"""


def invariants_page() -> str:
    """Return the whole page as Markdown."""
    return "\n".join((_INTRODUCTION, *_summary(ALL), "", *_tables(ALL)))


def _summary(invariants: Iterable[Invariant]) -> Iterator[str]:
    yield "| id | what holds | a violation means |"
    yield "|---|---|---|"
    for invariant in invariants:
        yield f"| [{invariant.id}](#{invariant.id.lower()}) | {invariant.title} | {invariant.violation_means} |"


def _tables(invariants: Iterable[Invariant]) -> Iterator[str]:
    for table, group in groupby(invariants, key=lambda invariant: invariant.table):
        yield f"## {table.name}\n\n{table.meaning[0].upper()}{table.meaning[1:]}.\n"
        yield from map(_section, group)


def _section(invariant: Invariant) -> str:
    kept = invariant.violation_means is ViolationMeans.TROUBLE
    consequence = "the row stays and becomes a finding" if kept else "the row goes to quarantine"
    return f"""\
### {invariant.id}

**{invariant.title}.** Violated: {invariant.violation[0].lower()}{invariant.violation[1:]}.

{invariant.meaning}

- Do next: {invariant.do_next}
- A violation means: **{invariant.violation_means}** ({consequence}).
- Applies to: {"every row" if invariant.applies_when == "TRUE" else f"`{invariant.applies_when}`"}
- Holds when: `{invariant.holds_when}`
"""


if __name__ == "__main__":
    sys.stdout.write(invariants_page())
