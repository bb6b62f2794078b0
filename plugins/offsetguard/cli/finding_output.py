"""How commands show findings and the queues behind them: JSON for scripts, text for people.

The JSON is an interface that others script against: fields are only ever added.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click

from offsetguard.catalogue import catalogue
from offsetguard.cli.output import json_line
from offsetguard.deliver.messages.wording import CALLED_BY, harmless, pasteable
from offsetguard.judge.incident_words import queue_view, stack_views
from offsetguard.judge.rule import Finding
from offsetguard.model.fact_records import ClientStacks
from offsetguard.model.verdicts import CannotTell, QueueEvidence, Severity

Found = TypeVar("Found")
SETTINGS = "config/offsetguard.yml"  # as texts of findings name it
MAX_QUEUES_SHOWN = 10
MAX_GROUPS_NAMED = 20
_TEXT_LIMIT = 4_000
_COLOURS = {Severity.CRITICAL: "red", Severity.WARNING: "yellow", Severity.INFO: "blue"}


def queue_documents(queues: Iterable[QueueEvidence]) -> list[dict[str, Any]]:
    """Return queues with the figures that were found in them, for JSON."""
    return [
        {
            "topic": queue.message_queue.topic,
            "broker_name": queue.message_queue.broker_name,
            "queue_id": queue.message_queue.queue_id,
            **queue.figures,
        }
        for queue in queues
    ]


def queue_text(queue: QueueEvidence) -> str:
    """Return a queue with the figures that were found in it, for people."""
    one = queue_view(queue, catalogue())
    figures = ", ".join(f"{figure.label} {figure.value}" for figure in one.figures)
    return f"    {one.topic} {one.broker_name}/{one.queue_id}: {figures}"


def finding_document(finding: Finding) -> dict[str, Any]:
    """Return a finding for JSON."""
    return {
        "cluster": finding.cluster,
        "consumer_group": finding.consumer_group,
        "topic": finding.topic,
        "rule": finding.rule.id,
        "severity": finding.severity,
        "state": finding.state,
        "summary": finding.summary,
        "cause": finding.cause,
        "do_next": finding.do_next,
        "evidence": dict(finding.figures),
        "queues": queue_documents(finding.queues),
        "broker_names": sorted(finding.all_broker_names),
        "explains": [
            {
                "rule": one.rule_id,
                "consumer_group": one.consumer_group,
                "topic": one.topic,
                "summary": one.summary,
            }
            for one in finding.explains
        ],
        "commands": list(finding.commands),
        "stacks": stacks_document(finding.stacks),
    }


def stacks_document(stacks: ClientStacks | None) -> dict[str, Any] | None:
    """Return what the threads of a client did, for JSON; null: nobody was asked."""
    if stacks is None:
        return None
    document = asdict(stacks)
    del document["asked"]
    return document | {"cannot_tell": stacks.cannot_tell and catalogue().say(stacks.cannot_tell)}


def stacks_text(stacks: ClientStacks | None) -> Iterator[str]:
    """Yield what the threads of a client did, for people, a line for each stack."""
    for number, one in enumerate(stack_views(stacks, catalogue()) if stacks is not None else ()):
        head = "" if number else f"{catalogue().say('threads_did')}: "
        yield _safe(
            f"{'    ' if number else '  '}{head}{one.said}{': ' if one.frames else ''}{CALLED_BY.join(one.frames)}"
        )


def show_findings(
    documents: Sequence[Mapping[str, Any]],
    texts: Iterable[str],
    unknown: Iterable[CannotTell],
    *,
    looked_at: Iterable[str],
    config_file: Path | None,
    as_json: bool,
) -> None:
    """Print what was looked at, what was found and what cannot be told; with JSON only findings are on stdout."""
    for text in looked_at:
        click.echo(harmless(text, 1_000), err=as_json)
    for line in map(json_line, documents) if as_json else texts:
        click.echo(line)
    if not as_json and not documents:
        click.echo("Nothing found.")
    for line in (*_cannot_tell_as_text(unknown), *how_settings_hold(documents, config_file)):
        click.echo(line, err=as_json)


def how_settings_hold(documents: Iterable[Mapping[str, Any]], config_file: Path | None) -> Iterator[str]:
    """Say how a setting holds that a finding's next step is about, where no file of settings was named."""
    if config_file is None and any(SETTINGS in document["do_next"] for document in documents):
        yield f"{SETTINGS}: no such file was named; its settings hold with --config FILE, which names the cluster, too."


def findings_as_text(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield lines for people; names from the cluster cannot steer the terminal."""
    for entry in in_entries(findings, entry_of):
        yield from _as_text(entry[0]) if len(entry) == 1 else _as_one_entry(entry)
        yield ""


def entry_of(finding: Finding) -> Hashable | None:
    """Return what findings of one entry have in common; None: it has one of its own."""
    counted = finding.rule.counted and finding.severity is Severity.INFO and finding.consumer_group is not None
    return (finding.cluster, finding.rule.id) if counted else None


def in_entries(found: Iterable[Found], entry_of: Callable[[Found], Hashable | None]) -> list[list[Found]]:
    """Return what is found as the entries that people read, each at the place of its first."""
    entries: dict[Hashable, list[Found]] = {}
    for number, one in enumerate(found):
        common = entry_of(one)
        entries.setdefault(number if common is None else common, []).append(one)
    return list(entries.values())


def _as_text(finding: Finding) -> Iterator[str]:
    yield f"{_head(finding)}  {_safe(finding.summary)}  [{finding.rule.id}, {finding.state}]"
    yield f"  {_safe(finding.cause)}"
    yield f"  Do next: {_safe(finding.do_next)}"
    yield from (f"    {command}" for command in pasteable(finding.commands))
    yield from stacks_text(finding.stacks)
    for queue in finding.queues[:MAX_QUEUES_SHOWN]:
        yield _safe(queue_text(queue))
    if len(finding.queues) > MAX_QUEUES_SHOWN:
        yield f"    and {len(finding.queues) - MAX_QUEUES_SHOWN} more queues (all of them with --format json)"
    for one in finding.explains:
        yield f"  Also explains: {_safe(one.summary)}  [{one.rule_id}]"


def _as_one_entry(findings: Sequence[Finding]) -> Iterator[str]:
    rule = findings[0].rule
    groups = sorted({str(one.consumer_group) for one in findings})
    named, more = ", ".join(groups[:MAX_GROUPS_NAMED]), len(groups) - MAX_GROUPS_NAMED
    yield f"{_head(findings[0])}  {rule.title}: {len(groups)} consumer groups  [{rule.id}]"
    yield f"  {_safe(named)}{f' and {more} more' if more > 0 else ''}"
    yield "  Nothing to do; each by itself with --group or --format json."
    for one in findings:
        for explained in one.explains:
            yield f"  Also explains: {_safe(explained.summary)}  [{explained.rule_id}]"


def _head(finding: Finding) -> str:
    return click.style(finding.severity.value.upper(), fg=_COLOURS[finding.severity], bold=True)


def _cannot_tell_as_text(unknown: Iterable[CannotTell]) -> Iterator[str]:
    """Yield which rules could not look, and why: one line for all that have the same reason."""
    rules: dict[tuple[str | None, str], list[str]] = {}
    for one in unknown:
        rules.setdefault((one.consumer_group, one.because), []).append(one.rule_id)
    for (consumer_group, because), rule_ids in rules.items():
        of = f" of {consumer_group}" if consumer_group is not None else ""
        yield f"Cannot tell: {', '.join(rule_ids)}{_safe(of)}: {_safe(because)}"


def _safe(text: str) -> str:
    return harmless(text, _TEXT_LIMIT)
