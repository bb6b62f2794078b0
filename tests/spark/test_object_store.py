"""Collector, Spark, judge, pages and housekeeping on hosts that share nothing but a database and an object store.

Each host is a process tree with a folder of its own. What is published is the same to the row as with one folder.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from offsetguard.config.object_store import files_below, write_bytes
from offsetguard.config.workspace import Workspace
from offsetguard.lake.upkeep.packing import PACKED_PREFIX
from offsetguard.model.intervals import INTERVAL_LENGTH, Interval
from offsetguard.tables import GROUP_FACTS, PUBLISHED, QUEUE_FACTS, QUEUE_SNAPSHOTS
from offsetguard_peers.lake.readers import Readers
from offsetguard_peers.object_store import ObjectStore
from offsetguard_peers.processes import ReservedPort
from offsetguard_spark.engines import QUICK_COMPILER_OPTIONS
from offsetguard_spark.server_process import ServerFolder
from offsetguard_spark.session import SMALL_SNAPSHOT_ROWS

pytestmark = pytest.mark.slow

PUBLISH = """\
import sys
from offsetguard_airflow.defaults import TASK_DEFAULTS
from offsetguard_airflow.operators.spark_jobs import PublishIntervalOperator
TASK_DEFAULTS["pre_execute"]({})  # as Airflow does in the task's process: the task opens our database itself
PublishIntervalOperator(task_id="publish", cluster="demo", interval_start=sys.argv[1]).execute({})
"""
JUDGE = """\
import json, sys
from datetime import UTC, datetime
from offsetguard.config.file import load_config
from offsetguard.config.workspace import Workspace
from offsetguard.decide.judge import judge_interval
from offsetguard.facts.published import unaudited_facts
from offsetguard.model.intervals import Interval
from offsetguard.store.database import open_database
from offsetguard_peers.lake.readers import Readers
workspace, interval = Workspace.from_environment(), Interval(datetime.fromisoformat(sys.argv[1]))
config, engine = load_config(workspace.config_file), open_database(workspace.database_url)
landed = unaudited_facts(workspace, engine, "demo", interval, config, say=print)
published = Readers(workspace).facts(interval)
judge_interval(engine, published, config, now=datetime.now(UTC))
print(json.dumps([sorted(one.consumer_group for one in facts.groups) for facts in (landed, published)]))
"""
LOOK = """\
import json, sys
from offsetguard.config.workspace import Workspace
from offsetguard.catalogue import catalogue
from offsetguard.store.database import open_migrated
from offsetguard.views.fleet import Wanted
from offsetguard.views.workspace_views import WorkspaceViews
from offsetguard_airflow.page.data_docs import find_file, give_page
workspace = Workspace.from_environment()
fleet = WorkspaceViews(workspace, open_migrated(workspace.database_url)).fleet(Wanted(), catalogue())
folder = workspace.data_docs_folder
hostile = ["demo/../demo/index.html", "../landing/demo/landed.json", "demo/runs.json", "/", "", "demo//index.html"]
print(json.dumps({
    "groups": sorted(one.consumer_group for one in fleet.groups),
    "page": give_page("demo/index.html").body.decode(),
    "given": [path for path in hostile if find_file(folder, path) is not None],
}))
"""
CLEAN = """\
import json, sys
from datetime import UTC, datetime, timedelta
from offsetguard.config.file import load_config
from offsetguard.config.workspace import Workspace
from offsetguard.collect.landing import landed_intervals
from offsetguard.lake.upkeep.clean import Housekeeper
from offsetguard.store.database import open_database
workspace = Workspace.from_environment()
config, engine = load_config(workspace.config_file), open_database(workspace.database_url)
housekeeper = Housekeeper(workspace, config.retention, engine, print, keep_unnamed_files=timedelta(0))
report = housekeeper.clean(now=datetime.fromisoformat(sys.argv[1]))
left = landed_intervals(workspace.landing_folder, "demo", datetime.min.replace(tzinfo=UTC), datetime.now(UTC))
print(json.dumps({"deleted": report.deleted_snapshots, "left": [one.name for one in left]}))
"""


@dataclass
class Hosts:
    """Hosts of one installation."""

    folder: Path
    store: ObjectStore
    shared: Workspace

    def workspace(self, host: str) -> Workspace:
        """Return what a host has."""
        return replace(self.shared, home=self.folder / host)

    def run(self, host: str, program: str, *arguments: str, **environment: str) -> Any:
        """Run a program of Python on a host; returns the JSON that it prints last, or its text."""
        home = self.folder / host
        home.mkdir(exist_ok=True)
        airflow = {
            "AIRFLOW_HOME": str(home / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(home / "none"),
            "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
        }
        ended = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env=os.environ | airflow | self.store.environment | self.workspace(host).variables | environment,
            cwd=home,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        last = ended.stdout.strip().splitlines()[-1]
        return json.loads(last) if last.startswith(("{", "[")) else ended.stdout


@pytest.fixture
def hosts(object_store: ObjectStore, workspace: Workspace, tmp_path: Path) -> Hosts:
    """Give hosts whose catalog and database are files that all of them reach, as servers would be."""
    (tmp_path / "databases").mkdir()
    shared = replace(
        workspace,
        store=object_store.home(tmp_path.name),
        database_url=f"sqlite:///{tmp_path / 'databases' / 'offsetguard.db'}",
        catalog_url=f"sqlite:///{tmp_path / 'databases' / 'catalog.db'}",
    )
    return Hosts(tmp_path, object_store, shared)


INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
ENGINES: Mapping[str, Mapping[str, str]] = {
    "warm": {"JDK_JAVA_OPTIONS": QUICK_COMPILER_OPTIONS},
    "local": {"AIRFLOW_CONN_SPARK_DEFAULT": '{"conn_type": "spark", "host": "local[2]"}'},
}


@pytest.mark.parametrize("engine", ENGINES)
def test_hosts_without_a_shared_disk_publish_what_one_folder_has(
    hosts: Hosts, new_publisher: Any, workspace: Workspace, snapshot: Any, engine: str
) -> None:
    snapshot.fill()
    start = snapshot.interval.start.isoformat()
    snapshot.land(workspace)
    new_publisher(workspace).publish("demo", snapshot.interval, now=snapshot.interval.end)
    snapshot.land(hosts.workspace("collector"))
    said = hosts.run("publisher", PUBLISH, start, **ENGINES[engine])
    assert '"verdict": "published"' in said
    ServerFolder(hosts.folder / "publisher" / "spark-server").stop()

    one_folder, store = Readers(workspace), Readers(hosts.workspace("reader"))
    for table in PUBLISHED:
        assert without_run(store, table, snapshot) == without_run(one_folder, table, snapshot), table.name

    landed, published = hosts.run("judge", JUDGE, start)
    assert landed == published == ["billing", "stock"]
    shown = hosts.run("pages", LOOK)
    assert shown["groups"] == ["billing", "stock"]
    assert "OG-Q" in shown["page"]
    assert shown["given"] == []
    for host in ("collector", "publisher", "judge", "pages"):
        files = {one.name for one in (hosts.folder / host).rglob("*.parquet")} if (hosts.folder / host).exists() else ()
        assert not files, host


def test_rows_too_many_to_be_sent_are_found_in_the_store(hosts: Hosts, snapshot: Any) -> None:
    """Those that landed, and the facts that are made of them."""
    snapshot.broker()
    snapshot.topic("orders")
    snapshot.group("billing")
    for queue_id in range(SMALL_SNAPSHOT_ROWS + 1):
        snapshot.queue("billing", "orders", queue_id, (0, 400, 1000))
    snapshot.land(hosts.workspace("collector"))
    hosts.run("publisher", PUBLISH, snapshot.interval.start.isoformat(), **ENGINES["warm"])
    ServerFolder(hosts.folder / "publisher" / "spark-server").stop()
    readers = Readers(hosts.workspace("reader"))
    for table in (QUEUE_SNAPSHOTS, QUEUE_FACTS):
        assert len(readers.rows(table, snapshot.interval)) == SMALL_SNAPSHOT_ROWS + 1, table.name
    handed_over = str(hosts.shared.handed_over_folder)
    left = [location for location, _ in files_below(hosts.shared.shared) if location.startswith(handed_over)]
    assert not [location for location in left if location.endswith(".parquet")]


def test_a_store_that_is_away_stops_a_publication_with_what_to_check_and_nothing_is_lost(
    hosts: Hosts, snapshot: Any
) -> None:
    snapshot.fill().land(hosts.workspace("collector"))
    start, away = snapshot.interval.start.isoformat(), ReservedPort()
    with pytest.raises(AssertionError, match="check OFFSETGUARD_HOME, AWS_ENDPOINT_URL"):
        hosts.run("publisher", PUBLISH, start, AWS_ENDPOINT_URL=f"http://127.0.0.1:{away.port}")
    away.release()
    assert '"verdict": "published"' in hosts.run("publisher", PUBLISH, start, **ENGINES["warm"])
    ServerFolder(hosts.folder / "publisher" / "spark-server").stop()


def test_housekeeping_deletes_and_packs_in_the_store(hosts: Hosts, new_snapshot: Any) -> None:
    intervals = [Interval(INTERVAL.start + INTERVAL_LENGTH * number) for number in range(3)]
    for number, interval in enumerate(intervals):
        new_snapshot(interval).fill(400 + number).land(hosts.workspace("collector"))
        hosts.run("publisher", PUBLISH, interval.start.isoformat(), **ENGINES["warm"])
    ServerFolder(hosts.folder / "publisher" / "spark-server").stop()
    readers = Readers(hosts.workspace("reader"))
    before = [readers.rows(GROUP_FACTS, one) for one in intervals]
    assert all(before)
    orphan = hosts.shared.warehouse_folder / "facts" / GROUP_FACTS.name / "data" / "of_a_killed_run.parquet"
    write_bytes(orphan, b"PAR1")

    done = hosts.run("housekeeping", CLEAN, (INTERVAL.start + timedelta(days=20)).isoformat())
    assert done == {"deleted": 1, "left": [one.name for one in intervals[1:]]}
    names = {location.rpartition("/")[2] for location, _ in files_below(hosts.shared.shared)}
    assert "of_a_killed_run.parquet" not in names
    assert any(name.startswith(PACKED_PREFIX) for name in names), "what three minutes wrote lies in one file"
    readers = Readers(hosts.workspace("reader"))
    assert [readers.rows(GROUP_FACTS, one) for one in intervals] == before


def without_run(readers: Readers, table: Any, snapshot: Any) -> list[dict[str, Any]]:
    """Return the rows of an interval without what is another in each run."""
    rows = readers.rows(table, snapshot.interval)
    return [{name: value for name, value in row.items() if name != "run_id"} for row in rows]
