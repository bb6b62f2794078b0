"""Each case of subscriptions.yml, and when two expressions are the same."""

from typing import Any

import pytest
from hypothesis import strategies as st

from offsetguard.tables import CLIENT_SNAPSHOTS, LOG_EVENTS, SUBSCRIPTION_FACTS
from offsetguard.tables.log_facts import SubscriptionFacts
from offsetguard_peers.cases.running import together
from offsetguard_peers.facts import log_cases
from offsetguard_peers.facts.answers import answers


def subscriptions(events: list[Any], clients: list[Any]) -> list[SubscriptionFacts]:
    rows = {LOG_EVENTS.name: events, CLIENT_SNAPSHOTS.name: clients}
    return answers(SUBSCRIPTION_FACTS, SubscriptionFacts, rows, log_cases.INTERVAL)


def changed(pairs: list[tuple[str | None, str | None]]) -> list[SubscriptionFacts]:
    """Return the fact of each change, from one expression to another; each is about a topic of its own."""
    lines = [
        log_cases.subscription_line(number, [10, "changed", *pair], topic=str(number))
        for number, pair in enumerate(pairs)
    ]
    found = {int(fact.topic): fact for fact in subscriptions(lines, [])}
    return [found[number] for number in range(len(pairs))]


@pytest.mark.parametrize("case", log_cases.cases("subscriptions"), ids=lambda case: case["why"])
def test_lines_and_members_become_the_fact_that_the_case_says(case: dict[str, Any]) -> None:
    lines, clients = log_cases.subscription_rows(case)
    expected = log_cases.subscription_fact(case["fact"])
    for read in (lines, log_cases.read_again(lines)):
        found = subscriptions(read, clients)
        assert [fact for fact in found if fact.topic == "orders"] == ([expected] if expected else [])


def test_tags_are_compared_as_a_set() -> None:
    shown = {"*": "*", "": "*", " ": "*", "||": "*", "b || a||b ": "a || b", None: None}
    found = changed([("before", sub_string) for sub_string in shown])
    assert dict(zip(shown, [one.changed_to for one in found], strict=True)) == shown


@together(st.lists(st.text("ab ", min_size=1, max_size=3), max_size=4))
def test_writing_tags_otherwise_changes_nothing(drawn: list[tuple[list[str]]]) -> None:
    pairs = [("||".join(tags), " || ".join(reversed(tags * 2))) for (tags,) in drawn]
    assert [pair for pair, one in zip(pairs, changed(pairs), strict=True) if one.refreshed_count != 1] == []
