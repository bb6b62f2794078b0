"""What a bundle shows of one trouble over its looks: once, at the stage to which it came."""

from dataclasses import replace
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


def test_what_is_over_does_not_go_on_because_something_comes_later_that_it_would_explain() -> None:
    reset = finding("offset_reset", last_event_at=interval(0).start)
    later = replace(reset, explained=(finding(SLOW),))
    looks = [(interval(minute).end, [one]) for minute, one in enumerate((reset, reset, later, later))]
    shown = {one.finding.rule.id: (one.first_found_at, one.over) for one in followed(looks)}
    assert shown == {"offset_reset": (interval(0).end, True), SLOW: (interval(2).end, False)}


def test_what_it_explained_from_the_beginning_keeps_an_event_open() -> None:
    reset = finding("offset_reset", last_event_at=interval(0).start, explained=(finding(SLOW),))
    shown = followed([(interval(minute).end, [reset]) for minute in range(3)])
    assert [(one.finding.rule.id, one.over) for one in shown] == [("offset_reset", False)]
