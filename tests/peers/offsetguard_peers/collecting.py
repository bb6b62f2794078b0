"""What a round of the collector sees of replicas and clients of a live cluster, and a landed round to kill."""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from offsetguard.collect.broker_reading import BrokerReading, ClientAnswer
from offsetguard.collect.broker_rows import broker_stats_rows
from offsetguard.collect.collector import collect_cluster, collect_round
from offsetguard.collect.details import items_for, items_of_replica, read_broker_stats, read_running_info
from offsetguard.collect.landing import Row
from offsetguard.collect.manifest import Manifest, RequestCounts, RequestLedger
from offsetguard.collect.replica import Replica, ReplicaLink
from offsetguard.collect.snapshot_rows import client_queue_rows, running_info_columns
from offsetguard.config import Config
from offsetguard.model.intervals import Interval
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.header import Credentials
from offsetguard.sources.rocketmq.requests import GetBrokerConfig, GetBrokerRuntimeInfo
from offsetguard.tables import CLIENT_SNAPSHOTS, GROUP_SNAPSHOTS
from offsetguard_peers.configs import one_team
from offsetguard_peers.rocketmq.cluster import Broker, RocketMQCluster
from offsetguard_peers.waiting import wait_until

Rows = dict[str, list[Row]]  # by table


def as_rows(tables: Mapping[str, pa.Table]) -> Rows:
    """Return the rows of every table, by its name."""
    return {name: table.to_pylist() for name, table in tables.items()}


def manifest_of(interval: Interval, **fields: Any) -> Manifest:
    """Return the manifest of a round of `main` that missed nothing; `fields`: what else is true of it."""
    times = {"interval_start": interval.start, "started_at": interval.end, "finished_at": interval.end}
    return Manifest(**{"cluster": "main", "requests": RequestCounts(), "row_counts": {}, **times, **fields})


async def collect_snapshot(
    cluster: str, config: Config, interval: Interval, **options: Any
) -> tuple[Manifest, dict[str, pa.Table]]:
    """Ask a cluster once, as `collect_round` does; returns the manifest, and tables by name. Nothing lands."""
    snapshot = await collect_round(cluster, config, interval, **options)
    return snapshot.manifest, snapshot.tables


def config_of(cluster: RocketMQCluster, *, groups: Sequence[Mapping[str, Any]] = (), **settings: Any) -> Config:
    """Return a configuration of a live cluster, as `main`; `settings`: of its section; `groups`: that of the file."""
    described = {"name_servers": [cluster.namesrv], "request_timeout_ms": 30_000, **settings}
    return one_team({"main": described}, groups=groups)


def one_round(
    cluster: RocketMQCluster, *, credentials: Credentials | None = None, **settings: Any
) -> tuple[Manifest, Rows]:
    """Ask a live cluster once, now; nothing lands. `settings`: as for `config_of`."""
    now = datetime.now(UTC)
    asked = collect_snapshot(
        "main", config_of(cluster, **settings), Interval.containing(now), credentials=credentials, started_at=now
    )
    manifest, tables = asyncio.run(asked)
    return manifest, as_rows(tables)


def round_that_has_seen(
    cluster: RocketMQCluster, seen: Callable[[Rows], object], **settings: Any
) -> tuple[Manifest, Rows]:
    """Take rounds until one has seen it: a round does not wait for what a client has not told yet."""

    def look() -> tuple[Manifest, Rows] | None:
        manifest, rows = one_round(cluster, **settings)
        return (manifest, rows) if seen(rows) else None

    return wait_until(look, "a round that sees what the test wants", every_s=0.5)


def group_row(rows: Rows, group: str) -> Row:
    """Return what a round found out about a group; an empty row when it saw none."""
    return next((row for row in rows[GROUP_SNAPSHOTS.name] if row["consumer_group"] == group), {})


def running_infos(rows: Rows, group: str) -> list[Row]:
    """Return the clients of a group, as the master sees them, that said what they do."""
    clients = (row for row in rows[CLIENT_SNAPSHOTS.name] if (row["consumer_group"], row["broker_id"]) == (group, 0))
    return [row for row in clients if row["running_info_read_at"] is not None]


def readings_of(
    brokers: Sequence[Broker],
    groups: Mapping[str, Sequence[str]],
    *,
    clients: Sequence[tuple[str, str]] = (),
) -> list[BrokerReading]:
    """Ask replicas as a round does: figures, settings, rates of `groups`; masters also for running info."""

    async def read(client: RocketMQClient, broker: Broker) -> BrokerReading:
        reading = BrokerReading(Replica(broker.name, broker.broker_id, broker.address))
        ledger = RequestLedger()
        link = ReplicaLink(client, reading.replica, ledger, "")
        runtime, settings = await link.ask(GetBrokerRuntimeInfo()), await link.ask(GetBrokerConfig())
        assert runtime is not None
        assert settings is not None
        reading.runtime, reading.settings = runtime.body, settings.body
        items = items_of_replica(reading) + items_for(groups, reading, lambda _: range(4))
        await read_broker_stats(link, reading, items)
        if reading.replica.is_master:
            await read_running_info(link, reading, clients)
        assert ledger.gaps == []
        reading.answered_at = link.answered_at
        return reading

    async def run() -> list[BrokerReading]:
        async with RocketMQClient(timeout_ms=30_000) as client:
            return list(await asyncio.gather(*(read(client, broker) for broker in brokers)))

    return asyncio.run(run())


def now_interval() -> Interval:
    """Return the minute that it is."""
    return Interval.containing(datetime.now(UTC))


def rates_of(cluster: RocketMQCluster, groups: Mapping[str, Sequence[str]]) -> dict[tuple[str, str, int], Row]:
    """Return (stats name, key, broker id) -> row, of all replicas."""
    rows = broker_stats_rows("main", now_interval(), readings_of(cluster.brokers, groups))
    return {(row["stats_name"], row["stats_key"], row["broker_id"]): row for row in rows}


def tell(cluster: RocketMQCluster, group: str, client_id: str) -> tuple[ClientAnswer, Row, dict[tuple[str, int], Row]]:
    """Ask one client: its answer, its columns, and the rows of its queues by (topic, queue id)."""
    reading = readings_of(cluster.masters[:1], {}, clients=[(group, client_id)])[0]
    answer = reading.running_info[group, client_id]
    rows = client_queue_rows("main", now_interval(), [reading])
    return answer, running_info_columns(answer), {(row["topic"], row["queue_id"]): row for row in rows}


pa.array([0])  # imports pandas, once for all forked rounds instead of once in each


def collect_once(config_json: str, cluster: str, interval_name: str, landing_folder: str) -> None:
    """Collect and land one interval, as if it had just ended."""
    interval = Interval.from_name(interval_name)
    config = Config.model_validate(json.loads(config_json))
    asyncio.run(collect_cluster(cluster, config, interval, Path(landing_folder), started_at=interval.end))
