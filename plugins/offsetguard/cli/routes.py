"""`offsetguard routes`: say who would be told of trouble, how and when.

The judge's own code decides. An answer holds for some rules and severities: what differs only in them and is told alike
is one answer.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from offsetguard.catalogue import catalogue
from offsetguard.catalogue.text import Locale, format_duration, format_moment
from offsetguard.cli.output import show
from offsetguard.cli.parameters import MOMENT, check_is_known, format_option
from offsetguard.config.file import ConfigFile, read_config_file
from offsetguard.config.routes import Route
from offsetguard.config.workspace import Workspace
from offsetguard.decide.audience import Audience, Circumstances
from offsetguard.decide.incidents.timing import steps
from offsetguard.judge.registry import RULES
from offsetguard.model.incident import Evidence, Incident, Subject
from offsetguard.model.intervals import Interval, zone_of
from offsetguard.model.notification import DECLARED, RECEIVER_LISTS, Mute, Silence
from offsetguard.model.verdicts import Severity
from offsetguard.store import silences as silence_store
from offsetguard.store.database import open_database, reading, sqlite_file

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
@click.option("--at", type=MOMENT, help="When: quiet hours, maintenance and silences count. Without it: now.")
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
    as_json: bool,
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
    """
    workspace = Workspace.from_environment()
    file = read_config_file(config_file or workspace.config_file)
    check_is_known("--cluster", cluster, file.config.clusters)
    if rule_id is not None:
        check_is_known("--rule", rule_id, RULES)
    trouble = _made_up(cluster, consumer_group, topic, at or datetime.now(UTC).replace(microsecond=0))
    found = answers(
        file,
        trouble,
        [rule_id] if rule_id else sorted(RULES),
        [Severity(severity)] if severity else [Severity.CRITICAL, Severity.WARNING],
        _silences(workspace.database_url, trouble.opened_at),
    )
    show(found, _text(found, trouble, every_rule=rule_id is None), as_json=as_json)


def _silences(database_url: str, at: datetime) -> list[Silence]:
    """Return the silences that are active at a moment; a SQLite file that is not there is not made."""
    if (file := sqlite_file(database_url)) and not file.exists():
        return []
    with reading(open_database(database_url)) as session:
        return silence_store.active(session, at)


def _text(found: list[dict[str, Any]], trouble: Incident, *, every_rule: bool) -> Iterator[str]:
    about = (
        f"consumer group {trouble.subject.consumer_group}"
        if trouble.subject.consumer_group
        else "brokers and the cluster itself"
    )
    topic = f", topic {trouble.subject.topic}" if trouble.subject.topic else ""
    yield f"{about} of {trouble.subject.cluster}{topic}, at {format_moment(trouble.opened_at)}"
    for answer in found:
        which = _which(answer["rules"]) if every_rule else f"rule {answer['rules'][0]}"
        yield ""
        yield f"{' and '.join(answer['severities'])}, {which}:"
        for name, value in _rows(answer):
            yield f"  {name:<12} {value}"


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
    recipients = _receivers(answer["receivers"])
    if answer["heard_by"] != answer["team"]:
        recipients += f" (team {answer['heard_by']}: team {answer['team']} has nobody to tell)"
    yield "told", recipients + _by(lines, *RECEIVER_LISTS)
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
    return ", ".join(f"{DECLARED[one['channel']].title} {one['receiver']}" for one in found)


def _when(answer: Mapping[str, Any]) -> str:
    wait = answer["group_wait_ms"]
    first = f"after {format_duration(wait)}" if wait else "at once"
    between, repeat = format_duration(answer["group_interval_ms"]), format_duration(answer["repeat_interval_ms"])
    end = "its end is told" if answer["send_resolved"] else "its end is not told"
    return f"{first}, what is new after {between} at the earliest, repeated after {repeat}; {end}"


def _by(lines: Mapping[str, str], *names: str) -> str:
    deciding = dict.fromkeys(lines[name] for name in names if name in lines)
    return f", by {', '.join(deciding)}" if deciding else ""


_SPANS = ("group_wait_ms", "group_interval_ms", "repeat_interval_ms", "send_resolved", "digest_above")


def answers(
    file: ConfigFile,
    trouble: Incident,
    rule_ids: Sequence[str],
    severities: Sequence[Severity],
    silences: Sequence[Silence],
) -> list[dict[str, Any]]:
    """Return each distinct answer with the `rules` and `severities` that it holds for; the most common one first."""
    known = Circumstances(Interval(trouble.opened_at), trouble.opened_at, silences, {}, {})
    audience = Audience(file.config, known, ())
    rules_of: defaultdict[tuple[Severity, str], list[str]] = defaultdict(list)  # by severity and answer
    for severity in severities:
        for rule_id in rule_ids:
            answer = _answer(file, audience, _with(trouble, rule_id, severity))
            rules_of[severity, json.dumps(answer)].append(rule_id)
    severities_of: defaultdict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)  # by answer and rules
    for (severity, text), rules in rules_of.items():
        severities_of[text, tuple(rules)].append(severity)
    merged = [
        {"rules": list(rules), "severities": same, **json.loads(text)} for (text, rules), same in severities_of.items()
    ]
    return sorted(merged, key=lambda answer: -len(answer["rules"]))


def _made_up(cluster: str, consumer_group: str | None, topic: str | None, at: datetime) -> Incident:
    """Return trouble of a cluster, or of a group in it; rule and severity are given with the question."""
    return Incident(
        incident_id="",
        subject=Subject(cluster, "", consumer_group, topic),
        opened_at=at,
        last_seen_at=at,
        seen_count=1,
        evidence=Evidence(Severity.INFO, "", "default", "", "", "", {}, (), 0, frozenset()),
    )


def _with(trouble: Incident, rule_id: str, severity: Severity) -> Incident:
    subject, evidence = (
        replace(trouble.subject, rule_id=rule_id),
        replace(trouble.evidence, severity=severity, rule_id=None),
    )
    return replace(trouble, subject=subject, evidence=evidence)


def _answer(file: ConfigFile, audience: Audience, incident: Incident) -> dict[str, Any]:
    """Return what holds for an incident, as JSON has it."""
    subject, severity, config = incident.subject, incident.evidence.severity, file.config
    team = audience.team_of(incident)
    choice = config.route_choice(
        team,
        subject.cluster,
        rule_id=incident.shown_by,
        severity=severity,
        consumer_group=subject.consumer_group,
    )
    route = choice.route
    mute = audience.mute_of(incident, route) if severity.is_sent else None
    deciders = config.policy_deciders(subject.cluster, subject.consumer_group) if subject.consumer_group else {}

    def line_of(*where: str | int) -> str:
        return f"{file.path}:{file.document.line(where)}"

    return {
        "cluster": subject.cluster,
        "consumer_group": subject.consumer_group,
        "topic": subject.topic,
        "at": incident.opened_at.isoformat(),
        "told": severity.is_sent and mute is None,
        "team": team,
        # the line that gives the group to the team; null: nobody owns it, so the default team
        "owner": line_of("groups", deciders["team"], "team") if "team" in deciders else None,
        "heard_by": route.heard_by,
        "receivers": _receivers_of(route),
        "language": route.language,
        "time_zone": route.time_zone,
        **{name: getattr(route, name) for name in _SPANS},
        "muted": None if mute is None else _muted(mute, route),
        "escalation": [
            {
                "team": step.team,
                "after_repeats": step.after_repeats,
                "after_ms": step.after_ms,
                "receivers": _receivers_of(audience.route_of(step.team, incident)),
            }
            for step in steps(team, lambda name: audience.route_of(name, incident))
        ],
        "decided_by": {
            name: line_of("routes", position, name)
            for name, position in {**choice.decided_by, **choice.receivers_by}.items()
        },
    }


def _muted(mute: Mute, route: Route) -> dict[str, str]:
    """Return the mute in English, by the clock of the route."""
    words = catalogue(Locale(zone=zone_of(route.time_zone)))
    return {"reason": mute.reason, "by": mute.by, "text": words.read(mute.text)}


def _receivers_of(route: Route) -> list[dict[str, str]]:
    return [{"channel": channel, "receiver": name} for channel, name in route.receivers]
