"""All invariants and agreements: each that a file of this folder names. A new one is one entry there.

To find one by its id (`OG-Q03`), look in docs/invariants.md, which is made from them.
"""

from importlib import import_module
from pkgutil import iter_modules

from offsetguard.tables import LANDED, MANIFEST, PUBLISHED, QUARANTINE, Table
from offsetguard_expectations.invariant import (
    EVERY_ROW,
    Agreement,
    Figure,
    Invariant,
    ViolationMeans,
    count_of,
    is_reason,
    quarantined_of,
    row_count_of,
)

Check = Invariant | Agreement  # what the gate has a result for

_MODULES = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
_FOUND = [value for module in _MODULES for value in vars(module).values() if isinstance(value, Invariant | Agreement)]
TABLES = (MANIFEST, *PUBLISHED)

ALL: tuple[Check, ...] = tuple(
    sorted(_FOUND, key=lambda check: (TABLES.index(check.table), isinstance(check, Agreement)))
)
ROW_INVARIANTS = tuple(check for check in ALL if isinstance(check, Invariant))
AGREEMENTS = tuple(check for check in ALL if isinstance(check, Agreement))
CORRUPT = tuple(one for one in ROW_INVARIANTS if one.violation_means is ViolationMeans.CORRUPT)
COMPARED = tuple(dict.fromkeys(figure for one in AGREEMENTS for figure in (one.figure, one.expected)))


def figures_of(table: Table) -> tuple[Figure, ...]:
    """Return the figures of a table that other tables are compared with, and how many rows it has."""
    compared = [one for one in COMPARED if one.table.name == table.name]
    in_quarantine = [quarantined_of(landed) for landed in LANDED] if table.name == QUARANTINE.name else []
    return tuple(dict.fromkeys((row_count_of(table), *compared, *in_quarantine)))


def aggregates_of(table_name: str) -> tuple[str, ...]:
    """Return every SQL aggregate that a run needs of a table.

    Rows that its invariants speak about, rows that violate them, and its figures.
    """
    table = next(one for one in TABLES if one.name == table_name)
    own = [one for one in ROW_INVARIANTS if one.table == table]
    conditions = [condition for one in own for condition in (one.speaks_about, one.violated_when)]
    if table == QUARANTINE:
        conditions += [EVERY_ROW, *(is_reason(one.id) for one in CORRUPT)]
    return tuple(dict.fromkeys((*map(count_of, conditions), *(one.aggregate for one in figures_of(table)))))
