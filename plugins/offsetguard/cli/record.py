"""`offsetguard record`: record a support bundle: raw answers and log excerpts.

Normal collection rounds go through a recorder, and the logs are copied between them.
"""

import asyncio
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

import click
from pydantic import ValidationError

from offsetguard.cli import parameters
from offsetguard.cli.output import progress
from offsetguard.collect.collector import collect_round
from offsetguard.collect.earlier_round import EarlierRound
from offsetguard.collect.snapshot import Snapshot
from offsetguard.config import Cluster, Config
from offsetguard.config.configuration import asking_everything
from offsetguard.model.errors import BundleError
from offsetguard.model.intervals import Interval
from offsetguard.sources.bundle.layout import Meta
from offsetguard.sources.bundle.log_excerpts import LogExcerpts, find_log_folders, log_folders_of
from offsetguard.sources.bundle.recording import BundleWriter, RecordingTransport
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.header import Credentials

EXIT_NOT_SEEN = 2


@click.command()
@click.option("--namesrv", metavar="HOST:PORT[;HOST:PORT]", help="The name servers, as RocketMQ's own tools take them.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Clusters from this file.")
@click.option("--cluster", help="With --config: which cluster of the file (needless when it has only one).")
@click.option(
    "--logs",
    type=parameters.LOG_FOLDER,
    multiple=True,
    help="A folder with logs of a broker or client; repeatable. NAME (broker-a-0, or any name for a client) is needed "
    "only where the folder's path does not tell whose they are.  [default: the log sources of --config]",
)
@click.option("--for", "length", type=parameters.DURATION, default="5m", show_default=True, help="How long.")
@click.option("--every", type=parameters.DURATION, default="10s", show_default=True, help="Time between two rounds.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The bundle: a folder that does not exist.")
@parameters.details_option
@click.option("--log-time-zone", help="Of the brokers' logs.  [default: as --config says, else +08:00]")
@click.option("--max-mib", type=click.IntRange(1), default=1024, show_default=True, help="Stop at this size.")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def record(
    *,
    namesrv: str | None,
    config_file: Path | None,
    cluster: str | None,
    logs: tuple[tuple[str | None, Path], ...],
    length: timedelta,
    every: timedelta,
    out: Path,
    details: str,
    log_time_zone: str | None,
    max_mib: int,
    quiet: bool,
) -> None:
    """Record a support bundle: what the cluster answers in normal collection rounds, raw, and what its logs say.

    Only reads; nothing is changed on the cluster. Ctrl-C ends the recording; what is there by then can be used, and so
    can what a kill leaves. Passwords and keys that brokers tell in their settings or logs are left out. A cluster that
    asks for a login gets the access key and secret key of the environment variables OFFSETGUARD_ACCESS_KEY and
    OFFSETGUARD_SECRET_KEY.

    \b
    Examples:
      offsetguard record --namesrv 10.0.0.1:9876 --out incident-42
      offsetguard record --namesrv 10.0.0.1:9876 --logs /srv/broker-a-0/logs --for 10m --out incident-42
      offsetguard record --config config/offsetguard.yml --cluster main --logs order-app=/srv/app/logs --out incident-42
      offsetguard collect --bundle incident-42 --out snapshots        use it anywhere

    \b
    Exit code: 0 = recorded, 2 = the cluster could not be seen in any round.
    """
    name, config = parameters.chosen_cluster(namesrv, config_file, cluster)
    if details == "all":
        config = asking_everything(config, name)
    recording = Recording(
        cluster=name,
        config=config,
        credentials=parameters.credentials_from(),
        logs=logs,
        length=length,
        every=every,
        max_bytes=max_mib * 1024 * 1024,
        meta=_meta(name, log_time_zone or _brokers_time_zone(config.clusters[name]), details),
        out=out,
        tell=progress(shown=not quiet),
    )
    sys.exit(0 if asyncio.run(recording.run()) else EXIT_NOT_SEEN)


def _brokers_time_zone(cluster: Cluster) -> str:
    """Return the zone that the configuration declares for brokers' logs, else the one that brokers write."""
    return next((source.time_zone for source in cluster.logs if source.broker_name is not None), "+08:00")


def _meta(cluster: str, log_time_zone: str, details: str) -> Meta:
    try:
        return Meta.model_validate(
            {
                "cluster": cluster,
                "recorded_by": f"offsetguard {version('offsetguard')}",
                "log_time_zone": log_time_zone,
                "details": details,
            }
        )
    except ValidationError as error:
        raise click.UsageError(f"--log-time-zone: {log_time_zone!r} {error.errors()[0]['msg']}") from error


def _first_of(error: BaseException) -> BaseException:
    return _first_of(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


@dataclass
class Recording:
    """One run of the command: what is recorded, where to, and for how long."""

    cluster: str
    config: Config
    credentials: Credentials | None
    logs: tuple[tuple[str | None, Path], ...]
    length: timedelta
    every: timedelta
    max_bytes: int
    meta: Meta
    out: Path
    tell: Callable[[str], None]
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _seen_count: int = 0
    _round_count: int = 0

    async def run(self) -> bool:
        """Record until the time is over, the size is reached or somebody stops it; whether the cluster was seen."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop.set)
        settings = self.config.clusters[self.cluster]
        async with RocketMQClient.of(settings, self.credentials) as client:
            if self.logs:
                labels = await parameters.replica_labels(client, settings.name_servers, self.tell)
                folders = find_log_folders(self.logs, labels)
            else:
                folders = log_folders_of(settings.logs)
            with BundleWriter(self.out, self.meta) as bundle:
                excerpts = LogExcerpts(self.out, folders)
                for one in folders:
                    self.tell(f"logs of {one.folder} go to {one.place}")
                await self._record(client, bundle, excerpts)
        return self._seen_count > 0

    async def _record(self, client: RocketMQClient, bundle: BundleWriter, excerpts: LogExcerpts) -> None:
        settings = self.config.clusters[self.cluster]
        transport = RecordingTransport(client, bundle, settings.name_servers, settings.address_map)
        excerpts.begin()
        try:
            await self._record_rounds(transport, bundle, excerpts)
        finally:
            excerpts.copy()
            excerpts.close()
            for note in excerpts.notes:
                bundle.note(note)
                self.tell(note)
        self.tell(
            f"{self.out}: {self._round_count} rounds, {bundle.exchange_count:,} answers,"
            f" {bundle.byte_count / 1024**2:.1f} MiB, and {sum(excerpts.byte_counts.values()) / 1024**2:.1f} MiB of"
            f" {len(excerpts.byte_counts)} logs"
        )

    async def _record_rounds(self, transport: RecordingTransport, bundle: BundleWriter, excerpts: LogExcerpts) -> None:
        loop = asyncio.get_running_loop()
        begun, earlier = loop.time(), None
        ends_at = begun + self.length.total_seconds()
        while not self._stop.is_set():
            await asyncio.to_thread(excerpts.copy)
            snapshot = await self._record_round(transport, bundle, earlier, excerpts)
            if snapshot is None:
                self.tell("stopped: the last round is cut short")
                return
            earlier = snapshot
            self._tell_round(snapshot, bundle)
            if bundle.byte_count >= self.max_bytes:
                bundle.note(f"stopped after {self._round_count} rounds: --max-mib is reached")
                self.tell("stopped: --max-mib is reached")
                return
            next_at = begun + self._round_count * self.every.total_seconds()
            if next_at >= ends_at:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(max(next_at - loop.time(), 0)):
                    await self._stop.wait()

    async def _record_round(
        self, transport: RecordingTransport, bundle: BundleWriter, before: Snapshot | None, excerpts: LogExcerpts
    ) -> Snapshot | None:
        """Run one normal round; None = it was stopped."""
        now = datetime.now(UTC)
        self._round_count += 1
        bundle.begin_round(int(now.timestamp() * 1000))
        collecting = asyncio.ensure_future(
            collect_round(
                self.cluster,
                self.config,
                Interval.containing(now),
                started_at=now,
                earlier=EarlierRound(before.manifest, before.tables) if before else None,
                transport=transport,
                # what a broker is asked depends on what its log says: where a reset took its queues
                log_sources=tuple(excerpts.broker_sources(self.meta.log_time_zone, set(transport.labels.values()))),
            )
        )
        stopping = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait({collecting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not collecting.done():
            collecting.cancel()
            await asyncio.wait({collecting})
            return None
        try:
            snapshot = collecting.result()
        except ExceptionGroup as several:  # one request of many was the first that could not be written
            if unwritten := several.subgroup(BundleError):
                raise _first_of(unwritten) from None
            raise
        bundle.end_round()
        return snapshot

    def _tell_round(self, snapshot: Snapshot, bundle: BundleWriter) -> None:
        manifest = snapshot.manifest
        self._seen_count += not manifest.cluster_unseen
        if manifest.cluster_unseen and manifest.gaps:
            self.tell(manifest.gaps[-1].reason)
        self.tell(
            f"round {self._round_count}: {manifest.requests.answered:,} of {manifest.requests.asked:,} requests"
            f" answered, {manifest.gap_count} gaps, {bundle.byte_count / 1024**2:.1f} MiB"
        )
