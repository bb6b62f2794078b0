"""Rounds against scripted brokers, for as long as a test runs."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from offsetguard_peers.scripted.rounds import Play, Rounds


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    """Return what makes rounds of brokers, which land below a temporary folder."""
    with ExitStack() as stack:
        yield lambda *brokers, **cluster: stack.enter_context(Rounds(tmp_path / "landing", *brokers, **cluster))
