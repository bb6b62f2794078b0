"""Changes and silences on a real API server: what changed, whose it is, and who may end a silence."""

import csv
import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import httpx
import pytest

from offsetguard.config.workspace import Workspace
from offsetguard.facts.changes import record_changes
from offsetguard.model.intervals import Interval
from offsetguard.model.silence import Matchers, Silence, literal
from offsetguard.store import incidents, silences
from offsetguard.store.database import reading, writing
from offsetguard.tables import BROKER_FACTS, CLIENT_SNAPSHOTS, GROUP_FACTS, OFFSET_MOVE_FACTS, TOPIC_FACTS
from offsetguard_peers.airflow.api import AirflowApi
from offsetguard_peers.airflow.standalone import AirflowStandalone
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.judging.records import an_incident
from offsetguard_peers.lake.warehouse import Warehouse
from offsetguard_peers.pictures.chromium import log_in, open_page

CHANGES = "/offsetguard/changes/"
CLUSTER = "changing"
HOSTILE = '=cmd|<script>alert(1)</script>"><img src=x onerror=alert(2)>{{ 7*7 }}\u202e'
FIRST = Interval.containing(datetime.now(UTC) - timedelta(minutes=4))


@pytest.fixture(scope="module")
def warehouse(airflow: AirflowStandalone, workspace_folder: Path) -> Iterator[Warehouse]:
    """Publish three minutes in which settings and 120 groups' clients change."""
    url = airflow.environment["OFFSETGUARD_DATABASE_URL"]
    tables = (GROUP_FACTS, CLIENT_SNAPSHOTS, OFFSET_MOVE_FACTS, TOPIC_FACTS, BROKER_FACTS)
    warehouse = Warehouse(Workspace(workspace_folder, workspace_folder / "offsetguard.yml", url), tables)
    for number in range(3):
        interval = Interval(FIRST.start + timedelta(minutes=number))
        groups: list[dict[str, Any]] = [
            {"consumer_group": f"many-{one:03}", "topic": "orders", "online_client_count": number} for one in range(120)
        ]
        groups.append({"consumer_group": HOSTILE, "topic": "orders", "retry_max_times": 16 - number})
        topic = {"topic": "orders", "broker_count": 1, "read_queue_count": 8 + number}
        manifest = manifest_of(interval).to_json()
        warehouse.publish(CLUSTER, interval, {GROUP_FACTS: groups, TOPIC_FACTS: [topic]}, manifest_json=manifest)
        record_changes(warehouse.reader(), warehouse.engine, CLUSTER, interval.start)
    yield warehouse
    warehouse.engine.dispose()


@pytest.fixture(scope="module", autouse=True)
def silenced(warehouse: Warehouse) -> None:
    """Silence the hostile group, about which an incident is open, and a cluster of which there is none any more."""
    with writing(warehouse.engine) as session:
        incidents.save(session, [an_incident(incident_id="c4a9e", cluster=CLUSTER, consumer_group=HOSTILE)])
    silence(warehouse, Matchers(cluster=CLUSTER, consumer_group=literal(HOSTILE)), "li", HOSTILE)
    silence(warehouse, Matchers(cluster="retired"), "wang", "moved away", days=10)


def silence(warehouse: Warehouse, matchers: Matchers, author: str, comment: str, *, days: int = 0) -> int:
    """Silence something since so many days, for one more hour; returns the number."""
    now = datetime.now(UTC)
    start, end = now - timedelta(days=days), now + timedelta(hours=1)
    with writing(warehouse.engine) as session:
        added = silences.add(session, Silence(matchers, author, comment, start, end, start))
    assert added.id is not None
    return added.id


def client(airflow: AirflowStandalone, token: str | None = None, **headers: str) -> httpx.Client:
    """Return a browser's stand-in: it says where its requests come from."""
    given = {
        "Authorization": f"Bearer {token or airflow.api.token}",
        "Sec-Fetch-Site": "same-origin",
        "Accept": "text/html",
        **headers,
    }
    return httpx.Client(base_url=airflow.base_url, headers=given, timeout=60)


def get(airflow: AirflowStandalone, query: str = "", **headers: str) -> httpx.Response:
    with client(airflow, **headers) as browser:
        return browser.get(f"{CHANGES}?cluster={CLUSTER}{query}")


def test_what_changed_stands_newest_first_and_leads_to_its_group_and_topic(airflow: AirflowStandalone) -> None:
    page = get(airflow, "&kind=queues")
    assert page.status_code == 200
    for text in ("orders: readQueueNums 9 became 10", "queue counts", "2 changes, page 1 of 1", "fresh"):
        assert text in page.text
    assert page.text.index("9 became 10") < page.text.index("8 became 9")
    address = re.search(r'href="(\.\./fleet/topic\?[^"]+)">orders', page.text)
    assert address is not None
    with client(airflow) as browser:
        topic = browser.get(f"{CHANGES}{unescape(address[1])}").text
        assert "<h1>orders</h1>" in topic
        back = re.search(r'href="(\.\./changes/\?[^"]+)"', topic)
        assert back is not None
        assert "orders: readQueueNums 9 became 10" in browser.get(f"{CHANGES}{unescape(back[1])}").text
        group = re.search(r'href="(\.\./fleet/group\?[^"]+)">=cmd', get(airflow, "&search=CMD").text)
        assert group is not None
        assert "&lt;script&gt;alert(1)" in browser.get(f"{CHANGES}{unescape(group[1])}").text
    assert "240 changes, page 1 of 3" in get(airflow, "&kind=members").text
    assert "many-119" in get(airflow, "&kind=members&page=3").text
    assert "Nothing changed that is as you asked." in get(airflow, "&search=nobody").text
    assert "is not known (yet)" not in get(airflow, "&span=30d").text


def test_names_from_brokers_and_comments_are_text_and_no_spreadsheet_runs_them(airflow: AirflowStandalone) -> None:
    page = get(airflow).text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    for text in ("<script>", "<img", "\u202e"):
        assert text not in page
    rows = list(csv.DictReader(io.StringIO(get(airflow, "&kind=settings&format=csv").text)))
    assert {row["consumer_group"] for row in rows} == {f"'{HOSTILE}"}
    assert "<script>x" not in get(airflow, '&search="><script>x</script>&topic="><script>x</script>').text


def test_the_same_address_gives_the_same_as_data_and_speaks_chinese(airflow: AirflowStandalone) -> None:
    view = get(airflow, "&kind=settings", Accept="application/json").json()
    assert [one["what"].rpartition(": ")[2] for one in view["changes"]] == [
        *("retryMaxTimes 15 became 14", "retryMaxTimes 16 became 15")
    ]
    assert [
        (one["state"], one["open_count"], one["is_idle"]) for one in view["silences"] if one["author"] == "wang"
    ] == [("active", 0, True)]
    page = get(airflow, "&lang=zh", Cookie="offsetguard_zone=Asia%2FShanghai").text
    for text in (
        '<html lang="zh">',
        "变化与静默",
        "readQueueNums 由 9 变为 10",
        "UTC+8",
        "一周内没有匹配任何事件",
        "当前匹配 1 个事件",
    ):
        assert text in page
    for query in ("&kind=weather", "&span=9y", "&page=0", f"&search={'x' * 256}"):
        assert get(airflow, query).status_code == 422
    assert httpx.get(airflow.base_url + CHANGES, timeout=60).status_code == 401


def test_who_may_silence_may_end_a_silence_and_nobody_else(airflow: AirflowStandalone, warehouse: Warehouse) -> None:
    number = silence(warehouse, Matchers(cluster="ended"), "li", "load test")
    passwords = json.loads((airflow.folder / "passwords.json").read_text())
    visitor = AirflowApi(airflow.base_url, "visitor", passwords["visitor"])
    visitor.close()
    page = get(airflow).text
    assert "matches 1 now" in page
    assert "matched nothing for a week" in page
    token = re.search(r'name="token" value="([^"]+)"', page)
    assert token is not None
    form = {"do": "expire", "number": str(number), "token": token[1]}
    with client(airflow, visitor.token) as browser:
        assert "matches 1 now" in (shown := browser.get(CHANGES).text)
        assert "End now</button>" not in shown
        assert browser.post(CHANGES, data=form).status_code == 403
    with client(airflow) as browser:
        for wrong, status in (({"token": "0.0"}, 403), ({"do": "silence"}, 400), ({"number": "²"}, 400)):
            assert browser.post(CHANGES, data={**form, **wrong}).status_code == status
        elsewhere = browser.post(CHANGES, data=form, headers={"Sec-Fetch-Site": "cross-site"})
        assert elsewhere.status_code == 403
        with reading(warehouse.engine) as session:
            assert number in {one.id for one in silences.not_over(session, datetime.now(UTC))}
        ended = browser.post(f"{CHANGES}?cluster={CLUSTER}&kind=queues", data=form)
        assert (ended.status_code, ended.headers["Location"]) == (303, f"./?cluster={CLUSTER}&kind=queues#silences")
        shown = browser.get(f"{CHANGES}{ended.headers['Location']}").text
    assert "ended early" in shown
    assert "readQueueNums" in shown
    assert f'name="number" value="{number}"' not in shown


@pytest.mark.browser
def test_a_silence_is_ended_by_hand(airflow: AirflowStandalone, warehouse: Warehouse) -> None:
    number = silence(warehouse, Matchers(cluster="by-hand"), "li", "load test")
    with open_page() as page:
        page.goto(f"{airflow.base_url}{CHANGES}?cluster={CLUSTER}")
        log_in(page, airflow.username, airflow.password)
        page.get_by_role("button", name=f"End silence {number} now").click()
        page.get_by_text("ended early").first.wait_for()
        page.get_by_label("Kind").select_option("queue counts")
        page.get_by_role("button", name="Show").click()
        assert page.locator("table").first.locator("tbody tr").count() == 2
    with reading(warehouse.engine) as session:
        ended = silences.by_id(session, number)
    assert ended is not None
    assert ended.expired_at is not None
