"""What tasks do on a host whose clock may be wrong: each call is a process of its own with that clock.

python -m offsetguard_peers.hosts judge DATABASE_URL FIRST_MINUTE   four minutes: two of trouble, two without
python -m offsetguard_peers.hosts claim ADDRESSES RECEIVER          begin a message and die
python -m offsetguard_peers.hosts deliver ADDRESSES                 send what is due
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime

from offsetguard.decide.judge import judge_interval
from offsetguard.deliver.deliver import deliver_due
from offsetguard.facts.interval import IntervalFacts
from offsetguard.model.intervals import INTERVAL_LENGTH, Interval
from offsetguard.store import outbox
from offsetguard.store.database import connect, database_time
from offsetguard_peers.delivery.world import Addresses, channel_of
from offsetguard_peers.host_clock import HostClock
from offsetguard_peers.judging.records import config, group

LAGS = (20_000, 20_000, 0, 0)


def begin(clock: HostClock, *arguments: str | Addresses) -> subprocess.Popen[str]:
    """Start something on the host of a clock."""
    told = [one if isinstance(one, str) else json.dumps(asdict(one)) for one in arguments]
    return subprocess.Popen(
        [sys.executable, "-m", "offsetguard_peers.hosts", *told], env={**os.environ, **clock.environment}, text=True
    )


def end(*processes: subprocess.Popen[str]) -> None:
    """Wait for them; all went well."""
    assert [one.wait(120) for one in processes] == [0] * len(processes)


def judge(database_url: str, first_minute: str) -> None:
    """Judge minute by minute, as the task does."""
    engine = connect(database_url)
    interval = Interval(datetime.fromisoformat(first_minute))
    for lag in LAGS:
        facts = IntervalFacts("demo", interval, interval.end, groups=(group("somebody", lag),))
        judge_interval(engine, facts, config(), now=database_time(engine))
        interval = Interval(interval.start + INTERVAL_LENGTH)


def claim(addresses: str, receiver: str) -> None:
    """Begin the first message to a receiver, and die."""
    engine = connect(Addresses(**json.loads(addresses)).database_url)
    lane = outbox.Lane(channel_of(receiver), receiver)
    assert outbox.claim_next(engine, lane, now=database_time(engine))


def deliver(addresses: str) -> None:
    """Send what is due, as the task does."""
    given = Addresses(**json.loads(addresses))
    report = deliver_due(connect(given.database_url), given.channels())
    assert report.reasons == (), report.reasons


if __name__ == "__main__":
    what: dict[str, Callable[..., None]] = {"judge": judge, "claim": claim, "deliver": deliver}
    what[sys.argv[1]](*sys.argv[2:])
