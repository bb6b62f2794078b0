"""`offsetguard routes`: who would be told of trouble that you make up, how, when, and by which lines of the file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from sqlalchemy import make_url

from offsetguard.catalogue.text import format_duration, format_moment
from offsetguard.cli.output import wants_json
from offsetguard.cli.parameters import Moment, format_option
from offsetguard.cli.route_answers import Trouble, answers
from offsetguard.config.file import did_you_mean, read_config_file
from offsetguard.config.workspace import Workspace
from offsetguard.deliver.messages.wording import harmless
from offsetguard.judge.registry import RULES
from offsetguard.model.silence import Silence
from offsetguard.model.verdicts import Severity
from offsetguard.store import silences as silence_store
from offsetguard.store.database import open_database, reading

_CHANNEL_WORDS = {"mail": "mail", "slack": "Slack", "slack_webhook": "Slack webhook"}
_TEXT_LIMIT = 1_000
_RULES_SHOWN = 5


@click.group()
def routes() -> None:
    """Try the routes of the configuration: who is told of what, how and when."""


@routes.command()
@click.option("--cluster", required=True, help="As the configuration calls it.")
@click.option("--group", "consumer_group", help="Consumer group in trouble; without it: the cluster or its brokers.")
@click.option("--topic", help="Topic of the trouble; only silences look at it.")
@click.option("--rule", "rule_id", help="Id of the rule, as at the foot of a message; without it: every rule.")
@click.option(
    "--severity", type=click.Choice([one.value for one in Severity]), help="Without it: warning and critical."
)
@click.option("--at", type=Moment(), help="When: quiet hours, maintenance and silences count. Without it: now.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="Without it: OFFSETGUARD_CONFIG.")
@format_option("answer", shown="text")
def test(
    *,
    cluster: str,
    consumer_group: str | None,
    topic: str | None,
    rule_id: str | None,
    severity: str | None,
    at: datetime | None,
    config_file: Path | None,
    output_format: str,
) -> None:
    """Say who would be told of trouble, how, when, and which lines of the file decide it. Sends nothing.

    Rules and severities that are told alike share an answer. Silences are those of the database that
    OFFSETGUARD_DATABASE_URL names, or of OFFSETGUARD_HOME; without a database there are none.

    \b
    Examples:
      offsetguard routes test --cluster main --group order-settlement
      offsetguard routes test --cluster main --group order-settlement --rule messages_lost --severity critical
      offsetguard routes test --cluster main --severity warning --at 2026-11-23T02:00+08:00
      offsetguard routes test --cluster main --group g --format json | jq -r '.receivers[].receiver'
    """  # noqa: D301 click wants the character itself
    workspace = Workspace.from_environment()
    file = read_config_file(config_file or workspace.config_file)
    _known("--cluster", cluster, file.config.clusters)
    if rule_id is not None:
        _known("--rule", rule_id, RULES)
    trouble = Trouble(cluster, consumer_group, topic, at or datetime.now(UTC).replace(microsecond=0))
    found = answers(
        file,
        trouble,
        [rule_id] if rule_id else sorted(RULES),
        [Severity(severity)] if severity else [Severity.CRITICAL, Severity.WARNING],
        _silences(workspace.database_url, trouble.at),
    )
    if wants_json(output_format):
        for answer in found:
            click.echo(json.dumps(answer))
    else:
        for line in _text(found, trouble, every_rule=rule_id is None):
            click.echo(line)


def _known(option: str, name: str, names: Iterable[str]) -> None:
    known = sorted(names)
    if name not in known:
        hint = did_you_mean(name, known) or f"; there are: {', '.join(known)}"
        raise click.UsageError(f"{option}: there is no {option.removeprefix('--')} {harmless(name, 100)!r}{hint}")


def _silences(database_url: str, at: datetime) -> list[Silence]:
    """Return the silences that are active at a moment; a SQLite file that is not there is not made."""
    url = make_url(database_url)
    if url.get_backend_name() == "sqlite" and url.database and not Path(url.database).exists():
        return []
    engine = open_database(database_url)
    try:
        with reading(engine) as session:
            return silence_store.active(session, at)
    finally:
        engine.dispose()


def _text(found: list[dict[str, Any]], trouble: Trouble, *, every_rule: bool) -> Iterator[str]:
    about = f"consumer group {trouble.consumer_group}" if trouble.consumer_group else "brokers and the cluster itself"
    topic = f", topic {trouble.topic}" if trouble.topic else ""
    yield harmless(f"{about} of {trouble.cluster}{topic}, at {format_moment(trouble.at)}", _TEXT_LIMIT)
    for answer in found:
        which = _which(answer["rules"]) if every_rule else f"rule {answer['rules'][0]}"
        yield ""
        yield f"{' and '.join(answer['severities'])}, {which}:"
        for name, value in _rows(answer):
            yield f"  {name:<12} {harmless(value, _TEXT_LIMIT)}"


def _which(rules: list[str]) -> str:
    others = sorted(RULES.keys() - set(rules))
    if not others:
        return "every rule"
    if len(others) <= _RULES_SHOWN < len(rules):
        return f"every rule but {', '.join(others)}"
    more = len(rules) - _RULES_SHOWN
    return f"rules {', '.join(rules[:_RULES_SHOWN])}" + (f" and {more} more" if more > 0 else "")


def _rows(answer: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    lines = answer["decided_by"]
    if answer["owner"]:
        yield "owner", f"team {answer['team']}, by {answer['owner']}"
    elif answer["consumer_group"] is None:
        yield "owner", f"team {answer['team']}: the default team hears about brokers and the cluster itself"
    else:
        yield "owner", f"team {answer['team']}: no entry of `groups` gives it to a team, so the default team"
    told = _receivers(answer["receivers"])
    if answer["heard_by"] != answer["team"]:
        told += f" (team {answer['heard_by']}: team {answer['team']} has nobody to tell)"
    yield "told", told + _by(lines, "mail", "slack", "slack_webhooks")
    if not answer["told"]:
        yield "but not now", answer["muted"]["text"] if answer["muted"] else "info is never told, only shown in pages"
    yield "language", f"{answer['language']}, times in {answer['time_zone']}" + _by(lines, "language", "time_zone")
    yield (
        "when",
        _when(answer) + _by(lines, "group_wait_ms", "group_interval_ms", "repeat_interval_ms", "send_resolved"),
    )
    if not lines:
        yield "routes", "none of the file's `routes` says anything about it: `teams` and `delivery` decide"
    windows = [f"{name.replace('_', ' ')} by {lines[name]}" for name in ("quiet_hours", "maintenance") if name in lines]
    if windows:
        yield "windows", ", ".join(windows)
    for step in answer["escalation"]:
        after = [f"{step['after_repeats']} repeats"] if step["after_repeats"] is not None else []
        after += [f"{format_duration(step['after_ms'])}"] if step["after_ms"] is not None else []
        text = f"unless acknowledged, after {' or '.join(after)}: team {step['team']}, {_receivers(step['receivers'])}"
        yield "escalation", text + _by(lines, "escalate_to", "escalate_after_repeats", "escalate_after_ms")


def _receivers(found: Iterable[Mapping[str, str]]) -> str:
    return ", ".join(f"{_CHANNEL_WORDS[one['channel']]} {one['receiver']}" for one in found)


def _when(answer: Mapping[str, Any]) -> str:
    wait = answer["group_wait_ms"]
    first = f"after {format_duration(wait)}" if wait else "at once"
    news, repeat = format_duration(answer["group_interval_ms"]), format_duration(answer["repeat_interval_ms"])
    end = "its end is told" if answer["send_resolved"] else "its end is not told"
    return f"{first}, news after {news} at the earliest, repeated after {repeat}; {end}"


def _by(lines: Mapping[str, str], *names: str) -> str:
    deciding = dict.fromkeys(lines[name] for name in names if name in lines)
    return f", by {', '.join(deciding)}" if deciding else ""
