"""The fleet on a real API server, from published facts: for whom, in which words, and as data."""

import csv
import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from PIL import Image

from offsetguard.config.workspace import Workspace
from offsetguard.model.intervals import Interval
from offsetguard.model.verdicts import Severity
from offsetguard.store import incidents
from offsetguard.store.database import writing
from offsetguard.tables import BROKER_FACTS, CLUSTER_FACTS, GROUP_FACTS, QUEUE_FACTS
from offsetguard_peers.airflow.api import AirflowApi
from offsetguard_peers.airflow.standalone import AirflowStandalone
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.judging.records import an_incident
from offsetguard_peers.lake.warehouse import Warehouse
from offsetguard_peers.pictures.chromium import log_in, open_page

FLEET = "/offsetguard/fleet/"
CLUSTER = "fleet"
HOSTILE = '=cmd|<script>alert(1)</script>"><img src=x onerror=alert(2)>{{ 7*7 }}\u202e'


@pytest.fixture(scope="module", autouse=True)
def published(airflow: AirflowStandalone, workspace_folder: Path) -> Iterator[None]:
    """Publish a minute of a cluster of which a broker was not seen, with a group in trouble."""
    url = airflow.environment["OFFSETGUARD_DATABASE_URL"]
    tables = (GROUP_FACTS, CLUSTER_FACTS, QUEUE_FACTS, BROKER_FACTS)
    warehouse = Warehouse(Workspace(workspace_folder, workspace_folder / "offsetguard.yml", url), tables)
    interval = Interval.containing(datetime.now(UTC) - timedelta(minutes=1))
    groups: list[dict[str, Any]] = [
        {"consumer_group": f"calm-{number:03}", "topic": "orders", "effective_lag": number, "lag_ms": 10 * number}
        for number in range(120)
    ]
    groups.append({"consumer_group": "calm-ahead", "topic": "orders", "effective_lag": 7, "beyond_end": 40})
    groups.append({"consumer_group": "calm-half", "topic": "t", "lag_ms": 300_000, "unknown_queue_count": 1})
    groups.append({"consumer_group": HOSTILE, "topic": "orders", "effective_lag": 1_234, "unknown_queue_count": 2})
    groups[-1] |= {"queue_count": 16, "suspect_queue_count": 2}
    manifest = manifest_of(interval, unseen_broker_names=("broker-b",), gap_count=1).to_json()
    queue = {"consumer_group": HOSTILE, "topic": "orders", "broker_name": HOSTILE, "holder_client_id": HOSTILE}
    queue |= {"min_offset": 0, "consumer_offset": 500, "max_offset": 1_734}
    rows = {
        GROUP_FACTS: groups,
        CLUSTER_FACTS: [{"effective_lag": 8_381, "beyond_end": 41, "put_tps": 12.5}],
        QUEUE_FACTS: [{**queue, "queue_id": n, "effective_lag": lag} for n, lag in enumerate((1_234, None))],
        BROKER_FACTS: [{"broker_name": HOSTILE, "consumed_queue_count": 2}],
    }
    warehouse.publish(CLUSTER, interval, rows, manifest_json=manifest)
    told = an_incident(incident_id="f1ee7", cluster=CLUSTER, consumer_group=HOSTILE, severity=Severity.CRITICAL)
    with writing(warehouse.engine) as session:
        incidents.save(session, [told])
    yield
    warehouse.engine.dispose()


def get(
    airflow: AirflowStandalone, query: str = "", *, token: str | None = None, page: str = "", **headers: str
) -> httpx.Response:
    """Ask as a browser does that is logged in."""
    given = {"Authorization": f"Bearer {token or airflow.api.token}", "Accept": "text/html", **headers}
    return httpx.get(f"{airflow.base_url}{FLEET}{page}?cluster={CLUSTER}{query}", headers=given, timeout=60)


def assert_not_known(airflow: AirflowStandalone, page: str, query: str, said: str) -> None:
    """No page, JSON or CSV says that all is well of what nobody has seen."""
    shown = get(airflow, query, page=page)
    assert (shown.status_code, f"nothing is known of {said}" in unescape(shown.text)) == (404, True)
    for data in ("json", "csv"):
        answer = get(airflow, f"{query}&format={data}", page=page)
        assert (answer.status_code, said in answer.json()["detail"]) == (404, True)


def test_who_is_in_trouble_stands_first_beside_how_far_the_figures_go(airflow: AirflowStandalone) -> None:
    page = get(airflow)
    assert page.status_code == 200
    assert page.text.index("CRITICAL".casefold()) < page.text.index("calm-119") < page.text.index("calm-118")
    for text in ('href="../incidents/f1ee7"', "1 broker unseen: broker-b", "1 request unanswered", "12.5"):
        assert text in page.text
    assert "at least 1,234" in page.text, "of two queues nothing is known"
    assert re.search(r">at least 5 min<", get(airflow, "&search=half").text), "an unseen queue may hold an older one"
    assert "fresh" in page.text
    ahead = get(airflow, "&search=ahead").text
    assert '7<br><span class="soft">40 beyond the end' in ahead, "what waits beside what lies beyond the end"
    assert '8,381<br><span class="soft">41 beyond the end' in ahead, "of the cluster, as published"
    assert "123 groups · page 1 of 2" in page.text
    assert "calm-000" in get(airflow, "&page=2").text
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")


def test_names_from_brokers_are_text_and_no_spreadsheet_runs_them(airflow: AirflowStandalone) -> None:
    page = get(airflow).text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script>" not in page
    assert "<img" not in page
    assert "{{ 7*7 }}" in page
    assert "\u202e" not in page
    (row,) = csv.DictReader(io.StringIO(get(airflow, "&state=trouble&format=csv").text))
    assert row["consumer_group"] == f"'{HOSTILE}"
    searched = get(airflow, '&search="><script>x</script>').text
    assert "<script>x" not in searched
    assert "No groups match." in searched


def test_the_same_address_gives_the_same_as_data(airflow: AirflowStandalone) -> None:
    by_accept = get(airflow, "&search=calm&order=group", Accept="application/json").json()
    assert by_accept["group_count"] == 122
    assert by_accept["groups"][0]["consumer_group"] == "calm-000"
    assert by_accept["clusters"][0]["unseen_broker_names"] == ["broker-b"]
    assert by_accept["groups"][0]["produce_tps"] is None, "unknown is null"
    by_format = get(airflow, "&search=calm&order=group&format=json").json()
    assert [one["consumer_group"] for one in by_format["groups"]] == [
        one["consumer_group"] for one in by_accept["groups"]
    ]


def test_chinese_readers_read_chinese_by_their_own_clock(airflow: AirflowStandalone) -> None:
    page = get(airflow, "&lang=zh", Cookie="offsetguard_zone=Asia%2FShanghai").text
    assert '<html lang="zh">' in page
    for text in ("总览", "严重", "1 个 Broker 无法观察：broker-b", "至少 1,234", "UTC+8"):
        assert text in page
    assert "消费组" in get(airflow, **{"Accept-Language": "zh-CN,zh;q=0.9"}).text
    nowhere = get(airflow, Cookie="offsetguard_zone=No%2FSuch")
    assert nowhere.status_code == 200
    assert re.search(r"\d\d:\d\d(:\d\d)? UTC(?![+-])", nowhere.text), "a zone that nobody knows"


def test_what_no_address_of_ours_says_is_refused_and_nobody_looks_without_a_login(airflow: AirflowStandalone) -> None:
    for query in ("&page=0", "&order=cost", "&state=fine", f"&search={'x' * 256}"):
        assert get(airflow, query).status_code == 422
    assert httpx.get(airflow.base_url + FLEET, timeout=60).status_code == 401
    passwords = json.loads((airflow.folder / "passwords.json").read_text())
    api = AirflowApi(airflow.base_url, "visitor", passwords["visitor"])
    api.close()
    assert get(airflow, token=api.token).status_code == 200


def test_a_line_of_the_fleet_leads_to_its_group_whatever_its_name_is(airflow: AirflowStandalone) -> None:
    address = re.search(r'href="(\.\./fleet/group\?[^"]+)">=cmd', get(airflow).text)
    assert address is not None
    headers = {"Authorization": f"Bearer {airflow.api.token}", "Accept": "text/html"}
    shown = httpx.get(f"{airflow.base_url}{FLEET}{unescape(address[1])}", headers=headers, timeout=60)
    assert shown.status_code == 200
    for text in ("&lt;script&gt;alert(1)", 'href="../incidents/f1ee7"', "at least 1,234", "orders", "<svg ", "hatch"):
        assert text in shown.text
    for text in ("<script>", "<img", "\u202e"):
        assert text not in shown.text
    incident = httpx.get(f"{airflow.base_url}/offsetguard/incidents/f1ee7", headers=headers, timeout=60).text
    back = re.search(r'href="\.\./fleet/(group\?[^"]+)"', incident)
    assert back is not None
    assert "&lt;script&gt;alert(1)" in httpx.get(f"{airflow.base_url}{FLEET}{unescape(back[1])}", headers=headers).text


def test_a_group_is_given_as_data_and_in_chinese_and_only_by_a_whole_address(airflow: AirflowStandalone) -> None:
    asked = "&consumer_group=calm-007&span=24h"
    view = get(airflow, asked, page="group", Accept="application/json").json()
    assert view["topics"][0]["effective_lag"] == 7
    assert [course["figure"] for course in view["courses"]] == [
        *("effective_lag", "lag_ms", "produce_tps", "consume_tps")
    ]
    assert [point["last"] for point in view["courses"][0]["points"] if point["last"] is not None] == [7]
    (topic,) = csv.DictReader(io.StringIO(get(airflow, f"{asked}&format=csv", page="group").text))
    assert (topic["topic"], topic["lag_ms"]) == ("orders", "70")
    chinese = get(airflow, f"{asked}&lang=zh", page="group").text
    assert "该消费组没有未恢复的事件。" in chinese
    assert get(airflow, page="group").status_code == 422
    assert get(airflow, "&consumer_group=g&span=9y", page="group").status_code == 422
    assert httpx.get(f"{airflow.base_url}{FLEET}group?cluster=c&consumer_group=g", timeout=60).status_code == 401
    assert_not_known(airflow, "group", "&consumer_group=calm-oo7", "consumer group 'calm-oo7'; did you mean 'calm-")
    assert "没有消费组“x”的任何信息" in get(airflow, "&consumer_group=x&lang=zh", page="group").text


def test_a_group_leads_to_its_topics_and_a_topic_to_its_readers(airflow: AirflowStandalone) -> None:
    group = get(airflow, "&consumer_group=calm-007", page="group").text
    address = re.search(r'href="(\.\./fleet/topic\?[^"]+)">orders', group)
    assert address is not None
    headers = {"Authorization": f"Bearer {airflow.api.token}", "Accept": "text/html"}
    topic = httpx.get(f"{airflow.base_url}{FLEET}{unescape(address[1])}", headers=headers, timeout=60)
    assert topic.status_code == 200
    assert re.search(r'href="\.\./fleet/group\?[^"]+consumer_group=calm-007[^"]*">calm-007', topic.text)
    assert "&lt;script&gt;alert(1)" in topic.text
    assert "<script>" not in topic.text
    readers = get(airflow, "&topic=orders", page="topic", Accept="application/json").json()["readers"]
    ages = [one["lag_ms"] for one in readers]
    assert ages[0] is None, "who is not known to be well stands before who is"
    assert next(age for age in ages if age is not None) == 1190
    assert_not_known(airflow, "topic", "&topic=ordrs", "topic 'ordrs'")
    assert get(airflow, page="topic").status_code == 422


def test_a_group_leads_to_its_queues_with_a_picture_and_the_same_as_a_table(airflow: AirflowStandalone) -> None:
    group = get(airflow, f"&consumer_group={quote(HOSTILE)}", page="group").text
    assert "<h2>Queues with a backlog or something unusual: 2</h2>" in group
    address = re.search(r'href="(\.\./fleet/queues\?[^"]+)"', group)
    assert address is not None
    headers = {"Authorization": f"Bearer {airflow.api.token}", "Accept": "text/html"}
    page = httpx.get(f"{airflow.base_url}{FLEET}{unescape(address[1])}", headers=headers, timeout=60).text
    for text in ("&lt;script&gt;alert(1)", "1,234", "<details>", 'scope="row"', "unknown", "Messages waiting by queue"):
        assert text in page
    assert all('class="retained"' in one for one in (group, page)), "what is kept, with the committed offset in it"
    assert "Messages wait in 1 of 16 queues · nothing is known about 1 queue" in page
    for text in ("<script>", "<img src=x", "\u202e"):
        assert text not in page
    source = re.search(r'<img src="(queues.png\?[^"]+)"', page)
    assert source is not None
    picture = httpx.get(f"{airflow.base_url}{FLEET}{unescape(source[1])}", headers=headers, timeout=60)
    assert (picture.status_code, picture.headers["Content-Type"]) == (200, "image/png")
    assert picture.headers["Cache-Control"] == "private, max-age=3600"
    assert Image.open(io.BytesIO(picture.content)).size == (30, 2), "as long as there are facts"
    assert httpx.get(f"{airflow.base_url}{FLEET}{unescape(source[1])}", timeout=60).status_code == 401

    asked = f"&consumer_group={quote(HOSTILE)}&span=30m"
    points = list(csv.DictReader(io.StringIO(get(airflow, f"{asked}&format=csv", page="queues").text)))
    assert len(points) == 2 * 30
    assert {one["effective_lag"] for one in points} == {"1234", ""}
    view = get(airflow, asked, page="queues", Accept="application/json").json()
    assert [max((lag or 0) for lag in line["greatest"]) for line in view["heat"]] == [1_234, 0]
    assert "没有任何队列出现堆积" in get(airflow, "&consumer_group=calm-007&lang=zh", page="queues").text
    assert_not_known(airflow, "queues", "&consumer_group=nobody", "consumer group 'nobody'")
    assert get(airflow, "&consumer_group=g&span=7d", page="queues").status_code == 422
    for until in ("", "&until=0001-01-01T00:00:00%2B14:00", "&until=9999-12-31T23:59:59-14:00"):
        assert get(airflow, f"&consumer_group=g{until}", page="queues.png").status_code == 422


@pytest.mark.browser
def test_the_menu_leads_there_and_the_page_tells_the_readers_time(airflow: AirflowStandalone) -> None:
    with open_page() as page:
        page.goto(airflow.base_url + FLEET)
        log_in(page, airflow.username, airflow.password)
        page.wait_for_url(f"**{FLEET}")
        page.wait_for_load_state("networkidle")  # the first page ever tells the reader's zone, and loads again
        page.fill("input[name=search]", "calm-00")
        page.get_by_role("button", name="Show").click()
        assert page.locator("table").nth(1).locator("tbody tr").count() == 10
        assert any(one["name"] == "offsetguard_zone" for one in page.context.cookies())
        page.goto(airflow.base_url)
        page.get_by_role("link", name="Fleet").click()
        page.frame_locator("iframe").get_by_role("heading", name="Fleet").wait_for()
