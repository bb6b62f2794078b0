"""What ends an incident, and what only looks like an end: what could not be seen ends nothing."""

from dataclasses import replace
from typing import Any

import pytest

from offsetguard.decide.incidents.lifecycle import advance
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.registry import RULES
from offsetguard.model.fact_records import CollectionGap
from offsetguard.model.offsets import MessageQueue, QueueOffsets
from offsetguard.model.verdicts import CannotTell, QueueVerdict, Severity, State
from offsetguard.tables.group_facts import GroupFacts
from offsetguard_peers.judging.records import a_queue, after, facts, finding, interval, opened, row, twice

MOVED = "offset_moved_by_retention"

ABOUT_NOBODY = {"group": None, "topic": None, "brokers": ()}


@pytest.mark.parametrize(
    ("about", "groups", "resolution"),
    [
        ({}, (row(),), "recovered: the lag is within its limits again"),
        ({}, (), "consumer group billing is gone: the brokers keep no offsets of it"),
        ({}, (row(topic="refunds"),), "consumer group billing has nothing to do with topic orders any more"),
        (
            {},
            (row(never_committed_queue_count=4, effective_lag=None, lag_ms=None),),
            "the committed offsets of billing were removed",
        ),
        # a broadcasting group has no row in the facts, so that one is missing says nothing
        ({"rule_id": MOVED, "group": "news"}, (), RULES[MOVED].recovered),
        ({"rule_id": "collection_incomplete", **ABOUT_NOBODY}, (), "everything that was asked for answered again"),
    ],
)
def test_an_incident_ends_by_what_is_seen_twice(
    about: dict[str, Any], groups: tuple[GroupFacts, ...], resolution: str
) -> None:
    (incident,) = twice(opened(finding(**about)), facts(1, *groups)).resolved
    assert (incident.resolved_at, incident.resolution) == (interval(2).start, resolution)


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


QUEUE = a_queue("billing", MessageQueue("orders", "broker-a", 0), QueueOffsets(0, 500, 100))


@pytest.mark.parametrize(
    "queue",
    [
        replace(QUEUE, verdict=QueueVerdict(State.UNKNOWN, "growth_unknown", "few more wait; how old, nobody knows")),
        replace(QUEUE, verdict=QueueVerdict(State.UNKNOWN, "rounds_missed", "rounds were missed")),
        replace(QUEUE, offsets=QueueOffsets(0, 500, None), window=replace(QUEUE.window, unknown_count=1)),
        replace(QUEUE, offsets=QueueOffsets(None, 500, 100)),
    ],
    ids=["growth unknown", "rounds missed", "its commit was not read", "its beginning was not read"],
)
def test_a_queue_of_which_too_little_was_seen_keeps_its_group_s_incident_open_and_as_bad(queue: QueueFacts) -> None:
    seen = facts(1, row(), queues=(queue,))
    (incident,) = after(opened(), seen).unknown
    assert incident.unknown_because == "what was seen does not show how the queues of orders stand"
    milder = finding(severity=Severity.INFO)
    (still,) = after(opened(finding(severity=Severity.CRITICAL)), seen, milder).seen_again
    assert still.evidence.severity is Severity.CRITICAL


def test_a_broker_that_has_nothing_to_do_with_the_group_does_not_keep_its_incident_open() -> None:
    changes = twice(opened(), facts(1, row(), unseen_broker_names=frozenset({"broker-z"})))
    assert len(changes.resolved) == 1


def test_unknown_since_is_the_first_interval_and_ends_when_it_is_seen_again() -> None:
    blind = after(opened(), facts(1, cluster_unseen=True)).unknown
    blind = after(blind, facts(2, cluster_unseen=True)).unknown
    assert blind[0].unknown_since == interval(1).start
    (seen,) = after(blind, facts(3), finding()).seen_again
    assert (seen.unknown_since, seen.state, seen.seen_count) == (None, "FALLING_BEHIND", 2)


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
    changes = twice(opened(finding(MOVED, group="news")), given)
    assert (len(changes.unknown), len(changes.resolved)) == ((1, 0) if stays_open else (0, 1))


@pytest.mark.parametrize(
    ("seen", "unsure", "severity"),
    [
        (facts(1, row()), False, Severity.WARNING),
        (facts(1, row()), True, Severity.CRITICAL),
        (facts(1, row(), unseen_broker_names=frozenset({"broker-a"})), False, Severity.CRITICAL),
        (facts(1, row(unknown_queue_count=1)), False, Severity.CRITICAL),
        (facts(1, row(lag_ms=None)), False, Severity.CRITICAL),
    ],
    ids=["all is seen", "the rule is unsure", "its broker unseen", "a queue unknown", "age unknown"],
)
def test_a_severity_falls_by_what_was_seen_only(seen: IntervalFacts, *, unsure: bool, severity: Severity) -> None:
    milder = finding(severity=Severity.WARNING, unsure=unsure)
    (incident,) = after(opened(finding(severity=Severity.CRITICAL)), seen, milder).seen_again
    assert incident.evidence.severity is severity
    (worse,) = after(opened(milder), seen, finding(severity=Severity.CRITICAL)).seen_again
    assert worse.evidence.severity is Severity.CRITICAL, "what is seen to be worse is worse"


def test_an_incident_of_a_rule_that_was_removed_ends() -> None:
    (incident,) = advance(opened(), (), facts(1, row()), {}).resolved
    assert incident.resolution == "the rule that found it does not exist any more"


@pytest.mark.parametrize(
    ("entry", "hidden"),
    [
        (CannotTell("accumulation", "billing", frozenset(), "no client answered"), True),
        (CannotTell("accumulation", None, frozenset({"broker-a"}), "broker-a gave no figures"), True),
        (CannotTell("accumulation", None, frozenset({"broker-b"}), "broker-b gave no figures"), False),
        (CannotTell("accumulation", "another", frozenset(), "no client answered"), False),
        (CannotTell(MOVED, "billing", frozenset(), "no client answered"), False),
    ],
)
def test_an_incident_that_its_rule_cannot_see_stays_open(entry: CannotTell, *, hidden: bool) -> None:
    changes = twice(opened(), facts(1, row()), cannot_tell=[entry])
    assert (len(changes.unknown), len(changes.resolved)) == ((1, 0) if hidden else (0, 1))
    if hidden:
        assert changes.unknown[0].unknown_because == f"it cannot be told: {entry.because}"


def test_of_two_reasons_that_hide_an_incident_the_one_of_its_own_group_is_kept() -> None:
    """Twenty groups: a set of a name and None would begin with None for half of them, by the seed of the hash."""
    for name in (f"billing-{n}" for n in range(20)):
        entries = [
            CannotTell("accumulation", group, frozenset(), because)
            for group, because in ((None, "of all"), (name, "its own"))
        ]
        (incident,) = advance(opened(finding(group=name)), (), facts(1, row(name)), RULES, cannot_tell=entries).unknown
        assert incident.unknown_because == "it cannot be told: its own"


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
