"""The history page of each invariant: its violations over the last day, read from `invariant_results` without Spark.

Made every ten minutes (and when there are none yet), not with every run: a day has 1,440 of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path

from offsetguard.lake.reading import FactReader
from offsetguard.model.intervals import Interval
from offsetguard.tables import INVARIANT_RESULTS
from offsetguard_expectations.invariants import ALL, Check
from offsetguard_expectations.run_page import ENVIRONMENT
from offsetguard_expectations.site import replace_file

SPAN = timedelta(hours=24)
FOLDER = "history"
LISTED = 30  # intervals with violations, the newest ones
_BUCKET = timedelta(minutes=10)
_MADE_EVERY_MIN = 10
_HEIGHT = 120  # of the picture, without its axis
_COLUMNS = ("interval_start", "invariant_id", "rows_checked", "violations")


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
    return interval.start.minute % _MADE_EVERY_MIN == 0 or not (cluster_folder / FOLDER).is_dir()


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
    folder = data_docs_folder / cluster / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for check in ALL:
        replace_file(folder / f"{check.id}.html", render_history_page(check, cluster, moments[check.id], until))
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
