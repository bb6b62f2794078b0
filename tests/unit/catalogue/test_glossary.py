"""What a thing is called in one text it is called in all: the glossary has thirty of them, in both languages."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from offsetguard import catalogue
from offsetguard.catalogue.catalogue import GLOSSARY, entries
from offsetguard.catalogue.text import Language

PACKAGE = Path(catalogue.__file__).parent
FILES = sorted(path.name for path in PACKAGE.glob("*.yml"))
TERMS = entries(GLOSSARY)
_ENDINGS = "(e|y|s|es|ed|d|ies|ied|ing|tion)?"


def terms_in(english: str) -> Iterator[str]:
    """Give the Chinese of each term that an English text has, in whatever form."""
    for texts in TERMS.values():
        stem = re.escape(re.sub("[ey]$", "", texts[Language.EN]))
        if re.search(rf"\b{stem}{_ENDINGS}\b", english, re.IGNORECASE):
            yield texts[Language.ZH]


@pytest.mark.parametrize("file_name", [one for one in FILES if one != GLOSSARY])
def test_every_text_calls_things_as_the_glossary_does(file_name: str) -> None:
    for key, texts in entries(file_name).items():
        english, chinese = (re.sub(r"\{[^}]*\}", " ", texts[one]) for one in (Language.EN, Language.ZH))
        missing = [term for term in terms_in(english) if term not in chinese]
        assert not missing, (file_name, key)


def test_no_two_things_have_one_name() -> None:
    assert len(TERMS) >= 30
    for language in Language:
        names = [texts[language] for texts in TERMS.values()]
        assert len(set(names)) == len(names)
