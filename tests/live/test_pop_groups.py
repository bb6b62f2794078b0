"""POP groups of a real 5.x cluster: gRPC ones behind a proxy, and a remoting one, with messages in their hands."""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from offsetguard.collect.collector import collect_cluster
from offsetguard.collect.landing import Row, read_table, snapshot_folder
from offsetguard.collect.manifest import Manifest
from offsetguard.facts.rounds import facts_from_snapshot
from offsetguard.judge.rules.accumulation import find
from offsetguard.model.intervals import Interval
from offsetguard.sources.rocketmq.requests import GetAllConsumerOffset, GetAllTopicConfig
from offsetguard.tables import GROUP_SNAPSHOTS
from offsetguard_peers.collecting import Rows, config_of, group_row, one_round, round_that_has_seen, running_infos
from offsetguard_peers.processes import ReservedPort
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import produce, running_consumer
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.rocketmq.grpc_clients import GrpcSpec, Proxy, running_grpc_consumers
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]

HANGS_MS = 3_600_000  # longer than any test
GROUPS = {
    "jobs-workers": "jobs",
    "slow-workers": "orders",
    "mailers": "mails",
    "task-workers": "tasks",
    "classic": "jobs",
}
SENT = 40  # into each topic
LIMITS = [{"match": "*", "max_lag_messages": 1, "max_lag_ms": 1}]
RETRY_TOPIC = "%RETRY%slow-workers_orders"


@pytest.fixture(scope="module")
def metrics_port() -> Iterator[int]:
    reserved = ReservedPort()
    yield reserved.port
    reserved.release()


@pytest.fixture(scope="module")
def cluster(metrics_port: int) -> Iterator[RocketMQCluster]:
    """One master with a metrics page; POP needs the timer wheel, which peers leave out otherwise."""
    conf = {
        "timerWheelEnable": "true",
        "metricsExporterType": "PROM",
        "metricsPromExporterHost": "127.0.0.1",
        "metricsPromExporterPort": str(metrics_port),
    }
    with RocketMQCluster("5.5.0", broker_conf=conf) as running:
        _prepare(running, GROUPS)
        Admin(running).consume_by_pop("task-workers", "tasks")
        yield running


@pytest.fixture(scope="module")
def proxy(cluster: RocketMQCluster) -> Iterator[Proxy]:
    with Proxy(cluster) as running:
        yield running


@pytest.fixture(scope="module")
def clients(cluster: RocketMQCluster, proxy: Proxy) -> Iterator[None]:
    """jobs-workers holds 15 of 40 and 15 wait; mailers and task-workers have all 40 hanging in their hands.

    slow-workers held 5 of 40 for too long: they came back in the retry topic.
    """
    specs = [
        GrpcSpec("jobs-workers", "jobs"),
        GrpcSpec("slow-workers", "orders"),
        GrpcSpec("mailers", "mails", push=True, handling_ms=HANGS_MS),
    ]
    with (
        running_grpc_consumers(cluster, proxy, specs) as grpc,
        running_consumer(cluster, "task-workers", "tasks", client_rebalance=False, handling_ms=HANGS_MS, threads=4),
        running_consumer(cluster, "classic", "jobs"),
    ):
        grpc.receive("slow-workers", 5, invisible_s=10)
        grpc.receive("jobs-workers", 25)
        grpc.ack("jobs-workers", 10)
        for group in ("mailers", "task-workers", "classic"):
            wait_until(lambda group=group: handed_out(cluster, group) == SENT, f"{group} has all messages")
        wait_until(lambda: RETRY_TOPIC in topics(cluster), f"{RETRY_TOPIC} is there")
        wait_until(lambda: Admin(cluster).max_offset(RETRY_TOPIC, 0) == 5, f"5 messages are in {RETRY_TOPIC}")
        yield


def topics(cluster: RocketMQCluster) -> Collection[str]:
    return Admin(cluster).read(cluster.masters[0].address, GetAllTopicConfig())


def handed_out(cluster: RocketMQCluster, group: str) -> int:
    offsets = Admin(cluster).read(cluster.masters[0].address, GetAllConsumerOffset()).offsets
    return sum(offsets.get((GROUPS[group], group), {}).values())


def rows_of(cluster: RocketMQCluster, **settings: Any) -> tuple[Manifest, dict[str, Row]]:
    """Take a round in which the remoting clients have given their running info; returns its groups."""

    def both_told(rows: Rows) -> bool:
        return all(running_infos(rows, group) for group in ("task-workers", "classic"))

    manifest, rows = round_that_has_seen(cluster, both_told, collection={"share_rounds": 1}, groups=LIMITS, **settings)
    return manifest, {group: group_row(rows, group) for group in GROUPS}


def figures(row: Row) -> list[object]:
    columns = ("consumption", "pop_available", "pop_inflight", "pop_inflight_origin", "online_client_count")
    return [row[column] for column in columns]


@pytest.mark.usefixtures("clients")
def test_what_hangs_is_not_done_and_who_is_not_seen_is_not_offline(cluster: RocketMQCluster) -> None:
    manifest, rows = rows_of(cluster)
    assert manifest.gaps == ()
    assert figures(rows["jobs-workers"]) == ["pop", 15, None, None, None]
    assert figures(rows["slow-workers"]) == ["pop", 40, None, None, None]
    assert figures(rows["mailers"]) == ["pop", 0, None, None, None]
    assert figures(rows["task-workers"]) == ["pop", 0, 40, "running_info", 1]
    assert figures(rows["classic"]) == ["classic", None, None, None, 1]


@pytest.mark.usefixtures("clients")
def test_metrics_and_proxies_tell_the_rest_exactly(cluster: RocketMQCluster, proxy: Proxy, metrics_port: int) -> None:
    manifest, rows = rows_of(
        cluster,
        metrics_urls={"broker-a": f"http://127.0.0.1:{metrics_port}/metrics"},
        proxies=[proxy.remoting_address],
    )
    assert manifest.gaps == ()
    assert figures(rows["jobs-workers"]) == ["pop", 15, 15, "broker_metrics", 1]
    assert figures(rows["slow-workers"]) == ["pop", 40, 0, "broker_metrics", 1]
    assert figures(rows["mailers"]) == ["pop", 0, 40, "broker_metrics", 1]
    assert figures(rows["task-workers"]) == ["pop", 0, 40, "running_info", 1]
    assert figures(rows["classic"])[0] == "classic"


@pytest.mark.usefixtures("clients")
def test_nobody_is_told_that_a_grpc_group_is_offline(cluster: RocketMQCluster) -> None:
    config = config_of(cluster, groups=LIMITS)
    manifest, rows = one_round(cluster, groups=LIMITS)
    facts = facts_from_snapshot(manifest, rows, config, Interval(manifest.interval_start))
    findings = {one.consumer_group: one for one in find(facts, config)}
    assert findings["jobs-workers"].variant == "clients_unknown"
    assert findings["jobs-workers"].figures["inflight"] is None
    assert "mailers" not in findings


@pytest.mark.usefixtures("clients")
def test_a_group_stays_recognised_in_rounds_that_do_not_ask_for_details(
    cluster: RocketMQCluster, tmp_path: Path
) -> None:
    first = Interval.containing(datetime.now(UTC))
    second = Interval(first.start + timedelta(minutes=1))
    details = {first: {"share_rounds": 1}, second: {"share_rounds": 1_000_000, "detail_groups": 0}}
    for interval, collection in details.items():
        config = config_of(cluster, collection=collection)
        asyncio.run(collect_cluster("main", config, interval, tmp_path, started_at=interval.end))
    landed = read_table(snapshot_folder(tmp_path, "main", second), GROUP_SNAPSHOTS)
    mailers = group_row({GROUP_SNAPSHOTS.name: landed.to_pylist()}, "mailers")
    assert figures(mailers) == ["pop", 0, None, None, None]
    assert mailers["consumption_evidence"] == "remembered"


def test_a_remoting_group_is_recognised_and_counted_on_5_3_as_well() -> None:
    """The line before lite topics: all messages hang in its hands."""
    group, topic = "task-workers", "tasks"
    with RocketMQCluster("5.3.3", broker_conf={"timerWheelEnable": "true"}) as cluster:
        _prepare(cluster, {group: topic})
        Admin(cluster).consume_by_pop(group, topic)
        with running_consumer(cluster, group, topic, client_rebalance=False, handling_ms=HANGS_MS, threads=4):
            wait_until(lambda: handed_out(cluster, group) == SENT, "all messages to be handed out")
            _, rows = round_that_has_seen(
                cluster, lambda rows: running_infos(rows, group), collection={"share_rounds": 1}
            )
    row = group_row(rows, group)
    assert figures(row) == ["pop", 0, SENT, "running_info", 1]
    assert row["consumption_evidence"] == "pop_table"


def _prepare(cluster: RocketMQCluster, topics_of: Mapping[str, str]) -> None:
    admin = Admin(cluster)
    for topic in set(topics_of.values()):
        admin.create_topic(topic, queues=4)
        produce(cluster, topic, SENT)
    for group in topics_of:
        admin.create_group(group)
