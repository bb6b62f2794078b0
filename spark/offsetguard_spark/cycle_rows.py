"""The row of each cycle: what a publication did, or why it failed, for those who operate it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from offsetguard.model.intervals import Interval
from offsetguard.store import cycles
from offsetguard.store.cycles import Cycle
from offsetguard_spark.progress import Progress
from offsetguard_spark.publish_report import PublishReport

_ERROR_LENGTH = 500


@dataclass(slots=True)
class CycleRecorder:
    """Takes the report of a publication that did something."""

    report: PublishReport | None = None


@contextmanager
def recorded_cycle(
    engine: Engine, cluster: str, interval: Interval, progress: Progress, now: datetime
) -> Iterator[CycleRecorder]:
    """Keep a row of what happens within, also of an error, which goes on; none when no report is given.

    A row that cannot be written is told and stops nothing: what was published is published.
    """
    began = time.monotonic()
    recorder = CycleRecorder()

    def cycle() -> Cycle:
        run_id = f"{interval.name}_{uuid.uuid4().hex[:12]}"
        ended = now + timedelta(seconds=time.monotonic() - began)
        return Cycle(cluster, interval, run_id, now, ended, verdict=None, seconds=dict(progress.seconds))

    try:
        yield recorder
    except Exception as error:
        text = (str(error).strip() or type(error).__name__).splitlines()[0][:_ERROR_LENGTH]
        _record(engine, replace(cycle(), error=text, failed_step=progress.current or "start"), progress)
        raise
    if (report := recorder.report) is not None:
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


def _record(engine: Engine, cycle: Cycle, progress: Progress) -> None:
    try:
        cycles.record(engine, cycle)
    except SQLAlchemyError as error:
        progress.say(f"the row of this cycle could not be written: {error}")
