"""One holder at a time, whichever way the one before ended, and on both kinds of database."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, delete, update

from offsetguard.model.errors import StoreError
from offsetguard.store.database import current_time, reading, writing
from offsetguard.store.locks import hold, hold_if_free
from offsetguard.store.models import LockRow
from offsetguard_peers.waiting import at_once, wait_until

SHORT = timedelta(seconds=2)
HOLD_FOR_EVER = """\
import sys, time
from offsetguard.store.database import open_database
from offsetguard.store.locks import hold
with hold(open_database(sys.argv[1]), "publication", print):
    print("held", flush=True)
    time.sleep(3600)
"""


def nobody_has_it(holder: str) -> None:
    raise AssertionError(f"nobody should have it, and {holder} has")


def test_of_many_that_want_it_one_has_it_at_a_time(engine: Engine) -> None:
    inside, most = [0], [0]

    def take_and_leave() -> None:
        for _ in range(3):
            with hold(engine, "publication", lambda holder: None):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.005)
                inside[0] -= 1

    at_once(4, take_and_leave)
    assert most[0] == 1
    with reading(engine) as session:
        assert session.get(LockRow, "publication") is None, "given back"


def test_whoever_waits_is_told_once_for_whom(engine: Engine) -> None:
    told: list[str] = []
    with hold(engine, "publication", nobody_has_it):
        waits = threading.Thread(target=_pass, args=(engine, told.append))
        waits.start()
        wait_until(lambda: told, "a word of whom is waited for")
        with hold(engine, "another", nobody_has_it):  # other names are other locks
            pass
    waits.join()
    assert len(told) == 1
    assert "process" in told[0]


def test_who_does_not_want_to_wait_hears_who_has_it_and_takes_nothing_from_them(engine: Engine) -> None:
    with hold(engine, "publication", nobody_has_it) as lock:
        with hold_if_free(engine, "publication") as holder:
            assert str(holder).startswith(f"process {os.getpid()} on ")
        lock.check()
    with hold_if_free(engine, "publication") as holder:
        assert holder is None
        with hold_if_free(engine, "publication") as other:
            assert other is not None
    _pass(engine)


def test_a_holder_that_is_killed_is_followed_at_once_on_its_host(engine: Engine) -> None:
    url = engine.url.render_as_string(hide_password=False)
    with subprocess.Popen([sys.executable, "-c", HOLD_FOR_EVER, url], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.kill()
    _pass(engine)


def test_a_holder_on_another_host_is_followed_when_its_time_has_run_out(engine: Engine) -> None:
    _be_held_elsewhere(engine, SHORT)
    told: list[str] = []
    with hold(engine, "publication", told.append, lease=SHORT):
        assert told == ["process 4711 on elsewhere, since 10:00:00 UTC"], "it was waited for"


def test_a_time_that_a_clock_ahead_has_written_is_not_waited_for(engine: Engine) -> None:
    _be_held_elsewhere(engine, timedelta(hours=1))
    _pass(engine)


def test_it_is_renewed_for_as_long_as_it_is_held(engine: Engine) -> None:
    with hold(engine, "publication", nobody_has_it, lease=SHORT) as lock:
        with reading(engine) as session:
            first = session.get_one(LockRow, "publication").held_until

        def is_renewed() -> bool:
            with reading(engine) as session:
                return session.get_one(LockRow, "publication").held_until > first

        wait_until(is_renewed, f"a time of the lease after {first}")
        lock.check()


def test_a_lock_that_was_lost_is_seen_before_the_step_that_needs_it(engine: Engine) -> None:
    """Its host slept: by no clock of the process any time has passed, and another one has taken the lock."""
    with hold(engine, "publication", nobody_has_it) as lock:
        lock.check()
        with writing(engine) as session:
            session.execute(delete(LockRow))
        _be_held_elsewhere(engine, SHORT)
        with pytest.raises(StoreError, match=r"the lock 'publication' was lost.*run it again"):
            lock.check()
    with reading(engine) as session:
        assert session.get_one(LockRow, "publication").holder == "process 4711 on elsewhere", "theirs stays"


def test_a_lock_whose_time_ran_out_and_that_nobody_took_is_still_ours(engine: Engine) -> None:
    with hold(engine, "publication", nobody_has_it) as lock:
        with writing(engine) as session:
            now = current_time(session)
            session.execute(update(LockRow).values(held_until=now - SHORT))
        lock.check()
        with reading(engine) as session:
            assert session.get_one(LockRow, "publication").held_until > now, "for another lease"


def _pass(engine: Engine, on_wait: Callable[[str], object] = nobody_has_it) -> None:
    with hold(engine, "publication", on_wait):
        pass


def _be_held_elsewhere(engine: Engine, lease: timedelta) -> None:
    with writing(engine) as session:
        row = LockRow(
            name="publication",
            token="of another process",
            holder="process 4711 on elsewhere",
            process="another-boot pid:[4026531836] 4711 99",
            held_since=datetime(2026, 11, 21, 10, tzinfo=UTC),
            held_until=current_time(session) + lease,
        )
        session.add(row)
