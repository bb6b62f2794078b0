"""Configurations: the smallest one; the demo's: who owns the groups, and what is too much for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from offsetguard_peers.demo_groups import OVERTAKEN, SHORT_LOCK, SHORT_LOCK_INTERVAL_MS, STOPPED

ONE_TEAM = """\
clusters:
  main:
    name_servers: ["127.0.0.1:9876"]
teams:
  ops:
    mail: ["ops@example.org"]
default_team: ops
"""  # the smallest configuration that tells anybody


def demo_config(clusters: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return config/offsetguard.yml as a dictionary, without delivery. `clusters`: as they stand in it."""
    return {
        "clusters": {name: dict(cluster) for name, cluster in clusters.items()},
        "teams": {
            "operators": {"mail": ["operators@example.com"], "slack": ["#ops"]},
            "orders": {"mail": ["orders@example.com"], "slack": ["#alerts"]},
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
