"""A sentence that was said in English and can be said again in any language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from offsetguard.catalogue.entries import text_of
from offsetguard.catalogue.text import ENGLISH_UTC, Locale, Readable, render_text


class Sentence(Readable):
    """An English text that remembers its key and figures: a `str` wherever nobody asks for another language.

    So records, JSON and comparisons know texts only, and texts of earlier releases, which have no key, stay readable.
    """

    __slots__ = ("figures", "key")

    key: str
    figures: Mapping[str, Any]

    def __new__(cls, key: str, /, **figures: Any) -> Sentence:
        """Say the sentence `key` of the catalogue; raises KeyError when it has none, or names other figures."""
        sentence = super().__new__(cls, render_text(text_of(key, ENGLISH_UTC.language), figures))
        sentence.key, sentence.figures = key, figures
        return sentence

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        """Let copies and pickles be sentences, too."""
        return (self.key,), dict(self.figures)

    def read_by(self, locale: Locale) -> str:
        """Return it in the reader's language; figures that are sentences, too."""
        return render_text(text_of(self.key, locale.language), self.figures, locale)
