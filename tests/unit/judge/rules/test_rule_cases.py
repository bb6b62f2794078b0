"""Every case in `cases/<rule>.yml` gives exactly the findings that it says.

A case: `why` (a sentence), `facts` (only what matters; see `offsetguard_peers.cases.rules`), `config` (group policies),
`expect` (findings of the rule by itself, before one finding explains another). An expected finding names the fields
that matter: variant, severity, state, summary, cause, do_next, commands, figures, queues, brokers. Where they matter:
- `cannot_tell`: all that the rule cannot tell, each with the fields that matter (consumer_group, brokers, because);
- `explains`: what the findings of the rule explain in the end ("rule_id consumer_group topic", - for none), sorted;
- `others`: the rules that are found besides this one in the end, sorted; an empty list: there is no other warning.
"""

from pathlib import Path
from typing import Any

import pytest

from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.evidence.unseen import OF_THE_ROUND
from offsetguard.judge.registry import LABELS, RULE_FILES, RULES, judge, run_rules
from offsetguard.judge.rule import Finding
from offsetguard.model.verdicts import CannotTell
from offsetguard_peers.cases.rules import config_of, facts_of, fold_ahead
from offsetguard_peers.cases.running import for_each, read_cases

CASES = Path(__file__).parent / "cases"


def _shown(finding: Finding, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return of a finding what the case wants to know."""
    shown: dict[str, Any] = {
        name: getattr(finding, name)
        for name in ("consumer_group", "topic", "variant", "state", "summary", "cause", "do_next")
        if name in wanted
    }
    if "commands" in wanted:
        shown["commands"] = list(finding.commands)
    if "severity" in wanted:
        shown["severity"] = finding.severity.value
    if "unsure" in wanted:
        shown["unsure"] = finding.unsure
    if "figures" in wanted:
        shown["figures"] = {name: finding.figures.get(name, "no such figure") for name in wanted["figures"]}
    if "queues" in wanted:
        queues = (evidence.message_queue for evidence in finding.queues)
        shown["queues"] = [f"{queue.broker_name}/{queue.queue_id}" for queue in queues]
    if "brokers" in wanted:
        shown["brokers"] = sorted(finding.broker_names)
    return shown


def _untold(entry: CannotTell, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return of what a rule cannot tell what the case wants to know."""
    told = {"consumer_group": entry.consumer_group, "brokers": sorted(entry.broker_names), "because": entry.because}
    return {name: value for name, value in told.items() if name in wanted}


CASE_FILES = {file.stem: read_cases(file) for file in sorted(CASES.glob("*.yml"))}


@pytest.fixture(scope="module", autouse=True)
def folded() -> None:
    fold_ahead(case["facts"] for cases in CASE_FILES.values() for case in cases)


def _cases(*saying: str) -> list[Any]:
    """Return (rule id, case) of all cases that have one of these keys."""
    return [
        pytest.param(rule_id, case, id=f"{rule_id}: {case['why']}")
        for rule_id, cases in CASE_FILES.items()
        for case in cases
        if any(key in case for key in saying)
    ]


@pytest.mark.parametrize("rule_id", CASE_FILES)
def test_a_case_gives_exactly_the_findings_that_it_says(rule_id: str) -> None:
    @for_each("case", CASE_FILES[rule_id], name_of=lambda case: case["why"])
    def gives_what_it_says(case: dict[str, Any]) -> None:
        found, _ = run_rules(facts_of(case["facts"]), config_of(case.get("config", [])))
        findings = [finding for finding in found if finding.rule.id == rule_id]
        expected = case["expect"] or []
        shown = [_shown(finding, wanted) for finding, wanted in zip(findings, expected, strict=False)]
        assert (shown, len(findings)) == (expected, len(expected)), [finding.cause for finding in findings]

    gives_what_it_says()


@for_each("rule_id, case", _cases("cannot_tell"))
def test_a_case_leaves_untold_exactly_what_it_says(rule_id: str, case: dict[str, Any]) -> None:
    _, cannot_tell = run_rules(facts_of(case["facts"]), config_of(case.get("config", [])))
    untold = [entry for entry in cannot_tell if entry.rule_id == rule_id]
    expected = case["cannot_tell"] or []
    shown = [_untold(entry, wanted) for entry, wanted in zip(untold, expected, strict=False)]
    assert (shown, len(untold)) == (expected, len(expected)), untold


@for_each("rule_id, case", _cases("explains", "others"))
def test_a_case_explains_and_leaves_exactly_what_it_says(rule_id: str, case: dict[str, Any]) -> None:
    findings = judge(facts_of(case["facts"]), config_of(case.get("config", []))).findings
    explains = sorted(
        f"{one.rule_id} {one.consumer_group or '-'} {one.topic or '-'}"
        for finding in findings
        for one in finding.explains
        if finding.rule.id == rule_id
    )
    others = sorted({finding.rule.id for finding in findings} - {rule_id})
    shown = {"explains": explains, "others": others}
    assert {name: shown[name] for name in shown if name in case} == {name: case[name] for name in shown if name in case}


@for_each("rule", RULES.values(), name_of=lambda rule: rule.id)
def test_each_rule_has_a_case_that_fires_and_one_that_does_not(rule: Any) -> None:
    cases = CASE_FILES[rule.id]
    assert any(case["expect"] for case in cases)
    assert sum(not case["expect"] for case in cases) >= 2


@for_each("rule", RULES.values(), name_of=lambda rule: rule.id)
def test_each_rule_says_that_it_cannot_tell_of_brokers_that_were_not_seen(rule: Any) -> None:
    about_the_round = OF_THE_ROUND.intersection(rule.needs)
    for given in ({"unseen_broker_names": ["broker-a"]}, {"cluster_unseen": True}):
        _, cannot_tell = run_rules(facts_of(given), config_of([]))
        assert bool(about_the_round) != (rule.id in {entry.rule_id for entry in cannot_tell})


@for_each("rule", RULES.values(), name_of=lambda rule: rule.id)
def test_each_variant_has_a_case(rule: Any) -> None:
    cases = CASE_FILES[rule.id]
    shown = {finding.get("variant", "default") for case in cases for finding in case["expect"] or ()}
    assert shown == set(rule.texts)


@for_each("file", RULE_FILES, name_of=lambda file: file.RULE.id)
def test_a_rule_is_found_by_its_id_as_file_name_and_explains_itself(file: Any) -> None:
    assert Path(file.__file__).stem == file.RULE.id
    labels = {line.partition(": ")[0] for line in file.__doc__.splitlines()}
    assert labels >= set(LABELS)
    assert "default" in file.RULE.texts
    assert set(file.RULE.needs) <= set(IntervalFacts.__dataclass_fields__)
