"""Each case of log_lines.yml in pure Python; `tests/spark/test_log_facts.py` runs the same cases in Spark."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.log_lines import MOST_CLIENTS, SILENCE, log_line_facts
from offsetguard_peers import log_fact_cases


@pytest.mark.parametrize("case", log_fact_cases.cases("log_lines"), ids=lambda case: case["why"])
def test_lines_are_counted_as_the_case_says(case: dict[str, Any]) -> None:
    rows = [log_fact_cases.group_line(at, line) for at, line in enumerate(case["lines"])]
    expected = [log_fact_cases.line_count(given) for given in case["facts"]]
    for ordered in (rows, rows[::-1]):  # tables give rows in any order
        assert sorted(log_line_facts(ordered, log_fact_cases.SINCE), key=repr) == sorted(expected, key=repr)


@given(st.lists(st.integers(0, 1800), min_size=1, max_size=60))
def test_a_spell_ends_at_the_last_line_and_no_silence_lies_in_it(moments: list[int]) -> None:
    rows = [log_fact_cases.group_line(at, [s, "group_offline", "billing", {}]) for at, s in enumerate(moments)]
    (fact,) = log_line_facts(rows, log_fact_cases.SINCE)
    ordered = sorted(log_fact_cases.before_the_end(s) for s in moments)
    spell = [at for at in ordered if at >= fact.spell_first_at]
    assert (fact.line_count, fact.first_at, fact.last_at) == (len(moments), ordered[0], ordered[-1])
    assert fact.spell_line_count == len(spell)
    assert all(after - before <= SILENCE for before, after in pairwise(spell))
    earlier = [at for at in ordered if at < fact.spell_first_at]
    assert not earlier or fact.spell_first_at - earlier[-1] > SILENCE


def test_only_the_first_clients_are_named() -> None:
    names = [f"client-{number:03}" for number in range(MOST_CLIENTS + 5)]
    rows = [
        log_fact_cases.group_line(at, [10, "consumer_connected", "billing", {}, {"client_id": name}])
        for at, name in enumerate(names)
    ]
    (fact,) = log_line_facts(rows, log_fact_cases.SINCE - timedelta(days=1))
    assert fact.client_ids == tuple(names[:MOST_CLIENTS])
