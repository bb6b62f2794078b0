"""Changes as a view, from published facts and a real database."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from offsetguard.catalogue import catalogue
from offsetguard.catalogue.text import Language, Locale
from offsetguard.facts.changes import record_changes
from offsetguard.model.incident import Kind, NamedChange
from offsetguard.model.intervals import Interval
from offsetguard.store import changes
from offsetguard.store.changes import Asked
from offsetguard.store.database import writing
from offsetguard.tables import (
    BROKER_FACTS,
    CLIENT_SNAPSHOTS,
    GROUP_FACTS,
    GROUP_SNAPSHOTS,
    OFFSET_MOVE_FACTS,
    TOPIC_FACTS,
)
from offsetguard.views.changes import AskedChanges
from offsetguard.views.course import Span
from offsetguard.views.listing import ROWS
from offsetguard.views.workspace_views import WorkspaceViews
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.lake.warehouse import Warehouse, minute

NOW = minute(120)
TABLES = (GROUP_FACTS, GROUP_SNAPSHOTS, CLIENT_SNAPSHOTS, OFFSET_MOVE_FACTS, TOPIC_FACTS, BROKER_FACTS)
MINUTE = timedelta(minutes=1)


def test_what_is_asked_is_checked_and_said_as_a_form_says_it() -> None:
    asked = AskedChanges(cluster="main", span=Span.MONTH, search="pay")
    assert asked.within(NOW) == Asked("main", NOW - Span.MONTH.length, NOW, search="pay")
    assert AskedChanges.model_validate({"kind": ""}).kind is None, "as a form says it"
    then = AskedChanges(cluster="main", since=minute(3), until=minute(9))
    assert then.within(NOW) == Asked("main", minute(3), minute(9))
    assert AskedChanges(span=Span.HALF_HOUR, until=minute(60)).within(NOW) == Asked("", minute(30), minute(60))
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
