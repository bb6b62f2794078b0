"""Cycles: what each publication of an interval did, how long each step took, and what stopped those that failed.

One row per interval and cluster of a run, also of runs that published nothing: `offsetguard cycles` lists them,
metrics are made of them.

    begin --each step--> progress --> ended: published, or failed with an error
                            '--killed, out of memory, machine gone: nobody writes the end

A row that has no end names the lock under which it runs (`locks.PUBLICATION`). Once nobody alive holds that lock, it
is a failed one to all that read it, and the next publication, which holds the lock itself, writes that down.
"""

from dataclasses import replace
from datetime import datetime

from sqlalchemy import Engine, delete, exists, func, or_, select, update
from sqlalchemy.orm import Session, aliased

from offsetguard.model.intervals import Interval
from offsetguard.store.columns import count_changed
from offsetguard.store.database import reading, writing
from offsetguard.store.locks import PUBLICATION, token_of_holder
from offsetguard.store.models import CycleRow

KILLED = "ended from outside before it could say why: it was killed, ran out of memory, or its machine is gone"


def begin(engine: Engine, *starting: CycleRow) -> None:
    """Keep the cycles of a run that begins. The caller holds the lock that `running_under` names: no other one runs."""
    run_ids = {one.run_id for one in starting}
    others = update(CycleRow).where(CycleRow.running_under.is_not(None), CycleRow.run_id.not_in(run_ids))
    with writing(engine) as session:
        session.execute(others.values(running_under=None, error=KILLED))
        for one in starting:
            session.merge(one)


def record(engine: Engine, *changed: CycleRow) -> None:
    """Keep cycles; the same run again replaces its rows."""
    with writing(engine) as session:
        for one in changed:
            session.merge(one)


def reach(engine: Engine, *running: CycleRow) -> None:
    """Keep the step that a run has reached, by one statement: all of its rows that have no end are at the same one."""
    row, one = CycleRow, running[0]
    of_run = update(row).where(row.run_id == one.run_id, row.running_under == one.running_under)
    with writing(engine) as session:
        session.execute(of_run.values(failed_step=one.failed_step, finished_at=one.finished_at, seconds=one.seconds))


def forget(engine: Engine, cycle: CycleRow) -> None:
    """Keep nothing of a cycle that had nothing to do."""
    row = CycleRow
    this = row.cluster == cycle.cluster, row.interval_start == cycle.interval_start, row.run_id == cycle.run_id
    with writing(engine) as session:
        session.execute(delete(row).where(*this))


def newest(
    engine: Engine,
    *,
    cluster: str | None = None,
    interval: Interval | None = None,
    failed: bool = False,
    since: datetime | None = None,
    limit: int | None = None,
) -> list[CycleRow]:
    """Return cycles, the one that began last first; one that was killed is a failed one.

    `cluster`, `interval`: only of these. `failed`: only those that ended with an error. `since`: that began then or
    later. `limit`: not more than so many; None: all of them.
    """
    row = CycleRow
    query = select(row).order_by(row.started_at.desc(), row.run_id).limit(limit)
    if cluster is not None:
        query = query.where(row.cluster == cluster)
    if interval is not None:
        query = query.where(row.interval_start == interval.start)
    if since is not None:
        query = query.where(row.started_at >= since)
    with reading(engine) as session:
        alive = token_of_holder(session, PUBLICATION)
        if failed:
            has_ended = or_(row.running_under.is_(None), row.running_under != (alive or ""))
            query = query.where(row.verdict.is_(None), has_ended)
        return [
            one if one.running_under in (None, alive) else replace(one, running_under=None, error=KILLED)
            for one in session.scalars(query)
        ]


NOT_BY_ITSELF = ("start", "session")
"""Steps whose failures say nothing of the interval: whoever has one before it has not read it yet."""


def failed_often(engine: Engine, cluster: str, since: datetime, *, times: int) -> set[datetime]:
    """Return the starts, from `since` on, of a cluster's intervals whose publication failed so often by itself.

    A run that ended for several intervals or clusters at once, for the same reason, says nothing of any one of them.
    """
    return {start for start, count in _failures(engine, cluster, since, together=False).items() if count >= times}


def failed_together(engine: Engine, cluster: str, since: datetime, *, times: int) -> bool:
    """Whether runs that ended for several at once have failed so often on one of the cluster's intervals."""
    return any(count >= times for count in _failures(engine, cluster, since, together=True).values())


def _failures(engine: Engine, cluster: str, since: datetime, *, together: bool) -> dict[datetime, int]:
    row, other = CycleRow, aliased(CycleRow)
    same = (
        (other.run_id == row.run_id)
        & ((other.cluster != row.cluster) | (other.interval_start != row.interval_start))
        & other.failed_step.is_not_distinct_from(row.failed_step)
        & other.error.is_not_distinct_from(row.error)
    )
    ended_together = exists().where(same)
    query = (
        select(row.interval_start, func.count())
        .where(row.cluster == cluster, row.interval_start >= since, row.verdict.is_(None))
        .where(row.failed_step.not_in(NOT_BY_ITSELF), ended_together if together else ~ended_together)
        .group_by(row.interval_start)
    )
    with reading(engine) as session:
        return dict(session.execute(query).all())


def delete_older(session: Session, moment: datetime) -> int:
    """Delete the cycles that began before a moment; returns how many."""
    return count_changed(session, delete(CycleRow).where(CycleRow.started_at < moment))
