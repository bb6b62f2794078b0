"""Great Expectations takes 5 s to import: two files do it, and nobody else imports them at the top of a module."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[3]
SOURCES = sorted(
    file for folder in ("dags", "plugins", "spark", "expectations") for file in (ROOT / folder).rglob("*.py")
)
IMPORT_IT = ("offsetguard_expectations.checkpoint", "offsetguard_expectations.suites")


def imported_when_loaded(source: str) -> Iterator[str]:
    """Yield the modules that a file imports at its top level, those under TYPE_CHECKING left out."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def is_heavy(module: str) -> bool:
    return module.split(".", maxsplit=1)[0] == "great_expectations" or module in IMPORT_IT


@pytest.mark.parametrize(
    "source",
    [
        "import great_expectations as gx",
        "from offsetguard_expectations import suites",
        "from great_expectations.core import x",
    ],
)
def test_an_import_of_great_expectations_would_be_seen(source: str) -> None:
    assert any(map(is_heavy, imported_when_loaded(source)))


def test_only_suites_and_checkpoint_import_great_expectations() -> None:
    importers = [
        file.relative_to(ROOT).as_posix()
        for file in SOURCES
        if any(map(is_heavy, imported_when_loaded(file.read_text(encoding="utf-8"))))
    ]
    assert importers == [f"expectations/{module.replace('.', '/')}.py" for module in IMPORT_IT]
