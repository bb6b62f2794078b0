"""`offsetguard replay`: what would have been found and sent over published intervals; sends nothing, writes nothing.

The intervals go through the pipeline's own judgement, in order, as if each had just been published; incidents and
messages live in a scratch database that is thrown away.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click
from sqlalchemy import Engine

from offsetguard.catalogue.text import format_moment
from offsetguard.cli.output import finding_as_json
from offsetguard.cli.parameters import format_option
from offsetguard.collect.manifest import Manifest
from offsetguard.config import Config
from offsetguard.config.file import load_config
from offsetguard.config.workspace import Workspace
from offsetguard.decide.incidents.lifecycle import subject_of
from offsetguard.decide.judge import JudgeReport, judge_interval
from offsetguard.decide.planning import PlannedMessage
from offsetguard.deliver.messages.wording import harmless
from offsetguard.facts.interval import IntervalFacts
from offsetguard.facts.published import read_interval_facts
from offsetguard.judge.registry import RULES
from offsetguard.model.incident import Incident
from offsetguard.model.intervals import Interval
from offsetguard.model.views import DigestView, MessageView
from offsetguard.store import published_intervals
from offsetguard.store.database import connect, open_database

EXIT_FINDINGS, EXIT_NOTHING_PUBLISHED = 1, 2
_TEXT_LIMIT = 2_000
_FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S"]


class _Rules(click.ParamType["frozenset[str]"]):
    """Rule ids with commas between them."""

    name = "rule,rule"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[str]:
        known = RULES
        ids = frozenset(name.strip() for name in str(value).split(",") if name.strip())
        for rule_id in sorted(ids - known.keys()):
            similar = ", ".join(get_close_matches(rule_id, known, n=3)) or "see docs/rules.md"
            self.fail(f"there is no rule {rule_id!r}; {similar}", param, ctx)
        return ids or frozenset(known)


@click.command(short_help="Say what would have been found and sent in the published past.")
@click.option("--from", "since", type=click.DateTime(_FORMATS), required=True, help="First interval, UTC.")
@click.option("--to", "until", type=click.DateTime(_FORMATS), required=True, help="Up to, and without, this; UTC.")
@click.option("--cluster", help="Name of the cluster in the configuration.  [default: all of them]")
@click.option("--rules", type=_Rules(), help="Show only what these rules find and send, a,b,c.  [default: all rules]")
@click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path),
    help="Limits, teams and routes, for trying out others.  [default: $OFFSETGUARD_CONFIG]",
)
@format_option("finding or message")
def replay(
    *,
    since: datetime,
    until: datetime,
    cluster: str | None,
    rules: frozenset[str] | None,
    config_file: Path | None,
    as_json: bool,
) -> None:
    """Say what would have been found and sent over the published past, by today's rules and configuration.

    Sends nothing and writes nothing: try out other limits, teams or rules on what really happened. It begins with no
    open incident. Reads the tables below OFFSETGUARD_HOME as they were published. JSON gives one object per line:
    every finding of every interval ("what": "finding"; "opened": whether it opens an incident), every incident that
    ends ("what": "resolved") and every message to one receiver ("what": "message").

    \b
    Examples:
      offsetguard replay --from 2026-11-20 --to 2026-11-21
      offsetguard replay --from 2026-11-21T07:00 --to 2026-11-21T09:00 --cluster main --rules lock_not_released
      offsetguard replay --from 2026-11-14 --to 2026-11-21 --config new-limits.yml --format json | jq -r .what | sort | uniq -c

    \b
    Exit code: 0 = nothing would have been found, 1 = findings, 2 = no interval is published in that time.
    """  # noqa: E501 a command to be pasted stays whole
    workspace = Workspace.from_environment()
    config = load_config(config_file or workspace.config_file)
    if cluster is not None and cluster not in config.clusters:
        raise click.UsageError(f"--cluster: there is no cluster {cluster!r}; clusters: {', '.join(config.clusters)}")
    engine = connect(workspace.database_url)  # not migrated: nothing is written
    span = since.replace(tzinfo=UTC), until.replace(tzinfo=UTC)
    names = list(config.clusters) if cluster is None else [cluster]
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="offsetguard-replay-") as folder:
        scratch = open_database(f"sqlite:///{folder}/scratch.db")
        for name in names:
            for report in replayed(_published(workspace, engine, name, *span), config, scratch):
                counts["intervals"] += 1
                for line in _as_json(report, rules, counts) if as_json else _as_text(report, rules, counts):
                    click.echo(line)
        scratch.dispose()
    click.echo(
        f"{counts['intervals']:,} intervals: {counts['finding']:,} findings, {counts['opened']:,} incidents opened,"
        f" {counts['resolved']:,} resolved, {counts['message']:,} messages; nothing was sent",
        err=as_json,
    )
    sys.exit(EXIT_NOTHING_PUBLISHED if not counts["intervals"] else EXIT_FINDINGS if counts["finding"] else 0)


def replayed(facts: Iterable[IntervalFacts], config: Config, scratch: Engine) -> Iterator[JudgeReport]:
    """Judge intervals, oldest first, each at its own end; `scratch`: a database of ours that nobody else reads."""
    for one in facts:
        yield judge_interval(scratch, one, config, now=one.interval.end)


def _published(
    workspace: Workspace, engine: Engine, cluster: str, since: datetime, until: datetime
) -> Iterator[IntervalFacts]:
    for start in published_intervals.starts(engine, cluster, since, until):
        published = published_intervals.get(engine, cluster, Interval(start))
        if published is not None:
            yield read_interval_facts(workspace, published, Manifest.from_json(published.manifest_json))


def _as_json(report: JudgeReport, rules: frozenset[str] | None, counts: Counter[str]) -> Iterator[str]:
    start = report.interval.start
    opened = {incident.subject for incident in report.opened}
    for finding in report.findings:
        if _wanted(finding.rule.id, rules):
            is_new = subject_of(finding) in opened
            counts.update(finding=1, opened=int(is_new))
            yield finding_as_json(finding, {"what": "finding", "interval_start": start, "opened": is_new})
    for incident in report.resolved:
        if _wanted(incident.subject.rule_id, rules):
            counts["resolved"] += 1
            yield json.dumps({"what": "resolved", "interval_start": start.isoformat(), **_subject(incident)})
    for message in report.messages:
        if _any_wanted(message.view, rules):
            counts["message"] += 1
            yield json.dumps({"what": "message", "interval_start": start.isoformat(), **_message(message)})


def _as_text(report: JudgeReport, rules: frozenset[str] | None, counts: Counter[str]) -> Iterator[str]:
    """Yield what changes: an incident that goes on is not told again."""
    at = format_moment(report.interval.end)
    counts["finding"] += sum(_wanted(finding.rule.id, rules) for finding in report.findings)
    for what, incidents in (("opened", report.opened), ("resolved", report.resolved)):
        for incident in incidents:
            if _wanted(incident.subject.rule_id, rules):
                counts[what] += 1
                evidence = incident.evidence
                line = f"{at}  {what:<8}  {evidence.severity.value.upper()}  {evidence.summary}"
                yield harmless(f"{line}  [{incident.subject.rule_id}, {incident.subject.cluster}]", _TEXT_LIMIT)
    for message in report.messages:
        if _any_wanted(message.view, rules):
            counts["message"] += 1
            view = message.view
            reason, title = _reason_and_title(view)
            whom = f"{message.channel.value} to {message.receiver} (team {view.team}): {title}"
            yield harmless(f"{at}  message   {reason}: {whom}  [{view.rule_id}]", _TEXT_LIMIT)


def _wanted(rule_id: str, rules: frozenset[str] | None) -> bool:
    return rules is None or rule_id in rules


def _any_wanted(view: MessageView | DigestView, rules: frozenset[str] | None) -> bool:
    causes = [one.rule_id for one in view.sections] if isinstance(view, DigestView) else [view.rule_id]
    return any(_wanted(rule_id, rules) for rule_id in causes)


def _reason_and_title(view: MessageView | DigestView) -> tuple[str, str]:
    if isinstance(view, DigestView):
        return "digest", "; ".join(f"{one.title} ({one.reason.value})" for one in view.sections)
    return view.reason.value, view.title


def _subject(incident: Incident) -> dict[str, Any]:
    subject = incident.subject
    return {
        "cluster": subject.cluster,
        "consumer_group": subject.consumer_group,
        "topic": subject.topic,
        "rule": subject.rule_id,
        "severity": incident.evidence.severity.value,
        "summary": incident.evidence.summary,
        "opened_at": incident.opened_at.isoformat(),
        "resolution": incident.resolution,
    }


def _message(message: PlannedMessage) -> dict[str, Any]:
    view = message.view
    reason, title = _reason_and_title(view)
    return {
        "cluster": view.cluster,
        "rule": view.rule_id,
        "severity": view.severity,
        "team": view.team,
        "channel": message.channel.value,
        "receiver": message.receiver,
        "reason": reason,
        "title": title,
        "firing": [one.summary for one in view.firing],
        "resolved": [one.summary for one in view.resolved],
    }
