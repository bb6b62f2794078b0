"""The generated pages in docs/ are those that the code would generate now."""

from pathlib import Path

import pytest

from offsetguard.tables.reference import tables_page
from offsetguard_expectations.reference import invariants_page

DOCS = Path(__file__).parents[3] / "docs"


@pytest.mark.parametrize(
    ("file_name", "page", "module"),
    [
        ("invariants.md", invariants_page(), "offsetguard_expectations.reference"),
        ("tables.md", tables_page(), "offsetguard.tables.reference"),
    ],
)
def test_a_generated_page_is_up_to_date(file_name: str, page: str, module: str) -> None:
    committed = (DOCS / file_name).read_text(encoding="utf-8")
    assert committed == page, f"run: uv run python -m {module} > docs/{file_name}"
