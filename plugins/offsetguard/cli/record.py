"""`offsetguard record`: a support bundle: what a cluster answers for some minutes, raw, and excerpts of its logs."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

import click
from pydantic import ValidationError

from offsetguard.cli.output import Duration
from offsetguard.cli.parameters import LogFolderOption, details_option
from offsetguard.cli.record_rounds import Recording, RecordingPlan
from offsetguard.cli.which_clusters import chosen_clusters, credentials_from
from offsetguard.config import Cluster
from offsetguard.config.configuration import asking_everything
from offsetguard.sources.bundle.layout import Meta

EXIT_NOT_SEEN = 2


@click.command()
@click.option("--namesrv", metavar="HOST:PORT[;HOST:PORT]", help="The name servers, as RocketMQ's own tools take them.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Clusters from this file.")
@click.option("--cluster", help="With --config: which cluster of the file (needless when it has only one).")
@click.option(
    "--logs",
    type=LogFolderOption(),
    multiple=True,
    help="A folder with logs of a broker or client; repeatable. NAME (broker-a-0, or any name for a client) is needed "
    "only where the folder's path does not tell whose they are.  [default: the log sources of --config]",
)
@click.option("--for", "length", type=Duration(), default="5m", show_default=True, help="How long.")
@click.option("--every", type=Duration(), default="10s", show_default=True, help="Time between two rounds.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The bundle: a folder that does not exist.")
@details_option()
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
    plan = RecordingPlan(
        cluster=name,
        config=config,
        credentials=credentials_from(os.environ),
        logs=logs,
        length=length,
        every=every,
        max_bytes=max_mib * 1024 * 1024,
    )
    meta = _meta(name, log_time_zone or _brokers_time_zone(config.clusters[name]), details)
    seen = asyncio.run(Recording(plan, meta, out, quiet=quiet).run())
    sys.exit(0 if seen else EXIT_NOT_SEEN)


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
