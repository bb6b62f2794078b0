"""`offsetguard replay`: what would have been found and sent over the published past; nothing is sent or written."""

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import Result

from offsetguard.collect.manifest import Manifest, RequestCounts
from offsetguard.model.intervals import Interval
from offsetguard.tables import GROUP_FACTS
from offsetguard_peers.command_line import json_lines, run
from offsetguard_peers.configs import one_team_text
from offsetguard_peers.lake.warehouse import Warehouse, minute, rows_of

CONFIG = one_team_text(demo="127.0.0.1:9", other="127.0.0.1:9") + "delivery: {group_interval_ms: 60000}\n"
FAR_BEHIND = {"lag": 20_000, "effective_lag": 20_000, "lag_ms": 600_000}
CAUGHT_UP = {"lag": 0, "effective_lag": 0, "lag_ms": 0}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Six minutes of a group that is off and far behind in the second to the fourth; nothing changes them."""
    folder = tmp_path_factory.mktemp("replay")
    (folder / "offsetguard.yml").write_text(CONFIG)
    warehouse = Warehouse.in_folder(folder, GROUP_FACTS)
    figures = (CAUGHT_UP, FAR_BEHIND, FAR_BEHIND, FAR_BEHIND, CAUGHT_UP, CAUGHT_UP)
    rows = [
        {"cluster": "demo", "consumer_group": "billing", "topic": "orders", "topic_kind": "normal"}
        | {"interval_start": minute(number), "queue_count": 4, "lost": 0, "online_client_count": 0}
        | {"message_model": "CLUSTERING", "violated_invariants": [], **lags}
        for number, lags in enumerate(figures)
    ]
    snapshot_ids = {GROUP_FACTS.name: warehouse.append(GROUP_FACTS, [rows_of(GROUP_FACTS, rows)])}
    for number in range(len(figures)):
        manifest = Manifest(
            cluster="demo",
            interval_start=minute(number),
            started_at=minute(number),
            finished_at=minute(number) + timedelta(seconds=1),
            requests=RequestCounts(),
            row_counts={},
            master_broker_names=("broker-a",),
        )
        warehouse.show(Interval(minute(number)), snapshot_ids, manifest_json=manifest.to_json())
    return warehouse


def replay(warehouse: Warehouse, *arguments: str | Path, first: int = 0, last: int = 6) -> Result:
    span = (minute(number).strftime("%Y-%m-%dT%H:%M:%S") for number in (first, last))
    options = [option for pair in zip(("--from", "--to"), span, strict=True) for option in pair]
    return run("replay", *options, *arguments, environment=warehouse.workspace.variables)


def test_findings_the_end_and_messages_are_told_in_their_order(warehouse: Warehouse) -> None:
    result = replay(warehouse, "--format", "json")
    assert result.exit_code == 1, result.output
    found = [one for one in json_lines(result) if one.get("consumer_group") == "billing" or one["what"] == "message"]
    assert Counter(one["what"] for one in found) == {"finding": 3, "message": 2, "resolved": 1}
    findings = [(one["interval_start"], one["opened"]) for one in found if one["what"] == "finding"]
    assert findings == [(minute(number).isoformat(), number == 1) for number in (1, 2, 3)]
    messages = [one for one in found if one["what"] == "message"]
    assert [(one["receiver"], one["reason"], one["interval_start"]) for one in messages] == [
        ("ops@example.org", "first", minute(1).isoformat()),
        ("ops@example.org", "all_resolved", minute(5).isoformat()),
    ]
    assert "nothing was sent" in result.stderr


def test_nothing_is_written(warehouse: Warehouse) -> None:
    files = (warehouse.workspace.home / "offsetguard.db", warehouse.workspace.catalog_file)
    warehouse.engine.dispose()
    before = [file.read_bytes() for file in files]
    replay(warehouse)
    assert [file.read_bytes() for file in files] == before


def test_rules_narrow_what_is_shown(warehouse: Warehouse) -> None:
    result = replay(warehouse, "--rules", "lock_not_released")
    assert (result.exit_code, result.stdout) == (0, "")


def test_other_limits_can_be_tried_out(warehouse: Warehouse, tmp_path: Path) -> None:
    other = tmp_path / "other.yml"
    other.write_text(CONFIG.replace("ops@example.org", "new@example.org"))
    found = json_lines(replay(warehouse, "--config", other, "--cluster", "demo"))
    assert {one["receiver"] for one in found if one["what"] == "message"} == {"new@example.org"}


def test_people_read_what_changes_and_when(warehouse: Warehouse) -> None:
    shown = replay(warehouse, "--format", "table").stdout.splitlines()
    assert [line.split("  ")[1].strip() for line in shown[:-1] if "billing" in line] == ["opened", "resolved"]
    assert sum("message" in line and "ops@example.org" in line for line in shown) == 2
    assert shown[-1].startswith("6 intervals: 3 findings, 1 incidents opened, 1 resolved, 2 messages")


@pytest.mark.parametrize("span", [(100, 200), (0, 0)])
def test_a_time_of_which_nothing_is_published_gives_2(warehouse: Warehouse, span: tuple[int, int]) -> None:
    result = replay(warehouse, first=span[0], last=span[1])
    assert (result.exit_code, result.stdout) == (2, "")
    said = " ".join(result.stderr.split())
    assert ("is published from" in said and "there are: from 2026-" in said) or "is not before --to" in said
