"""One round of one cluster: ask every broker at once, and make one snapshot of whatever answered in time.

A cluster that is half dead, or an earlier round that cannot be read, gives half a snapshot that says so; only a disk
that takes nothing, or a question about the past, raises.

A support bundle is played back through the same rounds. `collect --bundle` lands one snapshot per interval; with
`snapshots_of_bundle` nothing is landed, and every round counts: whoever recorded every five seconds wanted to see what
happens between two intervals.
"""

import asyncio
import gc
import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

from offsetguard.collect.broker_reading import Undecodable
from offsetguard.collect.earlier_round import EarlierRound, earlier_round
from offsetguard.collect.landing import collecting_lock, has_landed, land, landed_after, read_manifest, snapshot_folder
from offsetguard.collect.manifest import Gap, Manifest, Outcome
from offsetguard.collect.offset_events import EventStart
from offsetguard.collect.round import Round
from offsetguard.collect.snapshot import Snapshot, snapshot_of
from offsetguard.config import Config, LogSource
from offsetguard.config.configuration import asking_everything
from offsetguard.model.errors import IntervalHasPassed, SnapshotError
from offsetguard.model.intervals import Interval
from offsetguard.sources.bundle.reader import Bundle
from offsetguard.sources.bundle.replay import Damage, all_rounds_of_bundle
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.header import Credentials
from offsetguard.sources.rocketmq.transport import Transport

ROUND_DEADLINE_S = 40.0  # below an interval, with all its work: a slow broker gives part of a snapshot, in time
PAST_LIMIT = timedelta(minutes=2)  # a round may start this long after its interval's end
FUTURE_LIMIT = timedelta(minutes=6)  # the clock of Airflow's database, which makes intervals, may be so far ahead

logger = logging.getLogger("offsetguard.collect")


async def collect_cluster(
    cluster: str,
    config: Config,
    interval: Interval,
    landing_folder: Path,
    *,
    credentials: Credentials | None = None,
    started_at: datetime,
    shared_now: datetime | None = None,
    deadline_s: float = ROUND_DEADLINE_S,
    transport: Transport | None = None,
    origin: str = "broker",
    damages: Sequence[Damage] = (),
    log_sources: Sequence[LogSource] | None = None,
) -> Manifest:
    """Collect and land one interval; returns the manifest that is landed.

    An interval that has landed already is not asked for again. Raises SnapshotError when the interval is too old to be
    looked at (a backfill cannot see the past), lies in the future, another round of the cluster is running, or the
    round cannot be landed. `shared_now`: the time by a clock that all hosts ask: an interval that is present by it is
    so, whatever this host's says. `credentials`: of the connection that the cluster names. `transport`: stands in for
    the connections to the cluster (a support bundle, state files, a recorder), and `origin` says what it is, for the
    column of that name, and `damages` what of it cannot be read. `log_sources`: by default those of the configuration,
    or none with an `transport`.
    """
    if has_landed(landing_folder, cluster, interval):
        return read_manifest(snapshot_folder(landing_folder, cluster, interval))
    _check_is_present(cluster, interval, (started_at, shared_now or started_at))
    async with collecting_lock(landing_folder, cluster, wait_s=deadline_s):
        if has_landed(landing_folder, cluster, interval):  # the round that we waited for was of it
            return read_manifest(snapshot_folder(landing_folder, cluster, interval))
        if log_sources is None:
            log_sources = config.clusters[cluster].logs if transport is None else ()
        # a newer snapshot has read the events and lines behind our cursors already
        newest = not landed_after(landing_folder, cluster, interval)
        with _without_cycle_detection():
            snapshot = await collect_round(
                cluster,
                config,
                interval,
                credentials=credentials,
                started_at=started_at,
                earlier=earlier_round(landing_folder, cluster, interval),
                events=EventStart.OLDEST if newest else EventStart.LEAVE,
                deadline_s=deadline_s,
                transport=transport,
                origin=origin,
                damages=damages,
                log_sources=log_sources if newest else (),
            )
            missing = snapshot.everything_missing
            await asyncio.to_thread(land, landing_folder, snapshot.manifest, snapshot.tables, missing)
        return snapshot.manifest  # nobody else can have landed it: the lock is ours


@contextmanager
def _without_cycle_detection() -> Iterator[None]:
    """Let the garbage collector rest: a round makes a million objects that stay until its end, and next to no cycles.

    To go through all of them again and again took a fifth of the round.
    """
    rests = not gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if not rests:
            gc.enable()


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
    transport: Transport | None = None,
    origin: str = "broker",
    damages: Sequence[Damage] = (),
    log_sources: Sequence[LogSource] = (),
) -> Snapshot:
    """Ask the cluster once; nothing is written.

    `earlier`: the round to go on from (event cursors, brokers that should be there, figures to compare with). Every
    failure of a name server or broker is a gap in the manifest, not an error.
    """
    settings = config.clusters[cluster]
    logger.info("collect %s %s: start, name servers %s", cluster, interval.name, ", ".join(settings.name_servers))
    asking = nullcontext(transport) if transport is not None else RocketMQClient.of(settings, credentials)
    async with asking as whom:
        one_round = Round(
            cluster,
            config,
            interval,
            transport=whom,
            earlier=earlier or EarlierRound(),
            events=events,
            metrics_urls=settings.metrics_urls if transport is None else {},
            log_sources=log_sources,
        )
        await one_round.run(deadline_s)
    unread = sorted(one_round.earlier.damages, key=lambda one: (one.source, one.reason))
    _take_damages(one_round, [*damages, *unread])
    finished_at = datetime.now(UTC) if transport is None else max(started_at, transport.now())
    snapshot = snapshot_of(one_round, origin, started_at=started_at, finished_at=finished_at)
    _log(snapshot.manifest)
    return snapshot


def _log(manifest: Manifest) -> None:
    logger.info(
        "collect %s %s: %d of %d requests answered, %d gaps, %d queue rows, %d offset moves, unseen: %s",
        manifest.cluster,
        Interval(manifest.interval_start).name,
        manifest.requests.answered,
        manifest.requests.asked,
        manifest.gap_count,
        manifest.row_counts["queue_snapshots"],
        manifest.row_counts["offset_moves"],
        "the whole cluster" if manifest.cluster_unseen else ", ".join(manifest.unseen_broker_names) or "nothing",
    )


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


def _check_is_present(cluster: str, interval: Interval, now: Collection[datetime]) -> None:
    """Refuse an interval that none of some clocks takes for a present one."""
    if interval.end < min(now) - PAST_LIMIT:
        raise IntervalHasPassed(
            f"interval {interval.name} of cluster {cluster} never landed, and it ended at {interval.end:%F %H:%M} UTC: "
            "the collector cannot look into the past. Leave it out; the next interval is collected as usual"
        )
    if interval.start > max(now) + FUTURE_LIMIT:
        raise SnapshotError(
            f"interval {interval.name} of cluster {cluster} lies in the future; collect it when it comes, and set the "
            "clocks of all hosts by NTP"
        )


async def snapshots_of_bundle(bundle: Bundle, cluster: str, config: Config) -> list[Snapshot]:
    """Return the rounds of an opened bundle, oldest first; `cluster` names the entry of `config` that they are of.

    What is wrong with the bundle itself (`Bundle.notes`) is no gap of a round: it says nothing of the cluster. Raises
    BundleError when the bundle holds no round.
    """
    snapshots: list[Snapshot] = []
    for one in all_rounds_of_bundle(bundle):
        snapshot = await collect_round(
            cluster,
            asking_everything(config, cluster) if one.details == "all" else config,
            one.interval,
            started_at=one.started_at,
            earlier=EarlierRound(snapshots[-1].manifest, snapshots[-1].tables) if snapshots else None,
            events=EventStart.OLDEST,
            transport=one.transport,
            origin=one.origin,
            log_sources=one.log_sources,
        )
        snapshots.append(snapshot)
    return snapshots
