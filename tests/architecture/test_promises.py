"""Pages that name the test behind each of their sentences: every one of them exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from offsetguard_peers.cases.running import for_each

REPOSITORY = Path(__file__).parents[2]
PAGES = {page: (REPOSITORY / page).read_text(encoding="utf-8") for page in ("docs/delivery.md", "SECURITY.md")}
NAMED = {page: sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text))) for page, text in PAGES.items()}


@for_each("page, file", sorted({(page, file) for page, named in NAMED.items() for file, _ in named}))
def test_every_test_that_a_page_names_is_there(page: str, file: str) -> None:
    tree = ast.parse((REPOSITORY / file).read_text(encoding="utf-8"))
    there = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert {name for of, name in NAMED[page] if of == file} - there == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_sentence_of_a_table_names_a_test(page: str) -> None:
    rows = [line for line in PAGES[page].splitlines() if line.startswith("| ")]
    bare = [row for row in rows if "shown by" not in row and not re.search(r"`tests/[\w/]+\.py::\w+`|`make \w+`", row)]
    assert bare == []
    assert len(NAMED[page]) > 30
