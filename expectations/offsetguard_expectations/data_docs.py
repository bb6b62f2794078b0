"""The Data Docs of a cluster: what one run found, its page, the folder of all, and the history of each invariant.

What it found is records, made from Great Expectations' results.

A page says what is violated, where, and what to do, readable in ten seconds and without a network: one self-contained
HTML file, no script, no font, nothing fetched. All text goes through Jinja's autoescape: names of groups, topics and
brokers are whatever their owners typed.

The folder has a page per interval, `index.html`, a copy of the newest, and `runs.json`: which invariants each of the
newest runs flagged, for the strip of links. A reader never sees half a page: every file is replaced as a whole. Nothing
is listed: a page goes when its day is over, by its name. The history of each invariant, its violations over the last
day, is read from `invariant_results` without Spark, and made every ten minutes (and when there is none yet): a day has
1,440 runs.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import groupby
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from offsetguard.config.object_store import make_folder, read_bytes
from offsetguard.config.workspace import replace_text
from offsetguard.lake.reading import FactReader
from offsetguard.model.intervals import INTERVAL_LENGTH, Interval
from offsetguard.tables import INVARIANT_RESULTS, MANIFEST, Table
from offsetguard_expectations.invariant import ViolationMeans
from offsetguard_expectations.invariants import ALL, Check


@dataclass(frozen=True, slots=True)
class Count:
    """The result of one expectation."""

    checked: int  # rows that it speaks about; of an agreement 1, or 0 where nothing can be compared
    violations: int  # rows among them that violate it


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that was evaluated. Tables that were not validated have no rows of the interval."""

    counts: dict[tuple[str, str], Count] = field(default_factory=dict)  # by the table that was looked at, and id
    figures: dict[str, int | None] = field(default_factory=dict)  # by name; None: it cannot be compared with another
    not_checked: dict[str, str] = field(default_factory=dict)  # id of an invariant, or name of a figure -> why

    def count(self, table_name: str, id_: str) -> Count:
        """Return an expectation's counts."""
        return self.counts.get((table_name, id_), Count(0, 0))


_WORST_FIRST = (ViolationMeans.DEFECT, ViolationMeans.TROUBLE, ViolationMeans.CORRUPT)


class Verdict(StrEnum):
    """What became of an invariant in one run."""

    HOLDS = "holds"
    VIOLATED = "violated"
    NO_ROWS = "no rows"  # nothing that it speaks about: neither good nor bad
    NOT_CHECKED = "not checked"  # no result arrived, or the check failed: never shown as good


@dataclass(frozen=True, slots=True)
class InvariantOutcome:
    """One invariant in one run."""

    invariant: Check
    rows_checked: int
    violations: int
    examples: tuple[str, ...]  # the first violating rows
    not_checked_because: str | None = None

    @property
    def verdict(self) -> Verdict:
        """The worst that can be said."""
        if self.not_checked_because is not None:
            return Verdict.NOT_CHECKED
        if self.violations:
            return Verdict.VIOLATED
        return Verdict.HOLDS if self.rows_checked else Verdict.NO_ROWS

    @property
    def unlisted_violations(self) -> int:
        """How many violating rows are not among the examples."""
        return max(0, self.violations - len(self.examples))


@dataclass(frozen=True, slots=True)
class RunReport:
    """All invariants of one cluster and interval."""

    cluster: str
    interval: Interval
    outcomes: tuple[InvariantOutcome, ...]
    not_published_because: tuple[str, ...] = ()  # what the gate found that keeps readers from the interval

    @property
    def violated(self) -> tuple[InvariantOutcome, ...]:
        """The violated invariants: our own defects, then trouble of the cluster by severity, then corrupt rows."""
        violated = [outcome for outcome in self.outcomes if outcome.verdict is Verdict.VIOLATED]
        return tuple(sorted(violated, key=_urgency))

    @property
    def not_checked(self) -> tuple[InvariantOutcome, ...]:
        """The invariants of which nothing is known."""
        return tuple(outcome for outcome in self.outcomes if outcome.verdict is Verdict.NOT_CHECKED)

    @property
    def without_rows(self) -> tuple[InvariantOutcome, ...]:
        """The invariants that had nothing to check."""
        return tuple(outcome for outcome in self.outcomes if outcome.verdict is Verdict.NO_ROWS)

    @property
    def nothing_seen(self) -> bool:
        """Nothing but the manifest was there to be checked: the snapshot is empty, which is no good news."""
        return all(
            outcome.verdict is Verdict.NO_ROWS for outcome in self.outcomes if outcome.invariant.table != MANIFEST
        )

    @property
    def success(self) -> bool:
        """Every invariant was checked, none is violated, there were rows at all, and readers may see them."""
        return not (self.violated or self.not_checked or self.nothing_seen or self.not_published_because)

    def by_table(self) -> Iterator[tuple[Table, tuple[InvariantOutcome, ...]]]:
        """Yield each table with its invariants, in the order of the suite."""
        for table, outcomes in groupby(self.outcomes, key=lambda outcome: outcome.invariant.table):
            yield table, tuple(outcomes)


def _urgency(outcome: InvariantOutcome) -> tuple[int, int]:
    return _WORST_FIRST.index(outcome.invariant.violation_means), -outcome.invariant.severity.rank


NOTHING_SEEN = "nothing-seen"
KEPT_RUNS = 1440  # one day of minutes: a warning's link still works the next morning
LINKED_RUNS = 60
RUNS_FILE_NAME = "runs.json"  # by the interval's name the ids that a run flagged, oldest first
SPAN = timedelta(hours=24)
HISTORY_FOLDER = "history"
LISTED = 30  # intervals with violations, the newest ones
_BUCKET = timedelta(minutes=10)
_MADE_EVERY_MIN = 10
_HEIGHT = 120  # of the picture, without its axis
_COLUMNS = ("interval_start", "invariant_id", "rows_checked", "violations")


@dataclass(frozen=True, slots=True)
class RecentRun:
    """An earlier run, for the strip of links."""

    interval: Interval
    flagged_ids: tuple[str, ...]  # violated or not checked, or NOTHING_SEEN


def render_run_page(report: RunReport, recent_runs: Sequence[RecentRun] = ()) -> str:
    """Return the HTML of a run; `recent_runs` are linked, oldest first."""
    this_run = RecentRun(report.interval, flagged_ids(report))
    runs = sorted(
        (*(run for run in recent_runs if run.interval != report.interval), this_run), key=lambda run: run.interval
    )
    return ENVIRONMENT.get_template("run.html.j2").render(report=report, this_run=this_run, runs=runs)


def flagged_ids(report: RunReport) -> tuple[str, ...]:
    """Return the ids that keep a run from being good."""
    if report.nothing_seen:
        return (NOTHING_SEEN,)
    return tuple(outcome.invariant.id for outcome in (*report.violated, *report.not_checked))


def _count(number: int, noun: str = "") -> str:
    """1234, "row" -> '1,234 rows'."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}" if noun else f"{number:,}"


def _prose(text: str) -> Markup:
    """Escape a text and set what stands between backticks as code."""
    parts = (escape(part) for part in text.split("`"))
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


ENVIRONMENT = Environment(
    loader=PackageLoader("offsetguard_expectations"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
ENVIRONMENT.filters["count"] = _count
ENVIRONMENT.filters["prose"] = _prose


def publish_run(cluster_folder: Path, report: RunReport, *, kept_runs: int = KEPT_RUNS) -> Path:
    """Put a run's page in its place, renew `index.html` if it is the newest, and drop those whose day is over.

    Returns the path of `index.html`. The page of a repeated run replaces the former one.
    """
    make_folder(cluster_folder)
    before = recent_runs(cluster_folder)
    html, interval = render_run_page(report, before[-LINKED_RUNS:]), report.interval
    newest = max((interval, *(run.interval for run in before)), key=lambda one: one.start)
    index, oldest = cluster_folder / "index.html", newest.start - INTERVAL_LENGTH * kept_runs
    if interval.start > oldest:  # a page of a backfill of last month would be nobody's to delete
        replace_text(cluster_folder / f"{interval.name}.html", html)
    if interval == newest:
        replace_text(index, html)
        for start in _starts_between(before[-1].interval.start if before else interval.start, interval.start):
            gone = Interval(start - INTERVAL_LENGTH * kept_runs)
            (cluster_folder / f"{gone.name}.html").unlink(missing_ok=True)
    runs = {run.interval.name: run.flagged_ids for run in before} | {interval.name: flagged_ids(report)}
    kept = sorted(runs)[-LINKED_RUNS:]
    replace_text(cluster_folder / RUNS_FILE_NAME, json.dumps({name: runs[name] for name in kept}))
    return index


def recent_runs(cluster_folder: Path) -> tuple[RecentRun, ...]:
    """Return the newest runs, oldest first."""
    try:
        runs = json.loads(read_bytes(cluster_folder / RUNS_FILE_NAME))
    except FileNotFoundError:
        return ()
    return tuple(RecentRun(Interval.from_name(name), tuple(ids)) for name, ids in runs.items())


def _starts_between(after: datetime, until: datetime) -> list[datetime]:
    """Return the starts of the intervals in (after, until], but of no more than a day: that is how long pages stay."""
    count = min((until - after) // INTERVAL_LENGTH, KEPT_RUNS)
    return [until - INTERVAL_LENGTH * number for number in range(count)]


@dataclass(frozen=True, slots=True)
class Moment:
    """What an invariant found in one interval."""

    interval: Interval
    rows_checked: int
    violations: int


@dataclass(frozen=True, slots=True)
class Bar:
    """Ten minutes: the most violations of one of their intervals. None: no interval was published in them."""

    start: datetime
    violations: int | None
    height: float  # 0 to _HEIGHT


def is_due(cluster_folder: Path, interval: Interval) -> bool:
    """Whether a run has to make the pages: the first of ten minutes, or there are none."""
    return interval.start.minute % _MADE_EVERY_MIN == 0 or not (cluster_folder / HISTORY_FOLDER).is_dir()


def publish_history(reader: FactReader, cluster: str, newest: Interval, data_docs_folder: Path) -> int:
    """Write the page of every invariant below `<data_docs_folder>/<cluster>/history/`; returns how many.

    `newest`: the last interval that is shown. Raises PublishError when the results cannot be read.
    """
    until = newest.end
    found = reader.history(INVARIANT_RESULTS, cluster, until - SPAN, until, columns=_COLUMNS)
    moments: dict[str, list[Moment]] = defaultdict(list)
    for row in found.select(list(_COLUMNS)).to_pylist():
        moment = Moment(Interval(row["interval_start"]), row["rows_checked"], row["violations"])
        moments[row["invariant_id"]].append(moment)
    folder = data_docs_folder / cluster / HISTORY_FOLDER
    make_folder(folder)
    for check in ALL:
        replace_text(folder / f"{check.id}.html", render_history_page(check, cluster, moments[check.id], until))
    return len(ALL)


def render_history_page(check: Check, cluster: str, moments: Sequence[Moment], until: datetime) -> str:
    """Return the HTML of one invariant's last day; `moments` oldest first."""
    violated = [moment for moment in moments if moment.violations]
    return ENVIRONMENT.get_template("history.html.j2").render(
        check=check,
        cluster=cluster,
        until=until,
        since=until - SPAN,
        moments=moments,
        violated=violated[::-1],
        listed=LISTED,
        bars=bars(moments, until),
        height=_HEIGHT,
        most=max((moment.violations for moment in violated), default=0),
    )


def bars(moments: Sequence[Moment], until: datetime) -> list[Bar]:
    """Return the span in steps of ten minutes, oldest first."""
    first = until - SPAN
    most = max((moment.violations for moment in moments), default=0) or 1
    steps = {
        step: max(moment.violations for moment in group)
        for step, group in groupby(moments, key=lambda moment: (moment.interval.start - first) // _BUCKET)
    }
    return [
        Bar(
            first + step * _BUCKET,
            steps.get(step),
            0 if not steps.get(step) else max(3.0, round(_HEIGHT * steps[step] / most, 1)),
        )
        for step in range(SPAN // _BUCKET)
    ]
