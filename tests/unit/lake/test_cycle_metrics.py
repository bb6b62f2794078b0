"""What a cycle and a housekeeping tell as metrics, and that the documentation names each of them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from offsetguard.lake.cycle_metrics import METRICS, metrics_table, of_cycle, of_housekeeping
from offsetguard.lake.upkeep.clean import HousekeepingReport, TableReport
from offsetguard.store.models import CycleRow

START = datetime(2026, 11, 21, 10, 40, tzinfo=UTC)
CYCLE = CycleRow(
    "prod.eu",
    START,
    "run",
    START,
    START + timedelta(seconds=2.5),
    "published",
    seconds={"write": 1.25},
    rows={"queue_facts": 3},
    files={"queue_facts": 17},
    violations={"OG-Q01": 2},
    duplicates=0,
    quarantined=4,
)


def told(cycle: CycleRow) -> dict[str, float]:
    return {one.dotted_name: one.value for one in of_cycle(cycle)}


def test_a_cycle_tells_rows_violations_durations_and_files() -> None:
    assert told(CYCLE) == {
        "offsetguard.cycle.duration.prod__eu": 2500,
        "offsetguard.cycle.step_duration.prod__eu.write": 1250,
        "offsetguard.cycle.published.prod__eu": 1,
        "offsetguard.cycle.rows.prod__eu.queue_facts": 3,
        "offsetguard.cycle.files.queue_facts": 17,
        "offsetguard.cycle.violations.prod__eu.OG-Q01": 2,
        "offsetguard.cycle.violations_total.prod__eu": 2,
        "offsetguard.cycle.quarantined.prod__eu": 4,
        "offsetguard.cycle.duplicates.prod__eu": 0,
    }


def test_a_failed_cycle_tells_its_step_and_nothing_that_it_does_not_know() -> None:
    failed = replace(CYCLE, verdict=None, failed_step="gate", error="x", rows={}, files={}, quarantined=None)
    assert set(told(failed)) == {
        "offsetguard.cycle.duration.prod__eu",
        "offsetguard.cycle.step_duration.prod__eu.write",
        "offsetguard.cycle.failed.prod__eu.gate",
    }


def test_every_measurement_has_the_tags_that_its_metric_names() -> None:
    report = HousekeepingReport({"queue_facts": TableReport(4, 2, 1, 30, 29, 87, 0)}, never_shown=1)
    measurements = [*of_cycle(CYCLE), *of_housekeeping(report)]
    assert all(set(one.tags) == set(one.metric.tags) for one in measurements)
    assert {one.metric.name: one.value for one in of_housekeeping(report)} == {
        "offsetguard.housekeeping.files": 4,
        "offsetguard.housekeeping.snapshots": 2,
        "offsetguard.housekeeping.packed_files": 30,
        "offsetguard.housekeeping.deleted_files": 88,
        "offsetguard.housekeeping.never_shown": 1,
    }


def test_the_page_for_operators_has_the_table_of_the_metrics() -> None:
    page = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
    assert metrics_table() in page, (
        "put the output of offsetguard.lake.cycle_metrics.metrics_table() into docs/operations.md"
    )
    assert len({metric.name for metric in METRICS}) == len(METRICS)
