"""Who else is told: a chain of teams, each step once, after the repeats or the time of the team before it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from offsetguard.config import Config
from offsetguard.decide.incidents.timing import Step, level_due, steps
from offsetguard.model.intervals import Interval
from offsetguard.model.verdicts import Severity

START = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Entry:
    """What a route says of one team."""

    team: str
    to: str
    repeats: int | None = None
    minutes: int | None = None


def chain(*entries: Entry) -> tuple[Step, ...]:
    config = Config.model_validate(
        {
            "clusters": {"demo": {"name_servers": ["10.0.0.1:9876"]}},
            "teams": {name: {"mail": [f"{name}@example.org"]} for name in ("ops", "boss", "chief")},
            "default_team": "ops",
            "routes": [
                {
                    "team": one.team,
                    "escalate_to": one.to,
                    **({"escalate_after_repeats": one.repeats} if one.repeats else {}),
                    **({"escalate_after_ms": one.minutes * 60_000} if one.minutes else {}),
                }
                for one in entries
            ],
        }
    )
    return steps("ops", lambda team: config.route(team, "demo", rule_id="accumulation", severity=Severity.WARNING))


def test_steps_wait_for_what_the_route_of_the_team_before_says() -> None:
    assert chain(Entry("ops", "boss", repeats=2, minutes=30), Entry("boss", "chief", minutes=15)) == (
        Step("boss", "ops", 2, 1_800_000),
        Step("chief", "boss", None, 900_000),
    )


def test_a_team_without_such_a_route_has_no_chain() -> None:
    assert chain(Entry("boss", "chief", minutes=5)) == ()


CHAIN = (Step("boss", "ops", 2, 1_800_000), Step("chief", "boss", None, 900_000))


@pytest.mark.parametrize(
    ("level", "repeats", "minutes", "expected"),
    [
        (0, 1, 29, 0),
        (0, 2, 1, 1),
        (0, 0, 30, 1),
        (0, 9, 99, 1),  # one level an interval: the first team up is not passed over
        (1, 9, 14, 1),
        (1, 0, 15, 2),
        (2, 99, 999, 2),  # nobody is left
        (3, 99, 999, 3),  # the chain was longer once
    ],
)
def test_a_level_is_due_after_its_repeats_or_its_time(level: int, repeats: int, minutes: int, expected: int) -> None:
    interval = Interval(START + timedelta(minutes=minutes))
    assert level_due(CHAIN, level=level, repeats=repeats, first_notified_at=START, interval=interval) == expected
