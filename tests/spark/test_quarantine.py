"""Rows in quarantine are shown with their reasons, and judged again after a fix: what is sound comes back."""

import json
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from click.testing import CliRunner

from offsetguard.cli.quarantine import Wanted, intervals_to_redrive, quarantine, quarantined_rows
from offsetguard.config.workspace import Workspace
from offsetguard.lake.reading import FactReader
from offsetguard.model.intervals import Interval
from offsetguard.tables import QUEUE_SNAPSHOTS
from offsetguard_expectations.invariants import ROW_INVARIANTS
from offsetguard_spark.jobs import redrive_intervals as redrive
from offsetguard_spark.publish import Publisher

NOW = datetime(2026, 11, 21, 10, 41, tzinfo=UTC)
VERSIONS = {one.id: one.rule_version for one in ROW_INVARIANTS}


@dataclass
class CommandLine:
    """`offsetguard quarantine` on one workspace."""

    workspace: Workspace
    start: datetime

    def __call__(self, *arguments: str) -> str:
        span = ["--since", self.start.isoformat(), "--until", NOW.isoformat(), "--cluster", "demo"]
        done = CliRunner().invoke(quarantine, [*arguments, *span], env=self.workspace.variables, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    def rows(self, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self("list", "--format", "json", *arguments).splitlines()]


def test_rows_are_shown_with_their_reasons_and_come_back_once_they_are_sound(
    new_publisher, workspace, snapshot
) -> None:
    """One of two corrupt rows is repaired; the interval is published again, and only the other one stays."""
    publisher = new_publisher(workspace)
    show = CommandLine(workspace, snapshot.interval.start)
    snapshot.broker()
    snapshot.topic("orders")
    snapshot.group("billing")
    snapshot.topic_queue("orders", 0, 0, 100)
    repaired = snapshot.queue("billing", "orders", 0, (0, -5, 100))
    snapshot.queue("billing", "orders", 1, (0, 5, 100), last_timestamp=NOW + timedelta(days=300))
    snapshot.add("undecodable_records", source="events", position=1, reason="\x1b[2Jnot JSON", body_base64="")
    folder = snapshot.land(workspace)
    first = publisher.publish("demo", snapshot.interval, now=NOW)

    rows = show.rows()
    assert [(row["table"], row["invariant"], row["row_key"]) for row in rows] == [
        ("queue_snapshots", "OG-Q11", "broker-a orders 0 billing"),
        ("queue_snapshots", "OG-Q13", "broker-a orders 1 billing"),
        ("undecodable_records", "UNDECODABLE", "events 1"),
    ]
    assert rows[0]["reason"] == "billing in orders broker-a/0: min 0, consumer -5, pull unknown, max 100"
    assert (rows[0]["row"]["consumer_offset"], rows[0]["run_id"]) == (-5, first.run_id)
    assert [row["rule_version"] for row in rows[:2]] == [VERSIONS["OG-Q11"], VERSIONS["OG-Q13"]]
    assert [row["row_key"] for row in show.rows("--invariant", "OG-Q13")] == ["broker-a orders 1 billing"]
    text = show("list", "--format", "table", "--limit", "1", "--table", "queue_snapshots")
    assert "queue_snapshots  OG-Q11: billing in orders broker-a/0" in text
    assert "and 1 more: --limit 2" in text
    assert "\x1b" not in show("list", "--format", "table")
    assert show("redrive", "--dry-run").splitlines() == [
        "3 reasons in 1 intervals that can be judged again",
        f"  {snapshot.interval.name}",
    ]

    history = (workspace.data_docs_folder / "demo" / "history" / "OG-Q13.html").read_text(encoding="utf-8")
    assert "violated in 1 of 1 interval, at most 1 row at once" in " ".join(history.split())

    repaired["consumer_offset"] = 5
    shutil.rmtree(folder)
    snapshot.land(workspace)
    report = redrive(publisher, "demo", _intervals(publisher, snapshot.interval), now=NOW)
    assert (report.recomputed, report.failed, report.left_out) == (1, {}, {})
    left = show.rows("--table", "queue_snapshots")
    assert [(row["invariant"], row["run_id"] != first.run_id) for row in left] == [("OG-Q13", True)]
    reader = FactReader(workspace, publisher.engine)
    written = reader.interval(QUEUE_SNAPSHOTS, "demo", snapshot.interval).to_pylist()
    assert [(row["queue_id"], row["consumer_offset"]) for row in written] == [(0, 5)]

    shutil.rmtree(folder)
    gone = redrive(publisher, "demo", _intervals(publisher, snapshot.interval), now=NOW)
    assert (gone.recomputed, list(gone.left_out.values())) == (0, [1])
    assert show.rows("--table", "queue_snapshots") == left


def _intervals(publisher: Publisher, interval: Interval) -> list[Interval]:
    reader = FactReader(publisher.workspace, publisher.engine)
    return intervals_to_redrive(quarantined_rows(reader, Wanted("demo", interval.start, NOW)))
