"""The collector was away for 2 to 25 minutes: what lies in between is no rhythm of any group, and no news either.

Whoever stands still is named by the fourth round, nobody who is well is named at all, and nothing ends by it.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from offsetguard.incidents.lifecycle import advance
from offsetguard.rules.registry import judge, rules_by_id
from offsetguard.rules.rule import Severity
from offsetguard.verdicts import State
from offsetguard.windows import judge_queues
from offsetguard_peers.examples import is_thorough
from offsetguard_peers.for_each import for_each
from offsetguard_peers.judged_weeks import CONFIG
from offsetguard_peers.simulated_facts import STEPS_PER_CYCLE
from offsetguard_peers.simulated_weeks import CLUSTER, SimulatedWeek
from offsetguard_peers.weekly_groups import Kind, Trouble, weekly_group

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetguard.facts import IntervalFacts
    from offsetguard.incidents.incident import Incident, Subject

DAY = 24 * 60  # minutes
AT = 2 * DAY + 11 * 60 + 7
WINDOW = 35  # rounds before the outage: a window, and more
FLOOR = CONFIG.policy(CLUSTER, "any").lag_floor
OUTAGES = (2, 3, 5, 10, 15, 25) if is_thorough() else (2, 10, 25)
STANDING = (Trouble.STOPPED, Trouble.STALLED, Trouble.POISON)
NUMBERS = range(4) if is_thorough() else range(1)
BEGAN = (1, 4, 12, 30) if is_thorough() else (1, 12)  # minutes before the first round after the outage


def rounds_after(trouble: Trouble, number: int, began: int, outage: int, *, last: int) -> Iterator[IntervalFacts]:
    """Yield the judged facts of the rounds after an outage, in or before which a trouble began."""
    group = weekly_group(number, days=3, trouble=trouble, at=AT * STEPS_PER_CYCLE)
    back = AT + began
    week = SimulatedWeek([group], missing=frozenset(range(back - outage, back)))
    for minute, facts in week.cycles(back - outage - WINDOW, back + last):
        if minute >= back:
            yield judge_queues(facts, CONFIG)


@for_each("trouble, number, began, outage", list(product(STANDING, NUMBERS, BEGAN, OUTAGES)))
def test_whoever_stands_still_is_named_by_the_fourth_round(
    trouble: Trouble, number: int, began: int, outage: int
) -> None:
    rounds = rounds_after(trouble, number, began, outage, last=4)
    standing = {State.STOPPED, State.STALLED}
    assert any(queue.verdict.state in standing for facts in rounds for queue in facts.queues if queue.verdict)


@for_each(
    "trouble, number, outage",
    list(product((Trouble.STOPPED, Trouble.FALLING_BEHIND), NUMBERS, OUTAGES)),
)
def test_a_queue_whose_backlog_grew_meanwhile_is_not_well(trouble: Trouble, number: int, outage: int) -> None:
    grown = 0
    for facts in rounds_after(trouble, number, outage, outage, last=5):
        for queue in facts.queues:
            assert queue.verdict is not None
            if (queue.offsets.effective_lag or 0) >= FLOOR:
                assert queue.verdict.state is not State.OK, queue.verdict.rule
                grown += 1
    assert grown or outage < 10 or number  # others have less to consume


@pytest.mark.parametrize(
    "hour", [pytest.param(hour, marks=[] if hour == 11 else [pytest.mark.slow]) for hour in (3, 11, 17)]
)
def test_nobody_who_is_well_is_above_info(hour: int) -> None:
    """Traffic by day and by night, bursts, deployments and deleted files among them."""
    numbers = range(24) if is_thorough() else range(len(Kind))
    begins = 2 * DAY + hour * 60
    loud = []
    for outage in OUTAGES:
        week = SimulatedWeek(
            [weekly_group(number, days=4) for number in numbers], missing=frozenset(range(begins, begins + outage))
        )
        for minute, facts in week.cycles(begins - WINDOW, begins + outage + 15):
            if minute >= begins:
                loud += [
                    f"outage of {outage} min, minute {minute - begins - outage}: {finding.cause}"
                    for finding in judge(facts, CONFIG).findings
                    if finding.severity is not Severity.INFO
                ]
    assert loud == []


@for_each("trouble, outage", list(product(STANDING, OUTAGES)))
def test_nothing_that_goes_on_ends_by_it(trouble: Trouble, outage: int) -> None:
    began = 10 + outage
    group = weekly_group(0, days=3, trouble=trouble, at=AT * STEPS_PER_CYCLE)
    back = AT + began
    week = SimulatedWeek([group], missing=frozenset(range(back - outage, back)))
    incidents: tuple[Incident, ...] = ()
    open_before: set[Subject] = set()
    for minute, facts in week.cycles(back - outage - WINDOW, back + 6):
        judged = judge_queues(facts, CONFIG)
        judgement = judge(judged, CONFIG)
        changes = advance(incidents, judgement.findings, judged, rules_by_id(), cannot_tell=judgement.cannot_tell)
        incidents = (*changes.open, *changes.pending)
        if minute < back:
            open_before = {one.subject for one in incidents}
        else:
            assert open_before.intersection(one.subject for one in changes.resolved) == set()
    assert open_before
