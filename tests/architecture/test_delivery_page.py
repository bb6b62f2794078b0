"""docs/delivery.md names the test behind each of its sentences; every one of them exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from offsetguard_peers.cases.running import for_each

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "delivery.md"
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE.read_text(encoding="utf-8"))))


@for_each("file", sorted({file for file, _ in NAMED}))
def test_every_test_that_the_page_names_is_there(file: str) -> None:
    tree = ast.parse((REPOSITORY / file).read_text(encoding="utf-8"))
    there = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert {name for of, name in NAMED if of == file} - there == set(), f"{PAGE.name} names them"


def test_every_sentence_of_a_table_names_a_test() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    bare = [row for row in rows if "shown by" not in row and "`tests/" not in row]
    assert bare == []
    assert len(NAMED) > 30
