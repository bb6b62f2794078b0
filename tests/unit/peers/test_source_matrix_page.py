"""docs/sources.md says what was measured, about every source, and names columns that exist."""

from pathlib import Path

from offsetguard.tables import LANDED
from offsetguard_peers.rocketmq.cluster import VERSIONS
from offsetguard_peers.source_matrix.matrix import page, read_measured
from offsetguard_peers.source_matrix.sources import sources

PAGE = Path(__file__).parents[3] / "docs" / "sources.md"
LANDED_COLUMNS = {f"{table.name}.{column.name}" for table in LANDED for column in table.columns}


def test_the_page_is_the_one_that_the_measured_matrix_makes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(read_measured()), (
        "docs/sources.md is old: python -m offsetguard_peers.source_matrix > docs/sources.md"
    )


def test_every_source_and_nothing_else_was_measured_at_every_peer_of_every_version() -> None:
    measured = {
        name: {version: list(roles) for version, roles in versions.items()}
        for name, versions in read_measured().items()
    }
    assert measured == {
        source.name: {version: list(section.roles_of(source)) for version in VERSIONS} for section, source in sources()
    }


def test_sources_land_in_columns_that_exist() -> None:
    assert {column for _, source in sources() for column in source.lands_in} <= LANDED_COLUMNS
