"""What a publication says: its steps while it works, a report at the end, and the row of its cycle for operators."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from py4j.protocol import Py4JNetworkError
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from offsetguard.config.workspace import ENDS_AT_VARIABLE
from offsetguard.model.intervals import Interval
from offsetguard.store import cycles
from offsetguard.store.models import CycleRow

_ERROR_LENGTH = 500
_ENDING = timedelta(seconds=5)  # Airflow began to count before the operator did


@dataclass(slots=True)
class Progress:
    """What a job says while it works: `say` gets one line at a time."""

    say: Callable[[str], None]
    seconds: dict[str, float] = field(default_factory=dict)
    current: str = ""

    @contextmanager
    def step(self, name: str, what: str) -> Iterator[None]:
        """Announce a step, and keep how long it took, in seconds."""
        self.current = name
        self.say(f"{name}: {what}")
        started = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - started, 2)


@dataclass(frozen=True, slots=True)
class PublishReport:
    """What became of an interval; one JSON line of the job."""

    cluster: str
    interval_start: str
    verdict: str  # "published" or "already published"
    run_id: str
    rows: dict[str, int] = field(default_factory=dict)  # table name -> rows written
    duplicates: int = 0  # landed rows that repeated a key
    quarantined: int = 0
    violations: dict[str, int] = field(default_factory=dict)  # invariant id -> violations, those above 0
    snapshot_ids: dict[str, int] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)  # table name -> data files of all intervals before the run
    seconds: dict[str, float] = field(default_factory=dict)


@contextmanager
def recorded_cycle(
    engine: Engine, cluster: str, interval: Interval, progress: Progress, now: datetime
) -> Iterator[list[PublishReport]]:
    """Keep a row of what happens within, also of an error, which goes on; none when no report is put into the list.

    A row that cannot be written is told and stops nothing: what was published is published.
    """
    began = time.monotonic()
    reports: list[PublishReport] = []

    def cycle() -> CycleRow:
        run_id = f"{interval.name}_{uuid.uuid4().hex[:12]}"
        ended = now + timedelta(seconds=time.monotonic() - began)
        return CycleRow(cluster, interval.start, run_id, now, ended, verdict=None, seconds=dict(progress.seconds))

    try:
        yield reports
    except BaseException as error:
        text = _what_ended_it(error, datetime.now(UTC))[:_ERROR_LENGTH]
        _record(engine, replace(cycle(), error=text, failed_step=progress.current or "start"), progress)
        raise
    for report in reports:
        published = replace(
            cycle(),
            run_id=report.run_id,
            verdict=report.verdict,
            rows=report.rows,
            files=report.files,
            violations=report.violations,
            duplicates=report.duplicates,
            quarantined=report.quarantined,
        )
        _record(engine, published, progress)


def _what_ended_it(error: BaseException, now: datetime) -> str:
    """Return an error's first line, behind the time-out of the task where it followed from that."""
    said = (str(error).strip() or type(error).__name__).splitlines()[0]
    ends_at = os.environ.get(ENDS_AT_VARIABLE)
    if ends_at and now >= datetime.fromisoformat(ends_at) - _ENDING:
        return f"ended by the time-out of its task ({said})"
    if isinstance(error, KeyboardInterrupt | Py4JNetworkError | ConnectionError):
        return f"ended from outside: its task was killed, or Spark's JVM is gone ({said})"
    return said


def _record(engine: Engine, cycle: CycleRow, progress: Progress) -> None:
    try:
        cycles.record(engine, cycle)
    except SQLAlchemyError as error:
        progress.say(f"the row of this cycle could not be written: {error}")
