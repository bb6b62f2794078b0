"""config/offsetguard.yml: clusters, groups, teams and delivery, as one typed model.

No secrets in it: logins come from Airflow connections, whose ids stand here.
"""

from __future__ import annotations

import fnmatch
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

if TYPE_CHECKING:
    from collections.abc import Iterable

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$")]
Address = Annotated[str, StringConstraints(pattern=r"^[^\s:/]+:\d{1,5}$")]
Glob = Annotated[str, StringConstraints(min_length=1, max_length=255)]
Milliseconds = Annotated[int, Field(gt=0)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Cluster(_Section):
    """One RocketMQ cluster."""

    name_servers: Annotated[list[Address], Field(min_length=1)]
    connection: str | None = None  # Airflow connection with access key (login) and secret key (password)
    request_timeout_ms: Milliseconds = 3_000
    lock_max_live_time_ms: Milliseconds = 60_000  # declared: -Drocketmq.broker.rebalance.lockMaxLiveTime of its brokers


class GroupPolicy(_Section):
    """What holds for the consumer groups that a pattern matches; the first entry that names a field wins."""

    match: Glob  # glob on the consumer group, case matters
    cluster: Glob = "*"
    team: Name | None = None
    max_lag_messages: Annotated[int, Field(ge=0)] | None = None
    max_lag_ms: Milliseconds | None = None
    orderly: bool | None = None
    lock_interval_ms: Milliseconds | None = None  # declared: -Drocketmq.client.rebalance.lockInterval of its clients


class Team(_Section):
    """Who is told, and how."""

    mail: list[Annotated[str, StringConstraints(pattern=r"^[^@\s<>,;]+@[^@\s<>,;]+$")]] = []
    slack: list[Annotated[str, StringConstraints(pattern=r"^(#[^\s#]+|[CGD][A-Z0-9]{6,})$")]] = []


class Delivery(_Section):
    """When and through what messages go out."""

    repeat_interval_ms: Milliseconds = 4 * 3_600_000
    notify_within_ms: Milliseconds = 15 * 60_000  # older intervals are recorded as history and never sent
    send_resolved: bool = True
    mail_connection: str = "offsetguard_smtp"
    mail_from: str = "offsetguard@localhost"
    slack_connection: str = "offsetguard_slack"
    page_url: str | None = None  # where readers reach the Airflow UI, for links


class Judgement(_Section):
    """Spans of time that the rules look at."""

    offset_move_window_ms: Milliseconds = 30 * 60_000


class Config(_Section):
    """The whole file."""

    clusters: Annotated[dict[Name, Cluster], Field(min_length=1)]
    groups: list[GroupPolicy] = []
    teams: dict[Name, Team]
    default_team: Name
    delivery: Delivery = Delivery()
    judgement: Judgement = Judgement()

    @model_validator(mode="after")
    def _teams_exist(self) -> Config:
        known = ", ".join(sorted(self.teams))
        if self.default_team not in self.teams:
            raise ValueError(f"default_team: there is no team {self.default_team!r}; teams: {known}")
        for position, policy in enumerate(self.groups):
            if policy.team is not None and policy.team not in self.teams:
                raise ValueError(f"groups.{position}.team: there is no team {policy.team!r}; teams: {known}")
        default = self.teams[self.default_team]
        if not default.mail and not default.slack:
            raise ValueError(f"teams.{self.default_team}: the default team needs a mail address or a Slack channel")
        return self

    def policy(self, cluster: str, consumer_group: str) -> EffectivePolicy:
        """Merge the entries that match a group, in file order: the first that names a field wins."""
        merged: dict[str, object] = {}
        for entry in self.groups:
            if fnmatch.fnmatchcase(consumer_group, entry.match) and fnmatch.fnmatchcase(cluster, entry.cluster):
                for field in EffectivePolicy.model_fields:
                    value = getattr(entry, field)
                    if value is not None:
                        merged.setdefault(field, value)
        return EffectivePolicy(**{"team": self.default_team, **merged})  # type: ignore[arg-type]

    def unmatched_patterns(self, cluster: str, consumer_groups: Iterable[str]) -> list[str]:
        """Return the `match` patterns for this cluster that no group of it matches: misspelt, or not started yet."""
        names = list(consumer_groups)
        return [
            entry.match
            for entry in self.groups
            if fnmatch.fnmatchcase(cluster, entry.cluster)
            and not any(fnmatch.fnmatchcase(name, entry.match) for name in names)
        ]


class EffectivePolicy(_Section):
    """What holds for one consumer group of one cluster, with defaults filled in."""

    team: Name
    max_lag_messages: Annotated[int, Field(ge=0)] = 10_000
    max_lag_ms: Milliseconds = 5 * 60_000
    orderly: bool = False
    lock_interval_ms: Milliseconds = 20_000
