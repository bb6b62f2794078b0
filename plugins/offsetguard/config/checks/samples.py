"""News that an entry of `routes` is about, made up from its patterns: by them what the entries say together is checked.

Not every combination of entries can be tried. For each entry there is one piece of news per team that it matches, as
little special as its patterns allow.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from offsetguard.config import Config, RouteChoice
from offsetguard.config.fields import matches
from offsetguard.model.verdicts import Severity

_WILDCARDS = re.compile(r"\*|\?|\[!?(.)[^\]]*\]")


@dataclass(frozen=True, slots=True)
class News:
    """What a route is asked for."""

    team: str
    cluster: str
    rule_id: str
    severity: Severity
    consumer_group: str | None

    def choice(self, config: Config, team: str | None = None) -> RouteChoice:
        """Return the route of this news, or the one it would have if it were of another team."""
        return config.route_choice(
            team or self.team,
            self.cluster,
            rule_id=self.rule_id,
            severity=self.severity,
            consumer_group=self.consumer_group,
        )


def sample_news(config: Config, rule_ids: Collection[str]) -> Iterator[News]:
    """Yield news for every entry that some team, cluster and rule matches."""
    for entry in config.routes:
        cluster = next((name for name in config.clusters if matches(name, entry.cluster)), None)
        rule_id = next((one for one in sorted(rule_ids) if matches(one, entry.rule)), None)
        if cluster is None or rule_id is None:
            continue
        group = sample_name(entry.consumer_group)
        for team in config.teams:
            if matches(team, entry.team):
                yield News(team, cluster, rule_id, entry.severity, group)


def sample_name(pattern: str) -> str | None:
    """Return a name that a pattern matches; None for "*", which also matches what has no name."""
    if pattern == "*":
        return None
    name = _WILDCARDS.sub(lambda found: {"*": "", "?": "a"}.get(found.group(), found.group(1) or ""), pattern)
    return name if name and matches(name, pattern) else pattern
