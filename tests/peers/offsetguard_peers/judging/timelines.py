"""Timelines: what happens when goes in, who hears what and when comes out; after Alertmanager's acceptance tests.

Files in tests/unit/decide/timelines/ hold courses. A minute is judged after the other by a fake clock, in the judge's
own transaction; every message that it puts into the outbox must be expected, and every expected one must come in its
time.

    at       minute -> what changes then and holds on:
             bad: {group: warning|critical}   groups whose consumers are off; those not named are well. slow: a group
                                              whose consumers are on and do not keep up (rule accumulation)
             unread: [group]                  groups some of whose queues could not be read
             hidden: [broker]                 brokers that do not answer; every bad group has its queue on broker-a
             config: {...}                    laid over the configuration: a reload
             silence: {matchers, minutes}; expire: true; acknowledge: [group]; late_by: minutes; notify_late: true
             pause: minutes                   nothing is judged for so long
    expect   between: [first, last minute], reason, and what is said: to, rule, firing, resolved, muted, thread, late,
             escalated_from, repeats, news (group -> new|worse), goes_on
Source: prometheus/alertmanager, test/with_api_v2/acceptance.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Engine

from offsetguard.config import Config
from offsetguard.decide.judge import JudgeReport, judge_interval
from offsetguard.decide.planning import PlannedMessage
from offsetguard.facts.interval import IntervalFacts
from offsetguard.model.fact_records import CollectionGap
from offsetguard.model.intervals import Interval
from offsetguard.model.notification import Matchers, Silence
from offsetguard.model.offsets import MessageQueue, QueueOffsets
from offsetguard.model.verdicts import Severity
from offsetguard.model.views import DigestView
from offsetguard.store import incidents as incident_store
from offsetguard.store import silences
from offsetguard.store.database import writing
from offsetguard_peers.judging.records import MINUTE, a_group, a_queue

START = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)  # a Friday
RECEIVER = "ops@example.org"
BASE: dict[str, Any] = {
    "clusters": {"demo": {"name_servers": ["10.0.0.1:9876"]}},
    "teams": {"ops": {"mail": [RECEIVER]}},
    "default_team": "ops",
    "delivery": {"group_interval_ms": 300_000, "repeat_interval_ms": 3_600_000},
}


WELL: dict[str, Any] = {"bad": {}, "unread": [], "hidden": [], "late_by": 0, "notify_late": False}


def _facts(interval: Interval, groups: list[str], world: Mapping[str, Any]) -> IntervalFacts:
    bad, hidden = world["bad"], world["hidden"]
    place, behind = MessageQueue("orders", "broker-a", 3), QueueOffsets(0, 20_000, 0)
    return IntervalFacts(
        "demo",
        interval,
        interval.end,
        groups=tuple(
            a_group(
                name,
                20_000 if name in bad else 0,
                unknown_queue_count=1 if name in world["unread"] else 0,
                lag_ms=600_000 if bad.get(name) == "critical" else 0,
                online_client_count=1 if bad.get(name) == "slow" else 0,
            )
            for name in groups
            if not hidden
        ),
        queues=tuple(a_queue(name, place, behind, lag_ms=600_000) for name in sorted(bad) if not hidden),
        gaps=tuple(
            CollectionGap("10.0.0.4:10911", name, 0, "GET_ALL_CONSUMER_OFFSET", "timed_out", "no answer in 3 s")
            for name in hidden
        ),
        unseen_broker_names=frozenset(hidden),
    )


def _laid_over(base: Any, change: Any) -> Any:
    if not (isinstance(base, dict) and isinstance(change, dict)):
        return change
    return {
        key: _laid_over(base.get(key), change[key]) if key in change else base[key]
        for key in dict.fromkeys((*base, *change))
    }


@dataclass
class Course:
    """One course, minute by minute."""

    engine: Engine
    script: dict[str, Any]
    after_minute: Callable[[int, datetime], object] | None = None  # with the minute and the moment of its judgement
    said: list[tuple[int, PlannedMessage]] = field(default_factory=list)
    reports: list[JudgeReport] = field(default_factory=list)
    start: datetime = START

    def run(self) -> None:
        settings = _laid_over(BASE, self.script.get("config", {}))
        config, world = Config.model_validate(settings), WELL
        changes = self.script["at"]
        groups = sorted({name for change in changes.values() for name in change.get("bad", {})})
        paused_until = 0
        for minute in range(self.script["until"] + 1):
            change = changes.get(minute, {})
            if "config" in change:
                settings = _laid_over(settings, change["config"])
                config = Config.model_validate(settings)
            world = world | {name: change[name] for name in change.keys() & world.keys()}
            self._act(minute, change)
            paused_until = max(paused_until, minute + change.get("pause", 0))
            if minute >= paused_until:
                self._judge(minute, _facts(Interval(self.start + minute * MINUTE), groups, world), config, world)

    def _judge(self, minute: int, facts: IntervalFacts, config: Config, world: Mapping[str, Any]) -> None:
        now = facts.interval.end + timedelta(seconds=5) + world["late_by"] * MINUTE
        report = judge_interval(self.engine, facts, config, now=now, notify_late=world["notify_late"])
        self.reports.append(report)
        self.said += [(minute, message) for message in report.messages]
        if self.after_minute is not None:
            self.after_minute(minute, now)
        if report.messages:
            again = judge_interval(self.engine, facts, config, now=now + MINUTE)
            assert again.already_judged
            assert not again.messages

    def _act(self, minute: int, change: dict[str, Any]) -> None:
        now = self.start + minute * MINUTE  # before the minute's own judgement, which comes after its end
        with writing(self.engine) as session:
            if given := change.get("silence"):
                matchers = {**given["matchers"]}
                if "severity" in matchers:
                    matchers["severity"] = Severity(matchers["severity"])
                ends_at = now + given["minutes"] * MINUTE
                silences.add(session, Silence(Matchers(**matchers), "alice", "deployment", now, ends_at, now))
            if change.get("expire"):
                assert silences.expire(session, silences.active(session, now)[0].id or 0, now=now)
            for name in change.get("acknowledge", ()):
                (incident,) = (
                    one for one in incident_store.open_incidents(session, "demo") if one.subject.consumer_group == name
                )
                at = now + timedelta(seconds=10)  # after the judgement of the minute before, whose message is at hand
                silences.acknowledge(session, incident, author="bob", comment="looking", now=at)

    def table(self) -> str:
        return "\n".join(str(shown(minute, message)) for minute, message in self.said)


def shown(minute: int, message: PlannedMessage) -> dict[str, Any]:
    """Return what a message says, as timelines write it."""
    view = message.view
    about = {"minute": minute, "to": message.receiver, "thread": view.thread_key}
    if isinstance(view, DigestView):
        return {**about, "reason": "digest", "rule": sorted(one.rule_id for one in view.sections)}
    return {
        **about,
        "reason": view.reason.value,
        "rule": view.rule_id,
        "firing": sorted(str(one.consumer_group) for one in view.firing),  # the worst first: see test_judged_messages
        "resolved": sorted(str(one.consumer_group) for one in view.resolved),
        "news": {str(one.consumer_group): one.news.value for one in view.firing if one.news is not None},
        "goes_on": view.goes_on_count,
        "muted": view.muted_count,
        "muted_when_resolved": [one.muted_when_resolved for one in view.resolved],
        "resolution": [one.resolution for one in view.resolved],
        "late": view.late,
        "escalated_from": view.escalated_from,
        "repeats": view.repeat_count,
        "severity": view.severity,
        "language": view.language,
    }


DEFAULTS = {
    "to": RECEIVER,
    "rule": "consumer_offline",
    "firing": [],
    "resolved": [],
    "muted": 0,
    "goes_on": 0,
    "late": False,
}


def check(course: Course) -> None:
    """Every message is expected, every expected one came in its time, and threads are those that are named alike."""
    left = [shown(minute, message) for minute, message in course.said]
    threads: dict[str, str] = {}
    for expected in course.script["expect"]:
        first, last = expected["between"]
        wanted = {key: value for key, value in {**DEFAULTS, **expected}.items() if key not in ("between", "thread")}
        if wanted["reason"] == "digest":
            wanted = {key: wanted[key] for key in ("to", "reason", "rule")}
        found = [one for one in left if first <= one["minute"] <= last and wanted.items() <= {**one}.items()]
        assert found, f"not said between {first} and {last}: {wanted}\nsaid:\n{course.table()}"
        left.remove(found[0])
        if "thread" in expected:
            assert threads.setdefault(expected["thread"], found[0]["thread"]) == found[0]["thread"], expected
    assert len(set(threads.values())) == len(threads), "threads that are named differently are one"
    assert not left, f"said besides: {left}\nof:\n{course.table()}"
