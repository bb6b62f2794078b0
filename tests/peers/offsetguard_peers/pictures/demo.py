"""Pictures of the demo in Airflow: the DAG with its runs, its trigger form, the Data Docs of the newest run, our pages.

    python -m offsetguard_peers.pictures.demo docs

Takes a quarter of an hour: the demo runs until the DAG has succeeded RUNS times.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Page

from offsetguard.model.views import FLEET_PATH, INCIDENTS_PATH, URL_PREFIX, data_docs_url
from offsetguard_peers.airflow.api import AirflowApi
from offsetguard_peers.demo.embedded import PASSWORD
from offsetguard_peers.pictures import asked_folder
from offsetguard_peers.pictures.chromium import log_in, open_page, shrink
from offsetguard_peers.waiting import wait_until

DAG, RUNS = "collect_and_judge", 12
USER, CLUSTER = "admin", "demo"
PATIENCE_S = 1_200.0
SETTLES_MS = 3_000  # what Airflow moves into its place


def take_pictures(api: AirflowApi, airflow_url: str, folder: Path) -> None:
    """Log in and write `airflow-dag.png`, `trigger-form.png`, `data-docs.png`, and a `…-page.png` of each view."""
    run_id = next(run["dag_run_id"] for run in api.runs(DAG) if run["state"] == "success")
    with open_page() as page:
        page.set_default_timeout(PATIENCE_S * 1000)
        page.goto(airflow_url)
        log_in(page, USER, PASSWORD)

        page.set_viewport_size({"width": 1400, "height": 620})
        page.goto(f"{airflow_url}/dags/{DAG}/runs/{quote(run_id)}")
        page.get_by_label("Show Graph").click()
        page.get_by_label("Expand all task groups").click()
        page.get_by_text("judge_interval").first.wait_for()
        _keep(page, folder / "airflow-dag.png")

        page.set_viewport_size({"width": 1280, "height": 1140})
        page.goto(f"{airflow_url}/dags/{DAG}")
        page.get_by_role("button", name="Trigger").first.click()
        page.get_by_text("Tell what is late").first.wait_for()
        _keep(page, folder / "trigger-form.png")

        page.set_viewport_size({"width": 1280, "height": 1820})  # the trouble, and some of what was checked
        page.goto(data_docs_url(airflow_url, CLUSTER))
        page.get_by_text("Everything that was checked").wait_for()
        _keep(page, folder / "data-docs.png")

        _take_our_pages(page, f"{airflow_url}{URL_PREFIX}", folder)


def _take_our_pages(page: Page, url: str, folder: Path) -> None:
    page.set_viewport_size({"width": 1280, "height": 760})
    page.goto(f"{url}{FLEET_PATH}/")
    _keep(page, folder / "fleet-page.png")
    page.set_viewport_size({"width": 1280, "height": 1820})
    page.locator("table").nth(1).locator("tbody a").first.click()
    page.get_by_text("Messages waiting").first.wait_for()
    _keep(page, folder / "group-page.png")
    group = page.url
    page.get_by_role("link", name="All queues, and their backlog").click()
    page.set_viewport_size({"width": 1280, "height": 900})
    _keep(page, folder / "queues-page.png")
    page.goto(group)
    page.locator("table td a[href*='fleet/topic?']").first.click()
    _keep(page, folder / "topic-page.png")
    page.goto(f"{url}{INCIDENTS_PATH}/")
    _keep(page, folder / "incidents-page.png")
    page.locator("table a").first.click()
    page.set_viewport_size({"width": 1280, "height": 1820})
    _keep(page, folder / "incident-page.png")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(f"{url}/changes/?span=30m")
    _keep(page, folder / "changes-page.png")
    page.goto(f"{url}/silences/?cluster={CLUSTER}&consumer_group=stock-*")
    page.get_by_label("Reason").fill("The warehouse moves; Ada has it")
    page.get_by_role("button", name="Silence", exact=True).click()
    page.get_by_text("The warehouse moves").wait_for()
    _keep(page, folder / "silences-page.png")
    page.goto(f"{url}/search/?q=order")
    _keep(page, folder / "search-page.png")
    page.emulate_media(color_scheme="dark")
    page.goto(f"{url}{FLEET_PATH}/?lang=zh")
    _keep(page, folder / "fleet-page-zh.png")


def _keep(page: Page, png: Path) -> None:
    page.wait_for_timeout(SETTLES_MS)
    page.screenshot(path=png)
    shrink(png)


def main() -> None:
    """Run the demo, take the pictures, and end it."""
    pictures = asked_folder(__doc__)
    with tempfile.TemporaryDirectory(prefix="offsetguard-pictures-") as folder:
        command = [sys.executable, "-m", "offsetguard_peers.demo", "--folder", str(Path(folder) / "demo")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo:
            try:
                _take_when_there_are_runs(demo, pictures)
            finally:
                demo.terminate()
                demo.communicate()  # it says that it ends


def _take_when_there_are_runs(demo: subprocess.Popen[str], pictures: Path) -> None:
    assert demo.stdout is not None
    lines = iter(demo.stdout.readline, "")
    url = next(line.split()[1] for line in lines if line.split()[:1] == ["Airflow"])
    api = AirflowApi(url, USER, PASSWORD)
    wait_until(
        lambda: sum(run["state"] == "success" for run in api.runs(DAG)) >= RUNS,
        timeout_s=PATIENCE_S,
        what=lambda: f"{RUNS} runs of {DAG}",
    )
    take_pictures(api, url, pictures)
    api.close()


if __name__ == "__main__":
    main()
