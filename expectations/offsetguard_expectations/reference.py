"""docs/invariants.md, made from the invariants: `python -m offsetguard_expectations.reference > docs/invariants.md`.

With the id of an invariant behind it, only what the page says of that one.
"""

import sys
from collections.abc import Iterable, Iterator
from itertools import groupby

from offsetguard_expectations.invariant import MAX_CORRUPT_SHARE, MIN_CORRUPT_ROWS, Agreement, Invariant, ViolationMeans
from offsetguard_expectations.invariants import ALL, Check

_CONSEQUENCES = {
    ViolationMeans.TROUBLE: "the row stays and becomes a finding",
    ViolationMeans.CORRUPT: "the row goes to quarantine",
    ViolationMeans.DEFECT: "nothing is published",
}
_STOPS = f"; nothing is published when more than {MAX_CORRUPT_SHARE:.0%} of the rows break it"
_INTRODUCTION = """\
# Invariants

Made from `offsetguard_expectations/invariants/` by `python -m offsetguard_expectations.reference`; edit there.

Each interval, Great Expectations evaluates these on everything that was written, in one Spark job for each table,
before anybody reads it; `expectations/README.md` shows how to use them in a GX project of your own. A violation means
one of three things:

- **trouble**: the row is right and the cluster is not. The row stays, is marked, and becomes a finding.
- **corrupt**: the row cannot be right. It goes to the table `quarantine` with the id, and no figure is made from it.
- **defect**: our own figures contradict each other. Nothing is published; readers keep the last good interval.

A single bad row never stops a publication, nor do a few. When one invariant finds at least @MIN rows and more than @MAX
of a table corrupt, the snapshot itself cannot be believed, and nothing is published; what says nothing of the whole
snapshot (left-over offsets, a log's wrong time zone) is excepted. `offsetguard quarantine list` shows the rows, and
`offsetguard quarantine redrive` judges them again after a fix.

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
    introduction = _INTRODUCTION.replace("@MIN", str(MIN_CORRUPT_ROWS)).replace("@MAX", f"{MAX_CORRUPT_SHARE:.0%}")
    return "\n".join((introduction, *_summary(ALL), "", *_tables(ALL)))


def _summary(invariants: Iterable[Check]) -> Iterator[str]:
    yield "| id | what holds | a violation means | severity |"
    yield "|---|---|---|---|"
    for one in invariants:
        yield f"| [{one.id}](#{one.id.lower()}) | {one.title} | {one.violation_means} | {one.severity} |"


def _tables(invariants: Iterable[Check]) -> Iterator[str]:
    for table, group in groupby(invariants, key=lambda invariant: invariant.table):
        yield f"## {table.name}\n\n{table.meaning[0].upper()}{table.meaning[1:]}.\n"
        yield from map(_section, group)


def _section(invariant: Check) -> str:
    consequence = _CONSEQUENCES[invariant.violation_means]
    if isinstance(invariant, Invariant) and invariant.violation_means is ViolationMeans.CORRUPT:
        consequence += _STOPS if invariant.stops_publication else "; never stops a publication"
    if isinstance(invariant, Agreement):
        applies_to = "the whole interval"
    else:
        applies_to = "every row" if invariant.applies_when == "TRUE" else f"`{invariant.applies_when}`"
    return f"""\
### {invariant.id}

**{invariant.title}.** Violated: {invariant.violation[0].lower()}{invariant.violation[1:]}.

{invariant.meaning}

- Do next: {invariant.do_next}
- A violation means: **{invariant.violation_means}** ({consequence}). Severity: {invariant.severity}.
- Applies to: {applies_to}
- Holds when: `{invariant.holds_when}`
"""


if __name__ == "__main__":
    wanted = sys.argv[1:]
    sys.stdout.write("\n".join(_section(one) for one in ALL if one.id in wanted) if wanted else invariants_page())
