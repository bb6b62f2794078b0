"""What a publication says: its steps while it works, a report at the end, and the row of its cycle for operators."""

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from py4j.protocol import Py4JNetworkError
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from offsetguard.config.workspace import ENDS_AT_VARIABLE
from offsetguard.model.errors import OffsetGuardError
from offsetguard.model.intervals import Minute
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
class Publication:
    """What became of each interval of each cluster that was asked for."""

    done: dict[Minute, PublishReport] = field(default_factory=dict)
    failed: dict[Minute, OffsetGuardError] = field(default_factory=dict)  # why; readers keep what they have


@dataclass(slots=True)
class RecordedCycles:
    """The rows of one publication, one of each interval of a cluster; what cannot be written of them stops nothing."""

    engine: Engine
    progress: Progress
    run_id: str  # the name of the run, and of its branches
    unfinished: dict[Minute, CycleRow]
    clock_at_start: float = field(default_factory=time.monotonic)

    def begin(self, lock: Lock) -> None:
        """Write them down, and each step from here on: they are found whatever ends the process."""
        for row in self.unfinished.values():
            row.running_under = lock.token
        self._write(cycles.begin, *self.unfinished.values())
        self.progress.on_step = self._step_began

    def published(self, reports: Mapping[Minute, PublishReport]) -> None:
        """Write down which intervals are published."""
        of_report = ("verdict", "rows", "files", "violations", "duplicates", "quarantined")
        ended = []
        for minute, report in reports.items():
            row = self._ended(minute, failed_step=None)
            for name in of_report:
                setattr(row, name, getattr(report, name))
            ended.append(row)
        self._write(cycles.record, *ended)

    def failed(self, errors: Mapping[Minute, str]) -> None:
        """Write down why intervals are not published."""
        ended = []
        for minute, error in errors.items():
            row = self._ended(minute, failed_step=self.progress.current or "start")
            row.error = error[:_ERROR_LENGTH]
            ended.append(row)
        self._write(cycles.record, *ended)

    def forget(self, minute: Minute) -> None:
        """There was nothing to do: no row is kept."""
        self._write(cycles.forget, self.unfinished.pop(minute))

    def _step_began(self, name: str) -> None:
        for row in self.unfinished.values():
            row.failed_step = name
        if self.unfinished:
            self._write(cycles.reach, *self.unfinished.values())

    def _ended(self, minute: Minute, *, failed_step: str | None) -> CycleRow:
        row = self.unfinished.pop(minute)
        row.failed_step, row.running_under = failed_step, None
        return row

    def _write(self, how: Callable[..., None], *rows: CycleRow) -> None:
        for row in rows:
            row.finished_at = row.started_at + timedelta(seconds=time.monotonic() - self.clock_at_start)
            row.seconds = dict(self.progress.seconds)
        try:
            how(self.engine, *map(replace, rows))
        except SQLAlchemyError as error:
            self.progress.say(f"the rows of this cycle could not be written: {error}")


@contextmanager
def recorded_cycles(
    engine: Engine, minutes: Sequence[Minute], progress: Progress, now: datetime
) -> Iterator[RecordedCycles]:
    """Keep rows of what happens within, also of an error, which goes on; `begin` is called once it is its turn."""
    run_id = run_name(minutes[0][1].name)
    rows = {(cluster, one): CycleRow(cluster, one.start, run_id, now, now, None) for cluster, one in minutes}
    recorded = RecordedCycles(engine, progress, run_id, rows)
    try:
        yield recorded
    except BaseException as error:
        recorded.failed(dict.fromkeys(recorded.unfinished, _what_ended_it(error, datetime.now(UTC))))
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
