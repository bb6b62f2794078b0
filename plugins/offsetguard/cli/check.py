"""`offsetguard check`: collect, judge and print, with neither Airflow nor Spark, and without keeping anything."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from offsetguard.cli.durations import Duration
from offsetguard.cli.output import finding_as_json, findings_as_text, wants_json
from offsetguard.cli.which_clusters import chosen_clusters, credentials_from
from offsetguard.collect.collector import collect_snapshot
from offsetguard.collect.earlier_round import EarlierRound
from offsetguard.intervals import Interval
from offsetguard.rules.registry import find_all
from offsetguard.snapshot_facts import facts_from_snapshot
from offsetguard.tables import GROUP_SNAPSHOTS, OFFSET_MOVES, QUEUE_SNAPSHOTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    import pyarrow as pa

    from offsetguard.collect.manifest import Manifest
    from offsetguard.config import Config
    from offsetguard.rocketmq.signing import Credentials
    from offsetguard.rules.rule import Finding

EXIT_FINDINGS, EXIT_NOT_SEEN = 1, 2


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at the cluster."""

    manifest: Manifest
    tables: Mapping[str, pa.Table]


class _Pattern(click.ParamType["re.Pattern[str]"]):
    name = "regular expression"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> re.Pattern[str]:
        try:
            return re.compile(str(value))
        except re.error as error:
            self.fail(f"{value!r} is no regular expression: {error}", param, ctx)


@click.command()
@click.option("--namesrv", metavar="HOST:PORT[;HOST:PORT]", help="The name servers, as RocketMQ's own tools take them.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Limits and clusters from this file.")
@click.option("--cluster", help="With --config: which cluster of the file (needless when it has only one).")
@click.option("--group", "group_pattern", type=_Pattern(), help="Only groups in whose name this expression is found.")
@click.option("--samples", type=click.IntRange(1, 100), default=1, show_default=True, help="How often to look.")
@click.option("--every", type=Duration(), default="10s", show_default=True, help="Time between two looks.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["auto", "table", "json"]),
    default="auto",
    show_default=True,
    help="auto: a table on a terminal, JSON (one finding per line) elsewhere.",
)
def check(
    *,
    namesrv: str | None,
    config_file: Path | None,
    cluster: str | None,
    group_pattern: re.Pattern[str] | None,
    samples: int,
    every: timedelta,
    output_format: str,
) -> None:
    """Diagnose a live cluster now: collect its offsets, judge them, print findings, worst first.

    Only reads; nothing is changed on the cluster and nothing is kept. Without --config the default limits hold
    (10,000 messages, 5 min). The last look is judged; offset moves of all looks count. A cluster that asks for a login
    gets the access key and secret key of the environment variables OFFSETGUARD_ACCESS_KEY and OFFSETGUARD_SECRET_KEY.

    \b
    Examples:
      offsetguard check --namesrv 10.0.0.1:9876
      offsetguard check --namesrv '10.0.0.1:9876;10.0.0.2:9876' --group '^order'
      offsetguard check --namesrv 10.0.0.1:9876 --samples 3 --every 10s
      offsetguard check --config config/offsetguard.yml --cluster main
      offsetguard check --namesrv 10.0.0.1:9876 --format json | jq -r .summary

    \b
    Exit code: 0 = nothing found, 1 = findings, 2 = the cluster could not be seen.
    """  # noqa: D301 click wants the character itself
    (name,), config = chosen_clusters(namesrv, config_file, [cluster] if cluster is not None else [])
    taken = asyncio.run(take_samples(name, config, samples, every, credentials_from(os.environ)))
    last = taken[-1]
    findings = judge(config, taken, group_pattern)
    as_json = wants_json(output_format)
    click.echo(_what_was_sampled(taken), err=as_json)
    for line in map(finding_as_json, findings) if as_json else findings_as_text(findings):
        click.echo(line)
    if not as_json and not findings:
        click.echo("Nothing found.")
    sys.exit(EXIT_NOT_SEEN if was_unseen(last.manifest) else EXIT_FINDINGS if findings else 0)


async def take_samples(
    cluster: str, config: Config, count: int, every: timedelta, credentials: Credentials | None
) -> list[Sample]:
    """Look `count` times; each look goes on with the offset moves where the one before ended."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    samples: list[Sample] = []
    for number in range(count):
        await asyncio.sleep(begun + number * every.total_seconds() - loop.time())
        now = datetime.now(UTC)
        earlier = _as_earlier(samples[-1]) if samples else None
        manifest, tables = await collect_snapshot(
            cluster, config, Interval.containing(now), credentials=credentials, started_at=now, earlier=earlier
        )
        samples.append(Sample(manifest, tables))
    return samples


def _as_earlier(sample: Sample) -> EarlierRound:
    return EarlierRound(sample.manifest, sample.tables)


def judge(config: Config, samples: Sequence[Sample], group_pattern: re.Pattern[str] | None) -> list[Finding]:
    """Return the findings of the last sample, worst first; findings about the whole cluster always stay."""
    last = samples[-1]
    moves = [row for one in samples for row in one.tables[OFFSET_MOVES.name].to_pylist()]
    tables = {**last.tables, OFFSET_MOVES.name: moves}
    interval = Interval(last.manifest.interval_start)
    facts = facts_from_snapshot(last.manifest, tables, config, interval, now=last.manifest.finished_at)
    return [
        finding
        for finding in find_all(facts, config)
        if group_pattern is None or finding.consumer_group is None or group_pattern.search(finding.consumer_group)
    ]


def was_unseen(manifest: Manifest) -> bool:
    """Whether nothing can be said: no name server answered, or no master gave its offsets."""
    return manifest.cluster_unseen or set(manifest.master_broker_names) <= set(manifest.unseen_broker_names)


def _what_was_sampled(samples: Sequence[Sample]) -> str:
    last = samples[-1]
    manifest, tables = last.manifest, last.tables
    groups = tables[GROUP_SNAPSHOTS.name].column("system_group").to_pylist().count(False)
    seen = len(manifest.master_broker_names) - len(manifest.unseen_broker_names)
    return (
        f"{manifest.cluster}: {len(samples)} look{'s' if len(samples) > 1 else ''}, the last at"
        f" {manifest.started_at:%Y-%m-%d %H:%M:%S} UTC: {seen} of {len(manifest.master_broker_names)} masters,"
        f" {groups} consumer groups, {tables[QUEUE_SNAPSHOTS.name].num_rows} queues of groups,"
        f" {manifest.requests.answered} of {manifest.requests.asked} requests answered"
    )
