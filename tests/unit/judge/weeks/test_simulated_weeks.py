"""Parts of a simulated week, judged cycle by cycle: silence where all is well, and every injected trouble found.

The whole week of 200 groups takes minutes: `python -m offsetguard_peers.verdicts --measure weeks`.
"""

from itertools import pairwise

import pytest

from offsetguard_peers.cases.running import for_each
from offsetguard_peers.simulated.judged_weeks import find_troubles, healthy_week, warnings
from offsetguard_peers.simulated.weekly_groups import DAY, HOUR, Kind, Trouble

WEDNESDAY, FRIDAY, SATURDAY = 2 * 1440, 4 * 1440, 5 * 1440
PARTS = {
    "most teams deploy on a Wednesday morning": (range(80), WEDNESDAY + 585, WEDNESDAY + 675),
    "retention deletes at night": (range(80, 110), FRIDAY + 220, FRIDAY + 290),
    "traffic grows on a Monday morning": (range(110, 140), 375, 455),
    "a Saturday": (range(140, 160), SATURDAY + 700, SATURDAY + 780),
}


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_nobody_is_told_anything_of_healthy_groups(part: str) -> None:
    numbers, first, last = PARTS[part]
    week = healthy_week(numbers, first, last)
    assert {group.kind for group in week.groups} == set(Kind)
    assert [f"minute {minute}: {finding.cause}" for minute, finding in warnings(week, first, last)] == []


@for_each("seed", range(20))
def test_no_healthy_broker_is_away_in_two_rounds_in_a_row(seed: int) -> None:
    """Whoever is gets a warning, and should: restarts that are drawn for neighbouring rounds would be an outage."""
    week = healthy_week((), 0, 10_080, seed=seed)
    made = [minute for minute in range(10_080) if minute not in week.missing]
    away = [(before, broker) for before, now in pairwise(made) for at, broker in week.unseen if at == now]
    assert away
    assert not week.unseen.intersection(away)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(4))
def test_a_trouble_is_found_within_two_cycles_and_called_by_its_name(number: int) -> None:
    found = find_troubles(number, at=2 * DAY + 11 * HOUR + 7)
    assert set(found) == set(Trouble)
    for trouble, one in found.items():
        assert one.after is not None, f"{trouble}, {one.group.name}: never; {one.others}"
        assert one.after < 2, f"{trouble}, {one.group.name}"
        assert one.others == set(), f"{trouble}, {one.group.name}"
