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
from offsetguard.store.locks import Lock
from offsetguard.store.models import CycleRow

_ERROR_LENGTH = 500


@dataclass(slots=True)
class Progress:
    """What a job says while it works: `say` gets one line at a time."""

    say: Callable[[str], None]
    seconds: dict[str, float] = field(default_factory=dict)
    current: str = ""
    on_step: Callable[[str], None] | None = None  # called with the name of each step before it is announced

    @contextmanager
    def step(self, name: str, what: str) -> Iterator[None]:
        """Announce a step, and keep how long it took, in seconds."""
        self.current = name
        if self.on_step is not None:
            self.on_step(name)
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


@dataclass(slots=True)
class RecordedCycle:
    """The row of one publication; what cannot be written of it is told and stops nothing."""

    engine: Engine
    progress: Progress
    row: CycleRow
    clock_at_start: float = field(default_factory=time.monotonic)
    forgotten: bool = False

    @property
    def run_id(self) -> str:
        """The name of the run, and of its branches."""
        return self.row.run_id

    def begin(self, lock: Lock) -> None:
        """Write it down, and each step from here on: it is found whatever ends the process."""
        self.row.running_under = lock.token
        self._write(cycles.begin)
        self.progress.on_step = self._step_began

    def published(self, report: PublishReport) -> None:
        """Write down that it has published."""
        of_report = ("verdict", "rows", "files", "violations", "duplicates", "quarantined")
        for name in of_report:
            setattr(self.row, name, getattr(report, name))
        self._end(failed_step=None)

    def failed(self, error: str) -> None:
        """Write down why it has failed."""
        self.row.error = error[:_ERROR_LENGTH]
        self._end(failed_step=self.progress.current or "start")

    def forget(self) -> None:
        """There was nothing to do: no row is kept."""
        self.forgotten = True
        self._write(cycles.forget)

    def _step_began(self, name: str) -> None:
        self.row.failed_step = name
        self._write(cycles.record)

    def _end(self, *, failed_step: str | None) -> None:
        self.row.failed_step, self.row.running_under = failed_step, None
        self._write(cycles.record)

    def _write(self, how: Callable[[Engine, CycleRow], None]) -> None:
        self.row.finished_at = self.row.started_at + timedelta(seconds=time.monotonic() - self.clock_at_start)
        self.row.seconds = dict(self.progress.seconds)
        try:
            how(self.engine, replace(self.row))
        except SQLAlchemyError as error:
            self.progress.say(f"the row of this cycle could not be written: {error}")


@contextmanager
def recorded_cycle(
    engine: Engine, cluster: str, interval: Interval, progress: Progress, now: datetime
) -> Iterator[RecordedCycle]:
    """Keep a row of what happens within, also of an error, which goes on; `begin` is called once it is its turn."""
    cycle = RecordedCycle(engine, progress, CycleRow(cluster, interval.start, run_name(interval.name), now, now, None))
    try:
        yield cycle
    except BaseException as error:
        if cycle.row.verdict is None and not cycle.forgotten:
            cycle.failed(_what_ended_it(error, datetime.now(UTC)))
        raise
    finally:
        progress.on_step = None


def run_name(kind: str) -> str:
    """Return the name of a new run, and of its branches."""
    return f"{kind}_{uuid.uuid4().hex[:12]}"


def _what_ended_it(error: BaseException, now: datetime) -> str:
    """Return an error's first line, behind the time-out of the task where it followed from that."""
    said = (str(error).strip() or type(error).__name__).splitlines()[0]
    ends_at = os.environ.get(ENDS_AT_VARIABLE)
    if ends_at and now >= datetime.fromisoformat(ends_at):
        return f"ended by the time-out of its task ({said})"
    if isinstance(error, KeyboardInterrupt | Py4JNetworkError | ConnectionError):
        return f"ended from outside: its task was killed, or Spark's JVM is gone ({said})"
    return said
