"""Findings, facts and incidents minute by minute, for tests of how incidents begin, go on and end."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from string import Formatter
from typing import Any

from offsetguard.decide.incidents.lifecycle import Changes, advance
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.registry import RULES
from offsetguard.judge.rule import Finding, Texts
from offsetguard.model.incident import Incident
from offsetguard.model.intervals import Interval
from offsetguard.model.offsets import MessageQueue
from offsetguard.model.verdicts import QueueEvidence, Severity
from offsetguard.tables.group_facts import GroupFacts

START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)  # of minute 0


def interval(minute: int) -> Interval:
    """Return the minute that begins so many minutes after START."""
    return Interval(START + timedelta(minutes=minute))


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


def row(group: str = "billing", topic: str = "orders", **more: Any) -> GroupFacts:
    """Return the facts of a healthy group; `more`: what is otherwise."""
    unknown = dict.fromkeys(("inflight", "available", "message_model"))
    fields: dict[str, Any] = {
        "topic_kind": "normal",
        "queue_count": 4,
        "unknown_queue_count": 0,
        "never_committed_queue_count": 0,
        "lag": 0,
        "effective_lag": 0,
        "lost": 0,
        "lag_ms": 0,
        "online_client_count": 1,
        **unknown,
        **more,
    }
    return GroupFacts(consumer_group=group, topic=topic, **fields)


def facts(minute: int, *groups: GroupFacts, **more: Any) -> IntervalFacts:
    """Return what was seen in a minute: these groups and no others."""
    return IntervalFacts("demo", interval(minute), interval(minute).end, groups=groups, **more)


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
