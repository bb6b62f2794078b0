"""`offsetguard diagnose`: judge a support bundle, offline: what went wrong while it was recorded?"""

import asyncio
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from offsetguard.catalogue.text import format_moment
from offsetguard.cli import parameters
from offsetguard.cli.finding_output import entry_of, finding_document, findings_as_text, in_entries, show_findings
from offsetguard.collect.collector import snapshots_of_bundle
from offsetguard.collect.manifest import Outcome
from offsetguard.collect.snapshot import Snapshot
from offsetguard.config import Config
from offsetguard.config.file import load_config
from offsetguard.judge.diagnosis import Diagnosed, diagnose_rounds
from offsetguard.model.verdicts import CannotTell
from offsetguard.sources.bundle.reader import Bundle, name_servers_of, open_bundle

EXIT_FINDINGS, EXIT_NOT_SEEN = 1, 2


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Limits from this file.")
@click.option("--cluster", help="The cluster's name in --config, and in what is printed.  [default: the bundle's]")
@click.option(
    "--group", "group_pattern", type=parameters.PATTERN, help="Only groups in whose name this expression is found."
)
@parameters.format_option("finding")
def diagnose(
    *,
    bundle: Path,
    config_file: Path | None,
    cluster: str | None,
    group_pattern: re.Pattern[str] | None,
    as_json: bool,
) -> None:
    """Judge a support bundle, recorded by `offsetguard record` or laid out like one: findings, worst first.

    Every recorded round runs through the normal collector, the logs through the normal patterns, and the rules judge
    after every round. "Now" is the bundle's own end. What was wrong in between and is over is told too ("over": true,
    with last_found_at). Files that do not belong to a bundle are ignored; what the recorder did not ask for makes rules
    "cannot tell" (with JSON: on stderr).

    \b
    Examples:
      offsetguard diagnose incident-42
      offsetguard diagnose incident-42 --group '^order'
      offsetguard diagnose incident-42 --format json | jq '{rule, summary, over}'
      offsetguard diagnose incident-42 --config config/offsetguard.yml --cluster main

    \b
    Exit code: 0 = nothing found, 1 = findings, 2 = no bundle, or it shows nothing of the cluster.
    """
    shown = shown_by(bundle, config_file=config_file, cluster=cluster, group_pattern=group_pattern)
    documents = [document_of(one) for one in shown.found]
    show_findings(
        documents,
        _as_text(shown.found),
        shown.cannot_tell,
        looked_at=shown.looked_at,
        config_file=config_file,
        as_json=as_json,
    )
    sys.exit(EXIT_NOT_SEEN if shown.unseen else EXIT_FINDINGS if shown.found else 0)


@dataclass(frozen=True, slots=True)
class Shown:
    """What a bundle shows of the groups that are asked for."""

    found: Sequence[Diagnosed]  # worst first
    cannot_tell: Sequence[CannotTell]
    looked_at: Sequence[str]  # what was read, and what is wrong with the bundle
    unseen: bool  # nothing of the cluster was


def shown_by(
    bundle: Path,
    *,
    config_file: Path | None = None,
    cluster: str | None = None,
    group_pattern: re.Pattern[str] | None = None,
) -> Shown:
    """Judge a bundle; raises BundleError, and UsageError where it has no such group or the file no such cluster."""
    opened = open_bundle(bundle)
    name = parameters.safe_name(cluster or opened.meta.cluster or bundle.resolve().name)
    config = _config(opened, name, config_file, cluster)
    rounds = asyncio.run(snapshots_of_bundle(opened, name, config))
    parameters.check_group([one.tables for one in rounds], pattern=group_pattern and group_pattern.pattern)
    result = diagnose_rounds(rounds, config, end=_end_of(opened))
    return Shown(
        [one for one in result.diagnosed if parameters.concerns(one.finding.consumer_group, group_pattern)],
        [one for one in result.cannot_tell if parameters.concerns(one.consumer_group, group_pattern)],
        list(_what_was_read(opened, rounds)),
        all(one.manifest.cluster_unseen for one in rounds),
    )


def _config(bundle: Bundle, name: str, config_file: Path | None, cluster: str | None) -> Config:
    """Return the file's configuration if it knows the cluster, else the default limits.

    Nobody is asked at its name servers; commands for the reader name them.
    """
    if config_file is None:
        try:
            return parameters.default_config({name: name_servers_of(bundle)})
        except ValidationError:  # nobody says, or what cannot be an address
            return parameters.default_config({name: ["NAME-SERVER:9876"]})
    config = load_config(config_file)
    if cluster is not None or name not in config.clusters:
        parameters.check_is_known("--cluster", name, config.clusters)
    return config


def _end_of(bundle: Bundle) -> datetime:
    """Return when the last answer was recorded."""
    return datetime.fromtimestamp(max(one.t_ms for one in bundle.exchanges) / 1000, UTC)


def _what_was_read(bundle: Bundle, rounds: Sequence[Snapshot]) -> Iterator[str]:
    first, last = rounds[0].manifest, rounds[-1].manifest
    missing = sum(one.manifest.requests.not_recorded for one in rounds)
    yield (
        f"{last.cluster}: {len(rounds)} round{'s' if len(rounds) > 1 else ''} from {format_moment(first.started_at)} to"
        f" {format_moment(last.finished_at)}, {len(bundle.exchanges):,} recorded answers; {missing:,} more would have"
        f" been asked ({Outcome.NOT_RECORDED})"
    )
    yield from bundle.notes


def document_of(one: Diagnosed) -> dict[str, Any]:
    """Return a finding for JSON, with when it was true."""
    spell = {"first_found_at": one.first_found_at, "last_found_at": one.last_found_at, "over": one.over}
    return finding_document(one.finding) | spell


def _as_text(found: Sequence[Diagnosed]) -> Iterator[str]:
    for entry in in_entries(found, lambda one: (common := entry_of(one.finding)) and (common, one.over)):
        if entry[0].over:
            began, ended = min(one.first_found_at for one in entry), max(one.last_found_at for one in entry)
            yield f"Over; found from {format_moment(began)} to {format_moment(ended)}:"
        yield from findings_as_text([one.finding for one in entry])
