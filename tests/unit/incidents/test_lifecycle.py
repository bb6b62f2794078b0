"""Incidents open, go on, become unknown and end; only what could be seen can end them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from string import Formatter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.facts import CollectionGap, GroupFacts, IntervalFacts
from offsetguard.incidents.incident import EVIDENCE_KEPT, Evidence, Incident, Subject
from offsetguard.incidents.lifecycle import Changes, advance
from offsetguard.intervals import Interval
from offsetguard.offsets import MessageQueue
from offsetguard.rules.registry import rules_by_id
from offsetguard.rules.rule import CannotTell, Explained, Finding, QueueEvidence, Severity

START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
RULES = rules_by_id()


def interval(minute: int) -> Interval:
    return Interval(START + timedelta(minutes=minute))


def finding(
    rule_id: str = "accumulation", group: str | None = "billing", topic: str | None = "orders", **more: Any
) -> Finding:
    lag = more.pop("lag", 500)
    rule = RULES[rule_id]
    templates = [text for texts in rule.texts.values() for text in (texts.summary, texts.cause, texts.do_next)]
    named = {name for template in templates for _, name, _, _ in Formatter().parse(template) if name}
    figures = dict.fromkeys({*rule.table, *named} - {"cluster", "consumer_group", "topic"})
    extra = {"name_servers": "n:1", "effective_lag": lag, "lost": lag}
    queues = tuple(
        QueueEvidence(MessageQueue("orders", broker, 0), {}) for broker in more.pop("brokers", ("broker-a",))
    )
    fields: dict[str, Any] = {"severity": Severity.WARNING, "state": "FALLING_BEHIND", **more}
    return Finding(rule, "demo", group, topic, figures={**figures, **extra}, queues=queues, **fields)


def row(group: str = "billing", topic: str = "orders", **more: Any) -> GroupFacts:
    unknown = dict.fromkeys(("inflight", "available", "message_model"))
    fields: dict[str, Any] = {
        "topic_kind": "normal",
        "queue_count": 4,
        "unknown_queue_count": 0,
        "never_committed_queue_count": 0,
        "lag": 0,
        "effective_lag": 0,
        "lost": 0,
        "lag_ms": 0,
        "online_client_count": 1,
        **unknown,
        **more,
    }
    return GroupFacts(group, topic, **fields)


def facts(minute: int, *groups: GroupFacts, **more: Any) -> IntervalFacts:
    return IntervalFacts("demo", interval(minute), interval(minute).end, groups=groups, **more)


def opened(*findings: Finding) -> tuple[Incident, ...]:
    """Return incidents that minute 0 opens: it is the last of as many as their rules want to see."""
    found = findings or (finding(),)
    before: tuple[Incident, ...] = ()
    for minute in range(1 - max(one.rule.bad_cycles for one in found), 1):
        changes = advance(before, found, facts(minute), RULES)
        before = (*changes.open, *changes.pending)
    return changes.open


def after(incidents: tuple[Incident, ...], given: IntervalFacts, *findings: Finding) -> Changes:
    return advance(incidents, findings, given, RULES)


def twice(incidents: tuple[Incident, ...], given: IntervalFacts, **more: Any) -> Changes:
    """Judge the facts of an interval, and the same facts once more in the next: so many show an end."""
    first = advance(incidents, (), given, RULES, **more)
    later = Interval(given.interval.end)
    return advance(first.open, (), replace(given, interval=later, now=later.end), RULES, **more)


def test_a_finding_opens_an_incident_whose_id_is_always_the_same() -> None:
    (one,), (again,) = opened(), opened()
    assert one == again
    assert (one.opened_at, one.last_seen_at, one.seen_count, one.peak) == (START, START, 1, 500)
    assert len(one.incident_id) == 16


def test_ids_differ_by_cluster_rule_group_topic_and_opening() -> None:
    subjects = [
        finding(),
        finding(group="billing2"),
        finding(topic="orders2"),
        finding(rule_id="offset_moved_by_retention"),
        finding(group=None, topic=None),
        finding(group="billing", topic=None),
    ]
    ids = {incident.incident_id for incident in opened(*subjects)}
    later = Incident.opened_by(finding(), interval(1)).incident_id
    assert len(ids | {later}) == 7


@pytest.mark.parametrize(
    ("one", "other"), [(("a", "bc"), ("ab", "c")), (("a", None), ("a", "")), ((None, "a"), ("a", None))]
)
def test_names_that_run_together_are_different_subjects(
    one: tuple[str | None, str | None], other: tuple[str | None, str | None]
) -> None:
    assert Subject("demo", "rule", *one).key != Subject("demo", "rule", *other).key


def test_a_finding_that_goes_on_updates_figures_and_keeps_the_peak() -> None:
    changes = after(opened(finding(lag=900)), facts(1), finding(lag=700, severity=Severity.CRITICAL))
    (incident,) = changes.seen_again
    assert (incident.seen_count, incident.peak, incident.evidence.figures["effective_lag"]) == (2, 900, 700)
    assert (incident.last_seen_at, incident.evidence.severity) == (interval(1).start, Severity.CRITICAL)
    assert (changes.opened, changes.resolved, changes.unknown) == ((), (), ())


def test_seeing_the_same_interval_again_counts_nothing_twice() -> None:
    incidents = opened()
    assert after(incidents, facts(0), finding(lag=9_999)).seen_again == incidents


def test_an_incident_ends_when_its_group_is_seen_and_healthy() -> None:
    (waits,) = after(opened(), facts(1, row())).calm
    assert (waits.is_open, waits.good_count) == (True, 1), "one healthy look may be a moment between two bad ones"
    (incident,) = after((waits,), facts(2, row())).resolved
    assert (incident.resolved_at, incident.resolution) == (
        interval(2).start,
        "recovered: the lag is within its limits again",
    )


@pytest.mark.parametrize(
    ("groups", "resolution"),
    [
        ((), "consumer group billing is gone: the brokers keep no offsets of it"),
        ((row(topic="refunds"),), "consumer group billing has nothing to do with topic orders any more"),
        (
            (row(never_committed_queue_count=4, effective_lag=None, lag_ms=None),),
            "the committed offsets of billing were removed",
        ),
    ],
)
def test_what_is_gone_is_said_to_be_gone(groups: tuple[GroupFacts, ...], resolution: str) -> None:
    (incident,) = twice(opened(), facts(1, *groups)).resolved
    assert incident.resolution == resolution


@pytest.mark.parametrize(
    ("seen", "because"),
    [
        (facts(1, cluster_unseen=True), "no name server answered"),
        (facts(1, row(), unseen_broker_names=frozenset({"broker-a", "broker-z"})), "broker-a gave no offsets"),
        (
            facts(1, unseen_broker_names=frozenset({"broker-z"})),
            "it may be on broker-z, which gave no offsets",
        ),
        (facts(1, row(unknown_queue_count=1)), "1 of 4 queues of orders could not be read"),
        (facts(1, row(effective_lag=7, lag_ms=None)), "lag_ms of billing on orders is not known"),
    ],
    ids=["cluster unseen", "its broker unseen", "no row and a broker unseen", "a queue unknown", "age unknown"],
)
def test_what_could_not_be_seen_stays_open_and_says_why(seen: IntervalFacts, because: str) -> None:
    changes = after(opened(), seen)
    (incident,) = changes.unknown
    assert (incident.is_open, incident.state, incident.unknown_because) == (True, "UNKNOWN", because)
    assert changes.resolved == ()


def test_a_broker_that_has_nothing_to_do_with_the_group_does_not_keep_its_incident_open() -> None:
    changes = twice(opened(), facts(1, row(), unseen_broker_names=frozenset({"broker-z"})))
    assert len(changes.resolved) == 1


def test_unknown_since_is_the_first_interval_and_ends_when_it_is_seen_again() -> None:
    blind = after(opened(), facts(1, cluster_unseen=True)).unknown
    blind = after(blind, facts(2, cluster_unseen=True)).unknown
    assert blind[0].unknown_since == interval(1).start
    (seen,) = after(blind, facts(3), finding()).seen_again
    assert (seen.unknown_since, seen.state, seen.seen_count) == (None, "FALLING_BEHIND", 2)


def test_moves_of_a_group_without_committed_offsets_end_without_a_group_row() -> None:
    """A broadcasting group has no row in the facts, so that one is missing says nothing."""
    incidents = opened(finding(rule_id="offset_moved_by_retention", group="news"))
    (incident,) = twice(incidents, facts(1)).resolved
    assert incident.resolution == RULES["offset_moved_by_retention"].recovered


@pytest.mark.parametrize(
    ("gap", "stays_open"),
    [
        (("broker-a", 0, "PULL_MESSAGE OFFSET_MOVED_EVENT", "refused"), True),
        (("broker-a", 0, "3 further requests, not sent", "timed_out"), True),
        (("broker-a", 0, "GET_BROKER_CONFIG", "refused"), False),
        (("broker-a", 1, "GET_BROKER_CONFIG", "timed_out"), False),
        (("broker-z", 0, "PULL_MESSAGE OFFSET_MOVED_EVENT", "timed_out"), False),
    ],
    ids=str,
)
def test_moves_stay_open_while_the_brokers_events_may_not_have_been_read(
    gap: tuple[str, int, str, str], stays_open: bool
) -> None:
    broker_name, broker_id, what, outcome = gap
    given = facts(1, gaps=(CollectionGap("10.0.0.3:10911", broker_name, broker_id, what, outcome, "reason"),))
    changes = twice(opened(finding(rule_id="offset_moved_by_retention", group="news")), given)
    assert (len(changes.unknown), len(changes.resolved)) == ((1, 0) if stays_open else (0, 1))


def test_an_incomplete_collection_ends_with_complete_ones() -> None:
    incidents = opened(finding(rule_id="collection_incomplete", group=None, topic=None, brokers=()))
    (incident,) = twice(incidents, facts(1)).resolved
    assert incident.resolution == "everything that was asked for answered again"


def test_an_incident_of_a_rule_that_was_removed_ends() -> None:
    (incident,) = advance(opened(), (), facts(1, row()), {}).resolved
    assert incident.resolution == "the rule that found it does not exist any more"


def test_evidence_is_capped_but_every_broker_is_remembered() -> None:
    brokers = tuple(f"broker-{number}" for number in range(EVIDENCE_KEPT + 5))
    (incident,) = opened(finding(brokers=brokers))
    assert (len(incident.evidence.queues), incident.evidence.queue_count) == (EVIDENCE_KEPT, EVIDENCE_KEPT + 5)
    hidden = facts(1, row(), unseen_broker_names=frozenset(brokers[-1:]))
    assert len(after((incident,), hidden).unknown) == 1


def test_moves_of_queues_that_nobody_named_keep_their_broker() -> None:
    """A log line names no queue; the incident may not end all the same while its broker is not seen."""
    told_by_a_log = finding("offset_moved_by_retention", brokers=(), broker_names=frozenset({"broker-b"}))
    assert Evidence.of(told_by_a_log).broker_names == {"broker-b"}


names = st.sampled_from(["billing", "ledger", "news"])
rounds = st.lists(
    st.tuples(st.frozensets(names), st.booleans(), st.frozensets(st.sampled_from(["broker-a", "broker-b"]))),
    min_size=1,
    max_size=8,
)


@given(rounds=rounds)
def test_whatever_happens_a_subject_has_one_open_incident_and_none_ends_unseen(
    rounds: list[tuple[frozenset[str], bool, frozenset[str]]],
) -> None:
    still_open: tuple[Incident, ...] = ()
    for minute, (in_trouble, blind, unseen) in enumerate(rounds):
        found = [] if blind else [finding(group=name) for name in sorted(in_trouble)]
        given_facts = facts(
            minute,
            *(() if blind else (row(name) for name in ("billing", "ledger", "news"))),
            cluster_unseen=blind,
            unseen_broker_names=unseen,
        )
        changes = after(still_open, given_facts, *found)
        before = {incident.incident_id for incident in still_open}
        assert {incident.incident_id for incident in changes.all} == before | {
            one.incident_id for one in changes.opened
        }
        assert len(changes.all) == len({incident.incident_id for incident in changes.all})
        assert {one.subject.consumer_group for one in (*changes.opened, *changes.seen_again)} == {
            one.consumer_group for one in found
        }
        if blind or "broker-a" in unseen:
            assert changes.resolved == ()
        still_open = changes.open
        assert len(still_open) == len({incident.subject for incident in still_open})


def test_what_another_finding_explains_goes_on_and_does_not_recover() -> None:
    named = Explained("accumulation", "billing", "orders", "billing is 500 behind")
    cause = finding("collection_incomplete", None, None, explains=(named,))
    changes = after(opened(), facts(1, row()), cause)
    (goes_on,) = changes.seen_again
    assert (goes_on.subject.rule_id, goes_on.seen_count, goes_on.is_open) == ("accumulation", 2, True)
    assert [one.subject.rule_id for one in changes.opened] == ["collection_incomplete"]
    assert changes.opened[0].evidence.explains == (named,)
    alone = after((), facts(1, row()), cause)
    assert [one.subject.rule_id for one in alone.opened] == ["collection_incomplete"]
    wider = advance(opened(), (), facts(1, row()), RULES, wider=[cause])
    assert [(len(wider.seen_again), len(wider.opened), len(wider.resolved))] == [(1, 0, 0)]


@pytest.mark.parametrize(
    ("entry", "hidden"),
    [
        (CannotTell("accumulation", "billing", frozenset(), "no client answered"), True),
        (CannotTell("accumulation", None, frozenset({"broker-a"}), "broker-a gave no figures"), True),
        (CannotTell("accumulation", None, frozenset({"broker-b"}), "broker-b gave no figures"), False),
        (CannotTell("accumulation", "another", frozenset(), "no client answered"), False),
        (CannotTell("offset_moved_by_retention", "billing", frozenset(), "no client answered"), False),
    ],
)
def test_an_incident_that_its_rule_cannot_see_stays_open(entry: CannotTell, *, hidden: bool) -> None:
    changes = twice(opened(), facts(1, row()), cannot_tell=[entry])
    assert (len(changes.unknown), len(changes.resolved)) == ((1, 0) if hidden else (0, 1))
    if hidden:
        assert changes.unknown[0].unknown_because == f"it cannot be told: {entry.because}"


def test_an_incident_keeps_what_could_not_be_told_about_its_group_and_its_brokers() -> None:
    own = CannotTell("lock_contention", "billing", frozenset(), "lock.log was not read.")
    behind = CannotTell("store_slow", None, frozenset({"broker-a"}), "broker-a gave no figures.")
    others = [
        CannotTell("lock_contention", "another", frozenset(), "lock.log was not read."),
        CannotTell("rebalance_noise", None, frozenset(), "no client log is read."),
    ]
    (incident,) = advance((), [finding()], facts(0), RULES, cannot_tell=[own, *others, behind]).opened
    assert incident.evidence.cannot_tell == (own, behind)
    many = [replace(own, because=f"{n}.") for n in range(EVIDENCE_KEPT + 5)]
    (incident,) = advance((), [finding()], facts(0), RULES, cannot_tell=many).opened
    assert (len(incident.evidence.cannot_tell), incident.evidence.cannot_tell_count) == (EVIDENCE_KEPT, 25)


def test_what_comes_and_goes_stays_one_incident_until_it_was_calm_for_long_enough() -> None:
    incidents = opened(finding("dead_letters", topic=None))
    for minute in (1, 29):
        changes = after(incidents, facts(minute, row(dead_letter_growth=0)))
        assert (len(changes.calm), changes.open, changes.resolved) == (1, changes.calm, ())
    (again,) = after(incidents, facts(29, row()), finding("dead_letters", topic=None)).seen_again
    assert len(after((again,), facts(58, row(dead_letter_growth=0))).calm) == 1
    (ended,) = after(incidents, facts(30, row(dead_letter_growth=0))).resolved  # the calm is the damping
    assert ended.resolution == "no new dead letter came for 30 min"


@pytest.mark.parametrize(
    ("rule_id", "given", "ends"),
    [
        ("broker_unreachable", {"cluster_unseen": True}, False),
        ("broker_unreachable", {}, True),
        ("name_server_unreachable", {}, True),
        ("clock_skew", {"cluster_unseen": True}, False),
        ("clock_skew", {"unseen_broker_names": frozenset({"broker-a"})}, False),
        ("clock_skew", {"unseen_broker_names": frozenset({"broker-b"})}, True),
    ],
)
def test_trouble_of_brokers_ends_only_when_they_were_seen(rule_id: str, given: dict[str, Any], *, ends: bool) -> None:
    one = finding(rule_id, None, None, brokers=(), broker_names=frozenset({"broker-a"}))
    changes = twice(opened(one), facts(1, **given))
    assert (len(changes.resolved), len(changes.unknown)) == ((1, 0) if ends else (0, 1))
