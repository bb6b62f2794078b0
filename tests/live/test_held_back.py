"""What real brokers hold back: transactions that nobody ends, delayed messages that are late, and old dead letters."""

import asyncio
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from offsetguard.collect.collector import collect_cluster
from offsetguard.collect.landing import Row, read_table, snapshot_folder
from offsetguard.facts.rounds import facts_from_snapshot
from offsetguard.judge.registry import judge
from offsetguard.judge.rule import Finding
from offsetguard.model.intervals import Interval
from offsetguard.tables import BROKER_SNAPSHOTS, LANDED
from offsetguard_peers.collecting import as_rows, config_of, group_row
from offsetguard_peers.printed_commands import run_as_printed
from offsetguard_peers.rocketmq.admin import Admin
from offsetguard_peers.rocketmq.clients import produce, produce_held_back, running_consumer
from offsetguard_peers.rocketmq.cluster import RocketMQCluster
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.live, pytest.mark.slow]

START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
TWO_MINUTES = 6  # a delay level
FULL = {"rocketmq.broker.diskSpaceWarningLevelRatio": "0.01"}  # a share: what lies on the disk is more than that
LEAST_FULL_5 = 0.35  # 5.x takes no disk for full below, whatever it is told (getDiskSpaceWarningLevelRatio)
LOOKS_EVERY_S = 2.0


class Rounds:
    """Rounds of a live cluster, landed one after the other as if they were a minute apart."""

    def __init__(self, cluster: RocketMQCluster, landing: Path) -> None:
        """Nothing is asked yet."""
        self.landing, self.count = landing, 0
        self.tables: dict[str, pa.Table] = {}
        self.config = config_of(cluster)

    def look(self) -> dict[str, Finding]:
        """Take a round; returns its findings by rule."""
        self.count += 1
        interval = Interval(START + timedelta(minutes=self.count))
        taken = collect_cluster("main", self.config, interval, self.landing, started_at=interval.end)
        manifest = asyncio.run(taken)
        assert manifest.complete, manifest.gaps
        folder = snapshot_folder(self.landing, "main", interval)
        self.tables = {table.name: read_table(folder, table) for table in LANDED}
        facts = facts_from_snapshot(manifest, self.tables, self.config, interval, now=datetime.now(UTC))
        return {finding.rule.id: finding for finding in judge(facts, self.config).findings}

    def broker(self, name: str) -> Row:
        """Return a master's row of the newest round."""
        rows: list[Row] = self.tables[BROKER_SNAPSHOTS.name].to_pylist()
        return next(row for row in rows if row["broker_name"] == name)

    def group(self, name: str) -> Row:
        """Return a group's row of the newest round; empty when it saw none."""
        return group_row(as_rows(self.tables), name)

    def until(self, seen: Callable[[dict[str, Finding]], object], what: str) -> dict[str, Finding]:
        """Take rounds until one has seen it."""

        def a_look() -> tuple[dict[str, Finding]] | None:
            findings = self.look()  # which may be none
            return (findings,) if seen(findings) else None

        return wait_until(a_look, what, every_s=LOOKS_EVERY_S)[0]


def test_what_brokers_hold_back_is_counted_and_told(tmp_path: Path) -> None:
    """4 min, most of it for messages with a delay of 2 min to be 2 min late."""
    with ThreadPoolExecutor(2) as pool:
        for seen in [pool.submit(_see, version, tmp_path / version) for version in ("4.9.7", "5.3.3")]:
            seen.result()


def _see(version: str, landing: Path) -> None:
    """broker-a gives transactions up within seconds; broker-b checks none any more, and thinks that its disk is full.

    What broker-b took before, it cannot deliver then.
    """
    cluster = RocketMQCluster(version, masters=2)
    quick, full = cluster.masters
    quick.configure({"transactionTimeOut": "1000", "transactionCheckInterval": "1000", "transactionCheckMax": "2"})
    full.configure({"transactionTimeOut": "1000", "transactionCheckInterval": "5000", "transactionCheckMax": "100"})
    if version.startswith("5."):
        full.configure({"timerWheelEnable": "true"})
    with cluster:
        admin, rounds = Admin(cluster), Rounds(cluster, landing)
        for topic, broker in (("held-quick", quick), ("held-full", full)):
            admin.create_topic(topic, queues=1, brokers=[broker])
        produce_held_back(cluster, "held-full", 4, never_ended=True)
        produce_held_back(cluster, "held-full", 5, delay_level=TWO_MINUTES)
        if version.startswith("5."):
            produce_held_back(cluster, "held-full", 6, timer_s=3_600)
        _see_what_waits(rounds, version)
        admin.configure(full, transactionCheckInterval=3_600_000)
        full.java_properties.update(FULL)
        full.restart()  # it writes the offset of its check first
        cluster.wait_until_listed(full)
        _see_transactions_given_up(rounds, cluster)
        _see_the_oldest_dead_letter(rounds, cluster)
        usage = shutil.disk_usage(full.store)
        is_full = version.startswith("4.") or usage.used / usage.total > LEAST_FULL_5
        _see_what_is_late(rounds, delayed_late_count=5 if is_full else 0)


def _see_what_waits(rounds: Rounds, version: str) -> None:
    def all_wait(_: object) -> bool:
        row = rounds.broker("broker-b")
        timers = row["timer_message_count"] == (6 if version.startswith("5.") else None)
        return (row["half_message_count"], row["delayed_message_count"]) == (4, 5) and timers

    findings = rounds.until(all_wait, "4 half messages and 5 delayed ones")
    row = rounds.broker("broker-b")
    assert (row["half_late_count"], row["delayed_late_count"], row["given_up_max_offset"]) == (0, 0, 0)
    assert row["timer_behind_ms"] in ((0, 1_000, 2_000) if version.startswith("5.") else (None,))
    assert "delayed_delivery_late" not in findings


def _see_transactions_given_up(rounds: Rounds, cluster: RocketMQCluster) -> None:
    produce_held_back(cluster, "held-quick", 1, never_ended=True)
    rounds.until(lambda _: rounds.broker("broker-a")["given_up_max_offset"] == 1, "one to compare with")
    produce_held_back(cluster, "held-quick", 3, never_ended=True)
    given_up = 0

    def all_given_up(findings: dict[str, Finding]) -> bool:
        nonlocal given_up
        growth = rounds.broker("broker-a")["given_up_growth"]
        assert (growth > 0) == ("transactions_not_ended" in findings), "told when it happens"
        given_up += growth
        return given_up == 3

    told = rounds.until(all_given_up, "3 transactions given up")["transactions_not_ended"]
    (command,) = told.commands
    assert "REAL_TOPIC=held-quick" in run_as_printed(cluster, command, rounds.landing).stdout
    assert (told.variant, told.severity.value, told.figures["worst_broker"]) == ("given_up", "warning", "broker-a")
    # the broker gives them up one by one, and moves on in its half topic when it has been through it
    rounds.until(lambda _: rounds.broker("broker-a")["half_message_count"] == 0, "none that is still unended")


def _see_the_oldest_dead_letter(rounds: Rounds, cluster: RocketMQCluster) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    produce(cluster, "held-quick", 2)
    with running_consumer(cluster, "held-group", "held-quick", fail_always=True, max_reconsume_times=0):
        rounds.until(lambda _: rounds.group("held-group").get("dead_letter_message_count") == 2, "2 dead letters")
        oldest = rounds.group("held-group")["oldest_dead_letter_at"]
        assert before < oldest < datetime.now(UTC) + timedelta(seconds=1)
        produce(cluster, "held-quick", 1)
        told = rounds.until(lambda _: rounds.group("held-group")["dead_letter_growth"] == 1, "one more")["dead_letters"]
        assert told.figures["oldest_dead_letter_at"] == rounds.group("held-group")["oldest_dead_letter_at"] == oldest


def _see_what_is_late(rounds: Rounds, *, delayed_late_count: int) -> None:
    def all_late(_: object) -> bool:
        row = rounds.broker("broker-b")
        return (row["half_late_count"], row["delayed_late_count"]) == (4, delayed_late_count)

    findings = rounds.until(all_late, f"4 half messages and {delayed_late_count} delayed ones that are late")
    assert findings["transactions_not_ended"].variant == "unchecked"
    since = rounds.broker("broker-b")["half_late_since"]
    again = rounds.look()
    unchecked = again["transactions_not_ended"]
    assert (unchecked.variant, unchecked.severity.value) == ("unchecked", "warning"), "late in two rounds"
    assert unchecked.figures["since"] == since
    if delayed_late_count:
        late = findings["delayed_delivery_late"]
        assert (late.variant, late.severity.value, late.figures["worst_broker"]) == ("default", "warning", "broker-b")
        still_late = again["delayed_delivery_late"]
        assert still_late.figures["delayed_late_since"] == late.figures["delayed_late_since"]
