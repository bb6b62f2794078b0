"""When a blind run calls a name or a number right. What it stages needs brokers: benchmarks/blind_run.py."""

import pytest

from offsetguard.judge.registry import RULES
from offsetguard_peers.trials.blind_causes import HARMLESS, OF_BROKERS, TOGETHER, TROUBLES, cause_named
from offsetguard_peers.trials.blind_run import BlindResult, Row


def test_causes_are_named_by_rules_that_exist() -> None:
    rules = {rule for one in (*TROUBLES, *OF_BROKERS, *HARMLESS) for rule in one.named | one.also}
    assert rules <= RULES.keys()
    assert all(cause_named(name) for pair in TOGETHER for name in pair)


def test_a_number_that_was_never_told_is_wrong() -> None:
    row = Row(cause_named("reset back"), "billing-worker", "billing-events", staged={"repeated": 600, "skipped": 0})
    row.figures = {"repeated": 588}
    assert row.errors() == {"repeated": pytest.approx(0.02), "skipped": None}
    result = BlindResult("5.3.3", 1, rows=[row])
    assert "never told" in result.table()
    assert not result.is_right
