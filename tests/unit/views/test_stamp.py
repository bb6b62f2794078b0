"""By what a view is known to be unchanged."""

from __future__ import annotations

from pathlib import Path

from offsetguard.model.incident import EventKind, IncidentEvent
from offsetguard.model.intervals import Interval
from offsetguard.store import incidents
from offsetguard.store.database import writing
from offsetguard.tables import GROUP_FACTS
from offsetguard.views.workspace_views import WorkspaceViews
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.lake.warehouse import Warehouse, minute


def test_whatever_a_view_shows_changes_its_stamp_and_nothing_else_does(tmp_path: Path) -> None:
    warehouse = Warehouse.in_folder(tmp_path, GROUP_FACTS)
    views = WorkspaceViews(warehouse.workspace, warehouse.engine)

    def publish(cluster: str, number: int) -> None:
        interval = Interval(minute(number))
        warehouse.publish(cluster, interval, {GROUP_FACTS: []}, manifest_json=manifest_of(interval).to_json())

    def happen() -> None:
        with writing(warehouse.engine) as session:
            incidents.record_events(session, [IncidentEvent("f1ee7", minute(1), EventKind.OPENED, "critical")])

    seen = [views.stamp("main")]
    for change in (
        lambda: publish("main", 0),
        lambda: publish("main", 1),
        happen,
        lambda: warehouse.workspace.config_file.write_text("teams: {}"),
    ):
        change()
        seen.append(views.stamp("main"))
    assert len(set(seen)) == len(seen)
    of_all = views.stamp()
    publish("other", 1)
    assert views.stamp("main") == seen[-1], "another cluster's facts"
    assert views.stamp() != of_all
