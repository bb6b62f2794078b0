"""`offsetguard history`: an operator sees how a consumer group was doing, without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from offsetguard.cli.main import offsetguard
from offsetguard.tables import GROUP_FACTS
from offsetguard_peers.lake.warehouse import Warehouse, minute, rows_of

HOSTILE = "orders\x1b[2J"


@pytest.fixture
def history(tmp_path: Path) -> Callable[..., Result]:
    """Two intervals of a group in two topics; in the second one the lag is not known."""
    warehouse = Warehouse.in_folder(tmp_path)
    rows = [
        {"cluster": "demo", "consumer_group": "billing", "topic": topic, "interval_start": minute(number)}
        | {"lag": lag, "lag_ms": 90_500, "produce_tps": 0.5, "violated_invariants": ["OG-Q01"]}
        for topic in (HOSTILE, "%RETRY%billing")
        for number, lag in ((0, 1_234), (1, None))
    ]
    warehouse.publish([0, 1], warehouse.append(rows_of(GROUP_FACTS, rows)))
    environment = {
        "OFFSETGUARD_HOME": str(warehouse.workspace.home),
        "OFFSETGUARD_DATABASE_URL": warehouse.workspace.database_url,
    }

    def run(*arguments: str) -> Result:
        fixed = ["history", "--cluster", "demo", "--until", "2026-11-21T10:39:00Z", *arguments]
        return CliRunner().invoke(offsetguard, fixed, env=environment)

    return run


def test_json_has_a_line_per_interval_and_topic_and_unknown_is_null(history) -> None:
    result = history("--group", "billing", "--since", "7d", "--format", "json")
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(line["interval_start"], line["topic"], line["lag"]) for line in lines] == [
        (minute(0).isoformat(), "%RETRY%billing", 1_234),
        (minute(0).isoformat(), HOSTILE, 1_234),
        (minute(1).isoformat(), "%RETRY%billing", None),
        (minute(1).isoformat(), HOSTILE, None),
    ]
    assert {line["cluster"] for line in lines} == {"demo"}
    assert {line["consumer_group"] for line in lines} == {"billing"}
    assert lines[0]["violated_invariants"] == ["OG-Q01"]


def test_a_table_is_for_people_and_nothing_in_it_steers_the_terminal(history) -> None:
    result = history(
        "--group", "billing", "--topic", HOSTILE, "--columns", "lag,lag_ms,produce_tps", "--format", "table"
    )
    assert "\x1b" not in result.stdout
    head, first, second = result.stdout.splitlines()
    assert head.split() == ["interval_start", "topic", "lag", "lag_ms", "produce_tps"]
    assert first.split()[-3:] == ["1,234", "90,500", "0.50"]
    assert second.split()[-3:] == ["-", "90,500", "0.50"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--group", "Billing"], "Nothing was published of Billing in cluster demo since 2026-11-14 10:39:00 UTC."),
        (["--group", "billing", "--topic", "x"], "Nothing was published of billing in x in cluster demo"),
        (["--group", "billing", "--since", "1h"], "Nothing was published of billing in cluster demo since 2026-11-21"),
    ],
)
def test_nothing_is_said_to_be_nothing(history, arguments, said) -> None:
    result = history(*arguments, "--format", "table")
    assert result.exit_code == 0, result.output
    assert said in result.stdout


def test_a_wrong_column_is_answered_with_those_that_come_close(history) -> None:
    result = history("--group", "billing", "--columns", "lag,efective_lag")
    assert result.exit_code == 2
    assert "group_facts has no column 'efective_lag'; effective_lag" in result.output
