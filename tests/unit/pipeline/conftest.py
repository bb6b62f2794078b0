"""A fresh database for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from offsetguard.store.database import open_database

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sqlalchemy import Engine


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    opened = open_database(f"sqlite:///{tmp_path / 'offsetguard.db'}")
    yield opened
    opened.dispose()
