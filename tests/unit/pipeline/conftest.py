"""The pipeline's tests run on SQLite; those about concurrency ask for `each_engine`."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine


@pytest.fixture
def engine(sqlite_engine: Engine) -> Engine:
    """Open a fresh SQLite file."""
    return sqlite_engine
