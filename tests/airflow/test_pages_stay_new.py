"""Pages refresh themselves, by scripts that are what they say; what did not change is not computed again."""

import base64
import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest

from offsetguard.config.workspace import Workspace
from offsetguard.model.incident import EventKind, IncidentEvent
from offsetguard.model.intervals import Interval
from offsetguard.store import incidents
from offsetguard.store.database import writing
from offsetguard.tables import GROUP_FACTS
from offsetguard_airflow.web.rendering import STATIC, VENDORED
from offsetguard_peers.airflow.standalone import AirflowStandalone
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.lake.warehouse import Warehouse
from offsetguard_peers.pictures.chromium import log_in, open_page

FLEET = "/offsetguard/fleet/"
CLUSTER = "newest"
GROUP = f"group?cluster={CLUSTER}&consumer_group=billing&span=2h"


@pytest.fixture(scope="module")
def warehouse(airflow: AirflowStandalone, workspace_folder: Path) -> Iterator[Warehouse]:
    url = airflow.environment["OFFSETGUARD_DATABASE_URL"]
    found = Warehouse(Workspace(workspace_folder, workspace_folder / "offsetguard.yml", url), (GROUP_FACTS,))
    publish(found, 3, lag=111)
    yield found
    found.engine.dispose()


def publish(warehouse: Warehouse, minutes_ago: int, lag: int) -> None:
    interval = Interval.containing(datetime.now(UTC) - timedelta(minutes=minutes_ago))
    facts = {"consumer_group": "billing", "topic": "orders", "effective_lag": lag}
    manifest = manifest_of(interval).to_json()
    warehouse.publish(
        CLUSTER, interval, {GROUP_FACTS: [facts]}, run_id=f"run {lag}", again=True, manifest_json=manifest
    )


def get(airflow: AirflowStandalone, page: str, **headers: str) -> httpx.Response:
    given = {"Authorization": f"Bearer {airflow.api.token}", "Accept": "text/html", **headers}
    return httpx.get(f"{airflow.base_url}{FLEET}{page}", headers=given, timeout=60)


def asked_again(airflow: AirflowStandalone, page: str, first: httpx.Response, **headers: str) -> httpx.Response:
    return get(airflow, page, **headers, **{"If-None-Match": first.headers["ETag"]})


def sri(file: bytes) -> str:
    return f"sha384-{base64.b64encode(hashlib.sha384(file).digest()).decode()}"


@pytest.mark.usefixtures("warehouse")
def test_every_script_is_ours_is_kept_for_a_year_and_has_the_hash_that_its_page_says(
    airflow: AirflowStandalone,
) -> None:
    tags = set()
    for page in ("", GROUP, f"topic?cluster={CLUSTER}&topic=orders"):
        found = get(airflow, page).text
        assert found.count("<script ") == len(
            re.findall(r'<script src="[^"]+" integrity="[^"]+" defer></script>', found)
        )
        tags |= set(re.findall(r'(?:src|href)="([^"]+)" integrity="([^"]+)"', found))
    assert {address.rpartition("/")[2].partition("?")[0] for address, _ in tags} >= {
        "htmx.min.js",
        "uPlot.iife.min.js",
        "uPlot.min.css",
    }
    for address, integrity in tags:
        file = get(airflow, address)
        assert (file.status_code, sri(file.content)) == (200, integrity), address
        assert file.headers["Cache-Control"] == "private, max-age=31536000, immutable"
    assert get(airflow, "../static/htmx.LICENSE").status_code == 404
    assert httpx.get(urljoin(airflow.base_url, "/offsetguard/static/zone.js"), timeout=60).status_code == 401


def test_what_others_wrote_is_as_npm_has_it_with_its_licence() -> None:
    for name, integrity in VENDORED.items():
        assert sri((STATIC / name).read_bytes()) == integrity, name
        assert (STATIC / f"{name.partition('.')[0]}.LICENSE").is_file()


def test_a_view_is_given_again_only_if_something_that_it_shows_has_changed(
    airflow: AirflowStandalone, warehouse: Warehouse
) -> None:
    for lag, page in enumerate((f"?cluster={CLUSTER}", GROUP, f"topic?cluster={CLUSTER}&topic=orders")):
        first = get(airflow, page)
        assert first.headers["Cache-Control"] == "private, no-cache"
        same = asked_again(airflow, page, first)
        if same.status_code != 304:  # the facts became a minute older meanwhile
            first = same
            same = asked_again(airflow, page, first)
        assert (same.status_code, same.content, same.headers["ETag"]) == (304, b"", first.headers["ETag"])
        for headers in (
            {"Accept": "application/json"},
            {"Accept": "text/csv"},
            {"Accept-Language": "zh"},
            {"Cookie": "offsetguard_zone=Asia%2FShanghai"},
        ):
            assert asked_again(airflow, page, first, **headers).status_code == 200, headers
        assert asked_again(airflow, f"{page}&lang=en", first).status_code == 200
        data = get(airflow, f"{page}&format=json")
        assert data.json()["asked"]["cluster"] == CLUSTER
        with writing(warehouse.engine) as session:
            incidents.record_events(session, [IncidentEvent("f1ee7", datetime.now(UTC), EventKind.OPENED, page)])
        assert asked_again(airflow, page, first).status_code == 200
        first = get(airflow, page)
        publish(warehouse, 0, lag)
        assert asked_again(airflow, page, first).status_code == 200
    etag = {"If-None-Match": first.headers["ETag"]}
    assert httpx.get(f"{airflow.base_url}{FLEET}{page}", headers=etag, timeout=60).status_code == 401


@pytest.mark.browser
def test_a_page_refreshes_itself_says_so_and_says_when_it_cannot(
    airflow: AirflowStandalone, warehouse: Warehouse
) -> None:
    with open_page() as page:
        zone = page.evaluate("encodeURIComponent(Intl.DateTimeFormat().resolvedOptions().timeZone)")
        # else zone.js opens the first page again, whatever the test is at
        page.context.add_cookies([{"name": "offsetguard_zone", "value": zone, "url": airflow.base_url}])
        page.goto(airflow.base_url + FLEET)
        log_in(page, airflow.username, airflow.password)
        page.wait_for_url(f"**{FLEET}")
        page.goto(f"{airflow.base_url}{FLEET}?cluster={CLUSTER}")
        failures: list[str] = []
        page.on("pageerror", lambda failure: failures.append(str(failure)))
        page.fill("input[name=search]", "what somebody types")
        publish(warehouse, 0, lag=98_765)
        page.evaluate("htmx.trigger('#refreshed', 'refresh')")
        page.get_by_text("98,765").first.wait_for()
        assert page.locator("#refreshed").inner_text().endswith("refreshed every 30 s")
        assert page.input_value("input[name=search]") == "what somebody types"
        page.goto(f"{airflow.base_url}{FLEET}{GROUP}")
        readings = page.locator(".chart + output")
        readings.nth(3).wait_for(state="attached")
        assert [text.startswith("Drag to zoom") for text in readings.all_inner_texts()] == [True, False, False, False]
        chart = page.get_by_role("application").first
        chart.press("ArrowLeft")
        page.get_by_text("98,765; least 98,765, greatest 98,765").wait_for()
        assert len({text[:16] for text in readings.all_inner_texts()}) == 1, "all are read at one moment"
        assert page.locator("figure svg:visible").count() == 0
        publish(warehouse, 0, lag=55_555)
        page.evaluate("htmx.trigger('#refreshed', 'refresh')")
        page.get_by_text("55,555").first.wait_for()
        page.locator(".chart:focus").wait_for()
        page.get_by_role("link", name="orders").focus()
        publish(warehouse, 0, lag=43_210)
        page.evaluate("htmx.trigger('#refreshed', 'refresh')")
        page.get_by_text("43,210").first.wait_for()
        assert page.evaluate("document.activeElement.textContent") == "orders"
        page.locator("figure.charted").nth(3).wait_for()
        page.route("**/group**", lambda route: route.abort())
        page.evaluate("htmx.trigger('#refreshed', 'refresh')")
        page.get_by_role("alert").wait_for()
        assert "Cannot be refreshed" in page.get_by_role("alert").inner_text()
        page.unroute("**/group**")
        page.evaluate("htmx.trigger('#refreshed', 'refresh')")
        page.get_by_role("alert").wait_for(state="detached")
        assert failures == []
