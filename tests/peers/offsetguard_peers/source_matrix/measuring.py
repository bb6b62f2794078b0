"""Measures one RocketMQ version: every probe on a staged cluster, then one round of the collector itself."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from offsetguard.collect.collector import collect_cluster
from offsetguard.collect.landing import read_table, snapshot_folder
from offsetguard.collect.manifest import Manifest
from offsetguard.config import Tls
from offsetguard.model.intervals import Interval
from offsetguard.tables import LANDED
from offsetguard_peers.configs import one_team
from offsetguard_peers.rocketmq.asking_client import AskingClient
from offsetguard_peers.rocketmq.security import READER
from offsetguard_peers.source_matrix import broker_probes, rights_probes, surroundings_probes
from offsetguard_peers.source_matrix.sources import MASTER, NAME_SERVER, NO, REPLICAS, YES
from offsetguard_peers.source_matrix.stage import ANSWERED_WITHIN_MS, Cells, Probes, Stage, staged

CLUSTER = "matrix"
SECTIONS = (
    broker_probes.answers,
    surroundings_probes.moves,
    surroundings_probes.files,
    surroundings_probes.client_files,
    surroundings_probes.pop_in_flight,
    surroundings_probes.access,
    rights_probes.rights,
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one version showed. `landed`: every `table.column` of the collector's round with at least one value."""

    cells: dict[str, Cells]  # source -> role -> cell
    landed: frozenset[str]
    manifest: Manifest


def measure(version: str) -> Measurement:
    """Stage a cluster (10 to 25 s), ask it for everything, and end it."""
    with staged(version) as stage:
        return asyncio.run(_measure(stage))


async def _measure(stage: Stage) -> Measurement:
    tls = Tls(ca_file=str(stage.cluster.ca_file))
    cells: dict[str, Cells] = {}
    async with AskingClient(ANSWERED_WITHIN_MS, READER, tls=tls) as client:
        probes = Probes(stage, client, tls)
        await probes.pull_everywhere()
        for section in SECTIONS:
            cells.update(await section(probes))
    listed = {role: await surroundings_probes.reached_where_listed(probes, role) for role in REPLICAS}
    stage.cluster.namesrvs[0].kill()
    manifest, tables = await _collect(stage)
    answered = {
        row["broker_id"]: row["answered"]
        for row in tables["broker_snapshots"].select(["broker_id", "answered"]).to_pylist()
    }
    cells["fail_over"] = {NAME_SERVER: NO if manifest.cluster_unseen or manifest.unseen_broker_names else YES}
    cells["address_map"] = {
        role: YES if answered.get(0 if role == MASTER else 1) and listed[role] == "closed" else NO for role in REPLICAS
    }
    return Measurement(cells, _columns_with_values(tables), manifest)


async def _collect(stage: Stage) -> tuple[Manifest, dict[str, pa.Table]]:
    """One round as an operator would configure it: the listed addresses are not usable, one name server is dead."""
    cluster = stage.cluster
    settings = {
        "name_servers": [each.address for each in cluster.namesrvs],
        "request_timeout_ms": ANSWERED_WITHIN_MS,
        "tls": {"ca_file": str(cluster.ca_file)},
        "address_map": {broker.listed_address: broker.address for broker in cluster.brokers},
        "collection": {"share_rounds": 1},  # every group in detail
        "metrics_urls": {"broker-a": stage.exporter_url(0)} if stage.pops else {},
        "logs": [
            {
                "name": f"broker-a-{broker.broker_id}",
                "files": [f"{broker.log_folder}/*.log"],
                "broker_name": broker.name,
                "broker_id": broker.broker_id,
            }
            for broker in cluster.brokers
        ]
        + [{"name": "clients", "files": [f"{stage.consumers.log_file.parent}/*.log"]}],
    }
    config = one_team({CLUSTER: settings})
    now = datetime.now(UTC)
    interval, landing = Interval.containing(now), cluster.folder / "landing"
    manifest = await collect_cluster(CLUSTER, config, interval, landing, credentials=READER, started_at=now)
    folder = snapshot_folder(landing, CLUSTER, interval)
    return manifest, {table.name: read_table(folder, table) for table in LANDED}


def _columns_with_values(tables: dict[str, pa.Table]) -> frozenset[str]:
    return frozenset(
        f"{name}.{column}"
        for name, table in tables.items()
        for column in table.column_names
        if table.column(column).null_count < table.num_rows
    )
