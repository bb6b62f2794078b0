"""`offsetguard record`: a support bundle: what a cluster answers for some minutes, raw, and excerpts of its logs."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import click

from offsetguard.cli.asking_everything import asking_everything
from offsetguard.cli.durations import Duration
from offsetguard.cli.which_clusters import chosen_clusters, credentials_from
from offsetguard.errors import RocketMQError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offsetguard.bundle.layout import Meta
    from offsetguard.bundle.log_excerpts import LogExcerpts
    from offsetguard.bundle.recording import RecordingAsker
    from offsetguard.bundle.writer import BundleWriter
    from offsetguard.collect.snapshot import Snapshot
    from offsetguard.config import Cluster, Config
    from offsetguard.rocketmq.client import RocketMQClient
    from offsetguard.rocketmq.signing import Credentials

EXIT_NOT_SEEN = 2


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is recorded, for how long."""

    cluster: str
    config: Config
    credentials: Credentials | None
    logs: tuple[tuple[str | None, Path], ...]
    length: timedelta
    every: timedelta
    max_bytes: int


class _LogOption(click.ParamType["tuple[str | None, Path]"]):
    name = "[NAME=]DIR"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str | None, Path]:
        name, equals, folder = str(value).rpartition("=")
        path = Path(folder)
        if not path.is_dir():
            self.fail(f"{folder}: is not a folder; write DIR, or NAME=DIR such as broker-a-0=/srv/logs", param, ctx)
        return (name or None) if equals else None, path


@click.command()
@click.option("--namesrv", metavar="HOST:PORT[;HOST:PORT]", help="The name servers, as RocketMQ's own tools take them.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Clusters from this file.")
@click.option("--cluster", help="With --config: which cluster of the file (needless when it has only one).")
@click.option(
    "--logs",
    type=_LogOption(),
    multiple=True,
    help="A folder with logs of a broker or client; repeatable. NAME (broker-a-0, or any name for a client) is needed "
    "only where the folder's path does not tell whose they are.  [default: the log sources of --config]",
)
@click.option("--for", "length", type=Duration(), default="5m", show_default=True, help="How long.")
@click.option("--every", type=Duration(), default="10s", show_default=True, help="Time between two rounds.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The bundle: a folder that does not exist.")
@click.option(
    "--details",
    type=click.Choice(["all", "suspects"]),
    default="all",
    show_default=True,
    help="Whose details are asked: of all groups and clients, or, on a large cluster, of those that lag.",
)
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
    """  # noqa: D301 click wants the character itself
    (name, *_), config = chosen_clusters(namesrv, config_file, (cluster,) if cluster else ())
    if details == "all":
        config = asking_everything(config, name)
    plan = _Plan(
        cluster=name,
        config=config,
        credentials=credentials_from(os.environ),
        logs=logs,
        length=length,
        every=every,
        max_bytes=max_mib * 1024 * 1024,
    )
    seen = asyncio.run(
        _Recording(
            plan, _meta(name, log_time_zone or _brokers_time_zone(config.clusters[name]), details), out, quiet=quiet
        ).run()
    )
    sys.exit(0 if seen else EXIT_NOT_SEEN)


def _brokers_time_zone(cluster: Cluster) -> str:
    """Return the zone that the configuration declares for brokers' logs, else the one that brokers write."""
    return next((source.time_zone for source in cluster.logs if source.broker_name is not None), "+08:00")


def _meta(cluster: str, log_time_zone: str, details: str) -> Meta:
    from pydantic import ValidationError  # noqa: PLC0415 --help does without

    from offsetguard.bundle.layout import Meta  # noqa: PLC0415 as above

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


class _Recording:
    """One run of the command."""

    def __init__(self, plan: _Plan, meta: Meta, out: Path, *, quiet: bool) -> None:
        self._plan = plan
        self._meta = meta
        self._out = out
        self._quiet = quiet
        self._stop = asyncio.Event()
        self._seen_count = 0
        self._round_count = 0

    async def run(self) -> bool:
        """Record until the time is over, the size is reached or somebody stops it; whether the cluster was seen."""
        from offsetguard.bundle.log_excerpts import (  # noqa: PLC0415 --help does without
            LogExcerpts,
            find_log_folders,
            log_folders_of,
        )
        from offsetguard.bundle.writer import BundleWriter  # noqa: PLC0415 as above
        from offsetguard.rocketmq.client import RocketMQClient  # noqa: PLC0415 as above

        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop.set)
        plan, settings = self._plan, self._plan.config.clusters[self._plan.cluster]
        async with RocketMQClient(
            settings.request_timeout_ms,
            plan.credentials,
            settings.collection.max_in_flight,
            settings.collection.max_requests_per_s,
            settings.tls,
        ) as client:
            if plan.logs:
                folders = find_log_folders(plan.logs, await self._replicas(client))
            else:
                folders = log_folders_of(settings.logs)
            with BundleWriter(self._out, self._meta) as bundle:
                excerpts = LogExcerpts(self._out, folders)
                for one in folders:
                    self._tell(f"logs of {one.folder} go to {one.place}")
                await self._record(client, bundle, excerpts)
        return self._seen_count > 0

    async def _record(self, client: RocketMQClient, bundle: BundleWriter, excerpts: LogExcerpts) -> None:
        from offsetguard.bundle.recording import RecordingAsker  # noqa: PLC0415 --help does without

        settings = self._plan.config.clusters[self._plan.cluster]
        asker = RecordingAsker(client, bundle, settings.name_servers, settings.address_map)
        excerpts.begin()
        try:
            await self._record_rounds(asker, bundle, excerpts)
        finally:
            excerpts.copy()
            excerpts.close()
            for note in excerpts.notes:
                bundle.note(note)
                self._tell(note)
        self._tell(
            f"{self._out}: {self._round_count} rounds, {bundle.exchange_count:,} answers,"
            f" {bundle.byte_count / 1024**2:.1f} MiB, and {sum(excerpts.byte_counts.values()) / 1024**2:.1f} MiB of"
            f" {len(excerpts.byte_counts)} logs"
        )

    async def _replicas(self, client: RocketMQClient) -> Sequence[str]:
        """Return the names that log folders may have, `broker-a-0`; none when no name server answers."""
        from offsetguard.rocketmq.requests import GetBrokerClusterInfo  # noqa: PLC0415 --help does without

        for address in self._plan.config.clusters[self._plan.cluster].name_servers:
            try:
                info = await client.call(address, GetBrokerClusterInfo())
            except RocketMQError as error:
                self._tell(str(error))
                continue
            return [f"{one.broker_name}-{broker_id}" for one in info.brokers for broker_id in one.addresses]
        return ()

    async def _record_rounds(self, asker: RecordingAsker, bundle: BundleWriter, excerpts: LogExcerpts) -> None:
        loop = asyncio.get_running_loop()
        begun, earlier = loop.time(), None
        ends_at = begun + self._plan.length.total_seconds()
        while not self._stop.is_set():
            snapshot = await self._record_round(asker, bundle, earlier)
            await asyncio.to_thread(excerpts.copy)
            if snapshot is None:
                self._tell("stopped: the last round is cut short")
                return
            earlier = snapshot
            self._tell_round(snapshot, bundle)
            if bundle.byte_count >= self._plan.max_bytes:
                bundle.note(f"stopped after {self._round_count} rounds: --max-mib is reached")
                self._tell("stopped: --max-mib is reached")
                return
            next_at = begun + self._round_count * self._plan.every.total_seconds()
            if next_at >= ends_at:
                return
            await self._wait(next_at - loop.time())

    async def _record_round(
        self, asker: RecordingAsker, bundle: BundleWriter, before: Snapshot | None
    ) -> Snapshot | None:
        """Run one normal round; None = it was stopped."""
        from offsetguard.collect.collector import collect_round  # noqa: PLC0415 imports pyarrow
        from offsetguard.collect.earlier_round import EarlierRound  # noqa: PLC0415 as above
        from offsetguard.intervals import Interval  # noqa: PLC0415 as above

        now = datetime.now(UTC)
        self._round_count += 1
        bundle.begin_round(int(now.timestamp() * 1000))
        collecting = asyncio.ensure_future(
            collect_round(
                self._plan.cluster,
                self._plan.config,
                Interval.containing(now),
                started_at=now,
                earlier=EarlierRound(before.manifest, before.tables) if before else None,
                asker=asker,
            )
        )
        stopping = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait({collecting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not collecting.done():
            collecting.cancel()
            await asyncio.wait({collecting})
            return None
        snapshot = collecting.result()
        bundle.end_round()
        return snapshot

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(max(seconds, 0)):
                await self._stop.wait()
        except TimeoutError:
            pass

    def _tell_round(self, snapshot: Snapshot, bundle: BundleWriter) -> None:
        manifest = snapshot.manifest
        self._seen_count += not manifest.cluster_unseen
        if manifest.cluster_unseen and manifest.gaps:
            self._tell(manifest.gaps[-1].reason)
        self._tell(
            f"round {self._round_count}: {manifest.requests.answered:,} of {manifest.requests.asked:,} requests"
            f" answered, {manifest.gap_count} gaps, {bundle.byte_count / 1024**2:.1f} MiB"
        )

    def _tell(self, text: str) -> None:
        if not self._quiet:
            click.echo(text, err=True)
