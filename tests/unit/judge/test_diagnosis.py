"""What a bundle shows of one trouble over its looks: once, at the stage to which it came."""

from __future__ import annotations

from datetime import datetime

import pytest

from offsetguard.judge.diagnosis import followed
from offsetguard.judge.rule import Finding
from offsetguard_peers.judging.records import finding, interval

Looks = list[list[str]]


def diagnosed(looks: Looks) -> list[tuple[str, datetime, bool]]:
    """Return rule, first moment and whether it is over of what lasts; `looks`: the rules of each minute's findings."""
    judged: list[tuple[datetime, list[Finding]]] = [
        (interval(minute).end, [finding(rule_id) for rule_id in rules]) for minute, rules in enumerate(looks)
    ]
    return [(one.finding.rule.id, one.first_found_at, one.over) for one in followed(judged)]


LOST, MOVED, OFFLINE, SLOW = "messages_lost", "offset_moved_by_retention", "consumer_offline", "slow_consumption"


@pytest.mark.parametrize(
    ("looks", "shown"),
    [
        pytest.param([[LOST], [LOST], [MOVED], [MOVED]], [(MOVED, False)], id="one loss by two rules"),
        pytest.param([[OFFLINE], [LOST], [LOST], [OFFLINE]], [(LOST, False)], id="a loss is not undone"),
        pytest.param([[LOST], [MOVED], [], []], [(MOVED, True)], id="over"),
        pytest.param([[LOST, SLOW], [LOST, SLOW]], [(LOST, False), (SLOW, False)], id="two troubles"),
    ],
)
def test_a_trouble_is_shown_once_at_the_stage_to_which_it_came(looks: Looks, shown: list[tuple[str, bool]]) -> None:
    first = interval(0).end
    assert diagnosed(looks) == [(rule_id, first, over) for rule_id, over in shown]
