"""`offsetguard replay`: what would have been found and sent over the published past; nothing is sent or written."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from offsetguard.cli.main import offsetguard
from offsetguard.collect.manifest import Manifest, RequestCounts
from offsetguard.model.intervals import Interval
from offsetguard.store import published_intervals
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import GROUP_FACTS
from offsetguard_peers.lake.warehouse import START, Warehouse, minute, rows_of

CONFIG = """
clusters: {demo: {name_servers: ['127.0.0.1:9']}, other: {name_servers: ['127.0.0.1:9']}}
teams: {ops: {mail: [ops@example.com]}}
default_team: ops
delivery: {group_interval_ms: 60000}
"""
FAR_BEHIND = {"lag": 20_000, "effective_lag": 20_000, "lag_ms": 600_000}
CAUGHT_UP = {"lag": 0, "effective_lag": 0, "lag_ms": 0}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Six minutes of a group that is off and far behind in the second to the fourth; nothing changes them."""
    folder = tmp_path_factory.mktemp("replay")
    (folder / "offsetguard.yml").write_text(CONFIG)
    warehouse = Warehouse.in_folder(folder)
    figures = (CAUGHT_UP, FAR_BEHIND, FAR_BEHIND, FAR_BEHIND, CAUGHT_UP, CAUGHT_UP)
    rows = [
        {"cluster": "demo", "consumer_group": "billing", "topic": "orders", "topic_kind": "normal"}
        | {"interval_start": minute(number), "queue_count": 4, "lost": 0, "online_client_count": 0}
        | {"message_model": "CLUSTERING", "violated_invariants": [], **lags}
        for number, lags in enumerate(figures)
    ]
    snapshot_id = warehouse.append(rows_of(GROUP_FACTS, rows))
    for number in range(len(figures)):
        _publish(warehouse, number, snapshot_id)
    return warehouse


def _publish(warehouse: Warehouse, number: int, snapshot_id: int) -> None:
    start = minute(number)
    manifest = Manifest(
        cluster="demo",
        interval_start=start,
        started_at=start,
        finished_at=start + timedelta(seconds=1),
        requests=RequestCounts(),
        row_counts={},
        master_broker_names=("broker-a",),
    )
    published_intervals.record(
        warehouse.engine,
        PublishedInterval(
            "demo",
            Interval(start),
            f"run-{number}",
            minute(number + 1),
            "published",
            {GROUP_FACTS.name: snapshot_id},
            manifest.to_json(),
        ),
    )


def replay(warehouse: Warehouse, *arguments: str) -> Result:
    environment = {
        "OFFSETGUARD_HOME": str(warehouse.workspace.home),
        "OFFSETGUARD_CONFIG": str(warehouse.workspace.config_file),
        "OFFSETGUARD_DATABASE_URL": warehouse.workspace.database_url,
    }
    return CliRunner().invoke(offsetguard, ["replay", *arguments], env=environment)


def span(first: int, last: int) -> tuple[str, str, str, str]:
    texts = [minute(number).strftime("%Y-%m-%dT%H:%M:%S") for number in (first, last)]
    return "--from", texts[0], "--to", texts[1]


def lines(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_findings_the_end_and_messages_are_told_in_their_order(warehouse: Warehouse) -> None:
    result = replay(warehouse, *span(0, 6), "--format", "json")
    assert result.exit_code == 1, result.output
    found = [one for one in lines(result) if one.get("consumer_group") == "billing" or one["what"] == "message"]
    assert Counter(one["what"] for one in found) == {"finding": 3, "message": 2, "resolved": 1}
    findings = [one for one in found if one["what"] == "finding"]
    assert [one["interval_start"] for one in findings] == [minute(number).isoformat() for number in (1, 2, 3)]
    assert [one["opened"] for one in findings] == [True, False, False]
    first, last = (one for one in found if one["what"] == "message")
    assert (first["receiver"], first["reason"], first["interval_start"]) == (
        "ops@example.com",
        "first",
        minute(1).isoformat(),
    )
    assert (last["reason"], last["interval_start"]) == ("all_resolved", minute(5).isoformat())
    assert "nothing was sent" in result.stderr


def test_nothing_is_written(warehouse: Warehouse) -> None:
    database = warehouse.workspace.home / "offsetguard.db"
    warehouse.engine.dispose()
    before = {
        path: hashlib.sha256(path.read_bytes()).hexdigest() for path in (database, warehouse.workspace.catalog_file)
    }
    replay(warehouse, *span(0, 6))
    assert {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in before} == before


def test_rules_narrow_what_is_shown_and_unknown_ones_are_named(warehouse: Warehouse) -> None:
    result = replay(warehouse, *span(0, 6), "--rules", "lock_not_released")
    assert (result.exit_code, lines(result)) == (0, [])
    wrong = replay(warehouse, *span(0, 6), "--rules", "lock_not_relaesed")
    assert wrong.exit_code == 2
    assert "there is no rule 'lock_not_relaesed'; lock_not_released" in " ".join(wrong.output.split())


def test_other_limits_can_be_tried_out(warehouse: Warehouse, tmp_path: Path) -> None:
    other = tmp_path / "other.yml"
    other.write_text(CONFIG.replace("ops@example.com", "new@example.com"))
    result = replay(warehouse, *span(0, 6), "--config", str(other), "--cluster", "demo")
    assert {one["receiver"] for one in lines(result) if one["what"] == "message"} == {"new@example.com"}


def test_people_read_what_changes_and_when(warehouse: Warehouse) -> None:
    shown = replay(warehouse, *span(0, 6), "--format", "table").stdout.splitlines()
    assert [line.split("  ")[1].strip() for line in shown[:-1] if "billing" in line] == ["opened", "resolved"]
    assert sum("message" in line and "ops@example.com" in line for line in shown) == 2
    assert shown[-1].startswith("6 intervals: 3 findings, 1 incidents opened, 1 resolved, 2 messages")


def test_a_time_of_which_nothing_is_published_gives_2(warehouse: Warehouse) -> None:
    result = replay(warehouse, *span(100, 200))
    assert (result.exit_code, result.stdout) == (2, "")
    day = START.strftime("%Y-%m-%d")
    assert replay(warehouse, "--from", day, "--to", day).exit_code == 2


def test_a_cluster_that_is_not_configured_is_named(warehouse: Warehouse) -> None:
    result = replay(warehouse, *span(0, 6), "--cluster", "mian")
    assert result.exit_code == 2
    assert "clusters: demo, other" in " ".join(result.output.split())
