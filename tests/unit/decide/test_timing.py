"""The spans that an operator sets are the spans that happen: a table of cases, and what holds for every course."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.config.routes import Route
from offsetguard.decide.incidents import timing
from offsetguard.model.intervals import Interval
from offsetguard.model.notification import MuteReason, Notified, NotifiedIncident
from offsetguard.model.verdicts import Severity
from offsetguard.model.views import NotificationReason
from offsetguard_peers.cases.running import for_each
from offsetguard_peers.judging.records import config

START = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
ROUTE = config().route("operations", "demo", rule_id="accumulation", severity=Severity.WARNING)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
CASES = yaml.safe_load((Path(__file__).parent / "timings.yml").read_text(encoding="utf-8"))
OF_THE_AUDIENCE = {"escalated", "receiver_removed"}  # decided before or after the spans: tests/unit/pipeline


def last(minutes_ago: int, firing: dict[str, str], ended: str | None = None) -> Notified:
    at = START - minutes_ago * MINUTE
    known = {name: NotifiedIncident(Severity(severity), at, at) for name, severity in firing.items()}
    return Notified(at, "thread", known, ended=Severity(ended) if ended else None)


def candidate(name: str, severity: str, minutes: int, muted: str | None = None) -> timing.Candidate:
    return timing.Candidate(name, Severity(severity), START - minutes * MINUTE, MuteReason(muted) if muted else None)


@for_each("case", CASES, name_of=lambda case: case["why"])
def test_a_case_is_decided_as_it_says(case: dict[str, Any]) -> None:
    spans = {"group_wait_ms": 180_000, "group_interval_ms": 300_000, "repeat_interval_ms": 3_600_000}
    route = replace(ROUTE, **{**spans, "send_resolved": True, **case.get("timing", {})})
    decision = timing.decide_in_time(
        Interval(START),
        last(*case["last"]) if case["last"] else timing.NEVER_NOTIFIED,
        [candidate(name, *given) for name, given in case["firing"].items()],
        route,
    )
    assert decision.reason.value == case["expect"]
    assert decision.send is decision.reason.is_sent


def test_every_reason_has_a_case() -> None:
    assert {case["expect"] for case in CASES} | OF_THE_AUDIENCE == {reason.value for reason in NotificationReason}


ids = st.frozensets(st.sampled_from("abcd"))
last_sents = st.none() | st.builds(
    timing.LastSent, at=st.integers(0, 200).map(lambda minutes: START - minutes * MINUTE), firing=ids, resolved=ids
)


@given(last=last_sents, firing=ids, resolved=ids, wanted=st.booleans())
def test_without_spans_it_sends_exactly_when_alertmanager_would(
    last: timing.LastSent | None, firing: frozenset[str], resolved: frozenset[str], *, wanted: bool
) -> None:
    def needs_update() -> bool:
        """Say it line by line as notify/dedup_stage.go does."""
        if last is None:
            return len(firing) > 0
        if not firing.issubset(last.firing):
            return True
        if len(firing) == 0:
            return len(last.firing) > 0
        if wanted and not resolved.issubset(last.resolved):
            return True
        return last.at < START - HOUR

    told = {"firing": firing, "resolved": resolved, "send_resolved": wanted}
    decision = timing.decide(now=START, last_sent=last, repeat_interval_ms=3_600_000, **told)
    assert decision.send is needs_update()


minutes = st.integers(0, 12)
routes = st.builds(
    lambda wait, interval, repeat, wanted: replace(
        ROUTE,
        group_wait_ms=wait * 30_000,
        group_interval_ms=interval * 30_000,
        repeat_interval_ms=repeat * 30_000,
        send_resolved=wanted,
    ),
    st.integers(0, 8),
    st.integers(1, 10),
    st.integers(1, 18),
    st.booleans(),
)
courses = st.lists(
    st.tuples(st.sampled_from("abc"), minutes, st.integers(1, 12), st.sampled_from(["warning", "critical"])), max_size=5
)


def _at(minute: int, course: list[tuple[str, int, int, str]]) -> list[timing.Candidate]:
    """Give what fires in a minute: each incident from its opening for so long; one that opens again is a new one."""
    return [
        timing.Candidate(f"{name}{opened}", Severity(severity), START + opened * MINUTE)
        for name, opened, lasts, severity in {(one[0], one[1]): one for one in course}.values()
        if opened <= minute < opened + lasts
    ]


def _after(
    before: Notified, interval: Interval, firing: list[timing.Candidate], route: Route, decision: timing.Decision
) -> Notified:
    if not decision.send:
        return timing.after_silence(interval, before, route, decision.reason)
    known = {one.incident_id: NotifiedIncident(one.severity, interval.start, interval.start) for one in firing}
    return Notified(interval.start, "thread", known, ended=None if known else before.worst)


@given(course=courses, route=routes)
def test_nothing_is_told_twice_and_nothing_is_kept_back_for_longer_than_the_two_waits(
    course: list[tuple[str, int, int, str]], route: Route
) -> None:
    known = timing.NEVER_NOTIFIED
    for minute in range(40):
        interval = Interval(START + minute * MINUTE)
        firing = _at(minute, course)
        decision = timing.decide_in_time(interval, known, firing, route)
        if decision.send:
            quiet = known.at is not None and interval.start - known.at < timedelta(
                milliseconds=route.repeat_interval_ms
            )
            unchanged = {one.incident_id for one in firing} == set(known.firing)
            assert not (quiet and unchanged), "the same state was told twice"
        known = _after(known, interval, firing, route, decision)
        assert not timing.decide_in_time(interval, known, firing, route).send
        longest = timedelta(milliseconds=route.group_wait_ms + route.group_interval_ms)
        for one in firing:
            assert one.incident_id in known.firing or interval.start - one.opened_at < longest


@given(course=courses, route=routes)
def test_whoever_was_told_that_something_fires_is_told_its_end(
    course: list[tuple[str, int, int, str]], route: Route
) -> None:
    known = timing.NEVER_NOTIFIED
    for minute in range(60):
        interval = Interval(START + minute * MINUTE)
        firing = _at(minute, course)
        known = _after(known, interval, firing, route, timing.decide_in_time(interval, known, firing, route))
    if route.send_resolved:
        assert not known.firing


@given(course=courses, route=routes)
def test_no_news_follows_a_message_within_the_group_interval_unless_they_are_worse(
    course: list[tuple[str, int, int, str]], route: Route
) -> None:
    """However often trouble comes and goes: the spans hold over the end of a spell."""
    known, last, worst_sent = timing.NEVER_NOTIFIED, None, -1
    for minute in range(60):
        interval = Interval(START + minute * MINUTE)
        firing = _at(minute, course)
        decision = timing.decide_in_time(interval, known, firing, route)
        worst = max((one.severity.rank for one in firing), default=-1)
        if decision.send:
            waited = last is None or interval.start - last >= timedelta(milliseconds=route.group_interval_ms)
            assert waited or worst > worst_sent or decision.reason is NotificationReason.REPEAT
            last, worst_sent = interval.start, worst if firing else worst_sent
        known = _after(known, interval, firing, route, decision)
    assert known.is_empty
