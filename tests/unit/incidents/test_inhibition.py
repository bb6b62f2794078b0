"""Trouble of a cluster or broker mutes what lies below it, and nothing that is not its consequence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.decide.incidents.muting import Inhibitors
from offsetguard.judge.registry import RULES
from offsetguard.judge.rule import Scope
from offsetguard.model.notification import MuteReason
from offsetguard.model.verdicts import Severity
from offsetguard_peers.judging.records import an_incident

CASES = yaml.safe_load((Path(__file__).parent / "inhibitions.yml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
def test_a_case_is_muted_as_it_says(case: dict[str, Any]) -> None:
    incidents = []
    for name, (rule_id, brokers, *more) in case["open"].items():
        given = {**(more[0] if more else {})}
        severity = Severity(given.pop("severity", "warning"))
        incidents.append(an_incident(rule_id, incident_id=name, brokers=tuple(brokers), severity=severity, **given))
    inhibitors = Inhibitors(incidents)
    muted = {one.incident_id: mute for one in incidents if (mute := inhibitors.mute(one)) is not None}
    assert {name: mute.by for name, mute in muted.items()} == case["expect"]
    assert {mute.reason for mute in muted.values()} <= {MuteReason.INHIBITION}


def test_the_data_names_rules_and_variants_that_there_are() -> None:
    for rule in RULES.values():
        if rule.mutes is not None:
            assert set(rule.mutes.variants) <= set(rule.texts), rule.id
            assert set(rule.mutes.rules) <= RULES.keys(), rule.id
            assert rule.mutes.scope in (Scope.BROKER, Scope.CLUSTER, Scope.TOPIC)


sources = st.sampled_from(
    [(rule.id, (rule.mutes.variants or ("default",))[0]) for rule in RULES.values() if rule.mutes]
)
brokers = st.frozensets(st.sampled_from(["broker-a", "broker-b"])).map(lambda names: tuple(sorted(names)))
anything = st.builds(
    lambda source, on, number: an_incident(
        source[0], incident_id=f"i{number}", variant=source[1], brokers=on, severity=Severity.CRITICAL
    ),
    sources,
    brokers,
    st.integers(0, 99),
)


@given(incidents=st.lists(anything, max_size=6, unique_by=lambda one: one.incident_id))
def test_something_is_always_heard_and_nothing_is_muted_by_itself_or_in_a_circle(incidents: list[Any]) -> None:
    muted_by = {one.incident_id: mute.by for one in incidents if (mute := Inhibitors(incidents).mute(one))}
    for start in muted_by:
        reached, at = set(), start
        while at in muted_by:
            assert at not in reached
            reached.add(at)
            at = muted_by[at]
    assert not incidents or len(muted_by) < len(incidents)
