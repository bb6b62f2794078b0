"""Rounds of scripted brokers: one that does not land, or one minute after the other, landed as the collector does."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from offsetguard.collect.collector import collect_cluster
from offsetguard.collect.landing import Row, read_table, snapshot_folder
from offsetguard.collect.manifest import Manifest
from offsetguard.config import Config
from offsetguard.model.intervals import Interval
from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard.tables import GROUP_SNAPSHOTS, QUEUE_SNAPSHOTS, Table
from offsetguard_peers.collecting import as_rows, collect_snapshot
from offsetguard_peers.configs import one_team
from offsetguard_peers.scripted.broker import ScriptedBroker, scripted_cluster
from offsetguard_peers.scripted.peer import Conversation, ScriptedPeer

Play = Callable[..., "Rounds"]
QUICK_MS = 2_000  # where a time-out must pass, and others answer in time
PATIENT_MS = 30_000  # where none may pass, however busy the machine is
NOW = datetime(2026, 11, 21, 10, 39, 30, tzinfo=UTC)
INTERVAL = Interval.containing(NOW)
NO_SHARE = {"share_rounds": 10**9}  # no group has its turn in these rounds: only suspects are asked


def config_for(*name_servers: str, **cluster: object) -> Config:
    """Return a configuration of the cluster `main`; `cluster`: further fields of it."""
    return one_team(
        {"main": {"name_servers": name_servers, "request_timeout_ms": PATIENT_MS, **cluster}},
        groups=[
            {"match": "orderly-*", "orderly": True, "lock_interval_ms": 30_000},
            {"match": "*", "max_lag_messages": 1},
        ],
    )


def healthy_broker(name: str = "broker-a") -> ScriptedBroker:
    """Return a broker on which `billing` has read all of one queue of `orders`, and half of the other one."""
    return ScriptedBroker(
        name,
        topics={"orders": [(0, 10), (0, 20)]},
        committed={("orders", "billing"): {0: 10, 1: 15}},
        pulled={("orders", "billing"): {0: 10, 1: 18}},
    )


def broker_with(committed: int, end: int, *, name: str = "broker-a", group: str = "billing") -> ScriptedBroker:
    """Return a broker with one queue of `orders` up to `end`, and what a group has committed there."""
    offsets = {("orders", group): {0: committed}}
    return ScriptedBroker(name, topics={"orders": [(0, end)]}, committed=offsets, pulled=dict(offsets))


def collect(
    *brokers: ScriptedBroker, deadline_s: float = 120.0, **cluster: object
) -> tuple[Manifest, dict[str, list[Row]]]:
    """Ask these brokers once; returns the manifest, and rows by table name. Nothing lands."""

    async def run() -> tuple[Manifest, dict[str, list[Row]]]:
        async with scripted_cluster(*brokers) as (name_server, _):
            config = config_for(name_server, **cluster)
            manifest, tables = await collect_snapshot("main", config, INTERVAL, started_at=NOW, deadline_s=deadline_s)
            return manifest, as_rows(tables)

    return asyncio.run(run())


class Rounds:
    """Landed rounds of one scripted cluster, one minute after the other; brokers answer while a round runs."""

    def __init__(self, landing: Path, *brokers: ScriptedBroker, **cluster: object) -> None:
        """Serve the brokers; `cluster`: further fields of its configuration."""
        self.landing = landing
        self.minute = -1  # of the newest round, from INTERVAL on
        self._runner, self._peers = asyncio.Runner(), AsyncExitStack()
        serving = self._peers.enter_async_context(scripted_cluster(*brokers))
        name_server, self.listed = self._runner.run(serving)  # what the name server lists: a test may change it
        self._cluster = {"name_servers": [name_server], "collection": NO_SHARE, **cluster}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with self._runner:
            self._runner.run(self._peers.aclose())

    def serve(self, script: Callable[[Conversation], Awaitable[None]]) -> ScriptedPeer:
        """Serve one more peer: a name server, or a proxy."""
        return self._runner.run(self._peers.enter_async_context(ScriptedPeer(script)))

    def run(self, minutes: int = 1, **cluster: object) -> Manifest:
        """Collect so many minutes after the newest round; `cluster`: fields of its configuration that differ."""
        config = config_for(**{**self._cluster, **cluster})
        self.minute += minutes
        start = self.interval.end
        return self._runner.run(collect_cluster("main", config, self.interval, self.landing, started_at=start))

    @property
    def interval(self) -> Interval:
        """The newest round's."""
        return Interval(INTERVAL.start + timedelta(minutes=self.minute))

    @property
    def folder(self) -> Path:
        """Where the newest round has landed."""
        return snapshot_folder(self.landing, "main", self.interval)

    def rows(self, table: Table) -> list[Row]:
        """Rows of the newest round."""
        rows: list[Row] = read_table(self.folder, table).to_pylist()
        return rows

    def group(self, name: str) -> Row:
        """Return a group's row of the newest round."""
        return next(row for row in self.rows(GROUP_SNAPSHOTS) if row["consumer_group"] == name)

    def queue(self, group: str) -> Row:
        """Return the row of a group's only queue of the newest round."""
        (row,) = (row for row in self.rows(QUEUE_SNAPSHOTS) if row["consumer_group"] == group)
        return row


def asked(broker: ScriptedBroker, code: RequestCode) -> int:
    """Return how often the broker was asked that."""
    return broker.asked.count(code)
