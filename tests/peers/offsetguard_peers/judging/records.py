"""Groups, queues, findings, incidents and minutes of facts: whatever a test does not name is of no importance there."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from string import Formatter
from typing import Any

from sqlalchemy import Engine

from offsetguard.config import Config
from offsetguard.decide.incidents.lifecycle import Changes, advance
from offsetguard.decide.judge import JudgeReport, judge_interval
from offsetguard.facts.duckdb_engine import windows_of
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.registry import RULES
from offsetguard.judge.rule import Finding, Texts
from offsetguard.model.incident import Evidence, Incident, Subject
from offsetguard.model.intervals import Interval
from offsetguard.model.offsets import MessageQueue, QueueOffsets
from offsetguard.model.verdicts import QueueEvidence, Severity
from offsetguard.model.views import MessageView, NotificationReason
from offsetguard.tables.group_facts import GroupFacts
from offsetguard.tables.queue_state import QueueState, Sample


def a_group(name: str, lag: int | None = 0, **more: Any) -> GroupFacts:
    """Return a group without clients on 4 queues of `orders`, where `lag` messages wait; `more`: further fields.

    It is in trouble when more than 10,000 messages wait.
    """
    fields = {
        "topic": "orders",
        "topic_kind": "normal",
        "queue_count": 4,
        "unknown_queue_count": 0,
        "never_committed_queue_count": 0,
        "lag": lag,
        "effective_lag": lag,
        "lost": 0,
        "lag_ms": 0,
        "online_client_count": 0,
        "message_model": None,
        **more,
    }
    return GroupFacts(consumer_group=name, **fields)


def a_queue(consumer_group: str, queue: MessageQueue, offsets: QueueOffsets, **more: Any) -> QueueFacts:
    """Return a suspect queue of a group, seen once, at the end of minute 0; `more`: further fields."""
    window = more.pop("window", None) or window_of_one(offsets, START + timedelta(minutes=1))
    return QueueFacts(consumer_group=consumer_group, message_queue=queue, offsets=offsets, window=window, **more)


@cache
def window_of_one(offsets: QueueOffsets, at: datetime) -> QueueState:
    """Return the window of a single sample, read at a moment."""
    return windows_of({offsets: [(at, one_sample(offsets, at))]})[offsets]


def one_sample(offsets: QueueOffsets, at: datetime) -> Sample:
    """Return a sample of a queue; without max or consumer offset it was not seen."""
    read_at = None if offsets.max_offset is None or offsets.consumer_offset is None else at
    return Sample(
        min_offset=offsets.min_offset,
        max_offset=offsets.max_offset,
        consumer_offset=offsets.consumer_offset,
        pull_offset=offsets.pull_offset,
        consumer_offset_read_at=read_at,
        max_offset_read_at=read_at,
    )


OPENED_AT = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
_EVIDENCE = Evidence(
    severity=Severity.WARNING,
    state="ANOMALY",
    variant="default",
    summary="something is wrong",
    cause="nobody knows why",
    do_next="look",
    figures={},
    queues=(),
    queue_count=0,
    broker_names=frozenset(),
)


def an_incident(
    rule_id: str = "accumulation",
    *,
    incident_id: str = "i1",
    cluster: str = "demo",
    consumer_group: str | None = "billing",
    topic: str | None = "orders",
    severity: Severity = Severity.WARNING,
    variant: str = "default",
    brokers: tuple[str, ...] = (),
    **more: Any,
) -> Incident:
    """Return an open incident; `more`: further fields of Incident."""
    evidence = replace(_EVIDENCE, severity=severity, variant=variant, broker_names=frozenset(brokers))
    fields = {"opened_at": OPENED_AT, "last_seen_at": OPENED_AT, "seen_count": 1, **more}
    return Incident(incident_id, Subject(cluster, rule_id, consumer_group, topic), evidence=evidence, **fields)


START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)  # of minute 0
MINUTE = timedelta(minutes=1)


def interval(minute: int) -> Interval:
    """Return the minute that begins so many minutes after START."""
    return Interval(START + minute * MINUTE)


def said(summary: str) -> Texts:
    """Return the texts of an invented rule."""
    return Texts(summary=summary, summary_zh=summary, cause="", cause_zh="", do_next="", do_next_zh="")


def finding(
    rule_id: str = "accumulation", group: str | None = "billing", topic: str | None = "orders", **more: Any
) -> Finding:
    """Return a finding with all figures that its texts name; `more`: lag, brokers, and fields of Finding."""
    lag = more.pop("lag", 500)
    rule = RULES[rule_id]
    templates = [text for texts in rule.texts.values() for text in (texts.summary, texts.cause, texts.do_next)]
    named = {name for template in templates for _, name, _, _ in Formatter().parse(template) if name}
    figures = dict.fromkeys({*rule.table, *named} - {"cluster", "consumer_group", "topic"})
    extra = {"name_servers": "n:1", "effective_lag": lag, "lost": lag}
    queues = tuple(
        QueueEvidence(MessageQueue("orders", broker, 0), {}) for broker in more.pop("brokers", ("broker-a",))
    )
    fields: dict[str, Any] = {"severity": Severity.WARNING, "state": "FALLING_BEHIND", **more}
    return Finding(rule, "demo", group, topic, figures={**figures, **extra}, queues=queues, **fields)


def row(group: str = "billing", **more: Any) -> GroupFacts:
    """Return the facts of a healthy group with a client; `more`: what is otherwise."""
    return a_group(group, **{"online_client_count": 1, **more})


def facts(minute: int, *groups: GroupFacts, **more: Any) -> IntervalFacts:
    """Return what was seen in a minute, at its end if nothing else is said: these groups and no others."""
    return IntervalFacts("demo", interval(minute), more.pop("now", interval(minute).end), groups=groups, **more)


def opened(*findings: Finding) -> tuple[Incident, ...]:
    """Return incidents that minute 0 opens: it is the last of as many as their rules want to see."""
    found = findings or (finding(),)
    before: tuple[Incident, ...] = ()
    for minute in range(1 - max(one.rule.bad_cycles for one in found), 1):
        changes = advance(before, found, facts(minute), RULES)
        before = (*changes.open, *changes.pending)
    return changes.open


def after(incidents: tuple[Incident, ...], given: IntervalFacts, *findings: Finding) -> Changes:
    """Judge one interval; returns what became of the incidents."""
    return advance(incidents, findings, given, RULES)


def twice(incidents: tuple[Incident, ...], given: IntervalFacts, **more: Any) -> Changes:
    """Judge the facts of an interval, and the same facts once more in the next: so many show an end."""
    first = advance(incidents, (), given, RULES, **more)
    later = Interval(given.interval.end)
    return advance(first.open, (), replace(given, interval=later, now=later.end), RULES, **more)


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
