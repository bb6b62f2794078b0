"""A bundle that was recorded from a live cluster says what the live snapshots said, and keeps no secret."""

import asyncio
import json
import signal
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from offsetguard.collect.collector import Snapshot, collect_round
from offsetguard.config import Config
from offsetguard.config.configuration import EVERYTHING
from offsetguard.model.intervals import Interval
from offsetguard.sources.bundle.layout import Meta
from offsetguard.sources.bundle.reader import moments, open_bundle
from offsetguard.sources.bundle.recording import BundleWriter, RecordingTransport
from offsetguard.sources.bundle.replay import BundleTransport
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard_peers.collecting import as_rows, config_of
from offsetguard_peers.processes import COMMAND, run_command
from offsetguard_peers.rocketmq import security
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import produce, running_consumer
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.rocketmq.staging import commit_beyond_end, stage_backlog
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]


def without_times(snapshot: Snapshot) -> dict[str, list[dict[str, Any]]]:
    """Return the rows; of moments of reading, which a bundle keeps in whole milliseconds, only whether they are known.

    `counting_since` is such a moment as well, from the tenth second on: before, brokers tell no rate.
    """
    return {
        name: sorted(({key: untimed(key, value) for key, value in row.items()} for row in rows), key=repr)
        for name, rows in as_rows(snapshot.tables).items()
    }


def untimed(column: str, value: object) -> object:
    is_timed = column.endswith(("_at", "_since")) or column == "clock_ahead_ms"
    return value is not None if is_timed else value


async def record_rounds(config: Config, folder: Path, count: int) -> list[Snapshot]:
    snapshots = []
    settings = config.clusters["main"]
    with BundleWriter(folder, Meta(cluster="main", recorded_by="a test")) as bundle:
        async with RocketMQClient(settings.request_timeout_ms) as client:
            transport = RecordingTransport(client, bundle, settings.name_servers)
            for _ in range(count):
                now = datetime.now(UTC)
                bundle.begin_round(int(now.timestamp() * 1000))
                interval = Interval.containing(now)
                snapshots.append(await collect_round("main", config, interval, started_at=now, transport=transport))
                bundle.end_round()
    return snapshots


def test_replayed_rounds_have_the_rows_of_the_live_ones(cluster: RocketMQCluster, tmp_path: Path) -> None:
    admin, topic, group = Admin(cluster), "RecordedTopic", "recorded-group"
    admin.create_topic(topic, queues=2)
    stage_backlog(cluster, "recorded-laggard", "RecordedBacklog", 30)
    commit_beyond_end(cluster, "recorded-beyond", topic, by=7)
    config = config_of(cluster, collection=EVERYTHING)
    with running_consumer(cluster, group, topic) as consumer:
        produce(cluster, topic, 40)
        consumer.wait_until_consumed(40)
        live = asyncio.run(record_rounds(config, tmp_path / "bundle", 2))
    bundle = open_bundle(tmp_path / "bundle")
    assert len(moments(bundle)) == len(live)
    for moment, expected in zip(moments(bundle), live, strict=True):
        interval = Interval(expected.manifest.interval_start)
        replay = collect_round(
            "main", config, interval, started_at=moment.at, transport=BundleTransport(bundle, moment)
        )
        replayed = asyncio.run(replay)
        assert without_times(replayed) == without_times(expected)
        assert replayed.manifest.requests == expected.manifest.requests
        recorded_to = timedelta(milliseconds=1)  # a bundle's times have no fractions of it
        assert replayed.manifest.finished_at <= expected.manifest.finished_at + recorded_to
    rows = as_rows(live[0].tables)["queue_snapshots"]
    assert {"recorded-laggard", "recorded-beyond", group} <= {row["consumer_group"] for row in rows}


def test_the_commands_record_and_collect(rocketmq_4: RocketMQCluster, tmp_path: Path) -> None:
    cluster, bundle = rocketmq_4, tmp_path / "bundle"
    stage_backlog(cluster, "recorded-by-command", "CommandBacklog", 20, queues=1)
    logs = [f"--logs={broker.folder}" for broker in cluster.brokers]
    record = ["record", "--namesrv", cluster.namesrv, *logs, "--for", "4s", "--every", "1s", "--out"]
    recorded = run_command(*record, bundle)
    assert recorded.returncode == 0, recorded.stderr
    assert "round 4" in recorded.stderr
    again = run_command(*record, bundle)
    assert again.returncode == 2
    assert "exists and is not an empty folder" in again.stderr
    collected = run_command("collect", "--bundle", bundle, "--out", tmp_path / "landing")
    assert collected.returncode in (0, 1), collected.stderr
    for line in map(json.loads, collected.stdout.splitlines()):
        assert line["unseen_brokers"] == []
        assert line["rows"]["queue_snapshots"] > 0
        assert not any(kind.startswith("not_recorded") for kind in line["gap_kinds"]), line["gap_kinds"]


def test_what_is_written_to_logs_meanwhile_is_in_the_bundle(rocketmq_4: RocketMQCluster, tmp_path: Path) -> None:
    """And nothing from before: a log may be large, and say more than the operator wants to give away."""
    cluster, bundle = rocketmq_4, tmp_path / "bundle"
    Admin(cluster).create_topic("LoggedBefore")
    folder = cluster.broker("broker-a").log_folder
    command = [*COMMAND, "record", "--namesrv", cluster.namesrv, "--logs", f"broker-a-0={folder}", "--for", "10m"]
    with subprocess.Popen([*command, "--every", "1s", "--out", str(bundle)], stderr=subprocess.PIPE, text=True) as one:
        wait_for_rounds(bundle, 1)
        Admin(cluster).create_topic("LoggedMeanwhile")
        excerpt = bundle / "logs" / "broker-a-0" / "broker.log"
        wait_until(lambda: excerpt.exists() and b"LoggedMeanwhile" in excerpt.read_bytes(), f"a line in {excerpt}")
        one.send_signal(signal.SIGINT)
        assert one.wait(timeout=300) == 0
    assert b"LoggedBefore" not in excerpt.read_bytes()
    assert excerpt.read_bytes().endswith(b"\n")


def test_a_killed_recording_leaves_a_usable_bundle(rocketmq_5: RocketMQCluster, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    command = [*COMMAND, "record", "--namesrv", rocketmq_5.namesrv, "--for", "10m", "--every", "100ms", "--out"]
    with subprocess.Popen([*command, str(bundle)], stderr=subprocess.DEVNULL) as recording:
        wait_for_rounds(bundle, 3)
        recording.kill()
    collected = run_command("collect", "--bundle", bundle, "--out", tmp_path / "landing")
    assert collected.returncode in (0, 1), collected.stderr
    assert all(json.loads(line)["unseen_brokers"] == [] for line in collected.stdout.splitlines())


@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_a_bundle_of_a_guarded_cluster_holds_no_secret(version: str, tmp_path: Path) -> None:
    """5.x brokers tell the passwords of broker.conf to everybody who may read their settings."""
    bundle = tmp_path / "bundle"
    with RocketMQCluster(version, acl=True) as cluster:
        login = {
            "OFFSETGUARD_ACCESS_KEY": security.ADMIN.access_key,
            "OFFSETGUARD_SECRET_KEY": security.ADMIN.secret_key,
        }
        logs = f"--logs={cluster.broker().log_folder}"
        command = ["record", "--namesrv", cluster.namesrv, logs, "--for", "1s", "--every", "1s", "--out"]
        recorded = run_command(*command, bundle, **login)
        assert recorded.returncode == 0, recorded.stderr
    everything = b"".join(path.read_bytes() for path in bundle.rglob("*") if path.is_file())
    assert b"brokerName=broker-a" in everything
    assert security.ADMIN.secret_key.encode() not in everything
    assert b'"Signature"' not in everything
    assert b'"AccessKey"' not in everything
    told = [json.loads(line).get("redacted", []) for line in (bundle / "index.jsonl").read_text().splitlines()]
    left_out = {name for names in told for name in names}
    assert left_out >= (set() if version.startswith("4.") else {"initAuthenticationUser"})


def wait_for_rounds(bundle: Path, count: int) -> None:
    def is_there() -> bool:
        meta = bundle / "meta.json"
        return meta.exists() and len(json.loads(meta.read_text()).get("rounds_ms", ())) > count

    wait_until(is_there, f"round {count + 1} in {bundle}")
