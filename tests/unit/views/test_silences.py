"""Silences as a view: what each is about, and what one would be about that is not made yet."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from offsetguard.catalogue import catalogue
from offsetguard.model.notification import Matchers, Silence
from offsetguard.model.verdicts import Severity
from offsetguard.store import incidents, silences
from offsetguard.store.database import reading, writing
from offsetguard.views.silences import LATELY, AskedSilences, SilenceState, SilencesView, silences_view
from offsetguard.views.workspace_views import WorkspaceViews
from offsetguard_peers.judging.records import an_incident
from offsetguard_peers.lake.warehouse import Warehouse, minute

NOW = minute(120)
DAY = timedelta(days=1)


def view_at(warehouse: Warehouse, now: datetime, **asked: Any) -> SilencesView:
    """Return the view as it is at a moment, without what incidents say."""
    with reading(warehouse.engine) as session:
        shown = [*silences.not_over(session, now), *silences.over_since(session, now - LATELY, now, limit=9)]
        seen, told = incidents.seen_since(session, now - LATELY), incidents.all_open(session)
        return silences_view(AskedSilences(**asked), shown, seen, told, now, words_of=lambda _: {})


def test_of_each_silence_is_told_what_it_is_about(tmp_path: Path) -> None:
    warehouse = Warehouse.in_folder(tmp_path)
    old = NOW - 10 * DAY

    def silence(group: str, *, start: datetime = old, end: datetime = NOW + DAY, **more: Severity) -> Silence:
        return Silence(Matchers(consumer_group=group, **more), "li", group, start, end, old)

    given = [
        *(silence(group) for group in ("many-*", "ended", "long-ago", "nobody")),
        silence("many-*", start=NOW - DAY, severity=Severity.WARNING),
        silence("later", start=NOW + DAY, end=NOW + 2 * DAY),
        silence("young", start=NOW - DAY),
        silence("over", end=NOW - DAY),
        silence("over-long-ago", end=NOW - 8 * DAY),
        silence("stopped"),
    ]
    severities = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)
    found = [
        an_incident(incident_id=f"m{n}", consumer_group=f"many-{n}", severity=one) for n, one in enumerate(severities)
    ]
    for name, ago in (("ended", 2 * DAY), ("long-ago", 8 * DAY), ("young", 2 * DAY), ("later", None)):
        resolved_at = None if ago is None else NOW - ago
        found.append(an_incident(incident_id=name[:4], consumer_group=name, resolved_at=resolved_at))
    found.append(an_incident(incident_id="p", consumer_group="nobody", is_pending=True))
    with writing(warehouse.engine) as session:
        numbers = {one.comment: silences.add(session, one).id for one in given}
        incidents.save(session, found)
        silences.expire(session, numbers["stopped"] or 0, now=NOW - DAY)
    view = view_at(warehouse, NOW)
    told = [
        (one.comment, one.state.value, one.open_count, one.last_matched_at, one.is_idle, one.ended_early)
        for one in view.silences
    ]
    assert [one.incident_id for one in view.silences[0].matched] == ["m0", "m1", "m2"], "the worst first"
    assert view.silence_count == len(view.silences)
    assert told[:6] == [
        ("many-*", "active", 3, None, False, False),
        ("ended", "active", 0, NOW - 2 * DAY, False, False),
        ("long-ago", "active", 0, None, True, False),
        ("nobody", "active", 0, None, True, False),
        ("many-*", "active", 2, None, False, False),
        ("young", "active", 0, None, False, False),
    ]
    assert told[6] == ("later", "scheduled", 1, None, False, False)
    assert sorted(told[7:]) == [
        ("over", "over", None, None, False, False),
        ("stopped", "over", None, None, False, True),
    ]
    assert list(SilenceState) == ["active", "scheduled", "over"]


@pytest.mark.parametrize(
    ("asked", "matched"),
    [
        ({}, None),
        ({"consumer_group": "bill*"}, ["worse", "bad"]),
        ({"consumer_group": "bill*", "severity": "warning"}, ["bad"]),
        ({"cluster": "nowhere"}, []),
    ],
)
def test_what_a_silence_would_match_is_seen_before_it_is_made(
    tmp_path: Path, asked: dict[str, str], matched: list[str] | None
) -> None:
    warehouse = Warehouse.in_folder(tmp_path)
    found = [
        an_incident(incident_id="bad", consumer_group="billing"),
        an_incident(incident_id="worse", consumer_group="billing-export", severity=Severity.CRITICAL),
        an_incident(incident_id="past", consumer_group="billing-old", resolved_at=NOW),
    ]
    with writing(warehouse.engine) as session:
        incidents.save(session, found)
    view = WorkspaceViews(warehouse.workspace, warehouse.engine).silences(AskedSilences(**asked), catalogue())
    assert view.would_match_count == (None if matched is None else len(matched))
    assert [one.incident_id for one in view.would_match] == (matched or [])
    assert all(one.summary != one.incident_id for one in view.would_match), "in the incident's words"


def test_a_silence_is_extended_until_it_is_over(tmp_path: Path) -> None:
    warehouse = Warehouse.in_folder(tmp_path)
    given = Silence(Matchers(cluster="main"), "li", "works", NOW, NOW + DAY, NOW)
    with writing(warehouse.engine) as session:
        number = silences.add(session, given).id or 0
        assert silences.extend(session, number, by=DAY, now=NOW)
        assert not silences.extend(session, number, by=DAY, now=NOW + 3 * DAY), "it is over"
        assert not silences.extend(session, number + 1, by=DAY, now=NOW)
        found = silences.by_id(session, number)
        assert found is not None
        assert found.ends_at == NOW + 2 * DAY
        silences.expire(session, number, now=NOW)
        assert not silences.extend(session, number, by=DAY, now=NOW + DAY), "somebody has ended it"
