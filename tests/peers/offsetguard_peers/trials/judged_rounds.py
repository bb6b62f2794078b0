"""Rounds of a cluster judged as `check` and `diagnose` judge them, one after the other, in this process.

`kept_locks` says whether a client that was stopped as it should be kept a lock all the same, as its broker's log says.
A real one takes locks again if it just renews them as it shuts down. And a queue that a rebalance takes away while
messages of it are in hands is unlocked 20 s later (unlockDelay), or never, if the client ends before. What is said of
such a lock is true, whoever staged no trouble.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

from offsetguard.cli.parameters import default_config
from offsetguard.collect.collector import collect_round, snapshots_of_bundle
from offsetguard.collect.earlier_round import EarlierRound
from offsetguard.collect.snapshot import Snapshot
from offsetguard.config import Config, LogSource
from offsetguard.config.configuration import asking_everything
from offsetguard.facts.rounds import facts_of_moments, facts_of_rounds
from offsetguard.judge.diagnosis import without_own_gaps
from offsetguard.judge.registry import Judgement, judge
from offsetguard.judge.rule import Finding
from offsetguard.model.intervals import Interval
from offsetguard.model.verdicts import Severity
from offsetguard.sources.bundle.reader import open_bundle
from offsetguard_peers.rocketmq.cluster import RocketMQCluster

CLUSTER = "main"
WINDOW = timedelta(minutes=30)  # what the pipeline folds


@dataclass(frozen=True, slots=True)
class JudgedRound:
    """What is said at the end of one round, of it and the rounds before it."""

    at: datetime
    judgement: Judgement
    settled: bool = True  # every broker gave its offsets, and none was started so lately that its clients move about

    def loud(self) -> list[Finding]:
        """Return what people would be told: everything above INFO."""
        return [one for one in self.judgement.findings if one.severity.rank > Severity.INFO.rank]


def judged_rounds_of_bundle(folder: Path) -> list[JudgedRound]:
    """Judge a bundle after its first round, after the first two, and so on, without any configuration."""
    config = default_config({CLUSTER: ["127.0.0.1:9876"]})
    rounds = asyncio.run(snapshots_of_bundle(open_bundle(folder), CLUSTER, config))
    moments = [(count, one.manifest.finished_at) for count, one in enumerate(rounds, start=1)]
    return [
        JudgedRound(now, judge(without_own_gaps(facts), config))
        for (_, now), facts in zip(moments, facts_of_moments(rounds, moments, config), strict=True)
    ]


CLIENTS_COME_BACK = timedelta(seconds=60)  # to a master that was started: 30 s to a heartbeat, 20 s to a rebalance


class LiveRounds:
    """Collects rounds of a live cluster with the logs of its brokers; every round is judged at once."""

    def __init__(self, cluster: RocketMQCluster, *client_logs: Path) -> None:
        """`client_logs`: of its clients, read as well."""
        self._config: Config = asking_everything(default_config({CLUSTER: [cluster.namesrv]}), CLUSTER)
        of_brokers = (
            LogSource(
                name=f"{one.name}-{one.broker_id}",
                files=[f"{one.log_folder}/*.log"],
                broker_name=one.name,
                broker_id=one.broker_id,
            )
            for one in cluster.brokers
        )
        zone = "UTC" if cluster.version.startswith("4.") else "+08:00"  # 4.x clients write their host's
        of_clients = (
            LogSource(name=f"client-{number}", files=[str(log)], time_zone=zone)
            for number, log in enumerate(client_logs)
        )
        self._logs = (*of_brokers, *of_clients)
        self._rounds: list[Snapshot] = []

    def judge_now(self) -> JudgedRound:
        """Collect one round and judge it with those before it."""
        snapshot = asyncio.run(self._collect())
        oldest = snapshot.manifest.started_at - WINDOW
        self._rounds = [one for one in self._rounds if one.manifest.started_at >= oldest]
        self._rounds.append(snapshot)
        facts = facts_of_rounds(self._rounds, self._config)
        boots = [one.boot_at for one in facts.brokers if one.broker_id == 0 and one.boot_at is not None]
        started = any(facts.now - boot_at <= CLIENTS_COME_BACK for boot_at in boots)
        settled = not started and not snapshot.manifest.unseen_broker_names
        return JudgedRound(snapshot.manifest.finished_at, judge(facts, self._config), settled)

    async def _collect(self) -> Snapshot:
        now = datetime.now(UTC)
        before = self._rounds[-1] if self._rounds else None
        return await collect_round(
            CLUSTER,
            self._config,
            Interval.containing(now),
            started_at=now,
            earlier=EarlierRound(before.manifest, before.tables) if before else None,
            log_sources=self._logs,
        )


_COMMITTED_LESS = re.compile(
    r"^(?P<at>[-0-9]+ [:0-9]+) WARN .*update consumer offset less than store\. .*, key=(?P<key>.+), queueId=[0-9]+, "
    "requestOffset=(?P<asked>[0-9]+), storeOffset=(?P<kept>[0-9]+)$"
)
_EAST_8 = timezone(timedelta(hours=8))  # as brokers write times


def went_back(cluster: RocketMQCluster, consumer_group: str, topic: str, since: datetime) -> int:
    """Return by how many messages commits of a group went back since then, by the masters' logs: what they say of it.

    Two commits that overtake each other are a message or two apart.
    """
    found = 0
    for broker in cluster.brokers:
        log = broker.log_folder / "broker.log"
        for line in log.read_text(errors="replace").splitlines() if log.exists() else []:
            if (told := _COMMITTED_LESS.match(line)) and told["key"] == f"{topic}@{consumer_group}":
                at = datetime.strptime(told["at"], "%Y-%m-%d %H:%M:%S").replace(tzinfo=_EAST_8)
                found += int(told["kept"]) - int(told["asked"]) if at >= since else 0
    return found


_TAKEN, _GIVEN_BACK = ("I got it", "not been locked yet"), "unlockBatch"  # in the words of 4.x and 5.x
QUEUE = re.compile(r"queueId=(\d+)")


def lock_lines(cluster: RocketMQCluster, *words: str) -> list[str]:
    """Return the lines about locks of the master's log with all of these words."""
    name = "lock.log" if cluster.version.startswith("4.") else "filter.log"
    log = cluster.broker().log_folder / name
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return [line for line in lines if all(word in line for word in words)]


def kept_locks(cluster: RocketMQCluster, consumer_group: str, topic: str, client_id: str) -> bool:
    """Whether the client ended with the lock of a queue."""
    said = lock_lines(cluster, consumer_group, f"topic={topic},", client_id)
    taken_or_given = [line for line in said if any(words in line for words in (*_TAKEN, _GIVEN_BACK))]
    newest = {QUEUE.findall(line)[-1]: line for line in taken_or_given}
    return any(_GIVEN_BACK not in line for line in newest.values())
