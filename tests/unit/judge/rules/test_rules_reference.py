"""docs/rules.md says what the rules say."""

from __future__ import annotations

from pathlib import Path

from offsetguard.judge.reference import reference

PAGE = Path(__file__).parents[4] / "docs" / "rules.md"


def test_the_page_is_the_one_that_the_rules_make() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), (
        "docs/rules.md is old: python -m offsetguard.judge.reference > docs/rules.md"
    )
