"""A small warehouse without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from offsetguard_peers.warehouse import Warehouse

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse.in_folder(tmp_path)
