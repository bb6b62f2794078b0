"""The consumer groups of the demo, three that are well and four in trouble, and the configuration that owns them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from offsetguard_peers.robots.server import ROBOTS
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import ConsumerSpec, produce, producer_of, running_consumers
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.rocketmq.staging import commit_beyond_end, stage_backlog, stage_overtaken_by_retention

# group, topic
STOPPED = ("order-settlement", "settlements")
OVERTAKEN = ("stock-replication", "stock-changes")
BEYOND_END = ("audit-export", "audit-events")
SHORT_LOCK = ("trade-matching", "trades")

BACKLOG = 3_000
BEYOND_BY = 1_000
SHORT_LOCK_INTERVAL_MS = 30_000  # the brokers' locks live for 60 s: less than 3 intervals

HEALTHY = (
    ConsumerSpec("order-billing", {"orders": "*"}),
    ConsumerSpec("order-search-index", {"orders": "*"}),
    ConsumerSpec("payment-ledger", {"payments": "*"}, orderly=True),
)
BUSY_TOPICS = ("orders", "payments", SHORT_LOCK[1])
QUEUES, GROWN_QUEUES = 4, 6
MESSAGES_PER_S = 1.0  # in each of them
WITHOUT_END = 2**31 - 1  # 68 years


def stage_trouble(cluster: RocketMQCluster, tell: Callable[[str], None]) -> None:
    """Put three groups into trouble that stays; the fourth is one that runs, see `living_groups`."""
    tell(f"{OVERTAKEN[0]}: committing, writing 12 MB, deleting what was not read")
    stage_overtaken_by_retention(cluster, *OVERTAKEN)
    tell(f"{STOPPED[0]}: {BACKLOG:,} messages and nobody who reads them")
    stage_backlog(cluster, *STOPPED, BACKLOG)
    tell(f"{BEYOND_END[0]}: offsets {BEYOND_BY:,} beyond the end")
    Admin(cluster).create_topic(BEYOND_END[1], queues=4)
    produce(cluster, BEYOND_END[1], 40)
    commit_beyond_end(cluster, *BEYOND_END, by=BEYOND_BY)


def grow(cluster: RocketMQCluster, tell: Callable[[str], None]) -> None:
    """Do what operators do, so that the page of changes has something to show."""
    topic = BUSY_TOPICS[0]
    tell(f"{topic} gets {GROWN_QUEUES} queues instead of {QUEUES}: see Changes in two minutes")
    Admin(cluster).create_topic(topic, queues=GROWN_QUEUES)


@contextmanager
def living_groups(cluster: RocketMQCluster) -> Iterator[None]:
    """Run real consumers until the context ends, and a producer that ends with the cluster."""
    admin = Admin(cluster)
    for topic in BUSY_TOPICS:
        admin.create_topic(topic, queues=QUEUES)
    group, topic = SHORT_LOCK
    lock_interval = {"rocketmq.client.rebalance.lockInterval": str(SHORT_LOCK_INTERVAL_MS)}
    with ExitStack() as stack:
        stack.enter_context(running_consumers(cluster, HEALTHY))
        short_lock = ConsumerSpec(group, {topic: "*"}, orderly=True)
        stack.enter_context(running_consumers(cluster, [short_lock], java_properties=lock_interval))
        _keep_producing(cluster)
        yield


def _keep_producing(cluster: RocketMQCluster) -> None:
    """Order messages without end; they come for as long as the cluster runs."""
    for topic in BUSY_TOPICS:
        producer_of(cluster).order(topic, WITHOUT_END, rate_per_s=MESSAGES_PER_S, never_give_up=True)


def demo_config(clusters: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return config/offsetguard.yml as a dictionary, without delivery. `clusters`: as they stand in it."""
    return {
        "clusters": {name: dict(cluster) for name, cluster in clusters.items()},
        "teams": {
            "operators": {"mail": ["operators@example.com"], "slack": ["#ops"]},
            "orders": {
                "mail": ["orders@example.com"],
                "slack": ["#alerts"],
                **{robot: [f"offsetguard_{robot}"] for robot in ROBOTS},
            },
        },
        "default_team": "operators",
        "groups": [
            {"match": STOPPED[0], "team": "orders", "max_lag_messages": 500},
            {"match": "order-*", "team": "orders"},
            {"match": OVERTAKEN[0], "team": "orders"},
            {"match": SHORT_LOCK[0], "orderly": True, "lock_interval_ms": SHORT_LOCK_INTERVAL_MS},
            {"match": "payment-*", "orderly": True},
        ],
    }
