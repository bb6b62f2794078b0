"""Locks between processes, containers and hosts: a row of our database that says who holds it and until when.

    nobody --hold--> held, renewed every 15 s --end of the block--> nobody
                       |--holder's process died: free at once, seen from its own host or container
                       '--holder's host or container is gone: free when the 60 s have run out

SQLite has no advisory locks and PostgreSQL's end with a connection that a proxy may cut, so both keep a row. The
database's clock decides what has run out: hosts need not agree on the time.
"""

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import Engine, delete, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from offsetguard.model.errors import StoreError
from offsetguard.store.columns import count_changed
from offsetguard.store.database import current_time, serialize, writing
from offsetguard.store.database_errors import what_failed
from offsetguard.store.models import LockRow

PUBLICATION = "publication"
LEASE = timedelta(seconds=60)
_RENEWALS_PER_LEASE = 4
_FIRST_POLL_S, _LONGEST_POLL_S = 0.05, 1.0


@dataclass(slots=True)
class Lock:
    """A lock that is held; given by `hold`."""

    engine: Engine
    name: str
    lease: timedelta
    token: str = field(default_factory=lambda: uuid.uuid4().hex)

    def check(self) -> None:
        """Raise StoreError unless the lock is still ours, which it is for another lease then.

        To be called before a step that nobody else may do meanwhile. The row says so, and no clock of this process:
        those stand still while a host sleeps.
        """
        try:
            ours = self.renew()
        except OperationalError as error:
            raise StoreError(
                f"the lock {self.name!r} could not be renewed: {what_failed(error)}; run it again"
            ) from error
        if not ours:
            raise StoreError(
                f"the lock {self.name!r} was lost: this process, or the database, stood still for more than "
                f"{self.lease.total_seconds():.0f} s; run it again"
            )

    def renew(self) -> bool:
        """Hold it for another lease; False: another holder has it, or had it."""
        with writing(self.engine) as session:
            until = current_time(session) + self.lease
            ours = (LockRow.name == self.name) & (LockRow.token == self.token)
            return count_changed(session, update(LockRow).where(ours).values(held_until=until)) == 1

    def release(self) -> None:
        """Give it back; nothing happens to a lock that somebody else holds by now."""
        with writing(self.engine) as session:
            session.execute(delete(LockRow).where(LockRow.name == self.name, LockRow.token == self.token))


@contextmanager
def hold(engine: Engine, name: str, on_wait: Callable[[str], object], *, lease: timedelta = LEASE) -> Iterator[Lock]:
    """Hold the lock `name` for the block; waits for whoever has it, and calls `on_wait` once with who that is.

    A holder that is killed is followed at once on its own host (or in its own container), elsewhere after `lease`.
    """
    lock = Lock(engine, name, lease)
    pause_s, said = _FIRST_POLL_S, False
    while (holder := _try_to_take(lock)) is not None:
        if not said:
            on_wait(holder)
            said = True
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _LONGEST_POLL_S)
    with _renewed(lock):
        yield lock


@contextmanager
def hold_if_free(engine: Engine, name: str, *, lease: timedelta = LEASE) -> Iterator[str | None]:
    """Hold the lock `name` for the block and yield None; where somebody has it, yield who, and hold nothing."""
    lock = Lock(engine, name, lease)
    holder = _try_to_take(lock)
    if holder is not None:
        yield holder
        return
    with _renewed(lock):
        yield None


@contextmanager
def _renewed(lock: Lock) -> Iterator[None]:
    ended = threading.Event()
    renewing = threading.Thread(target=_renew_until, args=(lock, ended), name=f"lock {lock.name}", daemon=True)
    renewing.start()
    try:
        yield
    finally:
        ended.set()
        renewing.join()
        with suppress(OperationalError):  # the database is away: the lock runs out by itself
            lock.release()


def token_of_holder(session: Session, name: str) -> str | None:
    """Return the token of the lock's holder; None when nobody has it who lives, as far as that can be seen."""
    row = session.get(LockRow, name)
    return row.token if row is not None and _is_held(row, current_time(session), LEASE) else None


def only_publisher(engine: Engine, say: Callable[[str], object]) -> AbstractContextManager[Lock]:
    """Hold the right to commit to the Iceberg tables: publications and housekeeping, one at a time.

    `say` is called once when somebody else has it.

    Iceberg would notice two publishers (the second fast-forward fails, as main is no ancestor of its branch any more),
    but the second would have worked in vain.
    """
    return hold(engine, PUBLICATION, lambda holder: say(f"waiting: another interval is being published ({holder})"))


def _try_to_take(lock: Lock) -> str | None:
    """Take it; returns who has it when that is somebody who lives."""
    with writing(lock.engine) as session:
        serialize(session, f"lock {lock.name}")
        now = current_time(session)
        row = session.get(LockRow, lock.name)
        if row is not None and _is_held(row, now, lock.lease):
            return f"{row.holder}, since {row.held_since:%H:%M:%S} UTC"
        if row is None:
            row = LockRow(name=lock.name)
            session.add(row)
        row.token, row.holder, row.process = (
            lock.token,
            f"process {os.getpid()} on {socket.gethostname()}",
            own_process(),
        )
        row.held_since, row.held_until = now, now + lock.lease
    return None


def _is_held(row: LockRow, now: datetime, lease: timedelta) -> bool:
    # a time further away than a lease was written before the clock was put back
    return now < row.held_until <= now + lease and not has_ended(row.process)


def _renew_until(lock: Lock, ended: threading.Event) -> None:
    is_ours = True
    while is_ours and not ended.wait(lock.lease.total_seconds() / _RENEWALS_PER_LEASE):
        with suppress(OperationalError):  # the database is away: `Lock.check` tells whether somebody took it meanwhile
            is_ours = lock.renew()


def own_process() -> str:
    """Return what tells this process from all others, for `has_ended`; on a system without /proc nothing."""
    pid = os.getpid()
    return f"{_machine()} {pid} {_started(pid)}" if _machine() else ""


def has_ended(process: str) -> bool:
    """Whether a process has ended; False where that cannot be seen from this machine, or from this container."""
    machine, pid, started = process.rsplit(" ", 2) if process else ("", "", "")
    return bool(machine) and machine == _machine() and started != _started(int(pid))


def _machine() -> str:
    """Return the boot and the process namespace: within them a number and a start time name one process."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _started(pid: int) -> str:
    """Return when a process started, in clock ticks since the boot; empty when there is none that lives."""
    try:
        # proc(5): the name in brackets may hold anything; after it come the state, and as the 20th the start
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[19]
