"""What is said to one kind of reader: sentences, names of figures, and figures; and sentences that can be said again.

The texts stand in YAML files beside this one. They lie inside of the package, so that they are read from a zip archive,
too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from offsetguard.catalogue.text import (
    ENGLISH_UTC,
    Language,
    Locale,
    Readable,
    format_bytes,
    format_duration,
    format_messages,
    format_moment,
    render_text,
)
from offsetguard.model.notification import DECLARED

FIGURES, GLOSSARY = "figures.yml", "glossary.yml"
_FILES = files("offsetguard.catalogue")
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast where libyaml is there


@cache
def entries(file_name: str) -> Mapping[str, Mapping[Language, str]]:
    """Return a file's texts by key and language."""
    found: dict[str, dict[str, str]] = yaml.load(_FILES.joinpath(file_name).read_text("utf-8"), _Loader)  # noqa: S506 a safe loader
    return {key: {Language(language): text for language, text in texts.items()} for key, texts in found.items()}


@cache
def _said() -> Mapping[str, Mapping[Language, str]]:
    """Return the texts of all files; a key stands in one of them."""
    names = (
        file.name for file in _FILES.iterdir() if file.name.endswith(".yml") and file.name not in {FIGURES, GLOSSARY}
    )
    titles = {f"channel_{one.name}": {Language.EN: one.title, Language.ZH: one.title_zh} for one in DECLARED.values()}
    return titles | {key: texts for name in names for key, texts in entries(name).items()}


class Sentence(Readable):
    """An English text that remembers its key and figures: a `str` wherever nobody asks for another language.

    So records, JSON and comparisons know texts only, and texts of earlier releases, which have no key, stay readable.
    """

    __slots__ = ("figures", "key")

    key: str
    figures: Mapping[str, Any]

    def __new__(cls, key: str, /, **figures: Any) -> "Sentence":
        """Say the sentence `key` of the catalogue; raises KeyError when it has none, or names other figures."""
        sentence = super().__new__(cls, render_text(_said()[key][ENGLISH_UTC.language], figures))
        sentence.key, sentence.figures = key, figures
        return sentence

    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, Any]]:
        """Let copies and pickles be sentences, too."""
        return (self.key,), dict(self.figures)

    def read_by(self, locale: Locale) -> str:
        """Return it in the reader's language; figures that are sentences, too."""
        return render_text(_said()[self.key][locale.language], self.figures, locale)


class Translated(Readable):
    """A text that is kept in every language, since what it was made of is not kept; a `str` in English."""

    __slots__ = ("texts",)

    texts: Mapping[Language, str]

    def __new__(cls, texts: Mapping[Language, str]) -> "Translated":
        """`texts`: by language, all of them."""
        translated = super().__new__(cls, texts[ENGLISH_UTC.language])
        translated.texts = texts
        return translated

    def __getnewargs_ex__(self) -> tuple[tuple[Mapping[Language, str]], dict[str, Any]]:
        """Let copies and pickles know all of them, too."""
        return (self.texts,), {}

    def read_by(self, locale: Locale) -> str:
        """Return it in the reader's language."""
        return self.texts[locale.language]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All texts for one kind of reader."""

    locale: Locale

    def say(self, key: str, /, **figures: Any) -> str:
        """Return a sentence of the catalogue; raises KeyError when it has none, or names other figures."""
        return render_text(_said()[key][self.locale.language], figures, self.locale)

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
            return format_duration(number, self.locale)
        if not isinstance(number, int):
            return f"{number:g}"
        return format_bytes(number) if name.endswith("_bytes") else format_messages(number)

    def moment(self, moment: datetime) -> str:
        """Return a moment by the reader's clock, with its distance from UTC."""
        return format_moment(moment, self.locale)


@cache
def catalogue(locale: Locale = ENGLISH_UTC) -> Catalogue:
    """Return the catalogue for a reader."""
    return Catalogue(locale)
