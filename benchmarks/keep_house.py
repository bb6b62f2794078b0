"""10,000 cycles, about a week of minutes, with a housekeeping after each 60: what is left after each day.

    uv run python benchmarks/keep_house.py [--cycles 10000] [--rows 40]

Every cycle commits a file to a table and shows the interval, as a publication does, without Spark: the same catalog,
table, files and database. Its rows are kept for 2 days. Fails when something goes on growing: more files, snapshots or
manifests than the days that are kept and the hours of one account for.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from offsetguard.config import Retention
from offsetguard.config.workspace import Workspace
from offsetguard.lake.catalog import local_path
from offsetguard.lake.upkeep.clean import Housekeeper
from offsetguard.model.intervals import Interval
from offsetguard.tables import GROUP_SNAPSHOTS
from offsetguard_peers.lake.facts_warehouse import FactsWarehouse

RETENTION = Retention(snapshots_days=2)
MIDNIGHT = datetime(2026, 11, 16, tzinfo=UTC)
EVERY = 60  # cycles
AT_ONCE = timedelta(days=-100_000)  # cycles run faster than the clock: nothing would get old
DAYS, HOURS, SNAPSHOTS, MANIFESTS = 4, 24, 3, 3  # bounds: of the days kept, two are not whole


def main() -> int:
    """Run the cycles and print a line per day; 1 when a bound was passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cycles", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=40, help="rows per cycle")
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        workspace = Workspace(home, home / "offsetguard.yml", f"sqlite:///{home / 'offsetguard.db'}")
        return run(FactsWarehouse(workspace, (GROUP_SNAPSHOTS,)), parsed.cycles, parsed.rows)


def run(warehouse: FactsWarehouse, cycles: int, rows: int) -> int:
    """Publish and keep house in turn."""
    groups = [{"consumer_group": f"g-{number}", "system_group": False, "in_detail": False} for number in range(rows)]
    housekeeper = Housekeeper(
        warehouse.workspace, RETENTION, warehouse.engine, lambda line: None, keep_snapshots=AT_ONCE
    )
    print(
        f"{'cycles':>7} {'files':>6} {'snapshots':>9} {'manifests':>9} {'on disk':>8} {'MiB':>6} "
        f"{'metadata KiB':>12} {'cycle ms':>9} {'housekeeping s':>14}"
    )
    passed = False
    cycle_ms: list[float] = []
    keeping_s: list[float] = []
    for number in range(cycles):
        began = time.perf_counter()
        interval = Interval(MIDNIGHT + number * timedelta(minutes=1))
        warehouse.publish("demo", interval, {GROUP_SNAPSHOTS: groups})
        cycle_ms.append((time.perf_counter() - began) * 1000)
        if (number + 1) % EVERY and number + 1 != cycles:
            continue
        began = time.perf_counter()
        housekeeper.clean(now=interval.end + timedelta(minutes=31))
        keeping_s.append(time.perf_counter() - began)
        passed = tell(warehouse, number + 1, cycle_ms, keeping_s) or passed
    return int(passed)


def tell(warehouse: FactsWarehouse, cycles: int, cycle_ms: list[float], keeping_s: list[float]) -> bool:
    """Print what is there, once a day; returns whether a bound was passed."""
    iceberg_table = warehouse.iceberg_table(GROUP_SNAPSHOTS)
    head = iceberg_table.current_snapshot()
    if head is None or head.summary is None:
        raise LookupError("nothing was published")
    files = int(head.summary.additional_properties["total-data-files"])
    snapshots, manifests = len(iceberg_table.snapshots()), len(head.manifests(iceberg_table.io))
    bad = files > DAYS + HOURS or snapshots > SNAPSHOTS or manifests > MANIFESTS
    if bad or cycles % 1_440 == 0 or cycles == EVERY:
        on_disk = [path.stat().st_size for path in local_path(iceberg_table.location()).rglob("*") if path.is_file()]
        metadata = local_path(iceberg_table.metadata_location).stat().st_size / 1024
        print(
            f"{cycles:>7,} {files:>6} {snapshots:>9} {manifests:>9} {len(on_disk):>8} {sum(on_disk) / 2**20:>6.1f} "
            f"{metadata:>12.1f} {median(cycle_ms[-EVERY:]):>9.1f} {keeping_s[-1]:>14.2f}"
            + ("  TOO MANY" if bad else ""),
            flush=True,
        )
    return bad


if __name__ == "__main__":
    sys.exit(main())
