"""docs/verdicts.md says what was measured."""

from pathlib import Path

import pytest

from offsetguard.judge.registry import RULES
from offsetguard_peers.verdicts import Measured, page, read_measured

PAGE = Path(__file__).parents[3] / "docs" / "verdicts.md"


@pytest.fixture(scope="module")
def measured() -> Measured:
    return read_measured()


def test_the_page_is_the_one_that_the_measured_figures_make(measured: Measured) -> None:
    assert PAGE.read_text(encoding="utf-8") == page(measured), (
        "docs/verdicts.md is old: python -m offsetguard_peers.verdicts > docs/verdicts.md"
    )


def test_both_lines_were_measured_and_every_trouble_was_found_on_each(measured: Measured) -> None:
    lines = measured["incidents"]
    assert [version[0] for version in lines] == ["4", "5"]
    staged = [[one["what"] for one in line["found"]] for line in lines.values()]
    assert staged[0] == staged[1]
    assert {one["incident"] for line in lines.values() for one in line["found"]} == {"I1", "I2", "I3", "I4", "I5"}
    assert {one["rule"] for line in lines.values() for one in line["found"]} <= set(RULES)
