"""A live cluster of each line."""

import pytest

from offsetguard_peers.rocketmq.cluster import RocketMQCluster


@pytest.fixture(params=["rocketmq_4", "rocketmq_5"])
def cluster(request: pytest.FixtureRequest) -> RocketMQCluster:
    """Give the shared master and slave of a line: use topics and groups of your own, and leave it running."""
    shared: RocketMQCluster = request.getfixturevalue(request.param)
    return shared
