"""The catalogue's files. They lie inside of the package, so that they are read from a zip archive, too."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from offsetguard.catalogue.text import Language

SENTENCES = "sentences.yml"
MESSAGES = "messages.yml"
MAILS = "mails.yml"
SLACK = "slack.yml"
REPORTS = "reports.yml"
FIGURES = "figures.yml"
_SAID = (SENTENCES, MESSAGES, MAILS, REPORTS, SLACK)

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast where libyaml is there


@cache
def entries(file_name: str) -> Mapping[str, Mapping[Language, str]]:
    """Return a file's texts by key and language."""
    found: dict[str, dict[str, str]] = _load(file_name)
    return {key: {Language(language): text for language, text in texts.items()} for key, texts in found.items()}


@cache
def text_of(key: str, language: Language) -> str:
    """Return the template of a sentence or of a message; raises KeyError when the catalogue has none."""
    found = next((texts for file_name in _SAID if (texts := entries(file_name).get(key))), None)
    if found is None:
        raise KeyError(key)
    return found[language]


@cache
def rule_entries(rule_id: str, language: Language) -> Mapping[str, Any]:
    """Return a rule's words in a language other than English, as its file has them; KeyError when there is no file."""
    try:
        found: dict[str, Any] = _load("rules", language.value, f"{rule_id}.yml")
    except FileNotFoundError:
        raise KeyError(rule_id) from None
    return found


def _load(*path: str) -> Any:
    text = files("offsetguard.catalogue").joinpath(*path).read_text("utf-8")
    return yaml.load(text, _Loader)  # noqa: S506 a safe loader
