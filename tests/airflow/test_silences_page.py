"""Silences on a real API server: what each matches, and made, extended and ended by who may."""

import csv
import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pytest

from offsetguard.config.workspace import Workspace
from offsetguard.model.notification import Matchers, Silence, literal
from offsetguard.store import incidents, silences
from offsetguard.store.database import reading, writing
from offsetguard_peers.airflow.api import AirflowApi
from offsetguard_peers.airflow.standalone import AirflowStandalone
from offsetguard_peers.judging.records import an_incident
from offsetguard_peers.lake.warehouse import Warehouse
from offsetguard_peers.pictures.chromium import log_in, open_page

SILENCES = "/offsetguard/silences/"
CLUSTER = "silenced"
HOSTILE = '=cmd|<script>alert(1)</script>"><img src=x onerror=alert(2)>{{ 7*7 }}\u202e'


@pytest.fixture(scope="module", autouse=True)
def warehouse(airflow: AirflowStandalone, workspace_folder: Path) -> Iterator[Warehouse]:
    """Silence a hostile group, about which an incident is open, and a cluster of which there is none any more."""
    url = airflow.environment["OFFSETGUARD_DATABASE_URL"]
    made = Warehouse(Workspace(workspace_folder, workspace_folder / "offsetguard.yml", url), ())
    with writing(made.engine) as session:
        incidents.save(session, [an_incident(incident_id="c4a9e", cluster=CLUSTER, consumer_group=HOSTILE)])
    silence(made, Matchers(cluster=CLUSTER, consumer_group=literal(HOSTILE)), "li", HOSTILE)
    silence(made, Matchers(cluster="retired"), "wang", "moved away", days=10)
    yield made
    made.engine.dispose()


def silence(warehouse: Warehouse, matchers: Matchers, author: str, comment: str, *, days: int = 0) -> int:
    """Silence something since so many days, for one more hour; returns the number."""
    now = datetime.now(UTC)
    start, end = now - timedelta(days=days), now + timedelta(hours=1)
    with writing(warehouse.engine) as session:
        added = silences.add(session, Silence(matchers, author, comment, start, end, start))
    assert added.id is not None
    return added.id


def kept(warehouse: Warehouse, number: int) -> Silence:
    with reading(warehouse.engine) as session:
        found = silences.by_id(session, number)
    assert found is not None
    return found


def client(airflow: AirflowStandalone, token: str | None = None, **headers: str) -> httpx.Client:
    """Return a browser's stand-in: it says where its requests come from."""
    given = {
        "Authorization": f"Bearer {token or airflow.api.token}",
        "Sec-Fetch-Site": "same-origin",
        "Accept": "text/html",
        **headers,
    }
    return httpx.Client(base_url=airflow.base_url, headers=given, timeout=60)


def token_on(page: str) -> str:
    found = re.search(r'name="token" value="([^"]+)"', page)
    assert found is not None
    return unescape(found[1])


def test_each_silence_says_what_it_matches_now_in_text_that_does_nothing(airflow: AirflowStandalone) -> None:
    with client(airflow) as browser:
        page = browser.get(SILENCES).text
        assert re.search(r'1: <a href="\.\./incidents/c4a9e">', page)
        assert "matched nothing for 7 days" in page
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
        for text in ("<script>", "<img", "\u202e"):
            assert text not in page
        view = browser.get(SILENCES, headers={"Accept": "application/json"}).json()
        lines = [one for one in view["silences"] if one["author"] == "wang"]
        assert [(one["state"], one["open_count"], one["is_idle"]) for one in lines] == [("active", 0, True)]
        rows = csv.DictReader(io.StringIO(browser.get(f"{SILENCES}?format=csv").text))
        assert f"'{HOSTILE}" in {row["comment"] for row in rows}
        chinese = browser.get(f"{SILENCES}?lang=zh", headers={"Cookie": "offsetguard_zone=Asia%2FShanghai"}).text
        for text in ('<html lang="zh">', "静默", "7 天内没有匹配任何事件", "UTC+8"):
            assert text in chinese
        assert browser.get(f"{SILENCES}?severity=bad").status_code == 422
    assert httpx.get(airflow.base_url + SILENCES, timeout=60).status_code == 401


def test_a_silence_is_made_of_what_was_shown_beforehand(airflow: AirflowStandalone, warehouse: Warehouse) -> None:
    with client(airflow) as browser:
        asked = f"{SILENCES}?{urlencode({'cluster': CLUSTER, 'consumer_group': '=cmd*', 'lang': 'en'})}"
        page = browser.get(asked).text
        assert "Matches 1 open incident now" in page
        form = {"do": "add", "span": "8 h", "comment": "load test", "token": token_on(page)}
        wrong: tuple[tuple[str, dict[str, str], int], ...] = (
            (asked, {"span": "9 years"}, 400),
            (asked, {"comment": " "}, 422),
            (asked, {"token": "0.0"}, 403),
            (SILENCES, {}, 422),
        )
        for address, fields, status in wrong:
            assert browser.post(address, data={**form, **fields}).status_code == status, fields
        made = browser.post(asked, data=form)
        assert (made.status_code, made.headers["Location"]) == (303, "./?lang=en")
    with reading(warehouse.engine) as session:
        (newest,) = silences.newest(session, limit=1)
    assert newest.matchers.named == {"cluster": CLUSTER, "consumer_group": "=cmd*"}
    assert (newest.author, newest.comment) == ("admin", "load test")
    assert newest.ends_at - newest.starts_at == timedelta(hours=8)


def test_who_may_silence_may_extend_and_end_one_and_nobody_else(
    airflow: AirflowStandalone, warehouse: Warehouse
) -> None:
    number = silence(warehouse, Matchers(cluster="ended"), "li", "load test")
    passwords = json.loads((airflow.folder / "passwords.json").read_text())
    visitor = AirflowApi(airflow.base_url, "visitor", passwords["visitor"])
    visitor.close()
    with client(airflow) as browser:
        form = {"do": "expire", "number": str(number), "token": token_on(browser.get(SILENCES).text)}
    with client(airflow, visitor.token) as browser:
        shown = browser.get(f"{SILENCES}?rule=*").text
        assert "Matches" in shown
        assert '<form method="post"' not in shown
        assert "You can only view" in shown
        assert browser.post(SILENCES, data=form).status_code == 403
    with client(airflow) as browser:
        before = kept(warehouse, number).ends_at
        assert browser.post(SILENCES, data={**form, "do": "extend", "span": "24 h"}).status_code == 400, "1 d"
        assert browser.post(SILENCES, data={**form, "do": "extend", "span": "1 d"}).status_code == 303
        assert kept(warehouse, number).ends_at - before == timedelta(days=1)
        for wrong, status in (({"token": "0.0"}, 403), ({"do": "silence"}, 400), ({"number": "²"}, 400)):
            assert browser.post(SILENCES, data={**form, **wrong}).status_code == status
        elsewhere = browser.post(SILENCES, data=form, headers={"Sec-Fetch-Site": "cross-site"})
        assert elsewhere.status_code == 403
        assert kept(warehouse, number).expired_at is None
        assert browser.post(SILENCES, data=form).status_code == 303
        shown = browser.get(SILENCES).text
    assert kept(warehouse, number).expired_at is not None
    assert "ended early" in shown
    assert f'name="number" value="{number}"' not in shown


@pytest.mark.browser
def test_a_silence_is_made_and_ended_by_hand(airflow: AirflowStandalone, warehouse: Warehouse) -> None:
    with open_page() as page:
        page.goto(f"{airflow.base_url}{SILENCES}")
        log_in(page, airflow.username, airflow.password)
        page.wait_for_url(f"**{SILENCES}")
        page.wait_for_load_state("networkidle")  # the first page ever tells the reader's zone, and loads again
        page.get_by_label("Rule").fill("by_hand_*")
        page.get_by_role("button", name="Preview").click()
        page.get_by_text("Matches 0 open incidents now").wait_for()
        page.get_by_label("Reason (required)").fill("made by hand")
        page.get_by_role("button", name="Silence", exact=True).click()
        page.get_by_role("row", name="made by hand").get_by_role("button", name="End silence", exact=False).last.click()
        page.get_by_role("row", name="made by hand").get_by_text("ended early").wait_for()
    with reading(warehouse.engine) as session:
        (newest,) = silences.newest(session, limit=1)
    assert newest.matchers.named == {"rule": "by_hand_*"}
    assert newest.expired_at is not None
