"""Changes and silences as a view, from published facts and a real database."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from offsetguard.catalogue import catalogue
from offsetguard.catalogue.text import Language, Locale
from offsetguard.facts.changes import record_changes
from offsetguard.model.changes import Kind, NamedChange
from offsetguard.model.intervals import Interval
from offsetguard.model.silence import Matchers, Silence
from offsetguard.model.verdicts import Severity
from offsetguard.store import changes, incidents, silences
from offsetguard.store.changes import Asked
from offsetguard.store.database import reading, writing
from offsetguard.tables import BROKER_FACTS, CLIENT_SNAPSHOTS, GROUP_FACTS, OFFSET_MOVE_FACTS, TOPIC_FACTS
from offsetguard.views.changes import AskedChanges
from offsetguard.views.course import Span
from offsetguard.views.fleet import ROWS
from offsetguard.views.silences import LATELY, SilenceState, watched_silences
from offsetguard.views.workspace_views import WorkspaceViews
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.judging.records import an_incident
from offsetguard_peers.lake.warehouse import Warehouse, minute

NOW = minute(120)
TABLES = (GROUP_FACTS, CLIENT_SNAPSHOTS, OFFSET_MOVE_FACTS, TOPIC_FACTS, BROKER_FACTS)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


def test_what_is_asked_is_checked_and_said_as_a_form_says_it() -> None:
    asked = AskedChanges(cluster="main", span=Span.MONTH, search="pay")
    assert asked.within(NOW) == Asked("main", NOW - Span.MONTH.length, NOW, search="pay")
    assert AskedChanges.model_validate({"kind": ""}).kind is None, "as a form says it"
    for wrong in ({"kind": "weather"}, {"search": "x" * 256}, {"topic": "\0"}, {"page": 0}):
        with pytest.raises(ValidationError):
            AskedChanges.model_validate(wrong)


def test_changes_of_one_kind_stand_on_pages_newest_first(tmp_path: Path) -> None:
    warehouse = Warehouse.in_folder(tmp_path)
    warehouse.show(Interval(NOW - MINUTE), {}, cluster="main", manifest_json=manifest_of(Interval(NOW)).to_json())
    many = [NamedChange(NOW - (n + 1) * MINUTE, str(n), Kind.MEMBERS, f"g{n}") for n in range(ROWS + 1)]
    other = NamedChange(NOW - MINUTE, "other", Kind.QUEUES, topic="orders")
    with writing(warehouse.engine) as session:
        changes.replace(session, "main", NOW - 2 * MINUTE, [other, *many], None)
    asked = AskedChanges(cluster="main", kind=Kind.MEMBERS, page=99)
    view = WorkspaceViews(warehouse.workspace, warehouse.engine).changes(asked, catalogue())
    assert (view.change_count, view.page_count, view.asked.page) == (ROWS + 1, 2, 2)
    assert [(one.cluster, one.consumer_group, one.what) for one in view.changes] == [("main", f"g{ROWS}", str(ROWS))]
    assert view.unknown_count == 1, "what the newest interval shows is not written down"


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
    with reading(warehouse.engine) as session:
        seen = incidents.seen_since(session, NOW - LATELY)
        shown = [*silences.not_over(session, NOW), *silences.over_since(session, NOW - LATELY, NOW, limit=9)]
    told = [
        (one.comment, one.state.value, one.open_count, one.last_matched_at, one.is_idle, one.ended_early)
        for one in watched_silences(shown, seen, NOW)
    ]
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


def test_a_workspace_shows_its_first_cluster_in_the_readers_language(tmp_path: Path) -> None:
    warehouse = Warehouse.in_folder(tmp_path, *TABLES)
    views = WorkspaceViews(warehouse.workspace, warehouse.engine)
    chinese = catalogue(Locale.of(Language.ZH, "Asia/Shanghai"))
    assert views.changes(AskedChanges(), chinese).since is None, "nothing was published"
    for number, retries in ((0, 16), (1, 3)):
        interval = Interval(minute(number))
        rows = {GROUP_FACTS: [{"consumer_group": "billing", "topic": "orders", "retry_max_times": retries}]}
        warehouse.publish("main", interval, rows, manifest_json=manifest_of(interval).to_json())
        record_changes(warehouse.reader(), warehouse.engine, "main", interval.start)
    view = views.changes(AskedChanges(span=Span.HALF_HOUR), chinese)
    assert (view.asked.cluster, view.clusters, view.unknown_count) == ("main", ("main",), 0)
    (change,) = view.changes
    assert (change.at, change.what) == (view.until, "billing：retryMaxTimes 由 16 变为 3"), "the look that shows it"
    assert (view.since, view.until) == (minute(2) - timedelta(minutes=30), minute(2))
