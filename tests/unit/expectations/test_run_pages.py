"""The Data Docs of a run: what stands first, what cannot get out of hand, and how pages are replaced."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetguard.model.intervals import Interval
from offsetguard_expectations.data_docs import (
    InvariantOutcome,
    Moment,
    RecentRun,
    RunReport,
    bars,
    is_due,
    publish_run,
    recent_runs,
    render_history_page,
    render_run_page,
)
from offsetguard_expectations.invariants import ALL, Check
from offsetguard_peers.cases.running import examples, for_each
from offsetguard_peers.pictures.chromium import open_page

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


NOT_CHECKED = report(not_checked=("OG-S01",))
NO_ROWS = tuple(InvariantOutcome(one, 0, 0, ()) for one in ALL)
SOME_ROWS = (InvariantOutcome(BY_ID["OG-S01"], 2, 0, ()), InvariantOutcome(BY_ID["OG-M11"], 0, 0, ()))


@pytest.mark.parametrize(
    ("run", "success", "headline", "says"),
    [
        (report(), True, f"All {len(ALL)} invariants hold", 'class="banner good"'),
        (NOT_CHECKED, False, "1 invariant not checked", "OG-S01 Every master answered: no result"),
        (RunReport("production", INTERVAL, SOME_ROWS), True, "No invariant violated", "1 had no rows to check"),
        # no broker answered: nothing is violated, and nothing is known
        (
            RunReport("production", INTERVAL, NO_ROWS),
            False,
            "Nothing was seen",
            f'{INTERVAL.name}.html" class="bad this"',
        ),
    ],
)
def test_only_what_was_checked_is_good(run: RunReport, success: bool, headline: str, says: str) -> None:
    html = render_run_page(run)
    assert (run.success, [text.strip() for text in Page(html).texts["h1"]]) == (success, [headline])
    assert says in html
    assert ('class="banner good"' in html) is success


def test_what_is_always_so_of_an_invariant_stands_once_and_not_on_the_page_of_each_minute() -> None:
    """Of the latter 1,440 are kept of each cluster."""
    runs = [RecentRun(Interval(INTERVAL.start - timedelta(minutes=number)), ()) for number in range(60)]
    html = unescape(render_run_page(report(), runs))
    assert len(html) < 45_000
    for one in ALL:
        texts = Page(render_history_page(one, "production", (), INTERVAL.end)).texts
        assert one.title in html
        assert one.meaning.partition("`")[0] in "".join(texts["p"])
        assert one.meaning not in html
        assert one.holds_when in "".join(texts["code"])


@pytest.mark.browser
def test_every_page_can_be_read_on_a_phone(tmp_path: Path) -> None:
    """Its table gave the name of what holds the width of one letter."""
    pages = {
        "run": render_run_page(report({"OG-Q01": (12, (HOSTILE,))})),
        "history": render_history_page(BY_ID["OG-Q01"], "production", [Moment(INTERVAL, 20, 3)], INTERVAL.end),
    }
    with open_page(width=400, height=800) as shown:
        for name, html in pages.items():
            (tmp_path / f"{name}.html").write_text(html)
            shown.goto((tmp_path / f"{name}.html").as_uri())
            assert shown.evaluate("document.documentElement.scrollWidth") <= 400, name
            assert shown.evaluate("document.documentElement.scrollHeight") < 15_000, name


def test_a_good_run_lists_every_invariant() -> None:
    shown = page(report())
    assert [text for text in shown.texts["a"] if text in BY_ID] == [invariant.id for invariant in ALL]
    assert [address for address in shown.addresses if address.startswith("history/")] == [
        f"history/{invariant.id}.html" for invariant in ALL
    ]


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
        if not address.startswith(("#", "2026", "index.html", "data:,", "history/OG-", "../../fleet/", "../"))
    ]
    assert outside == []
    style = "".join(shown.texts["style"])
    assert "@import" not in style
    assert "url(" not in style


def runs_of(count: int) -> list[Interval]:
    return [Interval(INTERVAL.start + timedelta(minutes=minute)) for minute in range(count)]


def test_a_folder_has_a_page_for_each_of_the_newest_runs_and_the_newest_one_as_its_index(tmp_path: Path) -> None:
    """A backfill does not change the index, a repeated run replaces its own page, other files are not touched."""
    (tmp_path / "notes.html").write_text("mine")
    runs = runs_of(5)
    for number in (0, 1, 2, 4, 4, 3, 0):
        publish_run(tmp_path, replace(report(), interval=runs[number]), kept_runs=3)
    pages = {f"{runs[number].name}.html" for number in (2, 3, 4)}
    assert {file.name for file in tmp_path.iterdir()} == {"notes.html", "index.html", "runs.json", *pages}
    assert (tmp_path / "notes.html").read_text() == "mine"
    assert (tmp_path / "index.html").read_text() == (tmp_path / f"{runs[4].name}.html").read_text()


def test_pages_of_a_day_that_is_over_go_after_an_outage_too(tmp_path: Path) -> None:
    runs = runs_of(9)
    for number in (0, 1, 2, 8):
        publish_run(tmp_path, replace(report(), interval=runs[number]), kept_runs=3)
    assert {file.stem for file in tmp_path.glob("2*.html")} == {runs[8].name}


def test_the_newest_runs_are_known_by_what_they_flagged(tmp_path: Path) -> None:
    bad, good = runs_of(2)
    flagged = report({"OG-Q12": (1, ("x",)), "OG-Q01": (1, (HOSTILE,))}, not_checked=("OG-S01",))
    publish_run(tmp_path, replace(flagged, interval=bad))
    publish_run(tmp_path, replace(report(), interval=good))
    assert recent_runs(tmp_path / "new cluster") == ()
    assert recent_runs(tmp_path) == (RecentRun(bad, ("OG-Q01", "OG-Q12", "OG-S01")), RecentRun(good, ()))


def test_a_page_links_the_runs_of_an_hour(tmp_path: Path) -> None:
    runs = runs_of(61)
    for run in runs:
        publish_run(tmp_path, replace(report(), interval=run))
    assert [run.interval for run in recent_runs(tmp_path)] == runs[1:]


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
