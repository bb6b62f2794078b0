"""What of a Chinese text is still English, and what a page names and says without its markup."""

import re
from html.parser import HTMLParser

# what RocketMQ's operators write in Latin letters in the middle of Chinese, and units
LATIN_TERMS = frozenset(
    {"airflow", "broker", "chrony", "code", "config", "check", "connection", "cycles", "data", "docs", "false", "free"}
    | {
        "docker",
        "hook",
        "id",
        "inflight",
        "iostat",
        "ip",
        "java",
        "key",
        "keys",
        "metrics",
        "ntpd",
        "offsetguard",
        "proxies",
        "proxy",
    }
    | {"remoting", "s", "shutdown", "slack", "spark", "swap", "tag", "true", "webhook"}
)
_COMMAND = re.compile(r"\bmqadmin [ -~\u2026]*|\boffsetguard(?: [a-z-]+)+")
_QUOTED = re.compile(r"'[^'\n]*'|\u201c[^\u201d\n]*\u201d|subscription not latest")
_OPTION = re.compile(r"(?<!\S)-[a-z]\b|[0-9]\.x\b")
_LINK = re.compile(r"https?://\S+")
_WORD = re.compile(r"[A-Za-z%][A-Za-z0-9_.%$@#:/\\-]*")
_IDENTIFIER = re.compile(r".[A-Z]|[0-9_.%$@#:/\\-]|^[A-Z]+$")  # lockInterval, max_lag_ms, store.log, POP


def english_words(text: str, names: frozenset[str] = frozenset()) -> list[str]:
    """Return the English words of a text; `names`: what stands there because somebody called it so, longest first."""
    for pattern in (_LINK, _COMMAND, _QUOTED, _OPTION):
        text = pattern.sub(" ", text)
    for name in sorted(names, key=len, reverse=True):
        text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", " ", text)
    words = (word.strip(".:-/") for word in _WORD.findall(text))
    return [word for word in words if word.lower() not in LATIN_TERMS and word and not _IDENTIFIER.search(word)]


class Outline(HTMLParser):
    """What a browser would make of the HTML: tags with their attributes' names, links, and the text."""

    def __init__(self, html: str) -> None:
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
