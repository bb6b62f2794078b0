"""`offsetguard quarantine`: rows that were left out, and invariants by their names."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from offsetguard.model.intervals import Interval
from offsetguard.tables import INVARIANT_RESULTS, QUARANTINE
from offsetguard_peers.command_line import json_lines, run
from offsetguard_peers.lake.warehouse import Warehouse, minute

Listed = Callable[..., Result]


@pytest.fixture
def listed(tmp_path: Path) -> Listed:
    """Publish a minute that was checked for two invariants, of which a row breaks one."""
    warehouse = Warehouse.in_folder(tmp_path, INVARIANT_RESULTS, QUARANTINE)
    rows = {
        INVARIANT_RESULTS: [{"invariant_id": "OG-Q11"}, {"invariant_id": "OG-Q13"}],
        QUARANTINE: [{"table_name": "queue_snapshots", "invariant_id": "OG-Q13", "row_json": "{}", "reason": "wrong"}],
    }
    warehouse.publish("demo", Interval(minute(0)), rows)
    span = ("--since", minute(0).isoformat(), "--until", minute(1).isoformat())
    return lambda *more: run(
        "quarantine", "list", "--cluster", "demo", *span, *more, environment=warehouse.workspace.variables
    )


def test_rows_are_listed_by_invariant(listed: Listed) -> None:
    (line,) = json_lines(listed("--format", "json", "--invariant", "OG-Q13"))
    assert (line["table"], line["invariant"], line["reason"]) == ("queue_snapshots", "OG-Q13", "wrong")
    for none_breaks in ("OG-Q11", "UNDECODABLE"):
        nothing = listed("--format", "table", "--invariant", none_breaks)
        assert (nothing.exit_code, nothing.stdout) == (0, "Nothing is in quarantine.\n")


def test_an_invariant_that_nobody_checks_is_refused(listed: Listed) -> None:
    refused = listed("--invariant", "OG-Q31")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--invariant: there is no invariant 'OG-Q31'; did you mean 'OG-Q1" in " ".join(refused.stderr.split())
