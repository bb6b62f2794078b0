"""Silences, acknowledgements and histories come back as they went in, on both databases."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from offsetguard.model.errors import SilenceError
from offsetguard.model.incident import EventKind, Incident, IncidentEvent
from offsetguard.model.notification import Acknowledgement, Matchers, Silence
from offsetguard.model.verdicts import Severity
from offsetguard.store import incidents, silences
from offsetguard.store.database import reading, writing
from offsetguard.store.incidents import Which
from offsetguard_peers.databases import newest_incidents
from offsetguard_peers.judging.records import an_incident

NOW = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOSTILE = "größer <b>\u202e'; DROP TABLE silences; --"
SILENCE = Silence(
    Matchers("main", HOSTILE, "*", "accumulation", Severity.WARNING), HOSTILE, HOSTILE, NOW, NOW + HOUR, NOW
)
INCIDENT = an_incident(cluster="main", counted_at=NOW)
OTHER = an_incident("x", cluster="main", incident_id="b", counted_at=NOW, good_count=1, escalation_level=2)


def test_a_silence_comes_back_as_it_went_in(engine: Engine) -> None:
    with writing(engine) as session:
        added = silences.add(session, SILENCE)
        assert added == replace(SILENCE, id=added.id)
    with reading(engine) as session:
        assert silences.active(session, NOW) == [added]
        assert silences.by_id(session, added.id or 0) == added
        assert silences.by_id(session, 4711) is None


def test_nul_from_a_form_is_kept_as_a_mark_that_every_database_holds(engine: Engine) -> None:
    with writing(engine) as session:
        incidents.save(session, [INCIDENT])
        silence = silences.add(session, replace(SILENCE, author="li\0", comment="load\0test"))
        given = silences.acknowledge(session, INCIDENT, author="li\0", comment="restart\0ing", now=NOW)
        muted = IncidentEvent(INCIDENT.incident_id, NOW, EventKind.MUTED, "by\0", "a\0")
        incidents.record_events(session, [muted])
    assert (silence.author, silence.comment) == ("li\ufffd", "load\ufffdtest")
    with reading(engine) as session:
        assert silences.by_id(session, silence.id or 0) == silence
        assert silences.acknowledgements_of(session, [INCIDENT.incident_id]) == {INCIDENT.incident_id: given}
        history = incidents.events_of(session, INCIDENT.incident_id)
    assert [(one.text, one.by) for one in history] == [("restart\ufffding", "li\ufffd"), ("by\ufffd", "a\ufffd")]


def test_only_silences_that_mute_now_are_active_and_later_ones_are_not_over(engine: Engine) -> None:
    later = replace(SILENCE, starts_at=NOW + HOUR, ends_at=NOW + 2 * HOUR)
    over = replace(SILENCE, starts_at=NOW - 2 * HOUR, ends_at=NOW - HOUR)
    ended = replace(SILENCE, expired_at=NOW)
    with writing(engine) as session:
        ids = [silences.add(session, one).id for one in (SILENCE, later, over, ended)]
    with reading(engine) as session:
        assert [one.id for one in silences.active(session, NOW)] == ids[:1]
        assert [one.id for one in silences.not_over(session, NOW)] == ids[:2]
        assert [one.id for one in silences.newest(session, limit=3)] == ids[:0:-1]


def test_a_silence_is_ended_once(engine: Engine) -> None:
    with writing(engine) as session:
        number = silences.add(session, SILENCE).id or 0
    with writing(engine) as session:
        assert silences.expire(session, number, now=NOW + HOUR / 2)
        assert not silences.expire(session, number, now=NOW + HOUR / 2)
        assert not silences.expire(session, 4711, now=NOW)
    with reading(engine) as session:
        assert silences.active(session, NOW + 0.75 * HOUR) == []


def test_the_newest_acknowledgement_counts_and_stands_in_the_history(engine: Engine) -> None:
    with writing(engine) as session:
        incidents.save(session, [INCIDENT, OTHER])
        silences.acknowledge(session, INCIDENT, author="anna", comment="looking", now=NOW)
        silences.acknowledge(session, INCIDENT, author=HOSTILE, comment=HOSTILE, now=NOW + HOUR)
    with reading(engine) as session:
        newest = Acknowledgement(INCIDENT.incident_id, HOSTILE, HOSTILE, NOW + HOUR)
        assert silences.acknowledgements_of(session, [INCIDENT.incident_id, "b", "nobody"]) == {
            INCIDENT.incident_id: newest
        }
        assert incidents.events_of(session, INCIDENT.incident_id) == [
            IncidentEvent(INCIDENT.incident_id, NOW, EventKind.ACKNOWLEDGED, "looking", "anna"),
            IncidentEvent(INCIDENT.incident_id, NOW + HOUR, EventKind.ACKNOWLEDGED, HOSTILE, HOSTILE),
        ]


def test_what_is_over_cannot_be_acknowledged(engine: Engine) -> None:
    over = replace(INCIDENT, resolved_at=NOW, resolution="recovered")
    with writing(engine) as session:
        incidents.save(session, [over])
        with pytest.raises(SilenceError, match="is resolved"):
            silences.acknowledge(session, over, author="anna", comment="", now=NOW)
        assert silences.acknowledgements_of(session, [over.incident_id]) == {}


def test_a_pending_incident_comes_back_pending_and_leaves_nothing_when_it_goes_away(engine: Engine) -> None:
    pending = replace(INCIDENT, is_pending=True)
    both = {one.incident_id: one for one in (pending, OTHER)}
    with writing(engine) as session:
        incidents.save(session, both.values())
    assert newest_incidents(engine) == [OTHER], "nobody needs to hear of a pending one"
    with writing(engine) as session:
        assert {one.incident_id: one for one in incidents.open_incidents(session, "main")} == both
        incidents.forget(session, list(both))
    with reading(engine) as session:
        assert incidents.open_incidents(session, "main") == [OTHER]


def test_open_incidents_come_worst_first_and_ended_ones_newest_first(engine: Engine) -> None:
    def one(name: str, severity: Severity, minutes: int, *, ended: bool = False) -> Incident:
        opened_at = NOW + timedelta(minutes=minutes)
        return an_incident(
            name,
            incident_id=name,
            cluster="main" if name != "other" else name,
            severity=severity,
            opened_at=opened_at,
            resolved_at=opened_at + timedelta(minutes=1) if ended else None,
        )

    known = [
        one("info", Severity.INFO, 0),
        one("new", Severity.CRITICAL, 2),
        one("old", Severity.CRITICAL, 1),
        one("other", Severity.WARNING, 0),
        one("over", Severity.CRITICAL, 0, ended=True),
        one("over later", Severity.INFO, 5, ended=True),
    ]
    with writing(engine) as session:
        incidents.save(session, known)
    with reading(engine) as session:
        assert listed(session, Which()) == ["old", "new", "other", "info"]
        assert listed(session, Which(cluster="main"), limit=2) == ["old", "new"]
        assert listed(session, Which(cluster="main"), limit=2, offset=2) == ["info"]
        assert listed(session, Which(), over=True) == ["over later", "over"]
        for seconds, then in ((60, ["over"]), (61, [])):
            assert listed(session, Which(open_at=NOW + timedelta(seconds=seconds)), over=True) == then
        assert ids(incidents.beginning_with(session, "o", limit=9)) == ["over later", "old", "other", "over"]
        assert incidents.beginning_with(session, "%", limit=9) == []
        assert (incidents.count(session, Which(), over=False), incidents.count(session, Which(), over=True)) == (4, 2)


def test_incidents_are_found_by_what_is_asked_for_on_every_database(each_engine: Engine) -> None:
    known = [
        an_incident(incident_id="a1", cluster="main", topic="Orders"),
        an_incident(
            incident_id="b2", cluster="main", consumer_group="Billing_2", severity=Severity.CRITICAL, topic="p"
        ),
        an_incident("consumer_offline", incident_id="c3", cluster="other", topic="p"),
        an_incident(incident_id="d4", cluster="main", consumer_group=None, topic=None),
        an_incident(incident_id="e5", cluster="main", consumer_group="x", is_pending=True),
    ]
    owned = {"main": ["billing", HOSTILE, None], "other": []}
    asked = [
        (Which(search="billing"), {"a1", "b2", "c3"}),
        (Which(search="G_2"), {"b2"}),
        (Which(search="orders", cluster="main"), {"a1"}),
        (Which(search="d4"), {"d4"}),
        (Which(severity="critical"), {"b2"}),
        (Which(rule_id="consumer_offline"), {"c3"}),
        (Which(open_at=known[0].opened_at), {"a1", "b2", "c3", "d4"}),
        (Which(open_at=known[0].opened_at - timedelta(seconds=1)), set()),
        (Which(groups={}), set()),
        (Which(groups=owned), {"a1", "d4"}),
        (Which(groups={"other": [f"g{n}" for n in range(40_000)] + ["billing"]}), {"c3"}),
    ]
    with writing(each_engine) as session:
        incidents.save(session, known)
    with reading(each_engine) as session:
        for which, found in asked:
            assert set(listed(session, which)) == found, which
            assert incidents.count(session, which, over=False) == len(found)
        assert ("other", "consumer_offline") in incidents.rules(session)
        assert ("main", None) in incidents.groups(session)
        assert ("main", "x") not in incidents.groups(session), "nobody was told of it"


def listed(session: Session, which: Which, *, over: bool = False, limit: int = 9, offset: int = 0) -> list[str]:
    return ids(incidents.listed(session, which, over=over, limit=limit, offset=offset))


def ids(found: list[Incident]) -> list[str]:
    return [one.incident_id for one in found]
