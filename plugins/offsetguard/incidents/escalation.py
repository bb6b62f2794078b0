"""Escalation: who else is told of an incident that nobody acknowledges. Pure.

A step leads from a team to the one of its route's `escalate_to`. It is due after so many repeats, or so long after the
incident was first told, as the route says; whichever comes first. Steps of a chain follow each other, and each counts
from when the team that it leads from first heard. Each step is taken once and never taken back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from offsetguard.config.routes import Route
    from offsetguard.intervals import Interval


@dataclass(frozen=True, slots=True)
class Step:
    """One level: the team that is told additionally, and when, counted from when `from_team` first heard."""

    team: str
    from_team: str
    after_repeats: int | None
    after_ms: int | None


def steps(team: str, route_of: Callable[[str], Route]) -> tuple[Step, ...]:
    """Return the chain that begins at a team; it ends where no route leads on, or would lead back."""
    found: list[Step] = []
    seen = {team}
    while True:
        route = route_of(team)
        following, repeats, wait_ms = route.escalate_to, route.escalate_after_repeats, route.escalate_after_ms
        if following is None or following in seen or (repeats is None and wait_ms is None):
            return tuple(found)
        found.append(Step(following, team, repeats, wait_ms))
        seen.add(following)
        team = following


def level_due(chain: tuple[Step, ...], *, level: int, repeats: int, first_told_at: datetime, interval: Interval) -> int:
    """Return the level that an unacknowledged incident has now: at least `level`, at most one more.

    `repeats`, `first_told_at`: how often the team that the next step leads from was told again, and since when it
    knows.
    """
    if level >= len(chain):
        return level
    step = chain[level]
    often = step.after_repeats is not None and repeats >= step.after_repeats
    long = step.after_ms is not None and interval.start - first_told_at >= timedelta(milliseconds=step.after_ms)
    return level + 1 if often or long else level
