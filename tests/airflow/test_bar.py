"""One bar stands on every page: it leads everywhere, finds what has a name, and keeps language and clock."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest

from offsetguard.config.workspace import Workspace
from offsetguard.model.intervals import Interval
from offsetguard.store import incidents
from offsetguard.store.database import writing
from offsetguard.tables import CLIENT_SNAPSHOTS, GROUP_FACTS, TOPIC_FACTS
from offsetguard_peers.airflow.standalone import AirflowStandalone
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.judging.records import an_incident
from offsetguard_peers.lake.warehouse import Warehouse
from offsetguard_peers.pictures.chromium import log_in, open_page

CLUSTER, GROUP = "barred", "bar-billing"
ABOUT_GROUP = f"cluster={CLUSTER}&consumer_group={GROUP}"
PAGES = (
    *("fleet/", f"fleet/?cluster={CLUSTER}", f"fleet/group?{ABOUT_GROUP}", f"fleet/queues?{ABOUT_GROUP}"),
    *(f"fleet/topic?cluster={CLUSTER}&topic=bar-orders", "incidents/", "incidents/ba4", "silences/", "data-docs/"),
    *(f"changes/?cluster={CLUSTER}", "search/?q=bar-", "fleet/of-run?dag_id=nightly"),
)


@pytest.fixture(scope="module", autouse=True)
def published(airflow: AirflowStandalone, workspace_folder: Path) -> Iterator[None]:
    """Publish a minute of a cluster in which each thing has a name of its own."""
    url = airflow.environment["OFFSETGUARD_DATABASE_URL"]
    tables = (GROUP_FACTS, TOPIC_FACTS, CLIENT_SNAPSHOTS)
    warehouse = Warehouse(Workspace(workspace_folder, workspace_folder / "offsetguard.yml", url), tables)
    interval = Interval.containing(datetime.now(UTC) - timedelta(minutes=1))
    rows = {
        GROUP_FACTS: [{"consumer_group": one, "topic": "bar-orders"} for one in (GROUP, "bar-other")],
        TOPIC_FACTS: [{"topic": "bar-orders"}],
        CLIENT_SNAPSHOTS: [{"consumer_group": GROUP, "client_id": "10.9.8.7@bar"}],
    }
    manifest = manifest_of(interval, cluster=CLUSTER, master_broker_names=("bar-broker",))
    warehouse.publish(CLUSTER, interval, rows, manifest_json=manifest.to_json())
    with writing(warehouse.engine) as session:
        incidents.save(session, [an_incident(incident_id="ba4", cluster=CLUSTER, consumer_group=GROUP)])
    yield
    warehouse.engine.dispose()


@pytest.fixture
def browser(airflow: AirflowStandalone) -> Iterator[httpx.Client]:
    """Ask as a browser does that is logged in."""
    headers = {"Authorization": f"Bearer {airflow.api.token}", "Accept": "text/html"}
    with httpx.Client(base_url=f"{airflow.base_url}/offsetguard/", headers=headers, timeout=60) as client:
        yield client


def links_of(answer: httpx.Response, part: str) -> dict[str, str]:
    """Return the addresses of the links of an element, by their texts; `part`: the beginning of its tag."""
    found = re.search(rf"<{part}.*?</{part.partition(' ')[0]}>", answer.text, re.DOTALL)
    assert found is not None, answer.text
    named = re.findall(r'<a [^>]*href="([^"]+)"[^>]*>(.*?)</a>', found[0], re.DOTALL)
    return {re.sub(r"<[^>]+>", "", text).strip(): urljoin(str(answer.url), unescape(to)) for to, text in named}


@pytest.mark.parametrize("page", PAGES)
def test_every_page_leads_to_all_others_and_stays_in_its_language(browser: httpx.Client, page: str) -> None:
    shown = browser.get(f"{page}{'&' if '?' in page else '?'}lang=zh&zone=Asia/Shanghai")
    assert shown.status_code == 200
    links = links_of(shown, 'header class="bar"')
    assert [one.partition(" ")[0] for one in links][:6] == ["OffsetGuard", "总览", "事件", "变更", "静默", "Data"]
    for address in list(links.values())[:6]:
        answer = browser.get(address)
        assert (answer.status_code, '<html lang="zh">' in answer.text) == (200, True), address
        assert "Asia/Shanghai" in answer.text
    said = re.sub(r"<[^>]+>", "", shown.text)
    assert re.findall(r"[\u4e00-\u9fff] ?[,;:].*", said) == [], "signs are as wide as the words around them"
    english = browser.get(links["English"])
    assert (english.status_code, '<html lang="en">' in english.text) == (200, True)
    assert english.url.path == shown.url.path
    assert 'role="search"' in shown.text


def test_the_bar_counts_and_keeps_the_cluster_that_was_picked(browser: httpx.Client) -> None:
    picked = browser.get(links_of(browser.get("fleet/"), 'details class="picker"')[CLUSTER])
    assert picked.url.query == f"cluster={CLUSTER}".encode()
    links = links_of(picked, 'header class="bar"')
    (listed,) = (address for text, address in links.items() if text.startswith("Incidents"))
    assert re.search(r'id="open-count">1<', picked.text)
    assert browser.get(listed, headers={"Accept": "application/json"}).json()["open_count"] == 1
    assert f"<summary>{CLUSTER}</summary>" in browser.get("incidents/ba4").text, "the cluster that it is about"
    crumbs = links_of(browser.get(f"fleet/queues?{ABOUT_GROUP}"), 'nav class="crumbs"')
    assert list(crumbs) == ["Fleet", CLUSTER, GROUP]
    assert all(browser.get(address).status_code == 200 for address in crumbs.values())


@pytest.mark.parametrize(
    ("asked", "address"),
    [
        ("bar-billing", f"fleet/group?{ABOUT_GROUP}"),
        ("BAR-ORD", f"fleet/topic?cluster={CLUSTER}&topic=bar-orders"),
        ("bar-broker", f"changes/?cluster={CLUSTER}&search=bar-broker&span=24h"),
        ("10.9.8.7@bar", f"fleet/group?{ABOUT_GROUP}#members"),
        ("ba4", "incidents/ba4"),
    ],
)
def test_a_name_from_a_chat_leads_to_its_page_by_one_search(browser: httpx.Client, asked: str, address: str) -> None:
    led = browser.get("search/", params={"q": asked})
    assert (led.status_code, led.headers.get("location")) == (303, f"../{address}")
    assert browser.get(urljoin(str(led.url), led.headers["location"])).status_code == 200
    assert browser.get("search/", params={"q": asked, "format": "json"}).json()["only"]["cluster"] == CLUSTER


def test_of_several_names_the_reader_chooses_and_of_none_it_is_said(browser: httpx.Client) -> None:
    links = links_of(browser.get("search/?q=bar-"), "main")
    for name in (GROUP, "bar-other", "bar-orders", "bar-broker"):
        assert browser.get(links[name]).status_code == 200
    hostile = browser.get("search/", params={"q": '"><script>x</script>'})
    assert "Nothing has this in its name." in hostile.text
    assert "<script>x" not in hostile.text


def test_what_is_not_there_is_said_with_near_names_and_the_way_back(browser: httpx.Client) -> None:
    missing = browser.get(f"fleet/group?cluster={CLUSTER}&consumer_group=bar-biling")
    assert missing.status_code == 404
    assert f"did you mean '{GROUP}'" in unescape(missing.text)
    assert 'value="bar-biling"' in missing.text, "so that it can be searched at once"
    for page in (missing, browser.get("nowhere/at/all")):
        assert page.status_code == 404
        assert browser.get(links_of(page, 'header class="bar"')["Fleet"]).status_code == 200


def test_filters_are_taken_away_one_by_one_and_heads_sort_both_ways(browser: httpx.Client) -> None:
    asked = browser.get(f"fleet/?cluster={CLUSTER}&search=other&order=lag")
    assert "1 group" in asked.text
    chips = links_of(asked, 'p class="chips"')
    assert len(chips) == 2
    (search,) = (address for text, address in chips.items() if text.startswith("Name contains: other"))
    rest = browser.get(search)
    assert rest.url.query == f"cluster={CLUSTER}&order=lag".encode()
    assert "2 groups" in rest.text
    turned = browser.get(links_of(rest, 'table class="dense"')["Waiting"])
    assert b"reverse=true" in turned.url.query
    assert 'aria-sort="ascending"' in turned.text


@pytest.mark.browser
def test_an_address_from_a_chat_leads_through_the_login_and_airflow_to_all_else(airflow: AirflowStandalone) -> None:
    with open_page() as page:
        page.goto(f"{airflow.base_url}/offsetguard/fleet/group?{ABOUT_GROUP}")
        log_in(page, airflow.username, airflow.password)
        page.get_by_role("heading", name=GROUP).wait_for()
        page.wait_for_load_state("networkidle")  # the first page ever tells the reader's zone, and loads again
        page.goto(airflow.base_url)
        page.get_by_role("link", name="Fleet").click()
        frame = page.frame_locator("iframe")
        frame.get_by_role("searchbox", name="Group, topic").fill(GROUP)
        frame.get_by_role("button", name="Search").click()
        frame.get_by_role("heading", name=GROUP).wait_for()
        frame.get_by_text(CLUSTER, exact=True).first.click()  # unfolds the clusters
        frame.get_by_role("link", name="all clusters").click()
        frame.get_by_role("heading", name="Fleet").wait_for()
