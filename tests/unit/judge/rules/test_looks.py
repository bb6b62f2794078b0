"""A round is read soon after its minute begins: what it finds is of the look, and the minute's end changes nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from offsetguard.judge.registry import RULE_FILES, found_by
from offsetguard.judge.windows.windows import judge_queues
from offsetguard.model.intervals import Interval
from offsetguard_peers.cases.rules import config_of, facts_of, fold_ahead
from offsetguard_peers.cases.running import for_each, read_cases

_OF_MINUTES = ("facts_not_published",)  # it counts minutes of which nothing was published


@for_each("file", RULE_FILES, name_of=lambda file: file.RULE.id)
def test_a_rule_finds_the_same_whenever_its_minute_ends(file: Any) -> None:
    cases = read_cases(Path(__file__).parent / "cases" / f"{file.RULE.id}.yml")
    fold_ahead(case["facts"] for case in cases)
    for case in cases if file.RULE.id not in _OF_MINUTES else ():
        config = config_of(case.get("config", []))
        seen = judge_queues(facts_of(case["facts"]), config)
        longer = replace(seen, interval=Interval(seen.interval.end))
        assert [*found_by(file, longer, config)] == [*found_by(file, seen, config)], case["why"]
