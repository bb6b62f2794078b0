"""The judge keeps what happens to incidents in its own transaction, and nothing of what was only pending."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine

from offsetguard.decide.judge import JudgeReport, judge_interval
from offsetguard.facts.interval import IntervalFacts
from offsetguard.model.incident import EventKind
from offsetguard.model.intervals import Interval
from offsetguard.store import incidents
from offsetguard.store.database import reading
from offsetguard.tables.broker_facts import BrokerFacts
from offsetguard.tables.group_facts import GroupFacts
from offsetguard_peers.configs import one_team
from offsetguard_peers.databases import newest_incidents
from offsetguard_peers.judging.records import a_group

START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
CONFIG = one_team({"demo": {"name_servers": ["10.0.0.1:9876"]}}, team="operations")


def judge(engine: Engine, minute: int, *groups: GroupFacts, **more: Any) -> JudgeReport:
    given = {name: more.pop(name) for name in ("dry_run", "replay", "group_pattern") if name in more}
    late = more.pop("late", timedelta(seconds=10))
    interval = Interval(START + minute * MINUTE)
    facts = IntervalFacts("demo", interval, interval.end, groups=groups, **more)
    return judge_interval(engine, facts, CONFIG, now=interval.end + late, **given)


def skewed(clock_ahead_ms: int) -> tuple[BrokerFacts, ...]:
    figures = {"answered": True, "page_cache_lock_time_ms": 0}
    return (
        BrokerFacts(broker_name="broker-a", broker_id=0, listed=True, clock_ahead_ms=clock_ahead_ms, **figures),
        BrokerFacts(broker_name="broker-b", broker_id=0, listed=True, clock_ahead_ms=0, **figures),
    )


def history(engine: Engine, rule_id: str = "consumer_offline") -> list[tuple[int, str]]:
    """Return minute and kind of all that happened to the one incident of a rule, mutes left out."""
    (incident,) = (one for one in newest_incidents(engine) if one.subject.rule_id == rule_id)
    with reading(engine) as session:
        events = incidents.events_of(session, incident.incident_id)
    mine = {
        EventKind.OPENED,
        EventKind.WORSE,
        EventKind.BETTER,
        EventKind.UNKNOWN,
        EventKind.VISIBLE,
        EventKind.RESOLVED,
    }
    return [((event.at - START) // MINUTE, event.kind.value) for event in events if event.kind in mine]


def test_what_happens_is_kept_with_the_minute_that_showed_it(engine: Engine) -> None:
    judge(engine, 0, a_group("a", 20_000))
    judge(engine, 1, a_group("a", 20_000, lag_ms=600_000))
    judge(engine, 2, cluster_unseen=True)
    judge(engine, 3, a_group("a", 20_000))
    judge(engine, 4, a_group("a", 0))
    judge(engine, 5, a_group("a", 0))
    assert history(engine) == [
        (0, "opened"),
        (1, "worse"),
        (2, "unknown"),
        (3, "better"),
        (3, "visible"),
        (5, "resolved"),
    ]


def test_a_group_that_is_deleted_closes_its_incident(engine: Engine) -> None:
    judge(engine, 0, a_group("a", 20_000))
    for minute in (1, 2):
        judge(engine, minute)
    (incident,) = newest_incidents(engine)
    assert incident.resolution == "consumer group a is gone: the brokers keep no offsets of it"
    assert history(engine)[-1] == (2, "resolved")


def test_judging_again_adds_nothing(engine: Engine) -> None:
    for _ in range(2):
        judge(engine, 0, a_group("a", 20_000))
        judge(engine, 1, a_group("a", 0))
    judge(engine, 0, a_group("a", 20_000, lag_ms=600_000), replay=True)
    judge(engine, 2, a_group("a", 0), dry_run=True)
    assert history(engine) == [(0, "opened")]


def test_what_some_groups_were_judged_for_is_not_counted_again_with_all(engine: Engine) -> None:
    """Two good looks end an incident; one interval is one look, however often it is judged."""
    judge(engine, 0, a_group("a", 20_000))
    for pattern in ("a", "a*", None):
        judge(engine, 1, a_group("a", 0), group_pattern=pattern)
    (incident,) = newest_incidents(engine)
    assert (incident.is_open, incident.good_count) == (True, 1)


def test_an_interval_that_comes_late_is_history_too(engine: Engine) -> None:
    judge(engine, 0, a_group("a", 20_000), late=timedelta(hours=2))
    assert history(engine) == [(0, "opened")]


def test_one_look_at_a_clock_tells_nobody_and_leaves_nothing(engine: Engine) -> None:
    """A process that was held up between two looks at clocks would do: clock_skew wants two intervals."""
    report = judge(engine, 0, brokers=skewed(60_000))
    assert ([one.rule.id for one in report.findings], report.opened, report.messages) == (["clock_skew"], (), ())
    assert newest_incidents(engine) == []
    judge(engine, 1, brokers=skewed(0))
    with reading(engine) as session:
        assert incidents.open_incidents(session, "demo") == []


@pytest.mark.parametrize("pattern", [None, "some*"])
def test_two_looks_at_a_clock_open_it_since_the_first(engine: Engine, pattern: str | None) -> None:
    judge(engine, 0, brokers=skewed(60_000))
    if pattern is not None:  # a judgement of some groups tells nobody of what is pending elsewhere
        assert judge(engine, 1, brokers=skewed(60_000), group_pattern=pattern).messages == ()
    report = judge(engine, 1, brokers=skewed(60_000))
    assert [(one.opened_at, one.seen_count) for one in report.opened] == [(START, 2)]
    assert [message.view.rule_id for message in report.messages] == ["clock_skew"]
    assert history(engine, "clock_skew") == [(1, "opened")]
