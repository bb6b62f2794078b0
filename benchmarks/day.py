"""A day played through in an hour: does any warning get lost while what can break does break?

    uv run python benchmarks/day.py [--minutes 1440] [--seed 1] [--publish-every 10]

Goal: 0 warnings lost, none told twice but by a kill, no interval half published, memory and files flat.
Plan: scripted brokers over real sockets, whose clocks are the played ones; each minute is collected, judged and
delivered to a real mail server by processes of their own, with the product's own functions; every n-th minute is
published by Spark on one warm server, the others are judged by what has landed, as where Spark is late. Groups stand
still as a seed draws it, each once and with a team of its own, so that each warning that is due is known. At random
moments processes are killed, brokers and the mail server are away, the disk of landed files is full (a tmpfs), another
connection locks the database, and the clock steps. A step that fails is tried three times, as Airflow does.
Housekeeping comes once an hour. Needs root, for the tmpfs. Exit code 1: something was lost, torn, or told wrongly.
"""

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from random import Random

from day_steps import CLUSTER, CRASHED, Step, clean, collect, in_process, judge, publish
from sqlalchemy import Engine

from offsetguard.collect.manifest import Manifest
from offsetguard.config import Config
from offsetguard.config.workspace import Workspace
from offsetguard.facts.published import read_interval_facts
from offsetguard.lake.catalog import open_catalog
from offsetguard.lake.reading import read_interval
from offsetguard.model.errors import OffsetGuardError
from offsetguard.model.intervals import Interval
from offsetguard.store import outbox, published_intervals
from offsetguard.store.database import open_database
from offsetguard.store.models import Status
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import LANDED
from offsetguard_peers.delivery.world import Addresses, running_deliverer
from offsetguard_peers.processes import ReservedPort, SessionGuard
from offsetguard_peers.scripted.broker import ScriptedBroker, close, scripted_cluster, when
from offsetguard_peers.smtp.server import SmtpServer
from offsetguard_spark.connect import TOKEN_VARIABLE
from offsetguard_spark.connect_server import ConnectServer

BROKERS, MINUTE = 3, timedelta(minutes=1)
PER_MINUTE = 1_800  # messages of a topic
WELL_GROUPS = 6
EACH_MIN = 10  # a standstill begins in each so many minutes
QUIET_MIN = 12  # at the beginning nothing happens
TOLD_WITHIN_MIN = 12  # of its end: the outbox tries again every few minutes, and a mail server may be away for ten
TRIES = 3
SAMPLED_MIN = 60
KILLED = {"deliver": 0.3}  # share of those that are killed while they have something to send
KILLED_OF_OTHERS = 0.04
CHANCES = {"broker": 0.02, "smtp": 0.02, "disk": 0.015, "lock": 0.05, "clock": 0.015}  # of beginning, in a minute
MINUTES = {"broker": (2, 5), "smtp": (2, 10), "disk": (1, 4), "lock": (1, 1), "clock": (2, 6)}


@dataclass(frozen=True)
class Standstill:
    """A group that commits nothing from one minute to another; its consumers are off, or hang."""

    group: str
    first: int
    last: int
    offline: bool


@dataclass
class Day:
    """The world, what has happened in it, and what was found."""

    home: Workspace
    config: Config
    engine: Engine
    brokers: list[ScriptedBroker]
    listed: dict[str, str]  # what the name server lists
    smtp: SmtpServer
    server: ConnectServer
    standstills: list[Standstill]
    chance: Random
    minutes: int
    begin: datetime
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    usual_s: dict[str, float] = field(default_factory=dict)
    until: dict[str, int] = field(default_factory=dict)  # fault -> the minute in which it ends
    undo: dict[str, Callable[[], object]] = field(default_factory=dict)
    skew: timedelta = timedelta()
    newest: datetime | None = None  # start of the newest interval that had its run

    def run(self, publish_every: int) -> None:
        """Play all minutes, and judge what was told."""
        began, minute = time.monotonic(), 0
        try:
            for minute in range(self.minutes):
                self._play_brokers(minute)
                self._faults(minute)
                self._minute(minute, publish_every)
                if minute % SAMPLED_MIN == SAMPLED_MIN - 1 or minute == self.minutes - 1:
                    self._step(clean, Interval.containing(self._at(minute)), self._at(minute))
                    self._sample(minute, time.monotonic() - began)
        except KeyboardInterrupt:
            self._sample(minute, time.monotonic() - began)
            self.minutes = minute
        self.counts["minutes"] = self.minutes
        self._end_faults(self.minutes, everything=True)
        for more in range(1, 16):
            self._deliver(self._at(self.minutes + 2 * more))
        self._check_told()

    def _at(self, minute: int) -> datetime:
        """Return what the machine's clock says in a minute."""
        return self.begin + minute * MINUTE + timedelta(seconds=5) + self.skew

    def _minute(self, minute: int, publish_every: int) -> None:
        now = self._at(minute)
        interval = Interval.containing(now)
        is_new = self.newest is None or interval.start > self.newest  # Airflow runs no minute twice
        self.newest = interval.start if is_new else self.newest
        self.counts["minutes not run: the clock stepped back"] += not is_new
        if is_new and self._step(collect, interval, now):
            if minute % publish_every == publish_every - 1:
                self._step(publish, interval, now + timedelta(seconds=20))
                self._check_published(interval)
            self._step(judge, interval, now + timedelta(seconds=40))
        self._deliver(now + timedelta(seconds=45))

    def _step(self, step: Step, interval: Interval, now: datetime) -> bool:
        """Do it in a process of its own, which may be killed; again where it failed, as Airflow does."""
        for attempt in range(TRIES):
            began = time.monotonic()
            process = multiprocessing.get_context("forkserver").Process(
                target=in_process,
                args=(step, self._environment, self._log, self._config_json, self.home, interval, now),
            )
            process.start()
            if attempt == 0 and self._is_to_be_killed(step.__name__):
                process.join(self.chance.uniform(0, 1.05 * self.usual_s[step.__name__]))
                if process.is_alive():
                    process.kill()
                    self.counts[f"killed {step.__name__}"] += 1
            process.join()
            self.counts[step.__name__] += 1
            if process.exitcode == 0:
                took = time.monotonic() - began
                self.usual_s[step.__name__] = 0.8 * self.usual_s.get(step.__name__, took) + 0.2 * took
                return True
            self.counts[f"{step.__name__} failed"] += process.exitcode == 1
            if process.exitcode == CRASHED:
                self.wrong.append(f"{step.__name__} {interval.name}: crashed, see steps.log")
        self.counts[f"{step.__name__} given up"] += 1
        return False

    def _is_to_be_killed(self, step: str) -> bool:
        return step in self.usual_s and self.chance.random() < KILLED.get(step, KILLED_OF_OTHERS)

    def _deliver(self, now: datetime) -> None:
        addresses = Addresses(self.home.database_url, self.smtp.port, "http://127.0.0.1:9/", "x", {}, "")
        began = time.monotonic()
        with running_deliverer(addresses, now) as process:
            if outbox.messages(self.engine, status=Status.PENDING) and self._is_to_be_killed("deliver"):
                process.join(self.chance.uniform(0, 1.05 * self.usual_s["deliver"]))
                self.counts["killed deliver"] += process.is_alive()
                return
            process.join()
        self.counts["deliver"] += 1
        took = time.monotonic() - began
        self.usual_s["deliver"] = 0.8 * self.usual_s.get("deliver", took) + 0.2 * took

    @property
    def _log(self) -> str:
        return str(self.home.home.parent / "steps.log")

    @cached_property
    def _config_json(self) -> str:
        return self.config.model_dump_json(by_alias=True)

    @property
    def _environment(self) -> dict[str, str]:
        return {"SPARK_REMOTE": self.server.remote, TOKEN_VARIABLE: self.server.token}

    def _play_brokers(self, minute: int) -> None:
        """Let brokers say what is true in this minute; their clocks are right."""
        at = self.begin + minute * MINUTE
        still = {one.group: one for one in self.standstills if one.first <= minute <= one.last}
        for number, broker in enumerate(self.brokers):
            broker.asked.clear()
            broker.newest_ms = int(at.timestamp() * 1000)
            for group in self._groups[number::BROKERS]:
                end, topic = 10_000 + minute * PER_MINUTE, f"topic-{group}"
                broker.topics[topic] = [(0, end)]
                if group in still:
                    if still[group].offline:
                        broker.subscriptions.pop(group, None)
                else:
                    broker.committed[topic, group] = {0: end - 20}
                    broker.subscriptions[group] = [topic]

    @property
    def _groups(self) -> list[str]:
        return [*(one.group for one in self.standstills), *(f"w{number}" for number in range(WELL_GROUPS))]

    def _faults(self, minute: int) -> None:
        self._end_faults(minute)
        if not QUIET_MIN < minute < self.minutes - 10:
            return
        for fault, chance in CHANCES.items():
            if fault not in self.until and self.chance.random() < chance:
                self.until[fault] = minute + self.chance.randint(*MINUTES[fault])
                self.undo[fault] = getattr(self, f"_{fault}")()
                self.counts[f"fault {fault}"] += 1

    def _end_faults(self, minute: int, *, everything: bool = False) -> None:
        for fault in [fault for fault, until in self.until.items() if everything or until <= minute]:
            del self.until[fault]
            self.undo.pop(fault)()

    def _broker(self) -> Callable[[], object]:
        """Let a broker be gone; the name server knows it, or not yet."""
        broker = self.chance.choice(self.brokers)
        broker.trouble, address = when(lambda _: True, close), self.listed[broker.name]
        if self.chance.random() < 0.5:
            del self.listed[broker.name]

        def back() -> None:
            broker.trouble, self.listed[broker.name] = None, address

        return back

    def _smtp(self) -> Callable[[], object]:
        self.smtp.close_port()
        return self.smtp.open_port

    def _disk(self) -> Callable[[], object]:
        """Fill the disk of landed files to the last byte."""
        ballast = self.home.landing_folder / "ballast"
        with suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 20))
        return ballast.unlink

    def _lock(self) -> Callable[[], object]:
        """Let another connection hold the database for a while."""
        seconds, url = self.chance.uniform(0.5, 4.0), self.home.database_url.removeprefix("sqlite:///")

        def hold() -> None:
            with closing(sqlite3.connect(url, timeout=30, isolation_level=None)) as connection:
                connection.execute("BEGIN EXCLUSIVE")
                time.sleep(seconds)
                connection.execute("ROLLBACK")

        thread = threading.Thread(target=hold)
        thread.start()
        return thread.join

    def _clock(self) -> Callable[[], object]:
        """Let the machine's clock step, and step back."""
        self.skew = timedelta(seconds=self.chance.choice((-1, 1)) * self.chance.uniform(30, 180))
        return lambda: setattr(self, "skew", timedelta())

    def _check_published(self, interval: Interval) -> None:
        """Find an interval that is there in part: tables that disagree with the manifest, or with each other."""
        for published in (published_intervals.get(self.engine, CLUSTER, interval), self._any_published()):
            if published is not None:
                self.counts["intervals read"] += 1
                what = torn(self.home, published)
                self._check("torn", published.interval.name, what, what)

    def _any_published(self) -> PublishedInterval | None:
        newest = published_intervals.newest(self.engine, CLUSTER)
        if newest is None:
            return None
        before = newest.interval.start - self.chance.randint(0, 12) * 10 * MINUTE
        return published_intervals.newest(self.engine, CLUSTER, before=before)

    def _check_told(self) -> None:
        """Compare what the mail server has with what stood still; a repeat has the Message-ID of the first one."""
        ids = Counter((mail.recipients, mail.message["Message-ID"]) for mail in self.smtp.mails)
        rows = outbox.messages(self.engine, limit=100_000)
        told: dict[str, Counter[str]] = {}
        for row in rows:
            reason = getattr(row.view, "reason", "digest")
            told.setdefault(row.receiver.partition("@")[0], Counter())[str(reason)] += 1
        due = [one for one in self.standstills if one.last < self.minutes]
        for one in due:
            said = told.get(one.group, Counter())
            ended = one.last < self.minutes - TOLD_WITHIN_MIN
            self._check("lost", one, said, said["first"] == 0)
            self._check("told twice", one, said, said["first"] > 1)
            self._check("end lost", one, said, ended and said["all_resolved"] == 0)
        for name in told.keys() - {"ops", *(one.group for one in self.standstills)}:
            self._check("false", name, told[name], True)
        repeated, unsent = ids.total() - len(ids), sum(row.status is not Status.SENT for row in rows)
        self._check("unsent", unsent, rows[:3], unsent > 0)
        self._check("not accepted", len(rows), len(ids), len(ids) + unsent != len(rows))
        self._check("repeated without a kill", repeated, "", repeated > self.counts["killed deliver"])
        self.counts.update({"standstills": len(due), "mails": len(self.smtp.mails), "repeated": repeated})

    def _check(self, what: str, about: object, said: object, wrong: object) -> None:
        if wrong:
            self.counts[what] += 1
            self.wrong.append(f"{what}: {about}: {said}")

    def _sample(self, minute: int, seconds: float) -> None:
        """Print a line of the table: what lives long, and what lies on the disk."""
        home = self.home.home
        files = {name: [f.stat().st_size for f in (home / name).rglob("*") if f.is_file()] for name in FOLDERS}
        lie = " ".join(f"{name} {len(sizes)}/{sum(sizes) >> 20}" for name, sizes in files.items())
        database = sum(f.stat().st_size for f in home.glob("*.db*")) >> 20
        server = self.server.process_id() or 0
        faults = {name.removeprefix("fault "): count for name, count in self.counts.items() if name[:5] == "fault"}
        kills = sum(count for name, count in self.counts.items() if name.startswith("killed"))
        print(
            f"minute {minute + 1:>5} {seconds:>6.0f} s | RSS MiB: Spark {rss_mib(server)}, here {rss_mib(os.getpid())}"
            f" | files/MiB: {lie}, databases {database} | kills {kills}, faults {faults},"
            f" mails {len(self.smtp.mails)}, wrong {len(self.wrong)}, s a step: "
            + " ".join(f"{step} {took:.1f}" for step, took in self.usual_s.items()),
            flush=True,
        )


PRELOADED = (  # what the steps import: else each of them would
    "duckdb",
    "offsetguard.deliver.messages.mail",
    "offsetguard_expectations.checkpoint",
    "pyarrow.parquet",
    "pyiceberg.catalog.sql",
    "pyspark.sql.connect.session",
    "sqlalchemy.dialects.sqlite",
)
FOLDERS = ("landing", "warehouse", "data_docs", "spark-server")


def torn(home: Workspace, published: PublishedInterval) -> str | None:
    """Return what disagrees in a published interval; None where all of it is there."""
    manifest, catalog = Manifest.from_json(published.manifest_json), open_catalog(home)
    said = re.search(r"(\d+) rows in quarantine", published.verdict)
    try:
        counts = {table.name: read_interval(catalog, table, published).num_rows for table in LANDED}
        facts = read_interval_facts(home, published, manifest)
    except OffsetGuardError as error:
        return str(error)
    landed = sum(manifest.row_counts.get(name, 0) for name in counts)
    if sum(counts.values()) + int(said[1] if said else 0) != landed:
        return f"{sum(counts.values())} of {landed} rows ({published.verdict})"
    if counts["group_snapshots"] and not facts.groups:
        return "rows without facts"
    return None


def rss_mib(process_id: int) -> int:
    """Return what a process has in memory now."""
    status = Path(f"/proc/{process_id}/status").read_text(encoding="ascii")
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) // 1024  # type: ignore[index]


def drawn(chance: Random, minutes: int) -> list[Standstill]:
    """Let each group stand still once: who goes often would be taken for a batch."""
    firsts = range(QUIET_MIN + 2, minutes - 35, EACH_MIN)
    found = []
    for number, first in enumerate(firsts):
        begins = first + chance.randint(0, 4)
        found.append(Standstill(f"g{number}", begins, begins + chance.randint(16, 22), number % 2 == 0))
    return found


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """Mount a tmpfs."""
    folder.mkdir(parents=True)
    subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["/bin/umount", "-l", str(folder)], check=True)


def settings(name_server: str, standstills: list[Standstill]) -> Config:
    """Return a configuration in which each group that will stand still has a team of its own."""
    teams = {one.group: {"mail": [f"{one.group}@example.org"]} for one in standstills}
    cluster = {"name_servers": [name_server], "request_timeout_ms": 10_000}
    return Config.model_validate(
        {
            "clusters": {CLUSTER: cluster},
            "teams": {"ops": {"mail": ["ops@example.org"]}, **teams},
            "default_team": "ops",
            "groups": [{"match": one.group, "team": one.group, "max_lag_messages": 1_000} for one in standstills],
            "delivery": {"repeat_interval_ms": 86_400_000},
        }
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=int, default=1_440)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--publish-every", type=int, default=10, metavar="MINUTES")
    parser.add_argument("--keep", action="store_true", help="keep the folder, to look at it")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # either way what was played is judged
    chance = Random(options.seed)  # noqa: S311 moments, no secrets
    logging.getLogger("offsetguard").setLevel(logging.WARNING)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PRELOADED, *(name for name in sys.modules if name.startswith("offsetguard"))])
    with ExitStack() as stack:
        stack.callback(lambda: print(folder) if options.keep else shutil.rmtree(folder))
        folder = Path(tempfile.mkdtemp(prefix="day_"))
        home = Workspace(folder / "home", folder / "offsetguard.yml", f"sqlite:///{folder / 'home' / 'offsetguard.db'}")
        stack.enter_context(small_disk(home.landing_folder, "1g"))
        port = ReservedPort()
        server = ConnectServer(home.spark_server_folder, port.port, memory="1g", master="local[2]")
        guard = SessionGuard()
        guard.add(server.start())
        stack.callback(server.stop)
        standstills = drawn(chance, options.minutes)
        brokers = [ScriptedBroker(f"broker-{letter}") for letter in "abc"]
        runner = asyncio.new_event_loop()
        threading.Thread(target=runner.run_forever, daemon=True).start()
        serving = scripted_cluster(*brokers)
        name_server, listed = asyncio.run_coroutine_threadsafe(serving.__aenter__(), runner).result()
        smtp = stack.enter_context(SmtpServer())
        config = settings(name_server, standstills)
        engine = open_database(home.database_url)
        begin = Interval.containing(datetime.now(UTC)).start
        day = Day(home, config, engine, brokers, listed, smtp, server, standstills, chance, options.minutes, begin)
        day.run(options.publish_every)
    print(json.dumps(dict(sorted(day.counts.items()))))
    print("\n".join(day.wrong))
    return 1 if day.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
