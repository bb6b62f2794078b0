"""docker-compose.yml for real: built, started, killed in the middle of cycles, stopped and started again.

Every part comes back by itself, every warning arrives once, no interval is torn. Figures go to the file that
OFFSETGUARD_COMPOSE_FIGURES names. Takes about half an hour; docs/compose.md shows what it measured.
"""

import json
import os
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from offsetguard_peers.airflow.api import AirflowApi
from offsetguard_peers.docker.engine import docker
from offsetguard_peers.docker.stack import Stack
from offsetguard_peers.processes import ReservedPort
from offsetguard_peers.waiting import wait_until

pytestmark = [pytest.mark.compose, pytest.mark.slow]

REPOSITORY = Path(__file__).parents[2]
CLUSTERS = {"rocketmq-4", "rocketmq-5"}
PATIENCE_S = 900.0  # what is measured is told; a busy machine is no reason to fail
RUNNING_PUBLICATIONS = """
SELECT count(*) FROM task_instance WHERE state = 'running' AND task_id = 'publish_interval'
"""
# Rows that readers find of each published interval, against those that its cycle had counted when it published.
TORN = """
import json
from offsetguard.lake.catalog import open_catalog
from offsetguard.facts.published import read_rows
from offsetguard.store import cycles, published_intervals
from offsetguard.store.database import open_database
from offsetguard.tables import PUBLISHED, QUEUE_STATE
from offsetguard.config.workspace import Workspace
workspace = Workspace.from_environment()
engine = open_database(workspace.database_url)
catalog, torn, looked = open_catalog(workspace), [], 0
for cycle in cycles.newest(engine, limit=1000):
    published = published_intervals.get(engine, cycle.cluster, cycle.interval)
    if cycle.verdict != "published" or published is None or published.run_id != cycle.run_id:
        continue
    looked += 1
    for table in PUBLISHED:
        if table is not QUEUE_STATE and table.name in cycle.rows:
            found = len(read_rows(catalog, table, published))
            if found != cycle.rows[table.name]:
                torn.append([cycle.cluster, cycle.interval.name, table.name, found, cycle.rows[table.name]])
print(json.dumps({"looked": looked, "torn": torn}))
"""
RECEIPTS = "SELECT receipt FROM notification_log WHERE channel = 'mail'"


class Demo:
    """The demo's stack on ports of its own, and what was measured of it."""

    def __init__(self) -> None:
        self.ports = {name: ReservedPort() for name in ("OFFSETGUARD", "OFFSETGUARD_INBOX", "OFFSETGUARD_SLACK")}
        environment = {f"{name}_PORT": str(port.port) for name, port in self.ports.items()}
        environment["OFFSETGUARD_PAGE_URL"] = f"http://localhost:{self.ports['OFFSETGUARD'].port}"
        self.stack = Stack(REPOSITORY, "offsetguard-test", environment, "demo", "cluster")
        self.without_workers = Stack(REPOSITORY, "offsetguard-test", environment, "demo")
        self.figures: dict[str, Any] = {}

    def mails(self) -> list[dict[str, Any]]:
        inbox = f"http://127.0.0.1:{self.ports['OFFSETGUARD_INBOX'].port}/mails.json"
        try:
            return list(httpx.get(inbox, timeout=60).json())
        except httpx.TransportError:
            return []

    def published_since(self, moment: str) -> set[str]:
        """Return the clusters of which a cycle that began after a moment was published."""
        query = f"SELECT DISTINCT cluster FROM cycles WHERE verdict = 'published' AND started_at > '{moment}'"
        return set(self.without_workers.sql("offsetguard", query))

    def database_time(self) -> str:
        (moment,) = self.without_workers.sql("offsetguard", "SELECT clock_timestamp()")
        return moment

    def wait_until_it_works(self, moment: str) -> None:
        """Wait until all parts are healthy, both clusters were published since a moment, and `health` says well."""
        self.without_workers.wait_until_healthy()
        wait_until(
            lambda: self.published_since(moment) == CLUSTERS,
            timeout_s=PATIENCE_S,
            what=lambda: f"publications of both clusters; there were: {self.published_since(moment)}",
        )
        said: list[str] = []

        def is_well() -> bool:
            code, text = self.without_workers.run("health")
            said[:] = [text]
            return code == 0

        wait_until(is_well, timeout_s=PATIENCE_S, what=lambda: f"offsetguard health; it says {said}")

    def note(self, what: str, figure: Any) -> None:
        self.figures[what] = round(figure, 1) if isinstance(figure, float) else figure
        if file := os.environ.get("OFFSETGUARD_COMPOSE_FIGURES"):
            Path(file).write_text(json.dumps(self.figures, indent=1) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def demo(images: dict[str, float]) -> Iterator[Demo]:
    """Run the demo for all tests of this file; each leaves it as it was."""
    demo = Demo()
    demo.note("build_s", images)
    demo.stack.down("--volumes")
    began = time.monotonic()
    try:
        demo.note("up_until_healthy_s", demo.without_workers.up())
        demo.note("memory_at_rest", demo.without_workers.memory())
        wait_until(lambda: bool(demo.mails()), timeout_s=PATIENCE_S, what=lambda: "the first mail")
        demo.note("up_until_first_mail_s", time.monotonic() - began)
        yield demo
    finally:
        if os.environ.get("OFFSETGUARD_KEEP_COMPOSE"):
            demo.note("kept", "OFFSETGUARD_KEEP_COMPOSE is set: docker compose -p offsetguard-test down --volumes")
        else:
            demo.stack.down("--volumes")
        for port in demo.ports.values():
            port.release()


def test_whatever_is_killed_comes_back_and_every_warning_arrives_once(demo: Demo) -> None:
    """One after the other, each in the middle of a publication; then everything at once."""
    stack = demo.without_workers
    demo.wait_until_it_works(demo.database_time())
    demo.note("memory_at_work", stack.memory())
    for service in ("spark-connect", "scheduler", "triggerer", "postgres"):
        _wait_for_a_publication(stack)
        moment, began = demo.database_time(), time.monotonic()
        stack.kill(service)
        demo.wait_until_it_works(moment)
        demo.note(f"killed_{service}_s", time.monotonic() - began)
    _wait_for_a_publication(stack)
    moment = demo.database_time()
    demo.note("down_s", stack.down())
    began = time.monotonic()
    stack.up()
    demo.wait_until_it_works(moment)
    demo.note("down_and_up_s", time.monotonic() - began)

    seen = stack.python(TORN)
    demo.note("intervals_looked_at", seen["looked"])
    assert seen["torn"] == []
    assert seen["looked"] > 10
    _assert_each_warning_arrived_once(demo)


def test_what_works_without_docker_works_here(demo: Demo) -> None:
    """Pages behind the login, the trigger form, backfill, housekeeping, and who may see which database."""
    stack, page_url = demo.without_workers, f"http://127.0.0.1:{demo.ports['OFFSETGUARD'].port}"
    demo.wait_until_it_works(demo.database_time())
    password = stack.compose("exec", "--no-TTY", "api-server", "cat", "/secrets/airflow/admin-password").strip()
    api = AirflowApi(page_url, "admin", password)
    for page in (f"data-docs/{min(CLUSTERS)}/index.html", "incidents/", "fleet/"):
        assert httpx.get(f"{page_url}/offsetguard/{page}", timeout=60).status_code == 401
        shown = httpx.get(
            f"{page_url}/offsetguard/{page}", timeout=60, headers={"Authorization": f"Bearer {api.token}"}
        )
        assert shown.status_code == 200
        assert "order-settlement" in shown.text or "OG-Q01" in shown.text
    rehearsal = api.trigger("collect_and_judge", cluster="rocketmq-4", dry_run=True)
    assert api.wait_for_run("collect_and_judge", rehearsal, timeout_s=PATIENCE_S) == "success"
    assert api.wait_for_run("housekeeping", api.trigger("housekeeping"), timeout_s=PATIENCE_S) == "success"

    (minute,) = stack.sql("offsetguard", "SELECT min(interval_start) FROM published_intervals")
    before = len(demo.mails())
    span = [f"--{side}-date={minute}" for side in ("from", "to")]
    backfill = ("airflow", "backfill", "create", "--dag-id", "collect_and_judge", "--reprocess-behavior", "completed")
    stack.compose("exec", "--no-TTY", "scheduler", *backfill, *span)
    again = f"SELECT count(*) FROM cycles WHERE verdict = 'published' AND interval_start = '{minute}'"
    once = stack.sql("offsetguard", again)
    wait_until(
        lambda: stack.sql("offsetguard", again) > once, timeout_s=PATIENCE_S, what=lambda: "the backfill's cycles"
    )
    assert len(demo.mails()) == before, "a backfill tells nobody"
    api.close()

    query = (
        "SELECT rolname, datname FROM pg_roles, pg_database WHERE has_database_privilege(rolname, datname, 'CONNECT')"
    )
    ours = {"airflow", "offsetguard", "iceberg"}
    allowed = {tuple(line.split("|")) for line in stack.sql("postgres", query)}
    assert {(role, database) for role, database in allowed if role in ours and database in ours} == {
        (one, one) for one in ours
    }


def test_no_part_may_write_more_than_the_documents_say(demo: Demo) -> None:
    text = (REPOSITORY / "docs" / "compose.md").read_text(encoding="utf-8")
    table = text.partition("### What each may write")[2].partition("\n### ")[0]
    documented: dict[str, set[str]] = {}
    for line in table.splitlines():
        cells = [set(re.findall(r"`([a-z0-9-]+)`", cell)) for cell in line.split("|")]
        for volume in cells[1] if len(cells) == 6 else ():
            for service in cells[3] or {volume}:
                documented.setdefault(service, set()).add(volume)
    found = {
        service: {one for one in writable if not one.startswith("/")}
        for service, writable in demo.without_workers.may_write().items()
    }
    assert found == {service: documented.get(service, set()) for service in found}
    in_memory = {one for writable in demo.without_workers.may_write().values() for one in writable if one[0] == "/"}
    assert in_memory == {"/tmp", "/var/lib/airflow", "/var/run/postgresql"}  # noqa: S108 names, nothing is written


def test_with_workers_both_have_a_part_in_a_publication(demo: Demo) -> None:
    """Nothing else changes: the Connect server finds the master by its name when it starts."""
    moment, began = demo.database_time(), time.monotonic()
    demo.stack.compose("up", "--detach", "--no-build", "--scale", "spark-worker=2")
    demo.stack.compose("restart", "spark-connect")
    demo.stack.wait_until_healthy()
    demo.wait_until_it_works(moment)
    tasks: Counter[str] = Counter()

    def both_worked() -> bool:
        for number in ("1", "2"):
            log = ("cat /tmp/app-*/*/stderr", "grep --count 'Finished task'")
            told = demo.stack.compose(
                "exec", "--no-TTY", f"--index={number}", "spark-worker", "sh", "-c", " | ".join(log)
            )
            tasks[number] = int(told)
        return min(tasks.values()) > 0

    wait_until(both_worked, timeout_s=PATIENCE_S, what=lambda: f"tasks on both workers: {dict(tasks)}")
    demo.note("with_workers_s", time.monotonic() - began)
    demo.note("tasks_of_workers", dict(tasks))
    demo.note("memory_with_workers", demo.stack.memory())
    assert demo.stack.python(TORN)["torn"] == []
    demo.stack.compose("rm", "--stop", "--force", "spark-worker", "spark-master")
    demo.stack.compose("restart", "spark-connect")


def test_the_image_is_not_larger_than_it_has_to_be(images: dict[str, float]) -> None:
    size = int(docker("inspect", "--format", "{{.Size}}", "offsetguard:0.1.0").stdout)
    history = docker("history", "--no-trunc", "--format", "{{.CreatedBy}}", "offsetguard:0.1.0").stdout
    assert size < 3_200_000_000, f"{size / 1e9:.2f} GB"
    assert "gcc" not in history
    assert docker("run", "--rm", "offsetguard:0.1.0", "sh", "-c", "! command -v gcc cc make uv").returncode == 0


def _wait_for_a_publication(stack: Stack) -> None:
    """Return in the middle of a cycle."""
    wait_until(
        lambda: stack.sql("airflow", RUNNING_PUBLICATIONS) not in ([], ["0"]),
        timeout_s=PATIENCE_S,
        what=lambda: "a publication that runs",
    )


def _assert_each_warning_arrived_once(demo: Demo) -> None:
    """Compare what is logged as accepted with what lies in the inbox; nothing may lie there twice."""
    wait_until(
        lambda: demo.without_workers.sql("offsetguard", "SELECT 1 FROM outbox WHERE status = 'pending' LIMIT 1") == [],
        timeout_s=PATIENCE_S,
        what=lambda: "the outbox to drain",
    )
    mails = demo.mails()
    receipts = Counter(demo.without_workers.sql("offsetguard", RECEIPTS))
    assert Counter(mail["message_id"] for mail in mails) == receipts
    assert set(receipts.values()) == {1}
    told = Counter((*mail["recipients"], mail["subject"]) for mail in mails)
    twice = [line for line, count in told.items() if count > 1 and not _has_ended_between(line, mails)]
    assert twice == []
    assert len({line for line in told if line[-1].startswith(("[WARNING]", "[CRITICAL]"))}) >= 8
    demo.note("mails", len(mails))


def _has_ended_between(line: tuple[str, ...], mails: list[dict[str, Any]]) -> bool:
    """Whether the trouble of a subject was told to be over: then it is told anew when it comes back."""
    about = line[-1].partition("] ")[2]
    return any(mail["subject"].startswith("[RESOLVED]") and about in mail["subject"] for mail in mails)
