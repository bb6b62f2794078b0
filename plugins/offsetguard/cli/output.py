"""How the command line shows findings, figures, spans of time and replicas: JSON for scripts, text for people.

Spans of time on the command line: `500ms`, `10s`, `5m`, `1h`, `7d`.

The names that folders with logs may have: `broker-a-0` for the master of broker-a.

The JSON is an interface that others script against: fields are only ever added.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import click

from offsetguard.catalogue.text import format_moment
from offsetguard.deliver.messages.wording import harmless
from offsetguard.judge.rule import Finding
from offsetguard.model.errors import RocketMQError
from offsetguard.model.verdicts import CannotTell, Figure, Severity
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.requests import GetBrokerClusterInfo

_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(ms|s|min|m|h|d)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


class Duration(click.ParamType["timedelta"]):
    """Takes a text, gives a timedelta."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Fail with an example for everything that is no duration."""
        match = _DURATION.fullmatch(str(value).strip())
        if match is None:
            self.fail(f"{value!r} is no duration; write for example 500ms, 10s, 1min or 7d", param, ctx)
        return timedelta(seconds=float(match[1]) * _UNIT_S[match[2]])


def plain(figure: Figure) -> str | float | bool | None:
    """Return what JSON can hold; moments in ISO 8601."""
    return figure.isoformat() if isinstance(figure, datetime) else figure


def shown(figure: Figure) -> str:
    """Return a figure as people read it; one that is not known says so."""
    if figure is None:
        return "unknown"
    if isinstance(figure, datetime):
        return format_moment(figure)
    return f"{figure:,}" if isinstance(figure, int) and not isinstance(figure, bool) else str(figure)


async def replica_labels(client: RocketMQClient, name_servers: Sequence[str], tell: Callable[[str], None]) -> list[str]:
    """Return the label of every replica that a name server lists; none when no name server answers, which is told."""
    for address in name_servers:
        try:
            info = await client.call(address, GetBrokerClusterInfo())
        except RocketMQError as error:
            tell(str(error))
            continue
        return [f"{one.broker_name}-{broker_id}" for one in info.brokers for broker_id in one.addresses]
    return []


MAX_QUEUES_SHOWN = 10
_TEXT_LIMIT = 4_000
_COLOURS = {Severity.CRITICAL: "red", Severity.WARNING: "yellow", Severity.INFO: "blue"}


def wants_json(output_format: str) -> bool:
    """`auto`: a table on a terminal, JSON elsewhere."""
    return output_format == "json" or (output_format == "auto" and not sys.stdout.isatty())


def finding_as_json(finding: Finding, more: Mapping[str, Figure] | None = None) -> str:
    """Return one line of JSON; times are ISO 8601 in UTC. `more`: fields that only some commands add."""
    document: dict[str, Any] = {
        "cluster": finding.cluster,
        "consumer_group": finding.consumer_group,
        "topic": finding.topic,
        "rule": finding.rule.id,
        "severity": finding.severity.value,
        "state": finding.state,
        "summary": finding.summary,
        "cause": finding.cause,
        "do_next": finding.do_next,
        "evidence": {name: plain(figure) for name, figure in finding.figures.items()},
        "queues": [
            {
                "topic": queue.message_queue.topic,
                "broker_name": queue.message_queue.broker_name,
                "queue_id": queue.message_queue.queue_id,
                **{name: plain(figure) for name, figure in queue.figures.items()},
            }
            for queue in finding.queues
        ],
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
    }
    document |= {name: plain(figure) for name, figure in (more or {}).items()}
    return json.dumps(document)


def findings_as_text(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield lines for people; names from the cluster cannot steer the terminal."""
    for finding in findings:
        head = click.style(finding.severity.value.upper(), fg=_COLOURS[finding.severity], bold=True)
        yield f"{head}  {_safe(finding.summary)}  [{finding.rule.id}, {finding.state}]"
        yield f"  {_safe(finding.cause)}"
        yield f"  Do next: {_safe(finding.do_next)}"
        for queue in finding.queues[:MAX_QUEUES_SHOWN]:
            where = queue.message_queue
            figures = ", ".join(f"{name} {shown(figure)}" for name, figure in queue.figures.items())
            yield f"    {_safe(where.topic)} {_safe(where.broker_name)}/{where.queue_id}: {_safe(figures)}"
        if len(finding.queues) > MAX_QUEUES_SHOWN:
            yield f"    and {len(finding.queues) - MAX_QUEUES_SHOWN} more queues (all of them with --format json)"
        for one in finding.explains:
            yield f"  Also explains: {_safe(one.summary)}  [{one.rule_id}]"
        yield ""


def cannot_tell_as_text(untold: Iterable[CannotTell]) -> Iterator[str]:
    """Yield which rules could not look, and why: one line for all that have the same reason."""
    rules: dict[tuple[str | None, str], list[str]] = {}
    for one in untold:
        rules.setdefault((one.consumer_group, one.because), []).append(one.rule_id)
    for (consumer_group, because), rule_ids in rules.items():
        of = f" of {consumer_group}" if consumer_group is not None else ""
        yield f"Cannot tell: {', '.join(rule_ids)}{_safe(of)}: {_safe(because)}"


def _safe(text: str) -> str:
    return harmless(text, _TEXT_LIMIT)
