"""Who would be told of trouble that a user makes up, how, when and by which lines: decided by the judge's own code.

An answer holds for some rules and severities: what differs only in them and is told alike is one answer.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from offsetguard.catalogue import catalogue
from offsetguard.catalogue.text import Locale
from offsetguard.config.file import ConfigFile
from offsetguard.config.routes import Route
from offsetguard.config.yaml_lines import Path
from offsetguard.decide.audience import Audience, Circumstances
from offsetguard.decide.incidents.timing import steps
from offsetguard.model.incident import Evidence, Incident, Subject
from offsetguard.model.intervals import Interval, zone_of
from offsetguard.model.notification import Mute
from offsetguard.model.silence import Silence
from offsetguard.model.verdicts import Severity

_SPANS = ("group_wait_ms", "group_interval_ms", "repeat_interval_ms", "send_resolved", "digest_above")


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is asked about; no group: the cluster or its brokers are in trouble."""

    cluster: str
    consumer_group: str | None
    topic: str | None
    at: datetime


def answers(
    file: ConfigFile,
    trouble: Trouble,
    rule_ids: Sequence[str],
    severities: Sequence[Severity],
    silences: Sequence[Silence],
) -> list[dict[str, Any]]:
    """Return each distinct answer with the `rules` and `severities` that it holds for; the most common one first."""
    known = Circumstances(Interval(trouble.at), trouble.at, silences, {}, {})
    respondent = _Respondent(file, Audience(file.config, known, ()))
    rules_of: defaultdict[tuple[Severity, str], list[str]] = defaultdict(list)  # by severity and answer
    for severity in severities:
        for rule_id in rule_ids:
            answer = respondent.answer(_made_up(trouble, rule_id, severity))
            rules_of[severity, json.dumps(answer)].append(rule_id)
    severities_of: defaultdict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)  # by answer and rules
    for (severity, text), rules in rules_of.items():
        severities_of[text, tuple(rules)].append(severity.value)
    merged = [
        {"rules": list(rules), "severities": same, **json.loads(text)} for (text, rules), same in severities_of.items()
    ]
    return sorted(merged, key=lambda answer: -len(answer["rules"]))


def _made_up(trouble: Trouble, rule_id: str, severity: Severity) -> Incident:
    return Incident(
        incident_id="",
        subject=Subject(trouble.cluster, rule_id, trouble.consumer_group, trouble.topic),
        opened_at=trouble.at,
        last_seen_at=trouble.at,
        seen_count=1,
        evidence=Evidence(severity, "", "default", "", "", "", {}, (), 0, frozenset()),
    )


@dataclass(frozen=True, slots=True)
class _Respondent:
    file: ConfigFile
    audience: Audience

    def answer(self, incident: Incident) -> dict[str, Any]:
        """Return what holds for an incident, as JSON has it."""
        subject, config = incident.subject, self.file.config
        team = self.audience.team_of(incident)
        choice = config.route_choice(
            team,
            subject.cluster,
            rule_id=subject.rule_id,
            severity=incident.evidence.severity,
            consumer_group=subject.consumer_group,
        )
        route = choice.route
        owner = self._owner(subject)
        mute = self.audience.mute_of(incident, route) if incident.evidence.severity.is_sent else None
        return {
            "cluster": subject.cluster,
            "consumer_group": subject.consumer_group,
            "topic": subject.topic,
            "at": incident.opened_at.isoformat(),
            "told": incident.evidence.severity.is_sent and mute is None,
            "team": team,
            "owner": owner,  # the line that gives the group to the team; null: nobody owns it, so the default team
            "heard_by": route.heard_by,
            "receivers": _receivers(route),
            "language": route.language.value,
            "time_zone": route.time_zone,
            **{name: getattr(route, name) for name in _SPANS},
            "muted": None if mute is None else _muted(mute, route),
            "escalation": [
                {
                    "team": step.team,
                    "after_repeats": step.after_repeats,
                    "after_ms": step.after_ms,
                    "receivers": _receivers(self.audience.route_of(step.team, incident)),
                }
                for step in steps(team, lambda name: self.audience.route_of(name, incident))
            ],
            "decided_by": dict(self._lines({**choice.decided_by, **choice.receivers_by})),
        }

    def _owner(self, subject: Subject) -> str | None:
        if subject.consumer_group is None:
            return None
        position = self.file.config.policy_deciders(subject.cluster, subject.consumer_group).get("team")
        return None if position is None else self._place(("groups", position, "team"))

    def _lines(self, decided_by: Mapping[str, int]) -> Iterator[tuple[str, str]]:
        for name, position in decided_by.items():
            yield name, self._place(("routes", position, name))

    def _place(self, where: Path) -> str:
        return f"{self.file.path}:{self.file.document.line(where)}"


def _muted(mute: Mute, route: Route) -> dict[str, str]:
    """Return the mute in English, by the clock of the route."""
    words = catalogue(Locale(zone=zone_of(route.time_zone)))
    return {"reason": mute.reason.value, "by": mute.by, "text": words.read(mute.text)}


def _receivers(route: Route) -> list[dict[str, str]]:
    return [{"channel": channel.value, "receiver": name} for channel, name in route.receivers]
