"""What a blind run draws, and when it calls a number right. What it stages needs brokers: benchmarks/blind_run.py."""

from __future__ import annotations

import pytest

from offsetguard.judge.registry import RULES
from offsetguard_peers.trials.blind_causes import HARMLESS, OF_BROKERS, TOGETHER, TROUBLES, cause_named
from offsetguard_peers.trials.blind_run import WELL_FOR_S, BlindResult, Row, draw


def test_a_seed_draws_the_same_again() -> None:
    assert draw(7, 15, 900.0) == draw(7, 15, 900.0) != draw(8, 15, 900.0)


def test_every_cause_comes_before_one_comes_again_and_each_group_is_well_at_first() -> None:
    drawn = draw(1, 40, 3600.0)
    alone = [one.causes[0] for one in drawn if len(one.causes) == 1 and not one.causes[0].is_harmless]
    assert len({one.name for one in alone[: len(TROUBLES)]}) == min(len(alone), len(TROUBLES))
    assert len({one.name for one in drawn}) == len(drawn)
    assert min(one.at_s for one in drawn) >= WELL_FOR_S
    assert any(len(one.causes) == 2 for one in drawn)


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
