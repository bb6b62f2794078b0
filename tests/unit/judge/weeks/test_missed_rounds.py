"""The collector was away for 2 to 25 minutes: what lies in between is no rhythm of any group, and no news either.

Whoever stands still is named by the fourth round, nobody who is well is named at all, and nothing ends by it.
"""

from dataclasses import dataclass, replace
from itertools import product

import pytest

from offsetguard.decide.incidents.lifecycle import advance
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.registry import RULES, judge
from offsetguard.judge.windows.windows import judge_queues
from offsetguard.model.incident import Incident, Subject
from offsetguard.model.verdicts import QueueVerdict, Severity, State
from offsetguard_peers.cases.running import for_each, is_thorough
from offsetguard_peers.simulated.judged_weeks import CONFIG
from offsetguard_peers.simulated.weekly_groups import Kind, Trouble, WeeklyGroup, weekly_group
from offsetguard_peers.simulated.weeks import CLUSTER, STEPS_PER_CYCLE, SimulatedWeek

DAY = 24 * 60  # minutes
BACK = 2 * DAY + 11 * 60 + 37  # the minute of the first round after each outage
WARM_UP = 35 if is_thorough() else 12  # rounds before the longest outage
LAST = 6  # rounds after it
FLOOR = CONFIG.policy(CLUSTER, "any").lag_floor
OUTAGES = (2, 3, 5, 10, 15, 25) if is_thorough() else (2, 25)
STANDING = (Trouble.STOPPED, Trouble.STALLED, Trouble.POISON)
NUMBERS = range(4) if is_thorough() else range(1)
BEGAN = (1, 4, 12, 30) if is_thorough() else (1, 12)  # minutes before the first round after the outage
GROWING = (Trouble.STOPPED, Trouble.FALLING_BEHIND)


@dataclass(frozen=True)
class Case:
    """A group in trouble since some minutes before the first round after an outage."""

    trouble: Trouble
    number: int
    began: int
    outage: int

    def __str__(self) -> str:
        """Name it."""
        return f"{self.trouble}-{self.number}, begun {self.began} min before, outage of {self.outage} min"

    def group(self) -> WeeklyGroup:
        """Make it."""
        step = (BACK - self.began) * STEPS_PER_CYCLE
        return replace(weekly_group(self.number, days=3, trouble=self.trouble, at=step), name=str(self))


STANDING_CASES = [Case(*one) for one in product(STANDING, NUMBERS, BEGAN, OUTAGES)]
GROWING_CASES = [Case(trouble, n, outage, outage) for trouble, n, outage in product(GROWING, NUMBERS, OUTAGES)]
LASTING_CASES = [Case(trouble, 0, 10 + outage, outage) for trouble, outage in product(STANDING, OUTAGES)]


@pytest.fixture(scope="module")
def rounds() -> list[tuple[int, IntervalFacts]]:
    """Return (number of the round after the outages, judged facts): each case is a group with an outage of its own."""
    cases = {str(one): one for one in (*STANDING_CASES, *GROWING_CASES, *LASTING_CASES)}
    away = {name: range(BACK - one.outage, BACK) for name, one in cases.items()}
    week = SimulatedWeek([one.group() for one in cases.values()], away=away)
    first = BACK - max(OUTAGES) - WARM_UP
    return [(minute - BACK + 1, judge_queues(facts, CONFIG)) for minute, facts in week.cycles(first, BACK + LAST)]


def verdicts(facts: IntervalFacts, case: Case) -> list[tuple[QueueFacts, QueueVerdict]]:
    return [(queue, queue.verdict) for queue in facts.queues if queue.consumer_group == str(case) and queue.verdict]


@for_each("case", STANDING_CASES, name_of=str)
def test_whoever_stands_still_is_named_by_the_fourth_round(rounds: list[tuple[int, IntervalFacts]], case: Case) -> None:
    after = [facts for number, facts in rounds if 1 <= number <= 4]
    states = {verdict.state for facts in after for _, verdict in verdicts(facts, case)}
    assert states & {State.STOPPED, State.STALLED}


@for_each("case", GROWING_CASES, name_of=str)
def test_a_queue_whose_backlog_grew_meanwhile_is_not_well(rounds: list[tuple[int, IntervalFacts]], case: Case) -> None:
    after = [facts for number, facts in rounds if 1 <= number <= 5]
    judged = [one for facts in after for one in verdicts(facts, case) if (one[0].offsets.effective_lag or 0) >= FLOOR]
    assert [verdict.rule for _, verdict in judged if verdict.state is State.OK] == []
    assert judged or case.outage < 10 or case.number  # others have less to consume


@for_each("case", LASTING_CASES, name_of=str)
def test_nothing_that_goes_on_ends_by_it(rounds: list[tuple[int, IntervalFacts]], case: Case) -> None:
    incidents: tuple[Incident, ...] = ()
    open_before: set[Subject] = set()
    for number, facts in rounds:
        seen = replace(
            facts,
            groups=tuple(one for one in facts.groups if one.consumer_group == str(case)),
            queues=tuple(one for one in facts.queues if one.consumer_group == str(case)),
        )
        if not seen.groups:  # its outage
            continue
        judgement = judge(seen, CONFIG)
        changes = advance(incidents, judgement.findings, seen, RULES, cannot_tell=judgement.cannot_tell)
        incidents = (*changes.open, *changes.pending)
        if number < 1:
            open_before = {one.subject for one in incidents}
        else:
            assert open_before.intersection(one.subject for one in changes.resolved) == set()
    assert open_before


@pytest.mark.slow
@pytest.mark.parametrize("hour", [3, 11, 17])
def test_nobody_who_is_well_is_above_info(hour: int) -> None:
    """Traffic by day and by night, bursts, deployments and deleted files among them."""
    back = 2 * DAY + hour * 60 + max(OUTAGES)
    groups = {
        f"{number}, outage of {outage} min": (weekly_group(number, days=4), outage)
        for number, outage in product(range(24) if is_thorough() else range(len(Kind)), OUTAGES)
    }
    away = {name: range(back - outage, back) for name, (_, outage) in groups.items()}
    week = SimulatedWeek([replace(group, name=name) for name, (group, _) in groups.items()], away=away)
    loud = [
        f"round {minute - back + 1}: {finding.cause}"
        for minute, facts in week.cycles(back - max(OUTAGES) - WARM_UP, back + 15)
        if minute >= back
        for finding in judge(facts, CONFIG).findings
        if finding.severity is not Severity.INFO
    ]
    assert loud == []
