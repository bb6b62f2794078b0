"""A small warehouse without Spark."""

from pathlib import Path

import pytest

from offsetguard.tables import GROUP_FACTS
from offsetguard_peers.lake.warehouse import Warehouse


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse.in_folder(tmp_path, GROUP_FACTS)
