"""Each case of subscriptions.yml, and when two expressions are the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetguard.facts import SubscriptionFacts
from offsetguard.tables import CLIENT_SNAPSHOTS, LOG_EVENTS, SUBSCRIPTION_FACTS
from offsetguard_peers import log_fact_cases
from offsetguard_peers.fact_answers import answers


def subscriptions(events: list[Any], clients: list[Any]) -> list[SubscriptionFacts]:
    rows = {LOG_EVENTS.name: events, CLIENT_SNAPSHOTS.name: clients}
    return answers(SUBSCRIPTION_FACTS, SubscriptionFacts, rows, log_fact_cases.INTERVAL)


def changed(before: str | None, after: str | None) -> SubscriptionFacts:
    (fact,) = subscriptions([log_fact_cases.subscription_line(0, [10, "changed", before, after])], [])
    return fact


@pytest.mark.parametrize("case", log_fact_cases.cases("subscriptions"), ids=lambda case: case["why"])
def test_lines_and_members_become_the_fact_that_the_case_says(case: dict[str, Any]) -> None:
    found = subscriptions(*log_fact_cases.subscription_rows(case))
    expected = log_fact_cases.subscription_fact(case["fact"])
    assert [fact for fact in found if fact.topic == "orders"] == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("sub_string", "shown"),
    [("*", "*"), ("", "*"), (" ", "*"), ("||", "*"), ("b || a||b ", "a || b"), (None, None)],
)
def test_tags_are_compared_as_a_set(sub_string: str | None, shown: str | None) -> None:
    assert changed("before", sub_string).changed_to == shown


@settings(max_examples=20)
@given(st.lists(st.text("ab ", min_size=1, max_size=3), max_size=4))
def test_writing_tags_otherwise_changes_nothing(tags: list[str]) -> None:
    assert changed("||".join(tags), " || ".join(reversed(tags * 2))).refreshed_count == 1
