"""Judging a cluster minute by minute: its configuration, its facts, and what is told of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Engine

from offsetguard.config import Config
from offsetguard.decide.judge import JudgeReport, judge_interval
from offsetguard.facts.interval import IntervalFacts
from offsetguard.model.intervals import Interval
from offsetguard.model.views import MessageView, NotificationReason
from offsetguard.tables.group_facts import GroupFacts
from offsetguard_peers.judging.records import a_group

START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def config(**delivery: Any) -> Config:
    """Return a configuration of three teams, one of them without receivers; `delivery`: its fields."""
    values: dict[str, Any] = {
        "clusters": {"demo": {"name_servers": ["10.0.0.1:9876"]}},
        "groups": [{"match": "billing*", "team": "billing"}, {"match": "quiet*", "team": "nobody"}],
        "teams": {
            "operations": {"mail": ["operations@example.org"]},
            "billing": {"mail": ["one@example.org", "two@example.org"], "slack": ["#billing"]},
            "nobody": {},
        },
        "default_team": "operations",
        "delivery": {"group_interval_ms": 1, **delivery},
    }
    return Config.model_validate(values)


def group(name: str, lag: int | None, *, old: bool = False) -> GroupFacts:
    """Give a group without clients: trouble when more than 10,000 messages wait, and critical when they are old."""
    return a_group(name, lag, lag_ms=600_000 if old else 0)


def facts(minute: int, *groups: GroupFacts, **more: Any) -> IntervalFacts:
    """Give the facts of a minute after START."""
    interval = Interval(START + minute * MINUTE)
    return IntervalFacts("demo", interval, interval.end, groups=groups, **more)


def judge(engine: Engine, given: IntervalFacts, *, late: timedelta = timedelta(seconds=10), **more: Any) -> JudgeReport:
    """Judge `late` after the interval's end; `more`: `config`, and options of the judge."""
    settings = more.pop("config", None) or config()
    return judge_interval(engine, given, settings, now=given.interval.end + late, **more)


def told(report: JudgeReport) -> list[tuple[str, str, NotificationReason]]:
    """Return receiver, team and reason of each message."""
    found = []
    for message in report.messages:
        assert isinstance(message.view, MessageView), "not a digest"
        found.append((message.receiver, message.view.team, message.view.reason))
    return found
