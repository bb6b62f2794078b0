"""What pages of docs/ say of the product is what it says of itself today."""

import pytest

from offsetguard_peers.doc_pages.__main__ import DOCS, PAGES, page


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == page(name), f"docs/{name} is old: make docs"
