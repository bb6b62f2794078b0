"""One collection round of scripted brokers: the cluster's configuration, its brokers, and what was collected."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from offsetguard.collect.collector import collect_snapshot
from offsetguard.collect.landing import Row
from offsetguard.collect.manifest import Manifest
from offsetguard.config import Config
from offsetguard.model.intervals import Interval
from offsetguard.tables import QUEUE_SNAPSHOTS
from offsetguard_peers.scripted_broker import ScriptedBroker, scripted_cluster
from offsetguard_peers.snapshot_rows import as_rows

QUICK_MS = 2_000  # where a time-out must pass, and others answer in time
PATIENT_MS = 30_000  # where none may pass, however busy the machine is
NOW = datetime(2026, 11, 21, 10, 39, 30, tzinfo=UTC)
INTERVAL = Interval.containing(NOW)


def config_for(*name_servers: str, **cluster: object) -> Config:
    """Return a configuration of the cluster `main`; `cluster`: further fields of it."""
    return Config.model_validate(
        {
            "clusters": {"main": {"name_servers": list(name_servers), "request_timeout_ms": PATIENT_MS, **cluster}},
            "groups": [{"match": "orderly-*", "orderly": True, "lock_interval_ms": 30_000}],
            "teams": {"operators": {"mail": ["operators@example.com"]}},
            "default_team": "operators",
        }
    )


def healthy_broker(name: str = "broker-a") -> ScriptedBroker:
    """Return a broker on which `billing` has read all of one queue of `orders`, and half of the other one."""
    return ScriptedBroker(
        name,
        topics={"orders": [(0, 10), (0, 20)]},
        committed={("orders", "billing"): {0: 10, 1: 15}},
        pulled={("orders", "billing"): {0: 10, 1: 18}},
    )


def collect(
    *brokers: ScriptedBroker, deadline_s: float = 120.0, timeout_ms: int = PATIENT_MS
) -> tuple[Manifest, dict[str, list[Row]]]:
    """Ask these brokers once; returns the manifest, and rows by table name. Nothing lands."""

    async def run() -> tuple[Manifest, dict[str, list[Row]]]:
        async with scripted_cluster(*brokers) as (name_server, _):
            manifest, tables = await collect_snapshot(
                "main",
                config_for(name_server, request_timeout_ms=timeout_ms),
                INTERVAL,
                started_at=NOW,
                deadline_s=deadline_s,
            )
            return manifest, as_rows(tables)

    return asyncio.run(run())


def by_queue(rows: dict[str, list[Row]], group: str = "billing") -> dict[tuple[str, str, int], Row]:
    """Return a group's rows by broker name, topic and queue id."""
    return {
        (row["broker_name"], row["topic"], row["queue_id"]): row
        for row in rows[QUEUE_SNAPSHOTS.name]
        if row["consumer_group"] == group
    }


def following(minutes: int) -> Interval:
    """Return the interval so many minutes after INTERVAL."""
    return Interval(INTERVAL.start + timedelta(minutes=minutes))
