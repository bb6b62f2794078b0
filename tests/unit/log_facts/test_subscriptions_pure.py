"""Each case of subscriptions.yml in pure Python; `tests/spark/test_log_facts.py` runs the same cases in Spark."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.subscription_changes import expression, subscription_facts
from offsetguard_peers import log_fact_cases


@pytest.mark.parametrize("case", log_fact_cases.cases("subscriptions"), ids=lambda case: case["why"])
def test_lines_and_members_become_the_fact_that_the_case_says(case: dict[str, Any]) -> None:
    events, clients = log_fact_cases.subscription_rows(case)
    found = subscription_facts(events, clients, log_fact_cases.SINCE)
    expected = log_fact_cases.subscription_fact(case["fact"])
    assert [fact for fact in found if fact.topic == "orders"] == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("sub_string", "shown"),
    [("*", "*"), ("", "*"), (" ", "*"), ("||", "*"), ("b || a||b ", "a || b"), (None, None)],
)
def test_tags_are_compared_as_a_set(sub_string: str | None, shown: str | None) -> None:
    assert expression(sub_string) == shown


@given(st.lists(st.text("ab ", min_size=1, max_size=3), max_size=4))
def test_writing_tags_otherwise_changes_nothing(tags: list[str]) -> None:
    assert expression("||".join(tags)) == expression(" || ".join(reversed(tags * 2)))
