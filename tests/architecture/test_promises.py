"""Pages that name the test behind each of their sentences: every one of them exists."""

import ast
import re
from pathlib import Path

import pytest

from offsetguard_peers.cases.running import for_each

REPOSITORY = Path(__file__).parents[2]
PAGES = {
    page: (REPOSITORY / page).read_text(encoding="utf-8") for page in ("docs/delivery.md", "docs/mcp.md", "SECURITY.md")
}
NAMED = {page: sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text))) for page, text in PAGES.items()}


@for_each("page, file", sorted({(page, file) for page, named in NAMED.items() for file, _ in named}))
def test_every_test_that_a_page_names_is_there(page: str, file: str) -> None:
    tree = ast.parse((REPOSITORY / file).read_text(encoding="utf-8"))
    there = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert {name for of, name in NAMED[page] if of == file} - there == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_sentence_of_a_table_names_a_test(page: str) -> None:
    tables = [part.splitlines() for part in PAGES[page].split("\n\n") if part.startswith("| ")]
    shown = [table for table in tables if "shown by" in table[0]]
    assert page == "docs/mcp.md" or shown == tables, "other pages are made of promises alone"
    named = re.compile(r"`tests/[\w/]+\.py::\w+`|`make \w+`")
    assert [row for table in shown for row in table[2:] if not named.search(row)] == []
    assert len(NAMED[page]) > 10
