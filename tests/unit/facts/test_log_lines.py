"""Each case of log_lines.yml, and what spells are."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetguard.facts import texts
from offsetguard.model import rocketmq
from offsetguard.model.rocketmq import SILENCE
from offsetguard.tables import LOG_EVENTS, LOG_LINE_FACTS
from offsetguard.tables.log_facts import LogLineFacts
from offsetguard_peers.cases.rules import log_line
from offsetguard_peers.facts import log_cases
from offsetguard_peers.facts.answers import answers


def log_lines(rows: list[Any]) -> list[LogLineFacts]:
    return answers(LOG_LINE_FACTS, LogLineFacts, {LOG_EVENTS.name: rows}, log_cases.INTERVAL)


@pytest.mark.parametrize("case", log_cases.cases("log_lines"), ids=lambda case: case["why"])
def test_lines_are_counted_as_the_case_says(case: dict[str, Any]) -> None:
    rows = [log_cases.group_line(at, line) for at, line in enumerate(case["lines"])]
    expected = [log_line({"consumer_group": "billing", **given}) for given in case["facts"]]
    assert log_lines(rows) == sorted(expected, key=repr)
    assert log_lines(log_cases.read_again(rows)) == sorted(expected, key=repr)


@settings(max_examples=20)
@given(st.lists(st.integers(0, 1800), min_size=1, max_size=60))
def test_a_spell_ends_at_the_last_line_and_no_silence_lies_in_it(moments: list[int]) -> None:
    rows = [log_cases.group_line(at, [s, "group_offline", "billing", {}]) for at, s in enumerate(moments)]
    (fact,) = log_lines(rows)
    ordered = sorted(log_cases.before_the_end(s) for s in moments)
    spell = [at for at in ordered if at >= fact.spell_first_at]
    assert (fact.line_count, fact.first_at, fact.last_at) == (len(moments), ordered[0], ordered[-1])
    assert fact.spell_line_count == len(spell)
    assert all(after - before <= SILENCE for before, after in pairwise(spell))
    earlier = [at for at in ordered if at < fact.spell_first_at]
    assert not earlier or fact.spell_first_at - earlier[-1] > SILENCE


def test_only_the_first_20_clients_are_named() -> None:
    names = [f"client-{number:03}" for number in range(25)]
    rows = [
        log_cases.group_line(at, [10, "consumer_connected", "billing", {}, {"client_id": name}])
        for at, name in enumerate(names)
    ]
    (fact,) = log_lines(rows)
    assert fact.client_ids == tuple(names[:20])


def test_a_line_whose_fields_cannot_be_read_names_nothing_and_stops_nobody() -> None:
    """Both engines: a text that is no JSON has no fields."""
    row = log_cases.group_line(0, [10, "client_not_in_members", "billing", {}, {"broker_name": None}])
    (fact,) = log_lines([row | {"fields_json": "{"}])
    assert (fact.broker_name, fact.newest_fields_json) == (None, "{")


def test_every_kind_that_a_rule_looks_for_is_counted() -> None:
    kinds = {
        rocketmq.FILE_NOT_WRITTEN,
        *rocketmq.REBALANCE_NOISE,
        *rocketmq.MEMBERSHIP,
        *rocketmq.RESETS,
        *rocketmq.FLOW_CONTROL,
    }
    assert not {kind for kind in kinds if f"'{kind}'" not in texts.spark_text(LOG_LINE_FACTS.name)}
