"""From our pages to the log of the task behind them, and from Airflow's DAGs, runs and tasks to our pages."""

import re
from collections.abc import Iterator
from datetime import datetime
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlencode

import httpx
import pytest
from airflow import plugins_manager

from offsetguard.config.workspace import Workspace
from offsetguard.model.intervals import Interval
from offsetguard.store.database import open_database
from offsetguard.tables import CLUSTER_FACTS, GROUP_FACTS
from offsetguard_airflow.web.airflow_runs import PAGE_OF
from offsetguard_peers.airflow.standalone import AirflowStandalone
from offsetguard_peers.collecting import manifest_of
from offsetguard_peers.lake.warehouse import Warehouse
from offsetguard_peers.pictures.chromium import log_in, open_page

DAGS = Path(__file__).parents[2] / "dags"
DAG = "collect_and_judge"
CLUSTER = "of-runs"
PUBLISH, JUDGE = "publish_interval", "judge_interval"


@pytest.fixture(scope="module")
def run_id(airflow: AirflowStandalone, workspace_folder: Path) -> Iterator[str]:
    """Publish the minute of a run."""
    made = airflow.api.trigger(DAG)
    url = airflow.environment["OFFSETGUARD_DATABASE_URL"]
    open_database(url).dispose()
    workspace = Workspace(workspace_folder, workspace_folder / "offsetguard.yml", url)
    warehouse = Warehouse(workspace, (GROUP_FACTS, CLUSTER_FACTS))
    run_after = airflow.api.get(f"/dags/{DAG}/dagRuns/{made}")["run_after"]
    interval = Interval.containing(datetime.fromisoformat(run_after))
    groups = [{"consumer_group": "g", "topic": "t", "effective_lag": 1}]
    manifest = manifest_of(interval).to_json()
    warehouse.publish(CLUSTER, interval, {GROUP_FACTS: groups, CLUSTER_FACTS: [{}]}, manifest_json=manifest)
    yield made
    warehouse.engine.dispose()


def get(airflow: AirflowStandalone, address: str, *, below: str = "fleet/", **query: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {airflow.api.token}", "Accept": "text/html"}
    return httpx.get(
        f"{airflow.base_url}/offsetguard/{below}{address}", headers=headers, params=query or None, timeout=60
    )


@pytest.mark.parametrize("page", ["", "group?consumer_group=g&", "queues?consumer_group=g&", "topic?topic=t&"])
def test_each_page_leads_to_the_log_of_its_minute_and_to_its_data_docs(
    airflow: AirflowStandalone, run_id: str, page: str
) -> None:
    shown = get(airflow, f"{page or '?'}cluster={CLUSTER}").text
    assert f'href="../data-docs/{CLUSTER}/index.html"' in shown
    link = re.search(r'href="../fleet/(log\?[^"]+)" target="_top"', shown)
    assert link is not None
    led = get(airflow, unescape(link[1]))
    assert led.status_code == 303
    assert unquote(led.headers["location"]) == f"/dags/{DAG}/runs/{run_id}/tasks/{PUBLISH}"


def test_what_was_judged_leads_to_its_own_log_and_what_airflow_forgot_says_so(
    airflow: AirflowStandalone, run_id: str
) -> None:
    run_after = airflow.api.get(f"/dags/{DAG}/dagRuns/{run_id}")["run_after"]
    led = get(airflow, "log", cluster=CLUSTER, at=run_after, step="judge_interval")
    assert led.headers["location"].endswith(f"/tasks/{JUDGE}")
    assert get(airflow, "log", cluster="another", at=run_after).status_code == 404, "it was never published"
    for step in (PUBLISH, JUDGE):
        assert get(airflow, "log", cluster=CLUSTER, at="2020-01-01T00:00:00Z", step=step).status_code == 404
    assert get(airflow, "log", cluster=CLUSTER, at=run_after, step="x").status_code == 422


def test_every_dag_run_and_task_of_ours_leads_to_a_page(airflow: AirflowStandalone, run_id: str) -> None:
    assert sorted(PAGE_OF) == sorted(file.stem for file in DAGS.glob("*.py")), "say in PAGE_OF where it is seen"
    for dag_id, page in PAGE_OF.items():
        assert get(airflow, "of-run", dag_id=dag_id).headers["location"] == f"..{page}/?"
    run = {"dag_id": DAG, "run_id": run_id}
    run_after = datetime.fromisoformat(airflow.api.get(f"/dags/{DAG}/dagRuns/{run_id}")["run_after"])
    open_at = urlencode({"open_at": Interval.containing(run_after).start.isoformat()})
    assert get(airflow, "of-run", **run).headers["location"] == f"../incidents/?{open_at}", "of all clusters"
    assert get(airflow, "of-run", **run, task_id=PUBLISH).headers["location"] == "../fleet/?"
    assert get(airflow, "of-run", **run, task_id=JUDGE).headers["location"] == f"../incidents/?{open_at}"
    of_one = {"dag_id": DAG, "run_id": airflow.api.trigger(DAG, cluster="main")}
    assert get(airflow, "of-run", **of_one).headers["location"].startswith("../incidents/?cluster=main&")
    assert get(airflow, "of-run", **of_one, task_id=PUBLISH).headers["location"] == "../fleet/?cluster=main"
    shown = get(airflow, f"incidents/?{open_at}", below="")
    moment = Interval.containing(run_after).start
    assert f'name="open_at" value="{moment:%Y-%m-%dT%H:%M:%SZ}"' in shown.text, "whatever else is asked next"
    assert f"Open at: {moment:%Y-%m-%d %H:%M:%S} UTC" in shown.text


def test_a_dag_of_somebody_else_is_told_so(airflow: AirflowStandalone) -> None:
    told = get(airflow, "of-run", dag_id="<b>nightly\u202e")
    assert (told.status_code, "<b>" in told.text, "\u202e" in told.text) == (200, False, False)
    assert "The DAG &lt;b&gt;nightly" in told.text
    assert get(airflow, "of-run", dag_id=DAG, run_id="a\0").status_code == 422
    lengths = [get(airflow, "of-run", dag_id="d" * length).status_code for length in (250, 251)]
    assert lengths == [200, 422], "an id of Airflow has 250 characters at most"
    assert "不属于" in get(airflow, "of-run", dag_id="nightly", lang="zh").text


def test_airflow_shows_the_way_on_dags_runs_and_tasks() -> None:
    plugins_manager.ensure_plugins_loaded()
    views = {one["url_route"]: one for one in plugins_manager.get_plugin_info()[0]["external_views"]}
    (entry,) = (one for one in views.values() if one["destination"] == "nav")
    assert (entry["name"], entry["nav_top_level"], entry["href"]) == ("Fleet", True, "offsetguard/fleet/")
    assert {"nav", "dag", "dag_run", "task_instance"} == {one["destination"] for one in views.values()}
    assert views["offsetguard-of-dag-run"]["href"].endswith("/of-run?dag_id={DAG_ID}&run_id={RUN_ID}")


@pytest.mark.browser
def test_a_framed_page_leads_out_of_its_frame(airflow: AirflowStandalone, run_id: str) -> None:
    with open_page() as page:
        page.goto(f"{airflow.base_url}/offsetguard/fleet/")
        log_in(page, airflow.username, airflow.password)
        page.wait_for_url("**/offsetguard/fleet/")
        page.wait_for_load_state("networkidle")  # the first page ever tells the reader's zone, and loads again
        page.goto(f"{airflow.base_url}/dags/{DAG}/plugin/offsetguard-of-dag")
        framed = page.frame_locator("iframe")
        framed.get_by_role("heading", name="Fleet").wait_for()
        page.wait_for_load_state("networkidle")  # a click before the page's script is there would lead nowhere
        framed.get_by_role("row", name=CLUSTER).get_by_role("link", name=CLUSTER).click()
        framed.get_by_role("link", name="task log").click()
        page.wait_for_url(f"**/tasks/{PUBLISH}**")
        assert page.frame_locator("iframe").get_by_role("heading", name="Fleet").count() == 0
