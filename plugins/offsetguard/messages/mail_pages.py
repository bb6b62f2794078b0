"""Templates of mails, and what filling one gives: text, HTML, and the pictures that come with it."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from offsetguard.languages import Language
from offsetguard.messages import wording

if TYPE_CHECKING:
    from collections.abc import Mapping

COLOURS = {"critical": "#b42318", "warning": "#b54708", "info": "#175cd3", wording.RESOLVED: "#067647"}
_HTML_LANGUAGES = {Language.EN: "en", Language.ZH: "zh-CN"}
_COLUMN = 22  # columns of the labels of a text mail
_WIDE = frozenset("WF")  # East Asian widths that take two columns


@dataclass(frozen=True, slots=True)
class Picture:
    """An inline picture: the HTML names its content id."""

    content_id: str  # without angle brackets
    head: str  # stands above it
    alt: str  # says what it shows
    png: bytes
    width: int  # CSS pixels


@dataclass(frozen=True, slots=True)
class MailTexts:
    """What a mail says, before it is MIME."""

    subject: str
    status: str  # critical, warning, info, resolved, ...: for headers that filters read
    text: str
    html: str
    pictures: tuple[Picture, ...] = ()


def column(text: str) -> str:
    """Fill up with spaces, so that what follows stands in one column; a Chinese character takes two."""
    width = sum(2 if unicodedata.east_asian_width(character) in _WIDE else 1 for character in text)
    return text + " " * max(0, _COLUMN - width)


def _templates(*, autoescape: bool) -> Environment:
    environment = Environment(
        loader=PackageLoader("offsetguard.messages"),
        autoescape=autoescape,  # noqa: S701 off for plain text only
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["column"] = column
    return environment


_HTML = _templates(autoescape=True)
_TEXT = _templates(autoescape=False)  # plain text has no markup; lines cannot be broken by names, see hostile.py


def fill(template: str, words: Mapping[str, Any], pictures: Mapping[str, Picture] | None = None) -> MailTexts:
    """Fill `<template>.txt.j2` and `<template>.html.j2`; `words`: subject, status, words (a Catalogue) and theirs."""
    catalogue = words["words"]
    given = {
        **words,
        "say": catalogue.say,
        "html_language": _HTML_LANGUAGES[catalogue.locale.language],
        "status_word_of": lambda severity: wording.status_word(severity, catalogue),
    }
    return MailTexts(
        subject=words["subject"],
        status=words["status"],
        text=_TEXT.get_template(f"{template}.txt.j2").render(given),
        html=_HTML.get_template(f"{template}.html.j2").render(given),
        pictures=tuple((pictures or {}).values()),
    )
