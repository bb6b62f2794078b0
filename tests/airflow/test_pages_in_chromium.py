"""Every view in a real browser: in both languages and themes, narrow, without JavaScript, and in Airflow's frame.

One group with a hostile name is in trouble on all of them: a script that it smuggles in would open a dialogue.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from offsetguard.config.workspace import Workspace
from offsetguard.facts.changes import record_changes
from offsetguard.model.intervals import Interval
from offsetguard.model.verdicts import Severity
from offsetguard.store import incidents
from offsetguard.store.database import open_database, writing
from offsetguard.tables import CLIENT_SNAPSHOTS, CLUSTER_FACTS, GROUP_FACTS, GROUP_SNAPSHOTS, QUEUE_FACTS, TOPIC_FACTS
from offsetguard_peers.airflow.standalone import AirflowStandalone
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.judging.records import an_incident
from offsetguard_peers.lake.warehouse import Warehouse
from offsetguard_peers.pictures.chromium import FLAGS, chromium_path, log_in
from offsetguard_peers.pictures.mail import ORDER_GROUP, Stage
from offsetguard_peers.smtp.inbox import InboxPage
from offsetguard_peers.smtp.server import SmtpServer

pytestmark = pytest.mark.browser

CLUSTER, MINUTES, NARROW = "chromium", 12, 360
HOSTILE = "</title></script><script>alert(1)</script><img src=x onerror=alert(2)>'\"{{ 7*7 }}"
INCIDENT = "c4r0m1um"
_GROUP = {"cluster": CLUSTER, "consumer_group": HOSTILE, "span": "30m"}
VIEWS = {
    "fleet": "fleet/?" + urlencode({"cluster": CLUSTER}),
    "group": "fleet/group?" + urlencode(_GROUP),
    "topic": "fleet/topic?" + urlencode({"cluster": CLUSTER, "topic": "orders", "span": "30m"}),
    "queues": "fleet/queues?" + urlencode(_GROUP),
    "incidents": "incidents/?" + urlencode({"cluster": CLUSTER}),
    "incident": f"incidents/{INCIDENT}",
    "changes": "changes/?" + urlencode({"cluster": CLUSTER}),
    "silences": "silences/?" + urlencode({"consumer_group": HOSTILE}),
    "search": "search/?" + urlencode({"q": "alert(1)"}),
    "data docs": "data-docs/",
}
# Give the words of a page that are broken in their middle.
BROKEN_WORDS = r"""() => {
  const found = [], range = document.createRange();
  const texts = document.createTreeWalker(document.querySelector("main"), 4);
  while (texts.nextNode()) for (const word of texts.currentNode.data.matchAll(/(?<!\S)[A-Za-z]{2,12}(?!\S)/g)) {
    range.setStart(texts.currentNode, word.index);
    range.setEnd(texts.currentNode, word.index + word[0].length);
    if (new Set([...range.getClientRects()].map((one) => one.top)).size > 1) found.push(word[0]);
  }
  return found;
}"""
THEMES, LANGUAGES = ("light", "dark"), ("en", "zh")


@pytest.fixture(scope="module", autouse=True)
def published(airflow: AirflowStandalone, workspace_folder: Path) -> Iterator[None]:
    """Publish minutes, with a hole in them, of a group that falls behind."""
    tables = (GROUP_FACTS, GROUP_SNAPSHOTS, QUEUE_FACTS, TOPIC_FACTS, CLUSTER_FACTS, CLIENT_SNAPSHOTS)
    url = airflow.environment["OFFSETGUARD_DATABASE_URL"]
    warehouse = Warehouse(Workspace(workspace_folder, workspace_folder / "offsetguard.yml", url), tables)
    newest = Interval.containing(datetime.now(UTC) - timedelta(minutes=1))
    for ago in reversed(range(MINUTES)):
        if ago in {5, 6}:
            continue
        interval = Interval(newest.start - timedelta(minutes=ago))
        lag = 1_000 * (MINUTES - ago)
        one = {"consumer_group": HOSTILE, "topic": "orders", "effective_lag": lag, "lag_ms": 60 * lag}
        clients = ("10.0.0.1@1", f"10.0.0.2@{HOSTILE}") if ago < 3 else ("10.0.0.1@1",)  # one has joined
        rows: dict[Any, list[dict[str, Any]]] = {
            GROUP_FACTS: [{**one, "produce_tps": 17.0, "unknown_queue_count": 1, "seen_digest": str(len(clients))}],
            QUEUE_FACTS: [{**one, "broker_name": HOSTILE, "queue_id": queue} for queue in range(3)],
            TOPIC_FACTS: [{"topic": "orders"}],
            CLUSTER_FACTS: [{"effective_lag": lag}],
            CLIENT_SNAPSHOTS: [{"consumer_group": HOSTILE, "client_id": client} for client in clients],
        }
        manifest = manifest_of(interval, unseen_broker_names=("broker-b",), gap_count=1).to_json()
        warehouse.publish(CLUSTER, interval, rows, manifest_json=manifest)
        record_changes(warehouse.reader(), warehouse.engine, CLUSTER, interval.start)
    opened_at = newest.start - timedelta(minutes=8)
    trouble = an_incident(
        incident_id=INCIDENT,
        cluster=CLUSTER,
        consumer_group=HOSTILE,
        severity=Severity.CRITICAL,
        opened_at=opened_at,
        last_seen_at=newest.start,
    )
    named = replace(trouble, evidence=replace(trouble.evidence, summary=f"{HOSTILE}: something is wrong"))
    with writing(warehouse.engine) as session:
        incidents.save(session, [named])
    yield
    warehouse.engine.dispose()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start one Chromium for all of it."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=chromium_path(), args=list(FLAGS), timeout=180_000)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def logged_in(browser: Browser, airflow: AirflowStandalone) -> Any:
    """Log in once; returns the cookies."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{airflow.base_url}/offsetguard/{VIEWS['fleet']}")
    log_in(page, airflow.username, airflow.password)
    page.wait_for_url("**/offsetguard/fleet/**")
    state = context.storage_state()
    context.close()
    return state


@pytest.fixture
def open_view(browser: Browser, logged_in: Any, airflow: AirflowStandalone) -> Iterator[Any]:
    """Give what opens a view in a context of its own; what a browser complains of fails the test."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def open_it(view: str, *, lang: str = "en", **options: Any) -> Page:
        context = browser.new_context(storage_state=logged_in, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: (complaints.append(dialog.message), dialog.dismiss()))
        address = VIEWS[view]
        answer = page.goto(f"{airflow.base_url}/offsetguard/{address}{'&' if '?' in address else '?'}lang={lang}")
        assert answer is not None
        assert answer.status == 200
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("view", VIEWS)
def test_a_view_can_be_read_by_everybody(view: str, theme: str, lang: str, open_view: Any) -> None:
    page = open_view(view, lang=lang, color_scheme=theme)
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert page.title()
    assert page.locator("html").get_attribute("lang") == lang
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    rgb = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (sum(rgb) < 200) == dark == (theme == "dark")


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_is_whole_without_javascript_and_fits_a_phone(view: str, open_view: Any) -> None:
    plain = open_view(view, java_script_enabled=False)
    texts = [line for line in plain.locator("main").inner_text().splitlines() if line.strip()]
    scripted = open_view(view).locator("main").inner_text()
    assert len(texts) > 2
    assert [line for line in texts if line not in scripted and not any(mark.isdigit() for mark in line)] == []
    narrow = open_view(view, viewport={"width": NARROW, "height": 740})
    assert narrow.evaluate("document.documentElement.scrollWidth") <= NARROW, "nobody scrolls sideways"


@pytest.mark.parametrize("view", VIEWS)
def test_no_word_is_broken_and_nobody_scrolls_sideways_where_a_table_is_narrow(view: str, open_view: Any) -> None:
    page = open_view(view, viewport={"width": 1280, "height": 900})
    assert page.evaluate(BROKEN_WORDS) == []
    page.set_viewport_size({"width": 760, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 760


def test_every_course_is_a_chart_and_a_page_has_one_legend(open_view: Any) -> None:
    for view, count in (("group", 4), ("topic", 2), ("incident", 4)):
        page = open_view(view)
        page.locator(".chart").nth(count - 1).wait_for()
        assert (page.locator(".chart").count(), page.locator(".legend").count()) == (count, 1), view


def test_a_past_time_is_asked_for_by_the_readers_clock_and_its_address_means_the_same_to_everybody(
    open_view: Any, airflow: AirflowStandalone
) -> None:
    page = open_view("group", timezone_id="Asia/Shanghai")
    page.locator("#view").get_by_text("UTC+8").first.wait_for()
    page.get_by_label("From", exact=True).fill("2026-11-20T08:00")
    page.get_by_label("To", exact=True).fill("2026-11-20T09:30")
    page.locator(".range").get_by_role("button").click()
    page.locator(".ends").first.get_by_text("2026-11-20 08:00:00 UTC+8").wait_for()
    assert parse_qs(urlsplit(page.url).query)["since"] == ["2026-11-20T08:00:00+08:00"]
    assert page.get_by_label("From", exact=True).input_value() == "2026-11-20T08:00"
    page.get_by_role("button", name="Copy as curl").click()
    page.get_by_role("button", name="Copy as curl ✓").wait_for()
    command = shlex.split(page.locator("code.unseen").inner_text())
    assert command[:3] == ["curl", "-H", "Authorization: Bearer $TOKEN"]
    view = httpx.get(command[3], headers={"Authorization": f"Bearer {airflow.api.token}"}, timeout=60).json()
    assert (view["since"], view["asked"]["consumer_group"]) == ("2026-11-20T00:00:00Z", HOSTILE)


def test_what_a_name_smuggles_in_is_text_on_every_view(open_view: Any) -> None:
    for view in VIEWS:
        page = open_view(view)
        page.wait_for_load_state("networkidle")
        assert page.locator("img[src=x]").count() == 0
        if view != "data docs":
            assert "<script>alert(1)</script>" in page.locator("body").inner_text(), view


def test_from_the_fleet_to_the_cause_in_the_frame_of_airflow(open_view: Any, airflow: AirflowStandalone) -> None:
    page = open_view("fleet", viewport={"width": 1400, "height": 1000})
    page.goto(airflow.base_url)
    page.get_by_role("link", name="Fleet").click()
    frame = page.frame_locator("iframe")
    frame.get_by_role("heading", name="Fleet").wait_for()
    frame.get_by_role("link", name="something is wrong").first.click()  # the second click
    frame.get_by_text("nobody knows why").wait_for()


def test_the_name_of_a_group_leads_to_its_page_in_one_search(open_view: Any) -> None:
    for view in ("fleet", "incident", "data docs"):
        page = open_view(view)
        page.get_by_role("searchbox").first.fill(HOSTILE)
        page.keyboard.press("Enter")
        page.wait_for_url("**/fleet/group?**")
        assert page.get_by_role("heading", level=1).inner_text() == HOSTILE


def test_who_came_and_went_stands_on_a_groups_page_with_what_is_known_of_holders(open_view: Any) -> None:
    text = open_view("group").locator("#view").inner_text()
    assert "Members came or went 1 time in this span." in text
    assert "Whether all queues had a holder is not known." in text
    assert "joined" in text


def test_from_a_mail_to_the_cause_and_to_the_group_in_two_clicks(
    open_view: Any, airflow: AirflowStandalone, workspace_folder: Path
) -> None:
    """Says how long a person waits (`-s` shows it; docs/pages.md has a figure); reading is theirs."""
    engine = open_database(airflow.environment["OFFSETGUARD_DATABASE_URL"])
    with SmtpServer() as smtp, InboxPage(smtp) as inbox:
        Stage(engine, smtp, (ORDER_GROUP,), page_url=airflow.base_url).play(12)
        engine.dispose()
        page = open_view("fleet")
        page.goto(f"{inbox.url}1.html")
        began = time.perf_counter()
        page.get_by_role("link", name="Details").click()
        page.get_by_role("heading", name="order-group").wait_for()
        assert "start its consumers" in page.locator(".next").inner_text()
        at_cause = time.perf_counter()
        page.get_by_role("link", name="order-group").first.click()
        page.get_by_text("Messages waiting").wait_for()
        print(  # noqa: T201
            f"from the mail to the cause {at_cause - began:.2f} s, to the group {time.perf_counter() - at_cause:.2f} s"
        )
