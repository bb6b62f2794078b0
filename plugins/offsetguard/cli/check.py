"""`offsetguard check`: diagnose a live cluster now; needs nothing but this.

Of logs the newest lines are read, however large the files are. Collectors read them from where they ended the last
time; here nothing was read before, and what a broker wrote last month says nothing of now. So what was written lately
is copied to a folder of its own, which the normal reading takes.
"""

import asyncio
import glob
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from offsetguard.cli import parameters
from offsetguard.cli.finding_output import finding_document, findings_as_text, show_findings
from offsetguard.cli.output import masters_seen, progress, was_unseen
from offsetguard.collect.collector import collect_round
from offsetguard.collect.earlier_round import EarlierRound
from offsetguard.collect.snapshot import Snapshot
from offsetguard.config import Config, LogSource
from offsetguard.config.configuration import asking_everything
from offsetguard.facts.rounds import facts_of_rounds
from offsetguard.judge.registry import judge
from offsetguard.model.errors import BundleError
from offsetguard.model.intervals import Interval, zone_of
from offsetguard.sources.bundle.layout import BROKERS_LOG_TIME_ZONE, LOGS, broker_of
from offsetguard.sources.bundle.log_excerpts import LogFolder, find_log_folders
from offsetguard.sources.bundle.log_replay import log_source, moment_of
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.header import Credentials
from offsetguard.tables import GROUP_SNAPSHOTS, QUEUE_SNAPSHOTS


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """Whom to look at, how often, and which folders with logs to read."""

    cluster: str
    config: Config
    count: int
    every: timedelta
    credentials: Credentials | None
    logs: Sequence[tuple[str | None, Path]] = ()  # (whose, folder); none: the log sources of the configuration


async def take_samples(plan: SamplingPlan, tell: Callable[[str], None]) -> list[Snapshot]:
    """Look `count` times; a cluster of which no name server answers is not looked at again.

    Raises BundleError when a folder holds no logs, or nothing tells whose they are.
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    sources = await _log_sources(plan, tell)
    samples: list[Snapshot] = []
    for number in range(plan.count):
        await asyncio.sleep(begun + number * plan.every.total_seconds() - loop.time())
        tell(f"{plan.cluster}: look {number + 1} of {plan.count}")
        is_last = number == plan.count - 1
        samples.append(await _sample(plan, samples[-1] if samples else None, sources if is_last else ()))
        if samples[-1].manifest.cluster_unseen:
            break
    return samples


async def _sample(plan: SamplingPlan, before: Snapshot | None, sources: Sequence[LogSource]) -> Snapshot:
    """Take one sample; with `sources`, also at the newest lines of the logs."""
    now = datetime.now(UTC)
    since = now - timedelta(milliseconds=plan.config.judgement.log_window_ms)
    with tempfile.TemporaryDirectory(prefix="offsetguard-logs-") as folder:
        tails = await asyncio.to_thread(copy_tails, sources, since, Path(folder)) if sources else ()
        return await collect_round(
            plan.cluster,
            plan.config,
            Interval.containing(now),
            credentials=plan.credentials,
            started_at=now,
            earlier=EarlierRound(before.manifest, before.tables) if before else None,
            log_sources=tails,
        )


async def _log_sources(plan: SamplingPlan, tell: Callable[[str], None]) -> tuple[LogSource, ...]:
    if not plan.logs:
        return tuple(plan.config.clusters[plan.cluster].logs)
    settings = plan.config.clusters[plan.cluster]
    async with RocketMQClient.of(settings, plan.credentials) as client:
        labels = await parameters.replica_labels(client, settings.name_servers, tell)
    return sources_of_folders(find_log_folders(plan.logs, labels))


EXIT_FINDINGS, EXIT_NOT_SEEN = 1, 2


@click.command()
@click.option("--namesrv", metavar="HOST:PORT[;HOST:PORT]", help="The name servers, as RocketMQ's own tools take them.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Limits and clusters from this file.")
@click.option("--cluster", help="With --config: which cluster of the file (needless when it has only one).")
@click.option(
    "--group", "group_pattern", type=parameters.PATTERN, help="Only groups in whose name this expression is found."
)
@click.option("--samples", type=click.IntRange(1, 100), default=3, show_default=True, help="How often to look.")
@click.option("--every", type=parameters.DURATION, default="10s", show_default=True, help="Time between two looks.")
@click.option(
    "--logs",
    type=parameters.LOG_FOLDER,
    multiple=True,
    help="A folder with logs of a broker or client, for causes that only logs tell (locks, resets); repeatable. "
    "NAME (broker-a-0, or any name for a client) is needed only where the folder's path does not tell whose they are."
    "  [default: the log sources of --config]",
)
@parameters.details_option
@parameters.format_option("finding")
def check(
    *,
    namesrv: str | None,
    config_file: Path | None,
    cluster: str | None,
    group_pattern: re.Pattern[str] | None,
    samples: int,
    every: timedelta,
    logs: tuple[tuple[str | None, Path], ...],
    details: str,
    as_json: bool,
) -> None:
    """Diagnose a live cluster now: collect its offsets a few times, judge them, print findings, worst first.

    Only reads; nothing is changed on the cluster and nothing is kept. What moves, and how fast, shows between the
    looks: three of them, ten seconds apart, tell a slow consumer from one that stands still. What could not be looked
    at is told as "cannot tell" (with JSON: on stderr); it is neither a finding nor "all is well". Without --config the
    default limits hold (10,000 messages, 5 min). A cluster that asks for a login gets the access key and secret key of
    the environment variables OFFSETGUARD_ACCESS_KEY and OFFSETGUARD_SECRET_KEY.

    \b
    Examples:
      offsetguard check --namesrv 10.0.0.1:9876
      offsetguard check --namesrv '10.0.0.1:9876;10.0.0.2:9876' --group '^order'
      offsetguard check --namesrv 10.0.0.1:9876 --samples 7 --every 10s --logs /srv/broker-a-0/logs
      offsetguard check --config config/offsetguard.yml --cluster main
      offsetguard check --namesrv 10.0.0.1:9876 --format json | jq -r .summary

    \b
    Exit code: 0 = nothing found, 1 = findings, 2 = the cluster could not be seen.
    """
    name, config = parameters.chosen_cluster(namesrv, config_file, cluster)
    asked = asking_everything(config, name) if details == "all" else config
    plan = SamplingPlan(name, asked, samples, every, parameters.credentials_from(), logs)
    taken = asyncio.run(take_samples(plan, progress(shown=sys.stderr.isatty())))
    parameters.check_group([one.tables for one in taken], pattern=group_pattern and group_pattern.pattern)
    judgement = judge(facts_of_rounds(taken, config), config)
    findings = [one for one in judgement.findings if parameters.concerns(one.consumer_group, group_pattern)]
    unknown = [one for one in judgement.cannot_tell if parameters.concerns(one.consumer_group, group_pattern)]
    show_findings(
        [finding_document(one) for one in findings],
        findings_as_text(findings),
        unknown,
        looked_at=[_what_was_sampled(taken)],
        config_file=config_file,
        as_json=as_json,
    )
    sys.exit(EXIT_NOT_SEEN if was_unseen(taken[-1].manifest) else EXIT_FINDINGS if findings else 0)


def _what_was_sampled(samples: Sequence[Snapshot]) -> str:
    last = samples[-1]
    manifest, tables = last.manifest, last.tables
    groups = tables[GROUP_SNAPSHOTS.name].column("system_group").to_pylist().count(False)
    return (
        f"{manifest.cluster}: {len(samples)} look{'s' if len(samples) > 1 else ''}, the last at"
        f" {manifest.started_at:%Y-%m-%d %H:%M:%S} UTC: {masters_seen(manifest)},"
        f" {groups} consumer groups, {tables[QUEUE_SNAPSHOTS.name].num_rows} queues of groups,"
        f" {manifest.requests.answered} of {manifest.requests.asked} requests answered"
    )


MAX_TAIL_BYTES = 12 * 1024 * 1024  # of all logs together; below what one round reads
_STAMP = re.compile(rb"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d", re.MULTILINE)
_STAMP_BYTES = 64 * 1024
_QUARTER = timedelta(minutes=15)  # no zone is off by anything else
_LARGEST_OFFSET = timedelta(hours=14)


def sources_of_folders(folders: Sequence[LogFolder]) -> tuple[LogSource, ...]:
    """Return the folders with logs as log sources; a client's zone is told by when its log was last written."""
    return tuple(_source(one) for one in folders)


def _source(folder: LogFolder) -> LogSource:
    kind, _, name = folder.place.partition("/")
    broker = broker_of(name) if kind == LOGS else None
    zone = BROKERS_LOG_TIME_ZONE if broker else _zone_of_client(folder)
    return log_source(name, folder.folder, folder.pattern, zone, broker)


def _zone_of_client(folder: LogFolder) -> str:
    """Return the offset between the last stamp of the newest file and the time at which it was written."""
    files = sorted(folder.folder.glob(folder.pattern), key=lambda file: file.stat().st_mtime)
    for file in reversed(files):
        stamps = _STAMP.findall(_end_of(file, _STAMP_BYTES))
        stamp = moment_of(stamps[-1], UTC) if stamps else None
        if stamp is None:
            continue
        ahead = stamp - datetime.fromtimestamp(file.stat().st_mtime, UTC)
        minutes = round(ahead / _QUARTER) * 15
        if abs(ahead) <= _LARGEST_OFFSET:
            return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    return BROKERS_LOG_TIME_ZONE


def copy_tails(
    sources: Sequence[LogSource], since: datetime, folder: Path, max_bytes: int = MAX_TAIL_BYTES
) -> tuple[LogSource, ...]:
    """Copy the lines since a moment to `folder`; returns the sources as they lie there. Raises BundleError.

    Each file may give its share of `max_bytes`, the newest lines of it.
    """
    found = [(source, sorted({file for pattern in source.files for file in glob.glob(pattern)})) for source in sources]  # noqa: PTH207 as tailing
    share = max_bytes // max(1, sum(len(files) for _, files in found))
    copied = []
    for number, (source, files) in enumerate(found):
        place = folder / str(number)
        place.mkdir()
        for file in map(Path, files):
            if (lines := _lines_since(file, source, since, share)) and file.suffix == ".log":
                (place / file.name).write_bytes(lines)
        copied.append(source.model_copy(update={"files": [f"{glob.escape(str(place))}/*.log"]}) if files else source)
    return tuple(copied)


def _lines_since(file: Path, source: LogSource, since: datetime, max_bytes: int) -> bytes:
    """Return whole lines from the first one that is not older; records go on over lines without a stamp."""
    try:
        lines = _end_of(file, max_bytes).splitlines(keepends=True)
    except OSError as error:
        raise BundleError(f"--logs: {file}: cannot be read: {error.strerror}") from error
    zone = zone_of(source.time_zone)
    for place, line in enumerate(lines):
        at = moment_of(line, zone)
        if at is not None and at >= since:
            return b"".join(lines[place:])
    return b""


def _end_of(file: Path, max_bytes: int) -> bytes:
    """Return the last bytes of a file, from the start of a line on."""
    size = file.stat().st_size
    with file.open("rb") as opened:
        opened.seek(max(0, size - max_bytes))
        data = opened.read(max_bytes)
    return data if size <= max_bytes else data.partition(b"\n")[2]
