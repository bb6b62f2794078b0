"""Write what is made of pages in docs/ again: `python -m offsetguard_peers.doc_pages`.

Above the mark a page is written by hand, and kept as it is.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from offsetguard_peers.doc_pages import configuration, invariants, logs, rules, tables, views, webhook

DOCS = Path(__file__).parents[4] / "docs"
MARK = "<!-- What follows is written by make docs. -->\n\n"
PAGES: Mapping[str, Callable[[], str]] = {
    "configuration.md": configuration.made,
    "invariants.md": invariants.made,
    "logs.md": logs.made,
    "pages-as-data.md": views.made,
    "rules.md": rules.made,
    "tables.md": tables.made,
    "webhook.md": webhook.made,
}


def page(name: str) -> str:
    """Return a page as it should be: what stands above its mark, and what the product says today."""
    above, mark, _ = (DOCS / name).read_text(encoding="utf-8").partition(MARK)
    assert mark, f"docs/{name}: has no line {MARK.strip()}"
    return above + mark + PAGES[name]()


if __name__ == "__main__":
    for each in PAGES:
        (DOCS / each).write_text(page(each), encoding="utf-8")
