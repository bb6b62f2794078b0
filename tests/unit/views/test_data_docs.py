"""The list of Data Docs: the newest minutes of each cluster, and what they violated."""

from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from offsetguard.store import cycles
from offsetguard.store.models import CycleRow
from offsetguard.views.data_docs import MINUTES, AskedDataDocs
from offsetguard.views.workspace_views import WorkspaceViews
from offsetguard_peers.lake.warehouse import Warehouse, minute


def cycle(cluster: str, number: int, violated: dict[str, int], run: str = "a", **more: object) -> CycleRow:
    """Return what a publication of a numbered minute did."""
    began = minute(number + 1) + timedelta(seconds=ord(run))
    row = CycleRow(cluster, minute(number), f"{run}{number}", began, began, "audited", violations=violated)
    for name, value in more.items():
        setattr(row, name, value)
    return row


def test_each_cluster_has_its_newest_minutes_and_what_they_violated(tmp_path: Path) -> None:
    warehouse = Warehouse.in_folder(tmp_path)
    docs = warehouse.workspace.data_docs_folder
    for cluster in ("main", "new", "none"):
        (docs / cluster / "history").mkdir(parents=True)
    for page in ("main/index.html", "new/index.html", "main/history/OG-Q01.html"):
        (docs / page).write_text("")
    cycles.record(
        warehouse.engine,
        *(cycle("main", number, {"OG-Q01": 3, "OG-G02": 1} if number == 40 else {}) for number in range(42)),
        cycle("main", 41, {"OG-Q01": 9}, run="b"),
        cycle("main", 39, {}, run="b", verdict=None, error="disk is full\nat line 7"),
        cycle("gone", 41, {}),
    )
    views = WorkspaceViews(warehouse.workspace, warehouse.engine)
    view = views.data_docs(AskedDataDocs())
    assert (view.clusters, view.histories) == (("main", "new"), ())
    assert [one.start for one in view.minutes[:3]] == [minute(41), minute(40), minute(39)], "the newest first"
    assert len(view.minutes) <= MINUTES
    assert [(one.violated_invariants, one.error) for one in view.minutes[:4]] == [
        (("OG-Q01",), None),
        (("OG-G02", "OG-Q01"), None),
        ((), "disk is full"),
        ((), None),
    ]
    assert view.minutes[1].page == "20261121T001000Z.html"
    found = views.data_docs(AskedDataDocs(invariant="og-q01"))
    assert (found.histories, found.minutes[1].violated_invariants) == (("main",), ("OG-Q01",))
    assert [one.violated_invariants for one in views.data_docs(AskedDataDocs(invariant="Q")).minutes[:2]] == [
        ("OG-Q01",),
        ("OG-Q01",),
    ]


def test_nothing_but_an_id_can_be_asked_for() -> None:
    for asked in ("../secret", "x" * 21, "a b"):
        with pytest.raises(ValidationError):
            AskedDataDocs(invariant=asked)
