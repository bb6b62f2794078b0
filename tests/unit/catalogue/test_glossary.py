"""What a thing is called in one text it is called in all: the glossary has thirty of them, in both languages."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from offsetguard import catalogue
from offsetguard.catalogue.catalogue import GLOSSARY, entries
from offsetguard.catalogue.text import Language
from offsetguard.judge.registry import RULES

PACKAGE = Path(catalogue.__file__).parent
FILES = sorted(path.name for path in PACKAGE.glob("*.yml"))
TERMS = entries(GLOSSARY)
_ENDINGS = "(e|y|s|es|ed|d|ies|ied|ing|tion)?"


_PLACE = re.compile(r"\{[^}]*\}")


def terms_in(english: str) -> Iterator[str]:
    """Give the Chinese of each term that an English text has, in whatever form."""
    for texts in TERMS.values():
        stem = re.escape(re.sub("[ey]$", "", texts[Language.EN]))
        if re.search(rf"\b{stem}{_ENDINGS}\b", english, re.IGNORECASE):
            yield texts[Language.ZH]


def missing(english: str, chinese: str) -> list[str]:
    """Return the terms that an English text has and the Chinese one lacks."""
    chinese = _PLACE.sub(" ", chinese)
    return [term for term in terms_in(_PLACE.sub(" ", english)) if term not in chinese]


@pytest.mark.parametrize("file_name", [one for one in FILES if one != GLOSSARY])
def test_every_text_calls_things_as_the_glossary_does(file_name: str) -> None:
    for key, texts in entries(file_name).items():
        assert not missing(texts[Language.EN], texts[Language.ZH]), (file_name, key)


def test_titles_summaries_and_ends_of_rules_do_so_too() -> None:
    for rule in RULES.values():
        said = [(rule.title, rule.title_zh), (rule.recovered, rule.recovered_zh)]
        said += [(one.summary, one.summary_zh) for one in rule.texts.values()]
        for english, chinese in said:
            assert not missing(english, chinese), (rule.id, english)


def test_no_two_things_have_one_name() -> None:
    assert len(TERMS) >= 30
    for language in Language:
        names = [texts[language] for texts in TERMS.values()]
        assert len(set(names)) == len(names)
