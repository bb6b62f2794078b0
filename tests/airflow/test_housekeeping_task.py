"""The task of the DAG housekeeping does its work in the workspace that the environment names."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from offsetguard.model.intervals import Interval
from offsetguard.tables import TOPIC_FACTS
from offsetguard_airflow.operators.housekeeping import HousekeepingOperator
from offsetguard_peers.lake.warehouse import Warehouse

CONFIG = """
clusters:
  main: {name_servers: ["127.0.0.1:9876"]}
teams:
  operators: {mail: [operators@example.com]}
default_team: operators
retention: {snapshots_days: 1, facts_days: 2}
"""


def test_it_keeps_what_the_configuration_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse = Warehouse.in_folder(tmp_path, TOPIC_FACTS)
    workspace = warehouse.workspace
    workspace.config_file.write_text(CONFIG)
    monkeypatch.setenv("OFFSETGUARD_HOME", str(workspace.home))
    monkeypatch.setenv("OFFSETGUARD_CONFIG", str(workspace.config_file))
    monkeypatch.setenv("OFFSETGUARD_DATABASE_URL", workspace.database_url)
    newest = Interval.containing(datetime.now(UTC))
    row = {"topic": "orders", "queue_count": 1, "consumer_group_count": 0}
    for age in (timedelta(days=4), timedelta(0)):
        interval = Interval(newest.start - age)
        (workspace.landing_folder / "main" / interval.name).mkdir(parents=True)
        warehouse.publish("main", interval, {TOPIC_FACTS: [row]})
    (workspace.landing_folder / "main" / (newest.start - timedelta(days=2)).strftime("%Y%m%dT%H%M%SZ")).mkdir()

    HousekeepingOperator(task_id="clean").execute({})

    found = warehouse.iceberg_table(TOPIC_FACTS).scan().to_arrow().column("interval_start").to_pylist()
    assert found == [newest.start]
    assert len(list((workspace.landing_folder / "main").iterdir())) == 2, "the newest two stay, however old"
