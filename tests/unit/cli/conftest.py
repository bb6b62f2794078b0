"""A folder of its own for each command, as the environment names it."""

from pathlib import Path

import pytest
from sqlalchemy import Engine


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let files be looked for in an empty folder."""
    monkeypatch.setenv("OFFSETGUARD_HOME", str(tmp_path))
    monkeypatch.setenv("OFFSETGUARD_CONFIG", str(tmp_path / "offsetguard.yml"))
    monkeypatch.setenv("OFFSETGUARD_DATABASE_URL", f"sqlite:///{tmp_path / 'offsetguard.db'}")
    return tmp_path


@pytest.fixture
def database(folder: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Let commands use a database that has all tables and no row."""
    monkeypatch.setenv("OFFSETGUARD_DATABASE_URL", str(engine.url))
    return engine
