"""The life of one incident: when it opens, what keeps it open, when it ends, and what its history says."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.decide.incidents.history import history_of
from offsetguard.decide.incidents.lifecycle import Changes, advance
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.registry import RULES
from offsetguard.judge.rule import Finding, Rule
from offsetguard.model.incident import EventKind, Incident, IncidentEvent
from offsetguard.model.intervals import Interval
from offsetguard.model.verdicts import Severity
from offsetguard_peers.cases.running import for_each
from offsetguard_peers.judging.records import a_group, said

START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
GROUP = a_group("billing", online_client_count=1)


class Look(StrEnum):
    """What an interval shows of the incident's group."""

    BAD = "b"
    WORSE = "B"  # bad, and critical
    GOOD = "g"
    UNSEEN = "?"
    EXPLAINED = "e"  # found, and named under another finding


@dataclass(frozen=True)
class Round:
    """What one interval did."""

    interval: Interval
    changes: Changes
    events: tuple[IncidentEvent, ...]

    @property
    def left(self) -> tuple[Incident, ...]:
        return (*self.changes.open, *self.changes.pending)


def rule(*, bad: int = 1, good: int = 2, calm_minutes: int = 0) -> Rule:
    return Rule(
        id="invented",
        severity=Severity.WARNING,
        place=0,
        needs=("groups",),
        means="",
        texts={"default": said("{lag} behind")},
        title="",
        title_zh="",
        recovered="recovered",
        recovered_zh="",
        table=("lag",),
        peak="lag",
        calm_ms=calm_minutes * 60_000,
        bad_cycles=bad,
        good_cycles=good,
    )


def look(one: Rule, minute: int, shown: Look, before: tuple[Incident, ...]) -> Round:
    """Judge one minute; its lag is the minute's number."""
    interval = Interval(START + timedelta(minutes=minute))
    unseen = shown is Look.UNSEEN
    facts = IntervalFacts("demo", interval, interval.end, groups=() if unseen else (GROUP,), cluster_unseen=unseen)
    severity = Severity.CRITICAL if shown is Look.WORSE else Severity.WARNING
    found = Finding(one, "demo", "billing", "orders", severity=severity, figures={"lag": minute}, state="STOPPED")
    elsewhere = replace(rule(), id="elsewhere")
    cause = Finding(elsewhere, "demo", None, None, severity=severity, figures={"lag": 1}, explained=(found,))
    findings = {Look.BAD: [found], Look.WORSE: [found], Look.EXPLAINED: [cause]}.get(shown, [])
    rules = {one.id: one, elsewhere.id: elsewhere}
    changes = advance(before, [item for item in findings if item.rule is one], facts, rules, wider=findings)
    return Round(interval, changes, history_of(before, changes, facts.now))


def live(one: Rule, looks: str) -> list[Round]:
    """Judge one minute after the other, each twice: the second time must change nothing."""
    rounds: list[Round] = []
    before: tuple[Incident, ...] = ()
    for minute, shown in enumerate(looks):
        first = look(one, minute, Look(shown), before)
        again = look(one, minute, Look(shown), first.left)
        if not (first.changes.resolved or first.changes.vanished):
            assert (again.left, again.events) == (first.left, ())
        rounds.append(first)
        before = first.left
    return rounds


def states(one: Rule, looks: str) -> str:
    """Return a letter for each minute: what the incident is after it."""
    letters = {"opened": "O", "seen_again": "o", "unknown": "u", "calm": "c", "resolved": "R", "pending": "p"}
    return "".join(
        next((letter for name, letter in letters.items() if getattr(each.changes, name)), ".")
        for each in live(one, looks)
    )


@pytest.mark.parametrize(
    ("bad", "good", "looks", "becomes"),
    [
        (1, 1, "bgbg", "OROR"),
        (1, 2, "bggbgg", "OcROcR"),
        (1, 2, "bgbgbggg", "OcococR."),
        (1, 2, "bg?g", "OcuR"),
        (1, 2, "b????gg", "OuuuucR"),
        (1, 2, "bgeggg", "OcocR."),
        (2, 2, "bgbggg", "p.p..."),
        (2, 2, "bbgg", "pOcR"),
        (2, 2, "b?bgg", "ppOcR"),
        (2, 2, "b??gb", "ppp.p"),
        (2, 2, "beb", "p.p"),
        (3, 1, "bbgbbbg", "pp.ppOR"),
        (1, 2, "e", "."),
    ],
)
def test_so_many_bad_looks_open_it_and_so_many_good_ones_end_it(bad: int, good: int, looks: str, becomes: str) -> None:
    assert states(rule(bad=bad, good=good), looks) == becomes


@pytest.mark.parametrize(
    ("calm_minutes", "looks", "becomes"),
    [(4, "bgggg", "OcccR"), (3, "bg?gg", "OccR."), (4, "b????g", "OcccuR"), (3, "bbggg", "OoccR")],
)
def test_calm_is_the_damping_of_rules_that_want_it_and_needs_one_good_look(
    calm_minutes: int, looks: str, becomes: str
) -> None:
    """What is not looked at within the calm is not called unknown, either."""
    assert states(rule(good=5, calm_minutes=calm_minutes), looks) == becomes


def test_its_id_and_its_beginning_are_those_of_the_first_look_although_it_opens_later() -> None:
    rounds = live(rule(bad=3), "bbb")
    (first,), (opened,) = rounds[0].changes.pending, rounds[2].changes.opened
    assert (opened.incident_id, opened.opened_at, opened.seen_count) == (first.incident_id, START, 3)
    assert [each.events for each in rounds[:2]] == [(), ()]
    assert [(event.kind, event.text) for event in rounds[2].events] == [
        (EventKind.OPENED, "warning: 2 behind (found in 3 intervals)")
    ]


def test_its_history_tells_what_changed_and_nothing_else() -> None:
    told = [(event.at, event.kind.value, event.text) for each in live(rule(), "bbB??bgbgg") for event in each.events]
    minute = [START + timedelta(minutes=number + 1) for number in range(10)]  # at their ends: they were not seen before
    assert told == [
        (minute[0], "opened", "warning: 0 behind"),
        (minute[2], "worse", "warning to critical: 2 behind"),
        (minute[3], "unknown", "no name server answered"),
        (minute[5], "better", "critical to warning: 5 behind"),
        (minute[5], "visible", "its evidence could be seen again"),
        (minute[9], "resolved", "recovered"),
    ]


def test_it_keeps_its_peak_and_how_long_it_lasted() -> None:
    (ended,) = live(rule(), "bbgbgg")[-1].changes.resolved
    assert (ended.peak, ended.seen_count, ended.lasted_ms(START)) == (3, 3, 4 * 60_000)


looks = st.text(st.sampled_from([one.value for one in Look]), min_size=1, max_size=14)
cycles = st.integers(min_value=1, max_value=3)


@given(looks=looks, bad=cycles, good=cycles)
def test_whatever_is_seen_it_is_told_no_more_often_than_the_damping_says(looks: str, bad: int, good: int) -> None:
    """Between two things that are told lie so many looks of the one kind, and none of the other."""
    rounds = live(rule(bad=bad, good=good), looks)
    tellings = [
        (minute, event.kind)
        for minute, each in enumerate(rounds)
        for event in each.events
        if event.kind in (EventKind.OPENED, EventKind.RESOLVED)
    ]
    kinds = [kind for _, kind in tellings]
    assert kinds == ([EventKind.OPENED, EventKind.RESOLVED] * len(kinds))[: len(kinds)]
    for minute, kind in tellings:
        visible = [one for one in looks[: minute + 1] if one != Look.UNSEEN]
        if kind is EventKind.OPENED:
            assert set(visible[-bad:]) <= {Look.BAD, Look.WORSE}
            assert len(visible) >= bad
        else:
            assert looks[minute] == Look.GOOD
            assert set(visible[-good:]) == {Look.GOOD}


@given(looks=looks, bad=cycles, good=cycles)
def test_whatever_is_seen_nothing_ends_or_opens_unseen_and_one_subject_has_one_incident(
    looks: str, bad: int, good: int
) -> None:
    for shown, each in zip(looks, live(rule(bad=bad, good=good), looks), strict=True):
        changes = each.changes
        mine = (*changes.open, *changes.pending, *changes.resolved, *changes.vanished)
        assert len(mine) <= 1
        assert not any(one.is_pending for one in changes.open)
        assert all(one.is_pending for one in changes.pending)
        if shown == Look.UNSEEN:
            assert (changes.opened, changes.resolved, changes.vanished, changes.seen_again) == ((), (), (), ())


@for_each("one", RULES.values(), name_of=lambda one: one.id)
def test_trouble_of_every_rule_is_told_within_two_intervals(one: Rule) -> None:
    """And critical trouble at once: a rule that doubts a first look calls it INFO."""
    assert one.bad_cycles in ((1,) if one.severity is Severity.CRITICAL else (1, 2))
    assert one.good_cycles >= 2, "one good look may be a moment between two bad ones"
