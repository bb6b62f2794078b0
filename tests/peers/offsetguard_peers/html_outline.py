"""What a page names and says, without its markup."""

from __future__ import annotations

from html.parser import HTMLParser


class Outline(HTMLParser):
    """What a browser would make of the HTML: tags with their attributes' names, links, and the text."""

    def __init__(self, html: str) -> None:
        """Read a whole page."""
        super().__init__()
        self.tags: set[tuple[str, str]] = set()
        self.links: set[str] = set()
        self.sources: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what a tag names."""
        self.tags |= {(tag, name) for name, _ in attrs} | {(tag, "")}
        self.links |= {value or "" for name, value in attrs if name == "href"}
        self.sources += [
            value or "" for name, value in attrs if name in {"src", "background"} or "url(" in (value or "")
        ]

    def handle_data(self, data: str) -> None:
        """Keep the text."""
        self.text += data
