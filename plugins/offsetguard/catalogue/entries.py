"""The catalogue's files. They lie inside of the package, so that they are read from a zip archive, too."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

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
    text = files("offsetguard.catalogue").joinpath(file_name).read_text("utf-8")
    found: dict[str, dict[str, str]] = yaml.load(text, _Loader)  # noqa: S506 a safe loader
    return {key: {Language(language): text for language, text in texts.items()} for key, texts in found.items()}


@cache
def text_of(key: str, language: Language) -> str:
    """Return the template of a sentence or of a message; raises KeyError when the catalogue has none."""
    found = next((texts for file_name in _SAID if (texts := entries(file_name).get(key))), None)
    if found is None:
        raise KeyError(key)
    return found[language]
