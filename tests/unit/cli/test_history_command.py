"""`offsetguard history`: an operator sees how a consumer group was doing, without Spark."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from offsetguard.tables import GROUP_FACTS
from offsetguard_peers.command_line import json_lines, run
from offsetguard_peers.lake.warehouse import Warehouse, minute, rows_of

HOSTILE = "orders\x1b[2J"


@pytest.fixture
def history(tmp_path: Path) -> Callable[..., Result]:
    """Two intervals of a group in two topics; in the second one the lag is not known."""
    warehouse = Warehouse.in_folder(tmp_path, GROUP_FACTS)
    rows = [
        {"cluster": "demo", "consumer_group": "billing", "topic": topic, "interval_start": minute(number)}
        | {"lag": lag, "lag_ms": 90_500, "produce_tps": 0.5, "violated_invariants": ["OG-Q01"]}
        for topic in (HOSTILE, "%RETRY%billing")
        for number, lag in ((0, 1_234), (1, None))
    ]
    warehouse.show_minutes([0, 1], warehouse.append(GROUP_FACTS, [rows_of(GROUP_FACTS, rows)]))
    environment = warehouse.workspace.variables
    fixed = ("history", "--cluster", "demo", "--until", "2026-11-21T10:39:00Z", "--group")
    return lambda *arguments: run(*fixed, *arguments, environment=environment)


def test_json_has_a_line_per_interval_and_topic_and_unknown_is_null(history: Callable[..., Result]) -> None:
    lines = json_lines(history("billing", "--since", "7d", "--format", "json"))
    assert [(line["interval_start"], line["topic"], line["lag"]) for line in lines] == [
        (minute(0).isoformat(), "%RETRY%billing", 1_234),
        (minute(0).isoformat(), HOSTILE, 1_234),
        (minute(1).isoformat(), "%RETRY%billing", None),
        (minute(1).isoformat(), HOSTILE, None),
    ]
    assert {(line["cluster"], line["consumer_group"]) for line in lines} == {("demo", "billing")}
    assert lines[0]["violated_invariants"] == ["OG-Q01"]


def test_a_table_is_for_people_and_nothing_in_it_steers_the_terminal(history: Callable[..., Result]) -> None:
    shown = history("billing", "--topic", HOSTILE, "--columns", "lag,lag_ms,produce_tps", "--format", "table").stdout
    assert "\x1b" not in shown
    head, first, second = (line.split() for line in shown.splitlines())
    assert head == ["interval_start", "topic", "lag", "lag_ms", "produce_tps"]
    assert (first[-3:], second[-3:]) == (["1,234", "90,500", "0.50"], ["-", "90,500", "0.50"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["billing", "--topic", "x"], "Nothing was published of billing in x in cluster demo"),
        (["billing", "--since", "1h"], "Nothing was published of billing in cluster demo since 2026-11-21"),
    ],
)
def test_nothing_is_said_to_be_nothing(history: Callable[..., Result], arguments: list[str], said: str) -> None:
    result = history(*arguments, "--format", "table")
    assert result.exit_code == 0, result.output
    assert said in result.stdout


def test_a_misspelt_group_or_cluster_gets_a_suggestion(history: Callable[..., Result]) -> None:
    for arguments, said in (
        (["Billing"], "--group: there is no group 'Billing'; did you mean 'billing'?"),
        (["billing", "--cluster", "demmo"], "--cluster: there is no cluster 'demmo'; did you mean 'demo'?"),
    ):
        result = history(*arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert said in result.stderr
