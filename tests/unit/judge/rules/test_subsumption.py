"""One cause, one finding: nothing is dropped without being named, and an explanation never makes trouble quieter."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.registry import RULES
from offsetguard.judge.rule import Explains, Finding, Rule, Scope
from offsetguard.judge.subsumption import by_shares, subsume
from offsetguard.model.offsets import MessageQueue, QueueOffsets
from offsetguard.model.verdicts import QueueEvidence, Severity
from offsetguard_peers.judging.records import a_group, a_queue, facts, said

INVENTED = {
    name: Rule(
        id=name,
        severity=Severity.WARNING,
        place=0,
        needs=(),
        means=name,
        texts={"default": said(f"{name} of {{consumer_group}}")},
        title=name,
        title_zh=name,
        recovered="",
        recovered_zh="",
    )
    for name in "abcd"
}
Pair = tuple[str, Explains]  # the explaining rule, and whom it explains
Queues = dict[tuple[str, int], int | None]


def finding(rule_id: str, group: str | None = "g", topic: str | None = "t", **more: Any) -> Finding:
    queues: Queues = more.pop("queues", {})
    fields: dict[str, Any] = {"severity": Severity.WARNING, "figures": {}, **more}
    evidence = tuple(
        QueueEvidence(MessageQueue("t", broker, queue_id), {"effective_lag": lag})
        for (broker, queue_id), lag in queues.items()
    )
    return Finding(INVENTED[rule_id], "demo", group, topic, queues=evidence, **fields)


def pair(explaining: str, explained: str, scope: Scope = Scope.TOPIC, **more: Any) -> Pair:
    return explaining, Explains(scope, (explained,), **more)


def subsumed(findings: Sequence[Finding], pairs: Sequence[Pair]) -> list[Finding]:
    """Subsume findings whose rules explain what the pairs say."""
    by_id = {
        rule.id: replace(rule, explains=tuple(how for explaining, how in pairs if explaining == rule.id))
        for rule in INVENTED.values()
    }
    return subsume([replace(one, rule=by_id[one.rule.id]) for one in findings])


def test_what_is_explained_is_named_and_nowhere_else() -> None:
    (one,) = subsumed([finding("b"), finding("a")], [pair("a", "b")])
    assert one.rule.id == "a"
    assert [(e.rule_id, e.consumer_group, e.topic, e.summary) for e in one.explains] == [("b", "g", "t", "b of g")]


@pytest.mark.parametrize(
    ("order", "explaining", "kept"),
    [
        pytest.param("cba", ["ab", "bc"], {"a": ["c", "b"]}, id="a chain ends at its cause, which names all of it"),
        pytest.param("bca", ["ab", "bc", "ca"], {"b": ["c", "a"]}, id="of a circle the first stays"),
        pytest.param("bac", ["ac", "bc"], {"b": ["c"], "a": []}, id="what two explain is named once, by the first"),
    ],
)
def test_what_stays_names_what_it_explains(order: str, explaining: list[str], kept: dict[str, list[str]]) -> None:
    left = subsumed([finding(one) for one in order], [pair(*both) for both in explaining])
    assert {one.rule.id: [named.rule_id for named in one.explains] for one in left} == kept


@pytest.mark.parametrize(
    ("scope", "explaining", "explained", "meet"),
    [
        (Scope.TOPIC, finding("a"), finding("b"), True),
        (Scope.TOPIC, finding("a"), finding("b", topic="u"), False),
        (Scope.TOPIC, finding("a"), finding("b", "h"), False),
        (Scope.TOPIC, finding("a", None), finding("b", "h"), True),
        (Scope.TOPIC, finding("a", None, None), finding("b", "h", None), False),
        (Scope.GROUP, finding("a", topic=None), finding("b"), True),
        (Scope.GROUP, finding("a", None), finding("b", None), False),
        (Scope.CLUSTER, finding("a", None, None), finding("b"), True),
        (
            Scope.BROKER,
            finding("a", None, broker_names=frozenset({"x", "y"})),
            finding("b", queues={("x", 0): 5}),
            True,
        ),
        (
            Scope.BROKER,
            finding("a", None, broker_names=frozenset({"x"})),
            finding("b", queues={("x", 0): 5, ("y", 0): 1}),
            False,
        ),
        (Scope.BROKER, finding("a", broker_names=frozenset({"x"})), finding("b"), False),
        (Scope.QUEUES, finding("a", queues={("x", 0): None}), finding("b", queues={("x", 0): 95, ("x", 1): 5}), True),
        (Scope.QUEUES, finding("a", queues={("x", 0): None}), finding("b", queues={("x", 0): 80, ("x", 1): 20}), False),
        (Scope.QUEUES, finding("a", queues={("x", 0): None}), finding("b", queues={("x", 0): None}), True),
        (Scope.QUEUES, finding("a", queues={("x", 0): None}), finding("b"), False),
    ],
)
def test_a_scope_says_what_two_findings_must_have_in_common(
    scope: Scope, explaining: Finding, explained: Finding, *, meet: bool
) -> None:
    assert len(subsumed([explaining, explained], [pair("a", "b", scope)])) == (1 if meet else 2)


def test_a_pair_may_hold_for_some_variants_only() -> None:
    findings = [finding("a"), finding("b")]
    assert len(subsumed(findings, [pair("a", "b", variants=("other",))])) == 2
    assert len(subsumed(findings, [pair("a", "b", explained_variants=("other",))])) == 2
    assert len(subsumed(findings, [pair("a", "b", variants=("default",), explained_variants=("default",))])) == 1


def test_an_explanation_is_as_severe_as_what_it_explains_unless_it_shows_that_nothing_is_wrong() -> None:
    findings = [finding("b", severity=Severity.CRITICAL), finding("a", severity=Severity.INFO)]
    (loud,) = subsumed(findings, [pair("a", "b")])
    (quiet,) = subsumed(findings, [pair("a", "b", quiets=True)])
    assert (loud.severity, quiet.severity) == (Severity.CRITICAL, Severity.INFO)


findings_of_a_cluster = st.lists(
    st.builds(
        finding,
        st.sampled_from("abcd"),
        st.sampled_from([None, "g", "h"]),
        st.sampled_from([None, "t", "u"]),
        severity=st.sampled_from(Severity),
        broker_names=st.frozensets(st.sampled_from("xy")),
    ),
    max_size=8,
    unique_by=lambda one: (one.rule.id, one.consumer_group, one.topic),
)
pairs = st.lists(
    st.builds(
        pair,
        st.sampled_from("abcd"),
        st.sampled_from("abcd"),
        st.sampled_from([Scope.CLUSTER, Scope.TOPIC, Scope.GROUP, Scope.BROKER]),
    ),
    max_size=8,
)


@given(findings=findings_of_a_cluster, given_pairs=pairs)
def test_nothing_is_lost_nothing_is_named_twice_and_no_severity_falls(
    findings: list[Finding], given_pairs: list[Pair]
) -> None:
    left = subsumed(findings, given_pairs)
    subjects = [(one.rule.id, one.consumer_group, one.topic) for one in left]
    subjects += [(named.rule_id, named.consumer_group, named.topic) for one in left for named in one.explains]
    assert sorted(subjects, key=str) == sorted(((f.rule.id, f.consumer_group, f.topic) for f in findings), key=str)
    assert bool(left) == bool(findings)
    assert max((f.severity.rank for f in left), default=0) == max((f.severity.rank for f in findings), default=0)
    assert left == subsumed(findings, given_pairs)
    for one in left:
        assert not one.explains or any(explaining == one.rule.id for explaining, _ in given_pairs)


def test_a_rule_explains_rules_and_variants_that_there_are() -> None:
    for rule in RULES.values():
        for how in rule.explains:
            assert set(how.variants) <= set(rule.texts), rule.id
            for explained in how.rules:
                assert explained != rule.id
                assert set(how.explained_variants) <= set(RULES[explained].texts), (rule.id, explained)


@pytest.mark.parametrize(
    ("lags", "of_held", "of_others"),
    [
        pytest.param((700, 300), 700, 300, id="all are known"),
        pytest.param((700, None), 700, 300, id="that of another queue is not"),
        pytest.param((700, 300, None), None, 300, id="that of a held one is not: it explains no more than is known"),
    ],
)
def test_a_cause_holds_no_messages_that_nobody_knows_to_be_on_its_queues(
    lags: tuple[int | None, ...], of_held: int | None, of_others: int
) -> None:
    places = [MessageQueue("t", "broker-a", queue_id) for queue_id in (0, 1, 2)]
    held = [places[0], *places[2:][: len(lags) - 2]]
    queues = tuple(
        a_queue("g", place, QueueOffsets(0, None if lag is None else 1000 + lag, 1000), lag_ms=1)
        for place, lag in zip(places, lags, strict=False)
    )
    group = replace(a_group("g", 1000), topic="t", produce_tps=8.0)
    about_load = replace(INVENTED["b"], about_load=True)
    cause = replace(INVENTED["a"], holds_queues=True)
    evidence = tuple(QueueEvidence(place, {}) for place in held)
    found = [
        Finding(cause, "demo", "g", "t", queues=evidence, severity=Severity.WARNING, figures={}),
        replace(finding("b"), rule=about_load),
    ]
    asked: list[IntervalFacts] = []
    by_shares(found, facts(0, group, queues=queues), lambda part: asked.append(part) or ())
    assert [part.groups[0].effective_lag for part in asked] == [of_held, of_others]
    assert [part.groups[0].produce_tps for part in asked] == [None, None]  # that of no queue is known


def test_nothing_is_explained_twice_by_a_rule() -> None:
    for rule in RULES.values():
        told = [(how.variants, explained) for how in rule.explains for explained in how.rules]
        assert len(told) == len(set(told)), rule.id
