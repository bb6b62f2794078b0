"""`offsetguard replay`: say what would have been found and sent in the published past.

The intervals go through the pipeline's own judgement, in order, as if each had just been published; incidents and
messages live in a scratch database that is thrown away.
"""

import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from sqlalchemy import Engine

from offsetguard.catalogue.text import Language, format_moment
from offsetguard.cli.finding_output import finding_document
from offsetguard.cli.output import show
from offsetguard.cli.parameters import Read, check_is_known, format_option, refuse_unknown
from offsetguard.collect.manifest import Manifest
from offsetguard.config.file import load_config
from offsetguard.config.workspace import Workspace
from offsetguard.decide.incidents.lifecycle import subject_of
from offsetguard.decide.judge import JudgeReport, judge_interval
from offsetguard.decide.planning import PlannedMessage
from offsetguard.facts.interval import IntervalFacts
from offsetguard.facts.published import read_interval_facts
from offsetguard.judge.incident_words import IncidentWords
from offsetguard.judge.registry import RULES, rule_title
from offsetguard.model.incident import Incident
from offsetguard.model.intervals import Interval
from offsetguard.model.views import DigestView, MessageView
from offsetguard.store import published_intervals
from offsetguard.store.database import open_database, our_database

EXIT_FINDINGS, EXIT_NOTHING_PUBLISHED = 1, 2
_FORMATS = ["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S"]


def _rules(text: str) -> frozenset[str] | None:
    ids = frozenset(name.strip() for name in text.split(",")) - {""}
    refuse_unknown(sorted(ids), RULES, "there is no rule", "docs/rules.md")
    return ids or None


@click.command()
@click.option("--from", "since", type=click.DateTime(_FORMATS), required=True, help="First interval, UTC.")
@click.option("--to", "until", type=click.DateTime(_FORMATS), required=True, help="Up to, and without, this; UTC.")
@click.option("--cluster", help="Name of the cluster in the configuration.  [default: all of them]")
@click.option(
    "--rules",
    type=Read("rule,rule", _rules),
    help="Show only what these rules find and send, a,b,c.  [default: all rules]",
)
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
    if cluster is not None:
        check_is_known("--cluster", cluster, config.clusters)
    engine = our_database()
    span = since.replace(tzinfo=UTC), until.replace(tzinfo=UTC)
    names = list(config.clusters) if cluster is None else [cluster]
    _check_span(engine, names, *span)
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="offsetguard-replay-") as folder:
        scratch = open_database(f"sqlite:///{folder}/scratch.db")
        for name in names:
            for facts in _published(workspace, engine, name, *span):
                report = judge_interval(scratch, facts, config, now=facts.interval.end)
                shown = report if rules is None else _only(report, rules)
                counts.update(
                    intervals=1,
                    finding=len(shown.findings),
                    opened=len(shown.opened),
                    resolved=len(shown.resolved),
                    message=len(shown.messages),
                )
                show(_documents(shown), _texts(shown), as_json=as_json, limit=2_000)
        scratch.dispose()
    click.echo(
        f"{counts['intervals']:,} intervals: {counts['finding']:,} findings, {counts['opened']:,} incidents opened,"
        f" {counts['resolved']:,} resolved, {counts['message']:,} messages; nothing was sent",
        err=as_json,
    )
    sys.exit(EXIT_NOTHING_PUBLISHED if not counts["intervals"] else EXIT_FINDINGS if counts["finding"] else 0)


def _check_span(engine: Engine, clusters: Sequence[str], since: datetime, until: datetime) -> None:
    """Raise UsageError for a span in which nothing is published, with the one that is."""
    if since >= until:
        raise click.UsageError(f"--from {since:%Y-%m-%dT%H:%M:%S} is not before --to {until:%Y-%m-%dT%H:%M:%S}")
    if any(published_intervals.starts(engine, name, since, until) for name in clusters):
        return
    everything = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    starts = [start for name in clusters for start in published_intervals.starts(engine, name, *everything)]
    there = f"from {format_moment(min(starts))} to {format_moment(max(starts))}" if starts else "none so far"
    raise click.UsageError(
        f"no interval of {', '.join(clusters)} is published from {format_moment(since)} to {format_moment(until)};"
        f" there are: {there}"
    )


def _published(
    workspace: Workspace, engine: Engine, cluster: str, since: datetime, until: datetime
) -> Iterator[IntervalFacts]:
    for start in published_intervals.starts(engine, cluster, since, until):
        published = published_intervals.get(engine, cluster, Interval(start))
        if published is not None:
            yield read_interval_facts(workspace, published, Manifest.from_json(published.manifest_json))


def _only(report: JudgeReport, rules: frozenset[str]) -> JudgeReport:
    """Return what is about these rules."""

    def about(incidents: Iterable[Incident]) -> tuple[Incident, ...]:
        return tuple(one for one in incidents if one.shown_by in rules)

    messages = tuple(one for one in report.messages if not rules.isdisjoint(_rules_of(one.view)))
    return replace(
        report,
        findings=tuple(one for one in report.findings if one.rule.id in rules),
        changes=replace(report.changes, opened=about(report.opened), resolved=about(report.resolved)),
        planned=replace(report.planned, messages=messages),
    )


def _rules_of(view: MessageView | DigestView) -> list[str]:
    return [one.rule_id for one in view.sections] if isinstance(view, DigestView) else [view.rule_id]


def _documents(report: JudgeReport) -> Iterator[dict[str, Any]]:
    start = report.interval.start
    opened = {incident.subject for incident in report.opened}
    for finding in report.findings:
        is_new = subject_of(finding) in opened
        yield finding_document(finding) | {"what": "finding", "interval_start": start, "opened": is_new}
    for incident in report.resolved:
        yield {"what": "resolved", "interval_start": start, **_subject(incident)}
    for message in report.messages:
        yield {"what": "message", "interval_start": start, **_message(message)}


def _texts(report: JudgeReport) -> Iterator[str]:
    """Yield what changes: an incident that goes on is not told again."""
    at = format_moment(report.interval.end)
    for what, incidents in (("opened", report.opened), ("resolved", report.resolved)):
        for incident in incidents:
            line = f"{at}  {what:<8}  {incident.evidence.severity.upper()}  {IncidentWords(incident).summary}"
            yield f"{line}  [{incident.shown_by}, {incident.subject.cluster}]"
    for message in report.messages:
        view = message.view
        reason, title = _reason_and_title(view)
        whom = f"{message.channel} to {message.receiver} (team {view.team}): {title}"
        yield f"{at}  message   {reason}: {whom}  [{view.rule_id}]"


def _reason_and_title(view: MessageView | DigestView) -> tuple[str, str]:
    """Return both in English: a message speaks its reader's language."""
    if isinstance(view, DigestView):
        return "digest", "; ".join(f"{rule_title(one.rule_id, Language.EN)} ({one.reason})" for one in view.sections)
    return view.reason, rule_title(view.rule_id, Language.EN)


def _subject(incident: Incident) -> dict[str, Any]:
    subject = incident.subject
    return {
        "cluster": subject.cluster,
        "consumer_group": subject.consumer_group,
        "topic": subject.topic,
        "rule": incident.shown_by,
        "severity": incident.evidence.severity,
        "summary": IncidentWords(incident).summary,
        "opened_at": incident.opened_at,
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
        "channel": message.channel,
        "receiver": message.receiver,
        "reason": reason,
        "title": title,
        "firing": [one.summary for one in view.firing],
        "resolved": [one.summary for one in view.resolved],
    }
