"""Databases for tests: SQLite always, PostgreSQL where it is installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from offsetguard.store.database import open_database
from offsetguard_peers.databases import FreshFile, PostgresServer
from offsetguard_peers.disks import TinyDisk, tiny_disk


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresServer]:
    """Run one private server for the whole session."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def migrated_template(postgresql: PostgresServer) -> str:
    """Migrate once: a copy of a database costs a tenth of that."""
    name = postgresql.new_database()
    open_database(postgresql.url(name)).dispose()
    return name


@pytest.fixture(scope="session")
def sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FreshFile]:
    """Keep one engine for the whole session: what it has compiled serves every test."""
    file = FreshFile(tmp_path_factory.mktemp("database") / "offsetguard.db")
    yield file
    file.engine.dispose()


@pytest.fixture
def sqlite_engine(sqlite_file: FreshFile) -> Engine:
    """Open an SQLite file with all tables and no row."""
    return sqlite_file.renewed()


@pytest.fixture
def engine(sqlite_engine: Engine) -> Engine:
    """Open a fresh SQLite file; tests of concurrency ask for `each_engine`."""
    return sqlite_engine


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[TinyDisk]:
    """Mount a disk of 1 MiB."""
    with tiny_disk(tmp_path / "disk") as disk:
        yield disk


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def each_engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Open a fresh database of each kind."""
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_engine")
        return
    server: PostgresServer = request.getfixturevalue("postgresql")
    opened = open_database(server.url(server.new_database(template=request.getfixturevalue("migrated_template"))))
    yield opened
    opened.dispose()
