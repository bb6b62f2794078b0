"""The Data Docs of a run: what stands first, what cannot get out of hand, and how pages are replaced."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetguard.model.intervals import Interval
from offsetguard.tables import Table
from offsetguard_expectations.data_docs import (
    Moment,
    RecentRun,
    bars,
    is_due,
    publish_history,
    publish_page,
    recent_runs,
    render_history_page,
    render_run_page,
)
from offsetguard_expectations.invariants import ALL, Check
from offsetguard_expectations.run_report import InvariantOutcome, RunReport
from offsetguard_peers.cases.running import examples, for_each

BY_ID = {invariant.id: invariant for invariant in ALL}
INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
HOSTILE = "<script>alert(1)</script>\"'&{{ 7 * 7 }}</li></body>"


def report(
    violated: dict[str, tuple[int, tuple[str, ...]]] | None = None, not_checked: tuple[str, ...] = ()
) -> RunReport:
    """All invariants with 20 rows each; `violated` gives violations and examples by id."""
    found = violated or {}
    outcomes = (
        InvariantOutcome(
            invariant, 20, *found.get(invariant.id, (0, ())), "no result" if invariant.id in not_checked else None
        )
        for invariant in ALL
    )
    return RunReport("production", INTERVAL, tuple(outcomes))


class Page(HTMLParser):
    """What a browser would make of a page: tags, everything that it would fetch, and the texts by tag."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in {"href", "src", "action", "data"}]
        if tag not in {"meta", "link"}:
            self._open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts[self._open[-1]][-1] += data


def page(*args: RunReport) -> Page:
    return Page(render_run_page(*args))


def test_the_first_lines_say_what_is_violated_and_trouble_comes_before_corrupt_rows() -> None:
    shown = page(report({"OG-Q12": (2, ("a",)), "OG-Q01": (12, ("b",))}))
    assert [text.strip() for text in shown.texts["h1"]] == ["2 invariants violated"]
    assert shown.texts["h2"][:2] == [BY_ID["OG-Q01"].violation, BY_ID["OG-Q12"].violation]


def test_a_violation_shows_rows_meaning_and_what_to_do() -> None:
    html = render_run_page(report({"OG-Q05": (7, ("orders in orders broker-a/3: min_offset 9",))}))
    for text in (
        "<strong>7</strong> of 20 rows",
        "orders in orders broker-a/3: min_offset 9",
        "and 6 more rows: table queue_snapshots",
        "before restarting anything",
        "half-deleted",
    ):
        assert text in html


def test_a_good_run_says_so_and_lists_every_invariant() -> None:
    shown = page(report())
    assert [text.strip() for text in shown.texts["h1"]] == [f"All {len(ALL)} invariants hold"]
    assert [text for text in shown.texts["a"] if text in BY_ID] == [invariant.id for invariant in ALL]
    assert [address for address in shown.addresses if address.startswith("history/")] == [
        f"history/{invariant.id}.html" for invariant in ALL
    ]


def test_an_invariant_that_was_not_checked_is_never_shown_as_good() -> None:
    checked = report(not_checked=("OG-S01",))
    assert not checked.success
    shown = page(checked)
    assert [text.strip() for text in shown.texts["h1"]] == ["1 invariant not checked"]
    assert "OG-S01 Every master answered: no result" in shown.texts["li"]


def test_nothing_to_check_is_told_apart_from_checked_and_good() -> None:
    outcomes = (InvariantOutcome(BY_ID["OG-S01"], 2, 0, ()), InvariantOutcome(BY_ID["OG-M11"], 0, 0, ()))
    html = render_run_page(RunReport("production", INTERVAL, outcomes))
    assert "No invariant violated" in html
    assert "1 had no rows to check" in html


def test_an_empty_snapshot_is_no_good_news() -> None:
    """No broker answered: nothing is violated, and nothing is known."""
    empty = RunReport("production", INTERVAL, tuple(InvariantOutcome(one, 0, 0, ()) for one in ALL))
    assert not empty.success
    shown = page(empty)
    assert [text.strip() for text in shown.texts["h1"]] == ["Nothing was seen"]
    assert 'class="banner good"' not in render_run_page(empty)
    assert f'href="{INTERVAL.name}.html" class="bad this"' in render_run_page(empty)


@settings(max_examples=examples(0.2))
@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1) | st.just(HOSTILE))
def test_text_of_others_stays_text(text: str) -> None:
    """Names of groups and topics are whatever their owners typed."""
    shown = page(report({"OG-Q03": (1, (text,))}))
    assert text in shown.texts["li"]
    assert shown.tags == page(report({"OG-Q03": (1, ("plain",))})).tags


def test_a_page_fetches_nothing_and_runs_nothing() -> None:
    html = render_run_page(report({"OG-Q03": (1, (HOSTILE,))}), [RecentRun(INTERVAL, ())])
    shown = Page(html)
    assert not {"script", "img", "iframe", "object", "embed", "base"} & set(shown.tags)
    outside = [
        address
        for address in shown.addresses
        if not address.startswith(("#", "2026", "index.html", "data:,", "history/OG-"))
    ]
    assert outside == []
    style = "".join(shown.texts["style"])
    assert "@import" not in style
    assert "url(" not in style


def runs_of(count: int) -> list[Interval]:
    return [Interval(INTERVAL.start + timedelta(minutes=minute)) for minute in range(count)]


def test_the_index_is_the_newest_run_and_a_backfill_does_not_change_it(tmp_path: Path) -> None:
    old, new = runs_of(2)
    publish_page(tmp_path, new, "new")
    index = publish_page(tmp_path, old, "old")
    assert index.read_text() == "new"
    assert (tmp_path / f"{old.name}.html").read_text() == "old"


def test_a_repeated_run_replaces_its_own_page_and_leaves_nothing_behind(tmp_path: Path) -> None:
    publish_page(tmp_path, INTERVAL, "first")
    publish_page(tmp_path, INTERVAL, "second")
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "index.html": "second",
        f"{INTERVAL.name}.html": "second",
    }


def test_the_oldest_pages_are_dropped_and_other_files_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / "notes.html").write_text("mine")
    runs = runs_of(5)
    for run in runs[:-1]:
        (tmp_path / f"{run.name}.html").write_text("old")
    publish_page(tmp_path, runs[-1], "new", kept_runs=3)
    kept = {file.stem for file in tmp_path.iterdir()} - {"index", "notes"}
    assert kept == {run.name for run in runs[2:]}
    assert (tmp_path / "notes.html").exists()


def test_recent_runs_are_read_back_from_the_pages_themselves(tmp_path: Path) -> None:
    bad, good = runs_of(2)
    flagged = report({"OG-Q12": (1, ("x",)), "OG-Q01": (1, (HOSTILE,))}, not_checked=("OG-S01",))
    publish_page(tmp_path, bad, render_run_page(flagged))
    publish_page(tmp_path, good, render_run_page(report()))
    (tmp_path / "20261121T104500Z.html").write_bytes(b"\xff half a page of somebody else")
    assert recent_runs(tmp_path) == (RecentRun(bad, ("OG-Q01", "OG-Q12", "OG-S01")), RecentRun(good, ()))


def test_a_folder_that_does_not_exist_yet_has_no_runs(tmp_path: Path) -> None:
    assert recent_runs(tmp_path / "new cluster") == ()


@pytest.mark.parametrize(("flagged", "style"), [((), "fine this"), (("OG-Q01",), "bad this")])
def test_a_run_is_marked_among_the_recent_ones(flagged: tuple[str, ...], style: str) -> None:
    earlier = RecentRun(Interval(INTERVAL.start - timedelta(minutes=1)), ("OG-S01",))
    html = render_run_page(report(dict.fromkeys(flagged, (1, ("x",)))), (earlier,))
    assert f'href="{INTERVAL.name}.html" class="{style}"' in html
    assert f'href="{earlier.interval.name}.html" class="bad"' in html


# --- the history of one invariant ---------------------------------------------------------------------------------


def moments(*violations: int) -> list[Moment]:
    """One interval a minute up to INTERVAL."""
    first = INTERVAL.start - timedelta(minutes=len(violations) - 1)
    return [Moment(Interval(first + timedelta(minutes=at)), 20, count) for at, count in enumerate(violations)]


def history(*violations: int, id_: str = "OG-Q01", cluster: str = "production") -> str:
    return render_history_page(BY_ID[id_], cluster, moments(*violations), INTERVAL.end)


def test_a_history_says_when_how_often_and_how_badly_an_invariant_was_violated() -> None:
    html = history(0, 3, 0, 1_500)
    assert "violated in 2 of 4 intervals, at most" in " ".join(html.split())
    assert "1,500 rows at once" in html
    assert html.index(f'href="../{INTERVAL.name}.html#OG-Q01"') < html.index('href="../20261121T103700Z.html#OG-Q01"')


def test_a_history_tells_holding_from_not_having_been_checked() -> None:
    assert "held in all 2 intervals of the last 24 hours" in " ".join(history(0, 0).split())
    assert "not checked in the last 24 hours" in history()
    assert 'class="violations"' not in history(0, 0)


def test_bars_show_the_worst_of_ten_minutes_and_where_nothing_was_published() -> None:
    found = bars(moments(*([0] * 10 + [4] + [0] * 8 + [8])), INTERVAL.end)
    assert len(found) == 144
    assert [(bar.violations, bar.height) for bar in found[-3:]] == [(None, 0), (0, 0), (8, 120.0)]
    assert len({bar.start for bar in found}) == 144


@for_each("invariant", ALL, name_of=lambda invariant: invariant.id)
def test_every_history_fetches_nothing_and_a_hostile_cluster_name_stays_text(invariant: Check) -> None:
    shown = Page(history(0, 2, id_=invariant.id, cluster=HOSTILE))
    assert not {"script", "img", "iframe", "object", "embed", "base"} & set(shown.tags)
    assert [address for address in shown.addresses if not address.startswith(("../", "data:,"))] == []
    assert any(HOSTILE in text for text in shown.texts["p"])


@pytest.mark.parametrize(("minute", "exists", "due"), [(39, True, False), (39, False, True), (40, True, True)])
def test_histories_are_made_every_ten_minutes_or_when_there_are_none(
    tmp_path: Path, minute: int, *, exists: bool, due: bool
) -> None:
    if exists:
        (tmp_path / "history").mkdir()
    assert is_due(tmp_path, Interval(INTERVAL.start.replace(minute=minute))) is due


class PublishedResults:
    """`invariant_results` of two intervals, as a reader gives them."""

    def history(
        self, table: Table, cluster: str, since: datetime, until: datetime, *, columns: Sequence[str]
    ) -> pa.Table:
        assert (table.name, cluster, until - since) == ("invariant_results", "production", timedelta(hours=24))
        rows = [
            {"interval_start": moment.interval.start, "invariant_id": id_, "rows_checked": 20, "violations": count}
            for id_, counts in {"OG-Q01": (0, 7), "OG-X99": (1, 1)}.items()
            for moment, count in zip(moments(*counts), counts, strict=True)
        ]
        return pa.Table.from_pylist(rows).select(list(columns))


def test_histories_of_all_invariants_are_written_beside_the_runs(tmp_path: Path) -> None:
    """An id that this release does not know (another one wrote it) has no page."""
    assert publish_history(PublishedResults(), "production", INTERVAL, tmp_path) == len(ALL)
    pages = {file.stem: file.read_text() for file in (tmp_path / "production" / "history").iterdir()}
    assert set(pages) == {invariant.id for invariant in ALL}
    assert "violated in 1 of 2 intervals, at most 7 rows at once" in " ".join(pages["OG-Q01"].split())
    assert "not checked in the last 24 hours" in pages["OG-Q03"]
