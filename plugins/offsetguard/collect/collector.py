"""One round of one cluster: ask every broker at once, and make one snapshot of whatever answered in time.

A cluster that is half dead gives half a snapshot that says so; only a landed file that cannot be read, or a question
about the past, raises.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from offsetguard.collect.broker_reading import BrokerReading
from offsetguard.collect.earlier_round import EarlierRound, earlier_round
from offsetguard.collect.landing import collecting_lock, land, landed_after, read_manifest, snapshot_folder
from offsetguard.collect.manifest import MANIFEST_FILE_NAME, EventCursor, Gap, Manifest, MissingMaster, Outcome
from offsetguard.collect.name_servers import ClusterMembers, find_members
from offsetguard.collect.offset_events import EventStart, read_events
from offsetguard.collect.read_broker import CONCURRENT_REQUESTS, read_offsets, read_runtime
from offsetguard.collect.replica import MASTER_ID, Replica, ReplicaLink
from offsetguard.collect.request_ledger import RequestLedger
from offsetguard.collect.snapshot_rows import SnapshotRows
from offsetguard.errors import IntervalHasPassed, SnapshotError
from offsetguard.rocketmq.client import RocketMQClient

if TYPE_CHECKING:
    from pathlib import Path

    from offsetguard.collect.landing import Row
    from offsetguard.config import Config
    from offsetguard.intervals import Interval
    from offsetguard.rocketmq.signing import Credentials

ROUND_DEADLINE_S = 40.0  # below an interval: a slow broker gives part of a snapshot, in time
PAST_LIMIT = timedelta(minutes=2)  # a round may start this long after its interval's end

logger = logging.getLogger("offsetguard.collect")


async def collect_cluster(
    cluster: str,
    config: Config,
    interval: Interval,
    landing_folder: Path,
    *,
    credentials: Credentials | None = None,
    started_at: datetime,
    deadline_s: float = ROUND_DEADLINE_S,
) -> Manifest:
    """Collect and land one interval; returns the manifest that is landed.

    An interval that has landed already is not asked for again. Raises SnapshotError when the interval is too old to be
    looked at (a backfill cannot see the past), lies in the future, another round of the cluster is running, or a landed
    file cannot be read or written. `credentials`: of the connection that the cluster names.
    """
    folder = snapshot_folder(landing_folder, cluster, interval)
    if (folder / MANIFEST_FILE_NAME).exists():
        return read_manifest(folder)
    _check_is_present(cluster, interval, started_at)
    async with collecting_lock(landing_folder, cluster, wait_s=deadline_s):
        if (folder / MANIFEST_FILE_NAME).exists():  # the round that we waited for was of this interval
            return read_manifest(folder)
        manifest, rows = await collect_snapshot(
            cluster,
            config,
            interval,
            credentials=credentials,
            started_at=started_at,
            earlier=earlier_round(landing_folder, cluster, interval),
            # a newer snapshot has read the events behind our cursor already
            events=EventStart.LEAVE if landed_after(landing_folder, cluster, interval) else EventStart.OLDEST,
            deadline_s=deadline_s,
        )
        return read_manifest(land(landing_folder, manifest, rows))


async def collect_snapshot(
    cluster: str,
    config: Config,
    interval: Interval,
    *,
    credentials: Credentials | None = None,
    started_at: datetime,
    earlier: EarlierRound | None = None,
    events: EventStart = EventStart.NEWEST,
    deadline_s: float = ROUND_DEADLINE_S,
) -> tuple[Manifest, dict[str, list[Row]]]:
    """Ask the cluster once and return manifest and rows by table name; nothing is written.

    `earlier`: the round to go on from (event cursors, brokers that should be there). Every failure of a name server or
    broker is a gap in the manifest, not an error.
    """
    settings = config.clusters[cluster]
    logger.info("collect %s %s: start, name servers %s", cluster, interval.name, ", ".join(settings.name_servers))
    async with RocketMQClient(settings.request_timeout_ms, credentials, CONCURRENT_REQUESTS) as client:
        one_round = _Round(cluster, config, interval, client=client, earlier=earlier or EarlierRound(), events=events)
        await one_round.run(deadline_s)
    manifest, rows = one_round.snapshot(started_at, finished_at=datetime.now(UTC))
    logger.info(
        "collect %s %s: %d of %d requests answered, %d gaps, %d queue rows, %d offset moves, unseen: %s",
        cluster,
        interval.name,
        manifest.requests.answered,
        manifest.requests.asked,
        manifest.gap_count,
        manifest.row_counts["queue_snapshots"],
        manifest.row_counts["offset_moves"],
        "the whole cluster" if manifest.cluster_unseen else ", ".join(manifest.unseen_broker_names) or "nothing",
    )
    return manifest, rows


def _check_is_present(cluster: str, interval: Interval, started_at: datetime) -> None:
    if interval.end < started_at - PAST_LIMIT:
        raise IntervalHasPassed(
            f"interval {interval.name} of cluster {cluster} never landed, and it ended at {interval.end:%F %H:%M} UTC: "
            "the collector cannot look into the past. Leave it out; the next interval is collected as usual"
        )
    if interval.start > started_at:
        raise SnapshotError(
            f"interval {interval.name} of cluster {cluster} lies in the future; collect it when it comes"
        )


class _Round:
    """The state of one round; `run` fills it, `snapshot` makes manifest and rows of it."""

    def __init__(
        self,
        cluster: str,
        config: Config,
        interval: Interval,
        *,
        client: RocketMQClient,
        earlier: EarlierRound,
        events: EventStart,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._interval = interval
        self._client = client
        self._earlier = earlier
        self._events = events
        self._ledger = RequestLedger()
        self._members: ClusterMembers | None = None  # None: no name server answered
        self._missing: tuple[MissingMaster, ...] = ()
        self._readings: list[BrokerReading] = []

    async def run(self, deadline_s: float) -> None:
        """Ask name servers, then all replicas at once; ends at the deadline at the latest."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + deadline_s
        try:
            async with asyncio.timeout(deadline_s / 2):
                settings = self._config.clusters[self._cluster]
                self._members = await find_members(self._client, self._cluster, settings, self._ledger)
        except TimeoutError:
            pass  # the name servers that were asked are gaps already
        if self._members is None:
            self._readings = [
                BrokerReading(replica, failure="no name server answered, so it was not asked")
                for replica in self._earlier.replicas
            ]
            self._missing = self._earlier.manifest.missing_masters if self._earlier.manifest else ()
            return
        self._missing = self._earlier.missing_masters(self._members, self._interval)
        self._readings = [self._missing_reading(master) for master in self._missing]
        await self._read_replicas(self._members, ends_at - loop.time())

    async def _read_replicas(self, members: ClusterMembers, seconds: float) -> None:
        tasks: dict[asyncio.Task[None], ReplicaLink] = {}
        readings: list[tuple[ReplicaLink, BrokerReading]] = []
        for replica in members.replicas:
            link = ReplicaLink(self._client, replica, self._ledger, self._login_advice)
            reading = BrokerReading(replica)
            readings.append((link, reading))
            tasks[asyncio.create_task(self._read_replica(link, reading, members))] = link
        if not tasks:
            return
        done, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            task.cancel()
            tasks[task].cut_off("the deadline of the round passed; what was read until then is kept")
        await asyncio.gather(*late, return_exceptions=True)
        for task in done:
            task.result()  # a defect of ours must not look like a silent broker
        for link, reading in readings:
            link.close()
            reading.answered_at, reading.failure = link.answered_at, link.failure
            self._readings.append(reading)

    async def _read_replica(self, link: ReplicaLink, reading: BrokerReading, members: ClusterMembers) -> None:
        await read_runtime(link, reading)
        if reading.replica.is_master:
            await read_offsets(link, reading, members.own_names)
            await read_events(link, reading, self._earlier.cursors.get(reading.broker_name), self._events)

    def _missing_reading(self, master: MissingMaster) -> BrokerReading:
        reason = (
            f"no name server lists a master of {master.broker_name}, missing since "
            f"{master.missing_since:%F %H:%M} UTC; start the broker, or, if it was removed on purpose, wait a day"
        )
        replica = Replica(master.broker_name, MASTER_ID, master.address)
        self._ledger.add_gap(
            Gap(
                address=replica.address,
                broker_name=replica.broker_name,
                broker_id=replica.broker_id,
                what="everything",
                outcome=Outcome.UNREACHABLE,
                reason=reason,
            )
        )
        return BrokerReading(replica, failure=reason)

    @property
    def _login_advice(self) -> str:
        connection = self._config.clusters[self._cluster].connection
        if connection is None:
            return (
                f"the cluster asks for a login: set clusters.{self._cluster}.connection to the id of an Airflow "
                "connection with the access key as login and the secret key as password"
            )
        return (
            f"correct the Airflow connection {connection!r} (access key = login, secret key = password) that "
            f"clusters.{self._cluster}.connection names"
        )

    def snapshot(self, started_at: datetime, finished_at: datetime) -> tuple[Manifest, dict[str, list[Row]]]:
        """Return what was seen, and the manifest that says what was not."""
        own_names = self._members.own_names if self._members else frozenset()
        rows = SnapshotRows(
            self._cluster, self._interval, self._config, tuple(sorted(self._readings, key=_replica_of)), own_names
        ).all_tables()
        masters = [reading for reading in self._readings if reading.replica.is_master]
        manifest = Manifest(
            cluster=self._cluster,
            interval_start=self._interval.start,
            started_at=started_at,
            finished_at=finished_at,
            requests=self._ledger.counts,
            gaps=tuple(self._ledger.gaps),
            gap_count=self._ledger.gap_count,
            row_counts={name: len(table_rows) for name, table_rows in rows.items()},
            event_cursors=self._cursors(masters),
            master_broker_names=tuple(sorted({reading.broker_name for reading in masters})),
            unseen_broker_names=tuple(sorted({one.broker_name for one in masters if not one.gave_offsets})),
            missing_masters=self._missing,
            cluster_unseen=self._members is None,
        )
        return manifest, rows

    def _cursors(self, masters: list[BrokerReading]) -> tuple[EventCursor, ...]:
        """Return cursors of every broker ever read: one that was not reached now keeps its old one."""
        kept = {
            name: EventCursor(broker_name=name, from_offset=cursor.next_offset, next_offset=cursor.next_offset)
            for name, cursor in self._earlier.cursors.items()
        }
        read = {one.broker_name: one.event_cursor for one in masters if one.event_cursor is not None}
        return tuple(cursor for _, cursor in sorted({**kept, **read}.items()))


def _replica_of(reading: BrokerReading) -> Replica:
    return reading.replica
