"""One round of one cluster: ask every broker at once, and make one snapshot of whatever answered in time.

A cluster that is half dead gives half a snapshot that says so; only a landed file that cannot be read, or a question
about the past, raises.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from offsetguard.collect.broker_reading import Undecodable
from offsetguard.collect.broker_rows import broker_rows
from offsetguard.collect.earlier_round import EarlierRound, earlier_round
from offsetguard.collect.group_members import merge_members
from offsetguard.collect.group_rows import GroupRows, known_groups
from offsetguard.collect.landed_folders import collecting_lock, landed_after, read_manifest, snapshot_folder
from offsetguard.collect.manifest import MANIFEST_FILE_NAME, EventCursor, Gap, Manifest, Outcome
from offsetguard.collect.offset_events import EventStart
from offsetguard.collect.pop_figures import consumption_of
from offsetguard.collect.pop_sources import pop_sources
from offsetguard.collect.queue_columns import queue_table, topic_queue_table
from offsetguard.collect.round import Round
from offsetguard.collect.snapshot_rows import SnapshotRows
from offsetguard.collect.system_names import is_system_group
from offsetguard.errors import IntervalHasPassed, SnapshotError
from offsetguard.rocketmq.client import RocketMQClient
from offsetguard.tables import (
    BROKER_SNAPSHOTS,
    CLIENT_SNAPSHOTS,
    GROUP_SNAPSHOTS,
    LANDED,
    OFFSET_MOVES,
    QUEUE_SNAPSHOTS,
    TOPIC_QUEUE_SNAPSHOTS,
    TOPIC_SETTINGS,
    UNDECODABLE_RECORDS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import pyarrow as pa

    from offsetguard.bundle.rounds import Damage
    from offsetguard.collect.broker_reading import BrokerReading
    from offsetguard.collect.landing import Row
    from offsetguard.collect.pop_figures import GroupConsumption
    from offsetguard.config import Config
    from offsetguard.intervals import Interval
    from offsetguard.rocketmq.asker import Asker
    from offsetguard.rocketmq.signing import Credentials

ROUND_DEADLINE_S = 40.0  # below an interval: a slow broker gives part of a snapshot, in time
PAST_LIMIT = timedelta(minutes=2)  # a round may start this long after its interval's end

logger = logging.getLogger("offsetguard.collect")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one round brought. Text columns of the tables may be dictionary-encoded."""

    manifest: Manifest
    tables: dict[str, pa.Table]  # by name, all of LANDED
    everything_missing: Sequence[Gap] = field(default=())  # one by one, where the manifest sums up


async def collect_cluster(
    cluster: str,
    config: Config,
    interval: Interval,
    landing_folder: Path,
    *,
    credentials: Credentials | None = None,
    started_at: datetime,
    deadline_s: float = ROUND_DEADLINE_S,
    asker: Asker | None = None,
    origin: str = "broker",
    damages: Sequence[Damage] = (),
) -> Manifest:
    """Collect and land one interval; returns the manifest that is landed.

    An interval that has landed already is not asked for again. Raises SnapshotError when the interval is too old to be
    looked at (a backfill cannot see the past), lies in the future, another round of the cluster is running, or a landed
    file cannot be read or written. `credentials`: of the connection that the cluster names. `asker`: takes the place of
    the connections to the cluster (a support bundle, state files, a recorder), and `origin` says what it is, for the
    column of that name, and `damages` what of it cannot be read.
    """
    folder = snapshot_folder(landing_folder, cluster, interval)
    if (folder / MANIFEST_FILE_NAME).exists():
        return read_manifest(folder)
    _check_is_present(cluster, interval, started_at)
    async with collecting_lock(landing_folder, cluster, wait_s=deadline_s):
        if (folder / MANIFEST_FILE_NAME).exists():  # the round that we waited for was of this interval
            return read_manifest(folder)
        snapshot = await collect_round(
            cluster,
            config,
            interval,
            credentials=credentials,
            started_at=started_at,
            earlier=earlier_round(landing_folder, cluster, interval),
            # a newer snapshot has read the events behind our cursor already
            events=EventStart.LEAVE if landed_after(landing_folder, cluster, interval) else EventStart.OLDEST,
            deadline_s=deadline_s,
            asker=asker,
            origin=origin,
            damages=damages,
        )
        return read_manifest(await asyncio.to_thread(_land, landing_folder, snapshot))


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
    asker: Asker | None = None,
) -> tuple[Manifest, dict[str, pa.Table]]:
    """Ask the cluster once and return manifest and tables by name; nothing is written. See `collect_round`."""
    snapshot = await collect_round(
        cluster,
        config,
        interval,
        credentials=credentials,
        started_at=started_at,
        earlier=earlier,
        events=events,
        deadline_s=deadline_s,
        asker=asker,
    )
    return snapshot.manifest, snapshot.tables


async def collect_round(
    cluster: str,
    config: Config,
    interval: Interval,
    *,
    credentials: Credentials | None = None,
    started_at: datetime,
    earlier: EarlierRound | None = None,
    events: EventStart = EventStart.NEWEST,
    deadline_s: float = ROUND_DEADLINE_S,
    asker: Asker | None = None,
    origin: str = "broker",
    damages: Sequence[Damage] = (),
) -> Snapshot:
    """Ask the cluster once; nothing is written.

    `earlier`: the round to go on from (event cursors, brokers that should be there, figures to compare with). Every
    failure of a name server or broker is a gap in the manifest, not an error.
    """
    settings = config.clusters[cluster]
    logger.info("collect %s %s: start, name servers %s", cluster, interval.name, ", ".join(settings.name_servers))
    earlier = earlier or EarlierRound()
    if asker is not None:
        one_round = Round(cluster, config, interval, asker=asker, earlier=earlier, events=events)
        await one_round.run(deadline_s)
    else:
        async with RocketMQClient(
            settings.request_timeout_ms,
            credentials,
            settings.collection.max_in_flight,
            settings.collection.max_requests_per_s,
            settings.tls,
        ) as client:
            one_round = Round(
                cluster,
                config,
                interval,
                asker=client,
                earlier=earlier,
                events=events,
                metrics_urls=settings.metrics_urls,
            )
            await one_round.run(deadline_s)
    _take_damages(one_round, damages)
    finished_at = datetime.now(UTC) if asker is None else max(started_at, asker.now())
    snapshot = _snapshot(
        one_round,
        cluster,
        config,
        interval,
        earlier=earlier,
        started_at=started_at,
        finished_at=finished_at,
        origin=origin,
    )
    manifest = snapshot.manifest
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
    return snapshot


def _take_damages(one_round: Round, damages: Sequence[Damage]) -> None:
    """Make gaps of what cannot be read of a bundle or state file, and keep its bytes."""
    readings = {(one.replica.broker_name, one.replica.broker_id): one for one in one_round.readings}
    for position, damage in enumerate(damages):
        one_round.ledger.add_gap(
            Gap(
                address=damage.source,
                broker_name=damage.broker_name,
                broker_id=damage.broker_id,
                what="a recorded file",
                outcome=Outcome.UNDECODABLE,
                reason=damage.reason,
            )
        )
        reading = readings.get((damage.broker_name or "", damage.broker_id or 0))
        if damage.body and reading is not None:
            reading.undecodable.append(Undecodable(damage.source, position, damage.reason, damage.body))


def _land(landing_folder: Path, snapshot: Snapshot) -> Path:
    from offsetguard.collect.landing import land  # noqa: PLC0415 imports pyarrow, 0.1 s

    return land(landing_folder, snapshot.manifest, snapshot.tables, snapshot.everything_missing)


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


def _snapshot(
    one_round: Round,
    cluster: str,
    config: Config,
    interval: Interval,
    *,
    earlier: EarlierRound,
    started_at: datetime,
    finished_at: datetime,
    origin: str,
) -> Snapshot:
    """Make tables of what was seen, and the manifest that says what was not; the readings are let go on the way."""
    from offsetguard.collect.landing import table_of  # noqa: PLC0415 imports pyarrow, 0.1 s

    readings = sorted(one_round.readings, key=lambda reading: reading.replica)
    masters = [reading for reading in readings if reading.replica.is_master]
    own_names = one_round.members.own_names if one_round.members else frozenset()
    members = merge_members(masters)
    rows = SnapshotRows(cluster, interval, own_names)
    undecodable = list(rows.undecodable(readings))
    consumption = _consumption(one_round, readings, known_groups(masters, members))
    groups = GroupRows(
        cluster,
        interval,
        config,
        masters,
        members,
        one_round.choice,
        earlier=one_round.earlier_figures,
        consumption=consumption,
    )
    made: dict[str, Iterable[Row]] = {
        TOPIC_SETTINGS.name: rows.topic_settings(masters),
        GROUP_SNAPSHOTS.name: groups,
        CLIENT_SNAPSHOTS.name: rows.clients(readings),
        BROKER_SNAPSHOTS.name: broker_rows(cluster, interval, readings),
        OFFSET_MOVES.name: rows.moves(masters),
    }
    tables = {
        table.name: table_of(table, rows.fitting(table, made.get(table.name, ()), undecodable))
        for table in LANDED
        if table not in (QUEUE_SNAPSHOTS, TOPIC_QUEUE_SNAPSHOTS, UNDECODABLE_RECORDS)
    }
    tables[TOPIC_QUEUE_SNAPSHOTS.name] = topic_queue_table(cluster, interval, masters, own_names)
    tables[QUEUE_SNAPSHOTS.name] = queue_table(
        cluster,
        interval,
        masters,
        members=members,
        own_names=own_names,
        earlier=one_round.earlier_figures,
        pop_groups={group for group, one in consumption.items() if one.recognition.is_pop},
        origin=origin,
    )
    tables[UNDECODABLE_RECORDS.name] = table_of(UNDECODABLE_RECORDS, rows.fitting(UNDECODABLE_RECORDS, undecodable, []))
    ledger = one_round.ledger
    manifest = Manifest(
        cluster=cluster,
        interval_start=interval.start,
        started_at=started_at,
        finished_at=finished_at,
        requests=ledger.counts,
        gaps=tuple(ledger.gaps),
        gap_count=ledger.gap_count,
        gap_kinds=dict(sorted(ledger.kinds.items())),
        row_counts={name: table.num_rows for name, table in tables.items()},
        event_cursors=_cursors(earlier, masters),
        not_asked=ledger.not_asked,
        master_broker_names=tuple(sorted({reading.broker_name for reading in masters})),
        unseen_broker_names=tuple(sorted({one.broker_name for one in masters if not one.gave_offsets})),
        missing_masters=one_round.missing,
        cluster_unseen=one_round.members is None,
    )
    return Snapshot(manifest, tables, ledger.everything_missing)


def _consumption(one_round: Round, readings: Sequence[BrokerReading], groups: set[str]) -> dict[str, GroupConsumption]:
    """Tell POP groups from others; a group of which a suspect's queue waits is not called offline on a mere guess."""
    sources = pop_sources(
        readings,
        one_round.earlier_figures.groups,
        metrics=one_round.metrics,
        proxy_members=one_round.proxy_members,
        waiting_groups=one_round.choice.suspects,
    )
    masters = [reading for reading in readings if reading.replica.is_master]
    return consumption_of(masters, sources, [group for group in groups if not is_system_group(group)])


def _cursors(earlier: EarlierRound, masters: Sequence[BrokerReading]) -> tuple[EventCursor, ...]:
    """Return cursors of every broker ever read: one that was not reached now keeps its old one."""
    kept = {
        name: EventCursor(broker_name=name, from_offset=cursor.next_offset, next_offset=cursor.next_offset)
        for name, cursor in earlier.cursors.items()
    }
    read = {one.broker_name: one.event_cursor for one in masters if one.event_cursor is not None}
    return tuple(cursor for _, cursor in sorted({**kept, **read}.items()))
