"""`offsetguard collect`: collect one snapshot of clusters, and keep it."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click

from offsetguard.cli.output import json_line, masters_seen, progress, was_unseen
from offsetguard.cli.parameters import chosen_clusters, credentials_from, default_config, safe_name
from offsetguard.collect.collector import collect_cluster
from offsetguard.collect.landing import snapshot_folder
from offsetguard.collect.manifest import Gap, Manifest, Outcome
from offsetguard.config import Config
from offsetguard.config.configuration import asking_everything
from offsetguard.config.file import load_config
from offsetguard.config.workspace import Workspace
from offsetguard.deliver.messages.wording import harmless
from offsetguard.model.errors import OffsetGuardError
from offsetguard.model.intervals import Interval
from offsetguard.sources.bundle.replay import RecordedRound, rounds_of_bundle
from offsetguard.sources.rocketmq.header import Credentials
from offsetguard.sources.state_files.transport import rounds_of_state_folder

EXIT_PARTIAL, EXIT_NOT_SEEN = 1, 2
_TEXT_LIMIT = 500


@click.command()
@click.option("--namesrv", metavar="HOST:PORT[;HOST:PORT]", help="The name servers, as RocketMQ's own tools take them.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Clusters and limits from this file.")
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    help="With --config: a cluster of the file, or `all`; repeatable. With --bundle and --state-dir: its name.",
)
@click.option(
    "--bundle", type=click.Path(path_type=Path), help="Collect what a support bundle holds; ask no cluster at all."
)
@click.option(
    "--state-dir", type=click.Path(path_type=Path), help="Collect from the files of brokers that cannot be asked."
)
@click.option(
    "--at",
    type=click.DateTime(["%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"]),
    help="With --bundle: only the round nearest to this moment, UTC.  [default: the last round of every minute]",
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder to land in.  [default: $OFFSETGUARD_HOME/landing]")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def collect(
    *,
    namesrv: str | None,
    config_file: Path | None,
    clusters: tuple[str, ...],
    bundle: Path | None,
    state_dir: Path | None,
    at: datetime | None,
    out: Path | None,
    quiet: bool,
) -> None:
    """Collect one snapshot: offsets of all groups, their members, brokers; details of groups in trouble.

    Only reads; nothing is changed on the cluster. All clusters are asked at the same time. What is collected lies in
    OUT/<cluster>/<minute>/: one Parquet file per table, manifest.json with what was asked and what was not seen, and
    gaps.jsonl with everything that is missing, one by one. A minute that has landed already is not collected again.
    The next snapshot goes on where the newest one in OUT ended (moved offsets, log lines, growth of retry topics).

    A cluster that asks for a login gets the access key and secret key of the environment variables
    OFFSETGUARD_ACCESS_KEY and OFFSETGUARD_SECRET_KEY. Prints one JSON line for each snapshot.

    \b
    Examples:
      offsetguard collect --namesrv 10.0.0.1:9876 --out snapshots
      offsetguard collect --config config/offsetguard.yml --cluster main
      offsetguard collect --config config/offsetguard.yml --cluster all | jq '{cluster, gaps, seconds}'
      offsetguard collect --bundle incident-42 --out snapshots
      offsetguard collect --state-dir /mnt/broker-a/store --cluster main --out snapshots

    \b
    Exit code: 0 = everything was seen, 1 = partly (see gaps), 2 = a cluster could not be seen at all.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # gives back what is free; a million rows need it
    landing_folder = out or Workspace.from_environment().landing_folder
    tell = progress(shown=not quiet)
    if bundle is not None or state_dir is not None:
        if namesrv is not None or len(clusters) > 1 or (bundle is not None and state_dir is not None):
            raise click.UsageError("--bundle and --state-dir stand alone; --cluster may say which cluster they are of")
        if at is not None and bundle is None:
            raise click.UsageError("--at chooses a round of --bundle; state files know one moment only")
        cluster = clusters[0] if clusters else None
        rounds = _recorded_rounds(bundle, state_dir, at and at.replace(tzinfo=UTC), cluster)
        collecting = _collect_recorded(rounds, cluster, config_file, landing_folder, tell)
    else:
        names, config = chosen_clusters(namesrv, config_file, clusters)
        collecting = _collect_live(names, config, landing_folder, credentials_from(), tell)
    sys.exit(max(asyncio.run(collecting), default=EXIT_NOT_SEEN))


async def _collect_live(
    names: Sequence[str],
    config: Config,
    landing_folder: Path,
    credentials: Credentials | None,
    tell: Callable[[str], None],
) -> list[int]:
    """Collect all clusters at once; returns their exit codes. A cluster that fails does not stop the others."""
    now = datetime.now(UTC)
    interval = Interval.containing(now)

    async def one(name: str) -> int:
        tell(f"{name}: asking {', '.join(config.clusters[name].name_servers)}")
        begun = time.monotonic()
        try:
            manifest = await collect_cluster(
                name, config, interval, landing_folder, credentials=credentials, started_at=now
            )
        except OffsetGuardError as error:
            click.echo(f"offsetguard: {name}: {error}", err=True)
            return EXIT_NOT_SEEN
        return _report(snapshot_folder(landing_folder, name, interval), manifest, time.monotonic() - begun, tell)

    return list(await asyncio.gather(*map(one, names)))


def _recorded_rounds(
    bundle: Path | None, state_dir: Path | None, at: datetime | None, cluster: str | None
) -> Iterator[RecordedRound]:
    if bundle is not None:
        return rounds_of_bundle(bundle, at)
    assert state_dir is not None  # noqa: S101 one of the two is given
    return rounds_of_state_folder(state_dir, cluster or state_dir.resolve().name, datetime.now(UTC))


async def _collect_recorded(
    rounds: Iterator[RecordedRound],
    cluster: str | None,
    config_file: Path | None,
    landing_folder: Path,
    tell: Callable[[str], None],
) -> list[int]:
    """Collect rounds that were recorded, oldest first, since each goes on where the one before ended."""
    codes = []
    for one in rounds:
        name = safe_name(cluster or one.cluster)
        config = _config_with(name, config_file)
        if one.details == "all":
            config = asking_everything(config, name)
        begun = time.monotonic()
        manifest = await collect_cluster(
            name,
            config,
            one.interval,
            landing_folder,
            started_at=one.started_at,
            transport=one.transport,
            origin=one.origin,
            damages=one.damages,
            log_sources=one.log_sources,
        )
        folder = snapshot_folder(landing_folder, name, one.interval)
        codes.append(_report(folder, manifest, time.monotonic() - begun, tell))
    return codes


def _config_with(cluster: str, config_file: Path | None) -> Config:
    """Return the file's configuration if it knows the cluster, else the defaults."""
    if config_file is not None:
        config = load_config(config_file)
        if cluster in config.clusters:
            return config
    return default_config({cluster: ["127.0.0.1:9876"]})  # no one asks there


_SHOWN_REASONS = 5


def _not_seen(gaps: Sequence[Gap]) -> Iterator[str]:
    """Yield a line for each reason, damage first; what state files or a bundle do not hold is one of them."""
    whats: dict[tuple[bool, str], list[str]] = {}
    for gap in gaps:
        reason = gap.reason.removeprefix(f"{gap.address}: ").removeprefix(f"{gap.what}: ")
        damaged = gap.outcome is Outcome.UNDECODABLE
        whats.setdefault((not damaged, reason), []).append(f"{gap.address}:" if damaged else f"{gap.what}:")
    for (_, reason), some in sorted(whats.items(), key=lambda one: one[0][0])[:_SHOWN_REASONS]:
        yield f"{some[0][:-1]} and {len(some) - 1} more: {reason}" if len(some) > 1 else f"{some[0]} {reason}"


def _report(folder: Path, manifest: Manifest, seconds: float, tell: Callable[[str], None]) -> int:
    """Print what became of a cluster's round, which lies in `folder`; returns the exit code that it asks for."""
    document = {
        "cluster": manifest.cluster,
        "interval": Interval(manifest.interval_start).name,
        "folder": str(folder),
        "complete": manifest.complete,
        "rows": manifest.row_counts,
        "requests_asked": manifest.requests.asked,
        "requests_answered": manifest.requests.answered,
        "gaps": manifest.gap_count,
        "gap_kinds": manifest.gap_kinds,
        "not_asked": {one.what: one.count for one in manifest.not_asked},
        "unseen_brokers": list(manifest.unseen_broker_names),
        "seconds": round(seconds, 3),
    }
    click.echo(json_line(document))  # fields are only ever added
    tell(
        f"{manifest.cluster}: {masters_seen(manifest)},"
        f" {manifest.row_counts.get('queue_snapshots', 0):,} offsets,"
        f" {manifest.requests.answered:,} of {manifest.requests.asked:,} requests answered,"
        f" {manifest.gap_count} gaps, {seconds:.2f} s: {folder}"
    )
    for line in _not_seen(manifest.gaps):
        tell(f"{manifest.cluster}: not seen: {harmless(line, _TEXT_LIMIT)}")
    return EXIT_NOT_SEEN if was_unseen(manifest) else 0 if manifest.complete else EXIT_PARTIAL
