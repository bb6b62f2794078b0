"""The metrics of a cycle and of a housekeeping: one list, from which they are sent and docs/operations.md is made."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from offsetguard.lake.upkeep.clean import HousekeepingReport
from offsetguard.store.models import CycleRow


class MetricKind(StrEnum):
    """How a metric is to be read."""

    COUNTER = "counter"  # grows by each value
    GAUGE = "gauge"  # the newest value counts
    TIMING = "timing"  # milliseconds


@dataclass(frozen=True, slots=True)
class Metric:
    """What a metric is called; Airflow puts its own prefix before it."""

    name: str
    kind: MetricKind
    tags: tuple[str, ...]
    meaning: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """One value of a metric."""

    metric: Metric
    value: float
    tags: Mapping[str, str]

    @property
    def dotted_name(self) -> str:
        """The name for receivers that know no tags: their values are its last parts, as in Airflow's older names."""
        return ".".join((self.metric.name, *(self.tags[tag].replace(".", "__") for tag in self.metric.tags)))


_C, _G, _T = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.TIMING
_CLUSTER = ("cluster",)
PUBLISHED = Metric("offsetguard.cycle.published", _C, _CLUSTER, "cycles that published an interval")
FAILED = Metric("offsetguard.cycle.failed", _C, ("cluster", "step"), "cycles that ended with an error, by the step")
DURATION = Metric("offsetguard.cycle.duration", _T, _CLUSTER, "one cycle from start to end, waiting included")
STEP = Metric("offsetguard.cycle.step_duration", _T, ("cluster", "step"), "one step of a cycle")
ROWS = Metric("offsetguard.cycle.rows", _G, ("cluster", "table"), "rows of the interval in a table")
FILES = Metric("offsetguard.cycle.files", _G, ("table",), "data files of a table, all intervals and clusters")
VIOLATIONS = Metric(
    "offsetguard.cycle.violations",
    _G,
    ("cluster", "invariant"),
    "rows that violate an invariant; see docs/invariants.md",
)
ALL_VIOLATIONS = Metric("offsetguard.cycle.violations_total", _G, _CLUSTER, "rows that violate any invariant")
QUARANTINED = Metric("offsetguard.cycle.quarantined", _G, _CLUSTER, "rows left out of the facts")
DUPLICATES = Metric("offsetguard.cycle.duplicates", _G, _CLUSTER, "landed rows that repeated a key")
KEPT_FILES = Metric("offsetguard.housekeeping.files", _G, ("table",), "data files of a table afterwards")
KEPT_SNAPSHOTS = Metric("offsetguard.housekeeping.snapshots", _G, ("table",), "Iceberg snapshots of a table afterwards")
PACKED = Metric("offsetguard.housekeeping.packed_files", _C, ("table",), "small files that became few")
DELETED = Metric("offsetguard.housekeeping.deleted_files", _C, ("table",), "files that nobody needs any more")
NEVER_SHOWN = Metric(
    "offsetguard.housekeeping.never_shown", _G, (), "intervals with rows of a killed run: recompute them"
)

METRICS = tuple(one for one in list(globals().values()) if isinstance(one, Metric))


def of_cycle(cycle: CycleRow) -> Iterator[Measurement]:
    """Yield what a cycle tells; what it did not reach is not told, never as 0."""
    own = {"cluster": cycle.cluster}
    yield Measurement(DURATION, cycle.duration_s * 1000, own)
    for step, seconds in cycle.seconds.items():
        yield Measurement(STEP, seconds * 1000, own | {"step": step})
    if cycle.failed:
        yield Measurement(FAILED, 1, own | {"step": cycle.failed_step or "start"})
        return
    yield Measurement(PUBLISHED, 1, own)
    for table, count in cycle.rows.items():
        yield Measurement(ROWS, count, own | {"table": table})
    for table, count in cycle.files.items():
        yield Measurement(FILES, count, {"table": table})
    for invariant, count in cycle.violations.items():
        yield Measurement(VIOLATIONS, count, own | {"invariant": invariant})
    yield Measurement(ALL_VIOLATIONS, sum(cycle.violations.values()), own)
    for metric, figure in ((QUARANTINED, cycle.quarantined), (DUPLICATES, cycle.duplicates)):
        if figure is not None:
            yield Measurement(metric, figure, own)


def of_housekeeping(report: HousekeepingReport) -> Iterator[Measurement]:
    """Yield what a housekeeping tells."""
    for table, of_table in report.tables.items():
        deleted = of_table.aged_files + of_table.expired_files + of_table.orphan_files
        figures = (
            (KEPT_FILES, of_table.files),
            (KEPT_SNAPSHOTS, of_table.snapshots),
            (PACKED, of_table.packed_files),
            (DELETED, deleted),
        )
        for metric, figure in figures:
            yield Measurement(metric, figure, {"table": table})
    yield Measurement(NEVER_SHOWN, report.never_shown, {})


def metrics_table() -> str:
    """Return the table of docs/operations.md."""
    lines = ["| metric | kind | tags | meaning |", "|---|---|---|---|"]
    for metric in METRICS:
        tags = ", ".join(f"`{tag}`" for tag in metric.tags) or "none"
        unit = ", ms" if metric.kind is MetricKind.TIMING else ""
        lines.append(f"| `{metric.name}` | {metric.kind.value}{unit} | {tags} | {metric.meaning} |")
    return "\n".join(lines)
