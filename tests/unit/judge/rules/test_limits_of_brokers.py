"""What brokers may be off by is set in `judgement`: at the figure itself there is a finding, just beyond it none."""

from pathlib import Path

import pytest

from offsetguard.config import Config
from offsetguard.judge.registry import run_rules
from offsetguard_peers.cases.rules import config_of, facts_of
from offsetguard_peers.cases.running import read_cases

CASES = Path(__file__).parent / "cases"


@pytest.mark.parametrize(
    ("rule_id", "figure", "setting", "beyond"),
    [
        ("clock_skew", "skew_ms", "clock_skew_ms", 1),
        ("slave_behind", "behind_ms", "slave_behind_ms", 1),
        ("disk_filling", "full_low_ms", "disk_full_within_ms", -1),
    ],
)
def test_a_limit_of_judgement_decides(rule_id: str, figure: str, setting: str, beyond: int) -> None:
    case = read_cases(CASES / f"{rule_id}.yml")[0]
    facts, config = facts_of(case["facts"]), config_of([])

    def found(config: Config) -> list[object]:
        return [one.figures[figure] for one in run_rules(facts, config)[0] if one.rule.id == rule_id]

    (value,) = found(config)
    assert isinstance(value, int)
    assert found(_with(config, setting, value)) == [value]
    assert found(_with(config, setting, value + beyond)) == []


def _with(config: Config, setting: str, value: int) -> Config:
    return config.model_copy(update={"judgement": config.judgement.model_copy(update={setting: value})})
