"""Who is named twice, who is never told anything, and what the receivers of a team cannot do."""

from __future__ import annotations

from collections.abc import Iterator

from offsetguard.config.file import ConfigFile, Problem
from offsetguard.config.routes import RECEIVER_LISTS
from offsetguard.config.yaml_lines import Path

WEBHOOKS_CANNOT = (
    "a Slack webhook can only add messages: repeats and ends are new messages, none is edited, threaded or marked "
    "as over, and after a crash one may come twice; with a bot token (delivery.slack_connection) and a channel in "
    "`slack` they are"
)


def receivers_named_twice(file: ConfigFile) -> Iterator[Problem]:
    """Yield entries of receiver lists that stand in the same list before: they are told once all the same."""
    for where, names in _lists(file):
        for position, name in enumerate(names):
            if name in names[:position]:
                yield file.problem((*where, position), f"{name!r} stands here twice; it is told once")


def teams_of_nothing(file: ConfigFile) -> Iterator[Problem]:
    """Yield teams that own no groups and that nothing is escalated to."""
    config = file.config
    heard = {config.default_team, *(entry.team for entry in config.groups)}
    heard |= {entry.escalate_to for entry in config.routes}
    for team in config.teams:
        if team not in heard:
            what = "never hears anything: no entry of `groups` gives it groups, and no route escalates to it"
            yield file.problem(("teams", team), what)


def limits_of_receivers(file: ConfigFile) -> Iterator[Problem]:
    """Yield notes: where webhooks stand, and teams that leave hearing to the default team."""
    config = file.config
    for name, team in config.teams.items():
        if not (team.mail or team.slack or team.slack_webhooks):
            what = f"has nobody to tell: the default team ({config.default_team}) hears what is its own"
            yield file.problem(("teams", name), what)
    for where, names in _lists(file):
        if where[-1] == "slack_webhooks" and names:
            yield file.problem(where, WEBHOOKS_CANNOT)


def _lists(file: ConfigFile) -> Iterator[tuple[Path, list[str]]]:
    for field in RECEIVER_LISTS:
        for name, team in file.config.teams.items():
            yield ("teams", name, field), getattr(team, field)
        for position, entry in enumerate(file.config.routes):
            yield ("routes", position, field), getattr(entry, field) or []
