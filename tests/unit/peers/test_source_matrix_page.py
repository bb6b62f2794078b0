"""docs/sources.md says what was measured, about every source, and names columns that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsetguard.tables import LANDED
from offsetguard_peers.cases.running import for_each
from offsetguard_peers.rocketmq.cluster import VERSIONS
from offsetguard_peers.source_matrix.matrix import Measured, page, read_measured
from offsetguard_peers.source_matrix.sources import CELL, Section, Source, sources

PAGE = Path(__file__).parents[3] / "docs" / "sources.md"
LANDED_COLUMNS = {f"{table.name}.{column.name}" for table in LANDED for column in table.columns}
ALL = [pytest.param(section, source, id=source.name) for section, source in sources()]


@pytest.fixture(scope="module")
def measured() -> Measured:
    return read_measured()


def test_the_page_is_the_one_that_the_measured_matrix_makes(measured: Measured) -> None:
    assert PAGE.read_text(encoding="utf-8") == page(measured), (
        "docs/sources.md is old: python -m offsetguard_peers.source_matrix > docs/sources.md"
    )


@for_each("section, source", ALL)
def test_every_source_was_measured_at_every_peer_of_every_version(
    section: Section, source: Source, measured: Measured
) -> None:
    cells = {version: list(roles) for version, roles in measured[source.name].items()}
    assert cells == {version: list(section.roles_of(source)) for version in VERSIONS}


def test_nothing_was_measured_that_the_page_does_not_show(measured: Measured) -> None:
    assert list(measured) == [source.name for _, source in sources()]


@for_each("section, source", ALL)
def test_a_cell_says_one_of_the_words_that_the_page_explains(
    section: Section, source: Source, measured: Measured
) -> None:
    cells = [cell for roles in measured[source.name].values() for cell in roles.values()]
    assert [cell for cell in cells if not CELL.fullmatch(cell)] == [], section.title


@for_each("section, source", ALL)
def test_a_source_lands_in_columns_that_exist(section: Section, source: Source) -> None:
    assert set(source.lands_in) <= LANDED_COLUMNS, section.title
