"""Changes on a real API server: what changed, and whose it is."""

import csv
import io
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
from offsetguard.tables import (
    BROKER_FACTS,
    CLIENT_SNAPSHOTS,
    GROUP_FACTS,
    GROUP_SNAPSHOTS,
    OFFSET_MOVE_FACTS,
    TOPIC_FACTS,
)
from offsetguard_peers.airflow.standalone import AirflowStandalone
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.lake.warehouse import Warehouse

CHANGES = "/offsetguard/changes/"
CLUSTER = "changing"
HOSTILE = '=cmd|<script>alert(1)</script>"><img src=x onerror=alert(2)>{{ 7*7 }}\u202e'
FIRST = Interval.containing(datetime.now(UTC) - timedelta(minutes=4))


@pytest.fixture(scope="module", autouse=True)
def warehouse(airflow: AirflowStandalone, workspace_folder: Path) -> Iterator[Warehouse]:
    """Publish three minutes in which settings and 120 groups' clients change."""
    url = airflow.environment["OFFSETGUARD_DATABASE_URL"]
    tables = (GROUP_FACTS, GROUP_SNAPSHOTS, CLIENT_SNAPSHOTS, OFFSET_MOVE_FACTS, TOPIC_FACTS, BROKER_FACTS)
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
    for text in ("orders: readQueueNums 9 became 10", "queue counts", "2 changes", "fresh"):
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
    assert "240 changes · page 1 of 3" in get(airflow, "&kind=members").text
    assert "many-119" in get(airflow, "&kind=members&page=3").text
    assert "No changes match." in get(airflow, "&search=nobody").text
    since = (datetime.now(UTC) - timedelta(days=20)).strftime("%Y-%m-%dT%H:%MZ")
    assert "240 changes · page 1 of 3" in get(airflow, f"&kind=members&since={since}&until=").text, "up to now"
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
    page = get(airflow, "&lang=zh", Cookie="offsetguard_zone=Asia%2FShanghai").text
    for text in (
        '<html lang="zh">',
        "变更",
        "readQueueNums 由 9 变为 10",
        "UTC+8",
    ):
        assert text in page
    for query in ("&kind=weather", "&span=9y", "&page=0", f"&search={'x' * 256}"):
        assert get(airflow, query).status_code == 422
    assert httpx.get(airflow.base_url + CHANGES, timeout=60).status_code == 401
