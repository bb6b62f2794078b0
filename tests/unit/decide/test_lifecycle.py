"""Incidents open, go on and are the same ones again; what ends them is in test_incident_ends.py."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from offsetguard.decide.incidents.lifecycle import EVIDENCE_KEPT, advance, evidence_of, opened_by
from offsetguard.judge.registry import RULES
from offsetguard.judge.rule import Finding
from offsetguard.model.incident import Incident, Subject
from offsetguard.model.verdicts import CannotTell, Severity
from offsetguard_peers.judging.records import START, after, facts, finding, interval, opened, row


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
    later = opened_by(finding(), interval(1)).incident_id
    assert len(ids | {later}) == 7


@pytest.mark.parametrize(
    ("one", "other"), [(("a", "bc"), ("ab", "c")), (("a", None), ("a", "")), ((None, "a"), ("a", None))]
)
def test_names_that_run_together_are_different_subjects(
    one: tuple[str | None, str | None], other: tuple[str | None, str | None]
) -> None:
    assert Subject("demo", "rule", *one).key != Subject("demo", "rule", *other).key


def test_the_first_moment_does_not_move_on_with_what_rules_look_back_to() -> None:
    def asks_again(first_moved_at: datetime) -> Finding:
        told = finding("offset_store_not_persisting", variant="not_written")
        return replace(told, figures={**told.figures, "first_moved_at": first_moved_at})

    incidents = opened(asks_again(START))
    (incident,) = after(incidents, facts(31), asks_again(interval(1).start)).seen_again
    assert incident.evidence.text_figures["first_moved_at"] == START
    assert "10:39:00" in incident.evidence.cause


def test_evidence_is_capped_but_every_broker_is_remembered() -> None:
    brokers = tuple(f"broker-{number}" for number in range(EVIDENCE_KEPT + 5))
    (incident,) = opened(finding(brokers=brokers))
    assert (len(incident.evidence.queues), incident.evidence.queue_count) == (EVIDENCE_KEPT, EVIDENCE_KEPT + 5)
    hidden = facts(1, row(), unseen_broker_names=frozenset(brokers[-1:]))
    assert len(after((incident,), hidden).unknown) == 1


def test_moves_of_queues_that_nobody_named_keep_their_broker() -> None:
    """A log line names no queue; the incident may not end all the same while its broker is not seen."""
    told_by_a_log = finding("offset_moved_by_retention", brokers=(), broker_names=frozenset({"broker-b"}))
    assert evidence_of(told_by_a_log).broker_names == {"broker-b"}


def test_what_another_finding_explains_goes_on_and_does_not_recover() -> None:
    named = finding(lag=7, severity=Severity.INFO)
    cause = finding("collection_incomplete", None, None, explained=(named,))
    changes = after(opened(), facts(1, row()), cause)
    (goes_on,) = changes.seen_again
    assert (goes_on.subject.rule_id, goes_on.seen_count, goes_on.is_open) == ("accumulation", 2, True)
    words = goes_on.evidence
    assert (words.figures["effective_lag"], words.severity, goes_on.words_are_old) == (7, Severity.WARNING, False)
    assert [one.subject.rule_id for one in changes.opened] == ["collection_incomplete"]
    assert changes.opened[0].evidence.explains == (named.as_explained,)
    alone = after((), facts(1, row()), cause)
    assert [one.subject.rule_id for one in alone.opened] == ["collection_incomplete"]
    wider = advance(opened(), (), facts(1, row()), RULES, wider=[cause])
    assert [(len(wider.seen_again), len(wider.opened), len(wider.resolved))] == [(1, 0, 0)]


def test_words_that_the_newest_round_did_not_find_again_are_those_of_an_older_one() -> None:
    """Where its rule wants calm, where it could not look, and where another finding explains another stage of it."""
    (ahead,) = opened(finding("loss_ahead", state="AT_RISK"))
    ahead = replace(ahead, newest_read_at=START + timedelta(seconds=30))
    (calm,) = after((ahead,), facts(1, row())).calm
    assert (calm.words_are_old, calm.newest_seen_at) == (True, ahead.newest_seen_at)
    (unseen,) = after((ahead,), facts(1, cluster_unseen=True)).calm
    assert unseen.words_are_old
    cause = finding("collection_incomplete", None, None, explained=(finding("messages_lost", state="LOST"),))
    (explained,) = after((ahead,), facts(1, row()), cause).seen_again
    assert (explained.words_are_old, explained.evidence.rule_id) == (True, "loss_ahead")
    (found,) = after((calm,), facts(2, row()), finding("loss_ahead", state="AT_RISK")).seen_again
    assert not found.words_are_old


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


def what_stands(minutes: int, **more: Any) -> list[int]:
    """Return the minutes in which an incident about a reset stands, which rules find for half an hour.

    The reset was 20 s after the start of minute 0; `more`: fields of the finding.
    """
    reset = finding("offset_reset", last_event_at=START + timedelta(seconds=20), **more)
    incidents: tuple[Incident, ...] = ()
    resolved: list[Incident] = []
    standing = []
    for minute in range(minutes):
        changes = advance(incidents, [reset], facts(minute, row()), RULES, lately_resolved=resolved)
        incidents, standing = changes.open, standing + ([minute] if changes.open else [])
        resolved += changes.resolved
    return standing


def test_what_is_over_by_itself_ends_minutes_after_it_and_is_not_opened_anew() -> None:
    assert what_stands(30) == [0, 1, 2]


def test_what_is_over_stands_while_it_explains_what_goes_on() -> None:
    explained = finding()
    assert what_stands(30, explained=(explained,)) == list(range(30))


def test_what_comes_after_an_end_that_was_told_speaks_for_itself() -> None:
    """A loss of 08:10, told and over, was told anew at 08:21 as the cause of a lag that an outage had left."""
    loss = finding("offset_moved_by_retention", last_event_at=START + timedelta(seconds=20))
    incidents, resolved = opened(loss), list[Incident]()
    for minute in range(1, 10):
        changes = advance(incidents, [loss], facts(minute, row()), RULES, lately_resolved=resolved)
        incidents, resolved = changes.open, [*resolved, *changes.resolved]
    explaining = replace(loss, explained=(finding("accumulation"), finding("loss_ahead")))
    changes = advance((), [explaining], facts(10, row()), RULES, lately_resolved=resolved)
    assert {one.subject.rule_id for one in (*changes.opened, *changes.pending)} == {"accumulation", "loss_ahead"}


def test_a_second_reset_is_another_trouble() -> None:
    first = finding("offset_reset", last_event_at=START + timedelta(seconds=20))
    second = replace(first, last_event_at=interval(10).start + timedelta(seconds=5))
    incidents, resolved = opened(first), list[Incident]()
    for minute in range(1, 10):
        changes = advance(incidents, [first], facts(minute, row()), RULES, lately_resolved=resolved)
        incidents, resolved = changes.open, [*resolved, *changes.resolved]
    assert len(resolved) == 1
    (again,) = advance(incidents, [second], facts(10, row()), RULES, lately_resolved=resolved).opened
    assert again.opened_at == interval(10).start
