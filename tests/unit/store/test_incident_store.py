"""An incident comes back from the database as it went in, and one subject has one open incident."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.exc import IntegrityError

from offsetguard.catalogue import Sentence
from offsetguard.model.fact_records import ClientStacks, ThreadStack
from offsetguard.model.incident import Change, Evidence, Incident, Subject
from offsetguard.model.offsets import MessageQueue
from offsetguard.model.verdicts import CannotTell, Explained, QueueEvidence, Severity
from offsetguard.store import incidents, judged_intervals
from offsetguard.store.database import reading, writing
from offsetguard.store.models import IncidentRow, JudgedIntervalRow, Mode
from offsetguard_peers.databases import newest_judged

START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
INCIDENT = Incident(
    incident_id="0123456789abcdef",
    subject=Subject("demo", "offset_moved_by_retention", "billing", "%RETRY%billing"),
    opened_at=START,
    last_seen_at=START + 3 * MINUTE,
    seen_count=4,
    evidence=Evidence(
        severity=Severity.CRITICAL,
        state="LOST",
        variant="default",
        summary="billing lost 1 message — “größer”",
        cause="cause",
        do_next="do next",
        figures={"lost": 9_000_000_000_000, "reasons": None, "first_moved_at": START, "text": "12", "ratio": 0.5},
        queues=(QueueEvidence(MessageQueue("orders", "broker-a", 3), {"lost": 1, "last_moved_at": START + MINUTE}),),
        queue_count=31,
        broker_names=frozenset({"broker-a", "broker-b"}),
        explains=(Explained("accumulation", None, "orders", "summary"),),
        explained_count=31,
        cannot_tell=(CannotTell("lock_contention", "billing", frozenset({"b", "a"}), "lock.log was not read."),),
        cannot_tell_count=2,
        commands=("mqadmin clusterList -n 'a:1;b:1'",),
        stacks=ClientStacks(
            "10.0.0.1@7",
            START,
            2,
            stacks=(ThreadStack(2, "BLOCKED", ("com.acme.A.a:1", "..."), "java.lang.Object.wait"),),
        ),
        audited=False,
    ),
    peak_figure="lost",
    peak=9_000_000_000_000,
    unknown_since=START + 4 * MINUTE,
    unknown_because="broker-a gave no offsets",
    changes=(Change(START - MINUTE, "broker-a-0 was started"),),
)


def of_another_release(kept: Any) -> Any:
    """Return a record with one more field in each of its parts, and without those that came last."""
    if isinstance(kept, list):
        return [of_another_release(below) for below in kept]
    if not isinstance(kept, dict) or "@moment" in kept:
        return kept
    newest = ("changes", "commands", "stacks", "audited", "peak_figure", "text_figures")
    parts = {name: below for name, below in kept.items() if name not in newest}
    return {name: below if name == "figures" else of_another_release(below) for name, below in parts.items()} | {
        "of_tomorrow": 1
    }


def test_an_incident_that_another_release_wrote_is_read(engine: Engine) -> None:
    with writing(engine) as session:
        incidents.save(session, [INCIDENT])
        session.flush()
        row = session.get_one(IncidentRow, INCIDENT.incident_id)
        row.record_json = json.dumps(of_another_release(json.loads(row.record_json)))
    (found,) = stored(engine)
    assert (found.changes, found.evidence.commands, found.evidence.audited, found.peak_figure) == ((), (), True, None)
    assert found.evidence.figures["lost"] == 9_000_000_000_000
    kept = ("severity", "summary", "queue_count", "broker_names", "explains", "cannot_tell")
    for name in kept:
        assert getattr(found.evidence, name) == getattr(INCIDENT.evidence, name)
    assert found.evidence.queues[0].message_queue == MessageQueue("orders", "broker-a", 3)


def stored(engine: Engine) -> list[Incident]:
    with reading(engine) as session:
        return incidents.open_incidents(session, "demo")


def save(engine: Engine, *given: Incident) -> None:
    with writing(engine) as session:
        incidents.save(session, given)


def test_an_incident_comes_back_as_it_went_in(engine: Engine) -> None:
    save(engine, INCIDENT)
    assert stored(engine) == [INCIDENT]
    assert list(stored(engine)[0].evidence.figures) == list(INCIDENT.evidence.figures)


def test_words_come_back_as_sentences_that_another_language_can_say(engine: Engine) -> None:
    because = Sentence("gave_no_offsets", brokers="broker-a")
    evidence = replace(
        INCIDENT.evidence,
        text_figures={"reasons": Sentence("reasons", shown=(because,)), "since": START},
        explains=(Explained("accumulation", None, "orders", "summary", "growing", {"effective_lag": 5}),),
        cannot_tell=(CannotTell("lock_contention", "billing", frozenset({"b"}), because),),
    )
    changes = (Change(START, Sentence("changed_start", broker="broker-a-0")),)
    save(engine, replace(INCIDENT, evidence=evidence, unknown_because=because, changes=changes))
    (kept,) = stored(engine)
    assert kept.evidence == evidence
    said = (
        kept.changes[0].what,
        kept.unknown_because,
        kept.evidence.cannot_tell[0].because,
        kept.evidence.text_figures["reasons"],
    )
    assert [getattr(one, "key", None) for one in said] == [
        "changed_start",
        "gave_no_offsets",
        "gave_no_offsets",
        "reasons",
    ]


def test_an_incident_about_the_whole_cluster_has_neither_group_nor_topic(engine: Engine) -> None:
    whole = replace(INCIDENT, subject=Subject("demo", "collection_incomplete", None, None))
    save(engine, whole)
    assert stored(engine) == [whole]


def test_a_resolved_incident_is_kept_and_not_open(engine: Engine) -> None:
    resolved = replace(INCIDENT, resolved_at=START + 5 * MINUTE, resolution="recovered")
    save(engine, INCIDENT)
    save(engine, resolved)
    assert stored(engine) == []
    with reading(engine) as session:
        assert incidents.by_id(session, [INCIDENT.incident_id, "nobody"]) == {INCIDENT.incident_id: resolved}


def test_lists_and_silences_go_by_the_rule_in_whose_words_an_incident_stands_now(engine: Engine) -> None:
    """It opened as consumer_offline, and stands as messages_lost since: it is still found by what it opened as."""
    evidence = replace(INCIDENT.evidence, rule_id="messages_lost", stage=2)
    grown = replace(INCIDENT, subject=replace(INCIDENT.subject, rule_id="consumer_offline"), evidence=evidence)
    save(engine, grown)
    assert stored(engine) == [grown]
    with reading(engine) as session:
        (seen,) = incidents.seen_since(session, START)
        assert (seen.subject, seen.open_count) == (grown.shown_as, 1)
        for rule_id, count in (("messages_lost", 1), ("consumer_offline", 0)):
            assert incidents.count(session, incidents.Which(rule_id=rule_id), over=False) == count, rule_id
        assert incidents.rules(session) == [("demo", "messages_lost")]
    with pytest.raises(IntegrityError):
        save(engine, replace(grown, incident_id="another", evidence=INCIDENT.evidence))


def test_one_subject_has_one_open_incident(engine: Engine) -> None:
    save(engine, INCIDENT)
    with pytest.raises(IntegrityError):
        save(engine, replace(INCIDENT, incident_id="another"))


def test_an_incident_may_end_and_the_next_one_about_the_same_begin_in_one_transaction(engine: Engine) -> None:
    save(engine, INCIDENT)
    resolved = replace(INCIDENT, resolved_at=START + 5 * MINUTE, resolution="recovered")
    save(engine, replace(INCIDENT, incident_id="another"), resolved)
    assert [incident.incident_id for incident in stored(engine)] == ["another"]


@pytest.mark.slow
def test_more_ids_than_a_query_takes_are_found(engine: Engine) -> None:
    many = [
        replace(INCIDENT, incident_id=f"{number:016}", subject=replace(INCIDENT.subject, topic=f"t{number}"))
        for number in range(1_201)
    ]
    save(engine, *many)
    with reading(engine) as session:
        assert len(incidents.by_id(session, [incident.incident_id for incident in many])) == 1_201


def test_an_interval_is_judged_once(engine: Engine) -> None:
    judged = JudgedIntervalRow("demo", START, START + 2 * MINUTE, Mode.LATE, 3, 2, 1, 0)
    with writing(engine) as session:
        judged_intervals.record(session, judged)
    assert newest_judged(engine) == [judged]
    with pytest.raises(IntegrityError), writing(engine) as session:
        judged_intervals.record(session, replace(judged))
