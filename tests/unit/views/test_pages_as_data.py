"""docs/pages-as-data.md says what the same addresses give as data."""

from __future__ import annotations

from typing import get_args, get_type_hints

from offsetguard.model.views import Record
from offsetguard.views.workspace_views import WorkspaceViews
from offsetguard_peers.doc_pages.views import PAGES, made


def test_every_view_of_a_workspace_stands_on_it_with_what_csv_has_of_it() -> None:
    hints = (get_type_hints(one) for name, one in vars(WorkspaceViews).items() if not name.startswith("_"))
    returned = {one for hint in hints for one in (hint["return"], *get_args(hint["return"]))}
    views = {one for one in returned if isinstance(one, type) and issubclass(one, Record)}
    assert views == {page.view for page in PAGES}
    assert all(page.csv in page.view.model_fields for page in PAGES)


def test_no_two_records_have_one_name() -> None:
    headings = [line for line in made().splitlines() if line.startswith("### ")]
    assert sorted(headings) == sorted(set(headings))
