"""What is said to one kind of reader: sentences, names of figures, and figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from offsetguard.catalogue.entries import FIGURES, entries, text_of
from offsetguard.catalogue.text import (
    ENGLISH_UTC,
    Locale,
    Readable,
    format_bytes,
    format_duration,
    format_messages,
    format_moment,
    render_text,
)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All texts for one kind of reader."""

    locale: Locale

    def say(self, key: str, /, **figures: Any) -> str:
        """Return a sentence of the catalogue; raises KeyError when it has none, or names other figures."""
        return render_text(text_of(key, self.locale.language), figures, self.locale)

    def read(self, text: str) -> str:
        """Return a `Sentence` in the reader's language; any other text as it is."""
        return text.read_by(self.locale) if isinstance(text, Readable) else text

    def render(self, template: str, figures: Mapping[str, Any]) -> str:
        """Fill a template of the reader's language."""
        return render_text(template, figures, self.locale)

    def figure_label(self, name: str) -> str:
        """Return what a figure is called; of one that an earlier release kept, its name."""
        found = entries(FIGURES).get(name)
        return name.replace("_", " ") if found is None else found[self.locale.language]

    def figure(self, name: str, figure: Any) -> str:
        """Return a figure as people read it; its name's suffix tells the unit."""
        words = self.locale.words
        if figure is None:
            return words.unknown
        if isinstance(figure, bool):
            return words.yes if figure else words.no
        if isinstance(figure, int | float):
            return self._number(name, figure)
        return self.read(figure) if isinstance(figure, str) else self.moment(figure)

    def _number(self, name: str, number: float) -> str:
        if name.endswith("_ms"):
            return self.duration(number)
        if not isinstance(number, int):
            return f"{number:g}"
        return format_bytes(number) if name.endswith("_bytes") else format_messages(number)

    def duration(self, duration_ms: float) -> str:
        """Return e.g. `1 h 5 min` or `1 小时 5 分`."""
        return format_duration(duration_ms, self.locale)

    def moment(self, moment: datetime) -> str:
        """Return a moment by the reader's clock, with its distance from UTC."""
        return format_moment(moment, self.locale)


@cache
def catalogue(locale: Locale = ENGLISH_UTC) -> Catalogue:
    """Return the catalogue for a reader."""
    return Catalogue(locale)
