"""The store's tests run on each kind of database."""

from pathlib import Path

import pytest
from sqlalchemy import Engine

from offsetguard_peers.databases import PostgresServer


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database that nobody has opened yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'offsetguard.db'}"
    server: PostgresServer = request.getfixturevalue("postgresql")
    return server.url(server.new_database())


@pytest.fixture
def engine(each_engine: Engine) -> Engine:
    """Open a fresh database of each kind."""
    return each_engine
