"""What entries of `routes` say together and nobody can have meant: spans, escalation, nobody left to tell.

Not every combination of entries can be tried. For each entry there is one sample per team that it matches, made up from
its patterns and as little special as they allow; what the entries say about it together is checked.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from offsetguard.config.configuration import Config
from offsetguard.config.fields import matches
from offsetguard.config.file import ConfigFile, Problem
from offsetguard.config.routes import RouteChoice
from offsetguard.config.yaml_lines import Path
from offsetguard.model.notification import RECEIVER_LISTS
from offsetguard.model.verdicts import Severity

_WILDCARDS = re.compile(r"\*|\?|\[!?(.)[^\]]*\]")


def contradictions(file: ConfigFile, rule_ids: Collection[str]) -> Iterator[Problem]:
    """Yield each once, at the entry that brings it about."""
    for position, entry in enumerate(file.config.routes):
        if not entry.fields_set():
            yield file.problem(("routes", position), "sets nothing: say what it changes, or remove it")
    found = dict.fromkeys(
        one
        for sample in samples_of(file.config, rule_ids)
        for one in (*_of_choice(file, sample), *_circles(file.config, sample))
    )
    delivery = file.config.delivery
    if delivery.repeat_interval_ms < delivery.group_interval_ms:
        yield file.problem(("delivery", "repeat_interval_ms"), _repeats_too_soon(delivery.group_interval_ms))
        found = {one: None for one in found if one[0][0] != "delivery"}
    for where, what in found:
        yield file.problem(where, what)


def _of_choice(file: ConfigFile, sample: "Sample") -> Iterator[tuple[Path, str]]:
    choice = sample.choice(file.config)
    route, default = choice.route, file.config.delivery
    if route.repeat_interval_ms < route.group_interval_ms:
        for name in ("repeat_interval_ms", "group_interval_ms"):
            if name in choice.decided_by and getattr(route, name) != getattr(default, name):
                yield _where(choice, name), _repeats_too_soon(route.group_interval_ms)
                break
    after = [name for name in ("escalate_after_repeats", "escalate_after_ms") if name in choice.decided_by]
    if route.escalate_to is None and after:
        yield _where(choice, after[0]), "nobody is named to escalate to: add escalate_to with a team"
    if route.escalate_to is not None and not after:
        what = "never happens: say when, by escalate_after_repeats or escalate_after_ms"
        yield _where(choice, "escalate_to"), what
    team = file.config.teams[sample.team]
    if route.heard_by != sample.team and any(getattr(team, name) for name in RECEIVER_LISTS):
        emptied = next(name for name in RECEIVER_LISTS if name in choice.decided_by)
        what = f"leaves nobody of team {sample.team!r} to tell: the default team ({route.heard_by}) would hear it"
        yield _where(choice, emptied), what


def _circles(config: Config, sample: "Sample") -> Iterator[tuple[Path, str]]:
    """Yield a chain of escalation that leads back, at the entry that leads back, beginning with its first name."""
    chain, choice = [sample.team], sample.choice(config)
    while (following := choice.route.escalate_to) is not None:
        if following == chain[-1]:
            if config.routes[choice.decided_by["escalate_to"]].team == following:
                yield _where(choice, "escalate_to"), f"team {following!r} would escalate to itself"
            return
        if following in chain:
            circle = chain[chain.index(following) :]
            if circle[0] == min(circle):
                what = f"escalation goes round in a circle: {' -> '.join([*circle, following])}; it ends there"
                yield _where(choice, "escalate_to"), what
            return
        chain.append(following)
        choice = sample.choice(config, following)


def _where(choice: RouteChoice, field: str) -> Path:
    return ("routes", choice.decided_by[field], field)


def _repeats_too_soon(group_interval_ms: int) -> str:
    return (
        f"is shorter than group_interval_ms ({group_interval_ms}): a reminder would come sooner than what is new; "
        "make it longer, or group_interval_ms shorter"
    )


@dataclass(frozen=True, slots=True)
class Sample:
    """What a route is asked for: trouble that an entry is about, made up from its patterns."""

    team: str
    cluster: str
    rule_id: str
    severity: Severity
    consumer_group: str | None

    def choice(self, config: Config, team: str | None = None) -> RouteChoice:
        """Return the route of it, or the one it would have if it were of another team."""
        return config.route_choice(
            team or self.team,
            self.cluster,
            rule_id=self.rule_id,
            severity=self.severity,
            consumer_group=self.consumer_group,
        )


def samples_of(config: Config, rule_ids: Collection[str]) -> Iterator[Sample]:
    """Yield one for each entry, and each team that it matches, where it also matches a cluster and a rule."""
    for entry in config.routes:
        cluster = next((name for name in config.clusters if matches(name, entry.cluster)), None)
        rule_id = next((one for one in sorted(rule_ids) if matches(one, entry.rule)), None)
        if cluster is None or rule_id is None:
            continue
        group = sample_name(entry.consumer_group)
        for team in config.teams:
            if matches(team, entry.team):
                yield Sample(team, cluster, rule_id, entry.severity, group)


def sample_name(pattern: str) -> str | None:
    """Return a name that a pattern matches; None for "*", which also matches what has no name."""
    if pattern == "*":
        return None
    name = _WILDCARDS.sub(lambda found: {"*": "", "?": "a"}.get(found.group(), found.group(1) or ""), pattern)
    return name if name and matches(name, pattern) else pattern
