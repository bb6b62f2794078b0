"""A world to deliver in: a database, a mail server, a Slack."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from offsetguard_peers.delivery.world import DeliveryWorld, delivery_world


@pytest.fixture
def world(engine: Engine) -> Iterator[DeliveryWorld]:
    """Start it and stop it."""
    with delivery_world(engine) as started:
        yield started


@pytest.fixture
def each_world(each_engine: Engine) -> Iterator[DeliveryWorld]:
    """Likewise, on each kind of database."""
    with delivery_world(each_engine) as started:
        yield started
