"""All invariants and agreements: each that a file of this folder names. A new one is one entry there.

To find one by its id (`OG-Q03`), look in docs/invariants.md, which is made from them.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from offsetguard.tables import MANIFEST, PUBLISHED
from offsetguard_expectations.invariant import Agreement, Invariant

Check = Invariant | Agreement  # what the gate has a result for

_MODULES = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
_FOUND = [value for module in _MODULES for value in vars(module).values() if isinstance(value, Invariant | Agreement)]
_TABLES = (MANIFEST, *PUBLISHED)

ALL: tuple[Check, ...] = tuple(
    sorted(_FOUND, key=lambda check: (_TABLES.index(check.table), isinstance(check, Agreement)))
)
ROW_INVARIANTS = tuple(check for check in ALL if isinstance(check, Invariant))
AGREEMENTS = tuple(check for check in ALL if isinstance(check, Agreement))
