"""The whole of config/offsetguard.yml as one typed model, with its sections `retention` and `delivery`."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from datetime import time
from functools import cached_property
from typing import Annotated

from offsetguard.config.clusters import Cluster
from offsetguard.config.fields import (
    Name,
    matches,
)
from offsetguard.config.groups import EffectivePolicy, GroupPolicy, Judgement, Policies
from offsetguard.config.references import reference_problems
from offsetguard.config.routes import Delivery, Route, RouteChoice, RouteEntry, Routing, Team
from offsetguard.model.constraints import NO_OTHER_FIELDS, NotEmpty, Number, read_python
from offsetguard.model.verdicts import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long things are kept, in whole days; `docs/tables.md` says which table holds snapshots and which facts."""

    __pydantic_config__ = NO_OTHER_FIELDS

    snapshots_days: Annotated[int, Number(ge=1)] = 7  # what was seen; also landed files, which facts are made of again
    facts_days: Annotated[int, Number(ge=1)] = 90  # what was made of it; also incidents and messages that are over


@dataclass(frozen=True, kw_only=True)
class Config:
    """The whole file."""

    __pydantic_config__ = NO_OTHER_FIELDS

    clusters: Annotated[dict[Name, Cluster], NotEmpty()]  # by your name for it, which stands in every message
    groups: list[GroupPolicy] = field(default_factory=list)  # owners and limits of consumer groups
    teams: dict[Name, Team]  # who is told
    default_team: Name  # hears about brokers, and about every group that nobody else owns
    routes: list[RouteEntry] = field(default_factory=list)  # who hears what, when, in which language
    delivery: Delivery = field(default_factory=Delivery)  # through what, and what holds where no route says otherwise
    judgement: Judgement = field(
        default_factory=Judgement
    )  # spans of time that the rules look at, and what brokers may be off by
    retention: Retention = field(default_factory=Retention)  # how long things are kept

    def __post_init__(self) -> None:
        """Raise ValueError for names that stand nowhere: see `reference_problems`."""
        problems = [f"{'.'.join(map(str, path))}: {text}" for path, text in reference_problems(asdict(self))]
        if problems:
            raise ValueError("; ".join(problems))

    @classmethod
    def from_values(cls, values: object) -> "Config":
        """Return the configuration that plain values say, as YAML or JSON gives them; raises pydantic's errors."""
        return read_python(cls, values)

    @cached_property
    def _policies(self) -> Policies:
        return Policies(self.groups, self.default_team)

    @cached_property
    def _routing(self) -> Routing:
        return Routing(self.routes, self.teams, self.default_team, self.delivery)

    def policy(self, cluster: str, consumer_group: str) -> EffectivePolicy:
        """Merge the entries that match a group, in file order: the first that names a field wins."""
        return self._policies.of(cluster, consumer_group)

    def policy_deciders(self, cluster: str, consumer_group: str) -> dict[str, int]:
        """Return for each field of a group's policy that an entry of `groups` sets the position of the one that won."""
        return self._policies.deciders(cluster, consumer_group)

    def route(
        self, team: str, cluster: str, *, rule_id: str, severity: Severity, consumer_group: str | None = None
    ) -> Route:
        """Return who of a team hears news about a group (None: about the cluster), when and in which language."""
        return self.route_choice(team, cluster, rule_id=rule_id, severity=severity, consumer_group=consumer_group).route

    def route_choice(
        self, team: str, cluster: str, *, rule_id: str, severity: Severity, consumer_group: str | None = None
    ) -> RouteChoice:
        """Return the same with the entries of `routes` that decided each field."""
        return self._routing.choose(team, cluster, rule_id=rule_id, severity=severity, consumer_group=consumer_group)

    def daily_report_at(self, team: str) -> time | None:
        """Return when a team gets its daily report, by the clock of its zone; None: it gets none."""
        own = self.teams[team].daily_report_at if team in self.teams else None
        text = own or self.delivery.daily_report_at
        return None if text is None else time.fromisoformat(text)

    def unmatched_positions(self, cluster: str, consumer_groups: Iterable[str]) -> list[int]:
        """Return positions in `groups`: entries for a cluster that match none of its groups: misspelt, not started."""
        matched = {position for name in consumer_groups for position in self._policies.by_match.matching(name)}
        return [
            position
            for position, entry in enumerate(self.groups)
            if matches(cluster, entry.cluster) and position not in matched
        ]


EVERYTHING = {"detail_groups": 1_000_000, "share_rounds": 1, "rates": 1_000_000, "running_info_clients": 10_000}
"""Details of all groups in every round: for bundles, whose readers cannot ask again and whose replay burdens nobody."""


def asking_everything(config: Config, cluster: str) -> Config:
    """Return the configuration with the limits of a cluster's rounds lifted; the pace of requests stays."""
    settings = config.clusters[cluster]
    collection = replace(settings.collection, **EVERYTHING)
    return replace(config, clusters={**config.clusters, cluster: replace(settings, collection=collection)})
