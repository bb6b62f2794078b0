"""Parsing a large broker.log with all patterns: Spark (ours) against DuckDB's regexps on the same file.

    uv run python benchmarks/parse_broker_log.py --folder logs            # 1 GiB, 5 rounds
    uv run python benchmarks/parse_broker_log.py --folder logs --size-mib 64

    uv run python benchmarks/parse_broker_log.py --folder logs --sample broker-a.log broker-b.log

The file is made once, of real lines, with a time that goes on: of the excerpts of the tests (stack traces included),
which were cut out for what they tell, so that nearly two lines in three are events; or of whole logs, with `--sample`.
How many lines are events is printed, since each side is quick with what the other one is slow with: ours with lines
that no pattern is meant for, DuckDB with events. Both
sides find each line's time, thread, pattern and fields as JSON, and keep the events: ours as the ingest job does,
DuckDB in a temporary table, with what a DuckDB user would write: one scan, one CASE over the same regexps,
`regexp_extract` with names. Its engine has no look-ahead, back reference or repetition above 1,000, so bounds are taken
away (which is faster), and the two patterns of members' subscriptions are one there. It does less than ours: no byte
positions (which it could only sum up in one thread), fields as texts (ours are typed), none of them in a column of its
own, no record of more than one line. Each side lives in a process of its own, rounds alternate, the first round warms
both and does not count. Then the ingest job's parsing is measured in fresh processes on a small file and the large one:
peak memory must not follow the file's size.

Exit code 1 when the median ratio is above the aim, when the two sides find different events (of each kind: how many,
and the sum of their times), or when memory grows by more than a quarter.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import resource
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import duckdb
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from offsetguard.config.workspace import Workspace
from offsetguard.sources.logs.matching import PATTERNS
from offsetguard.sources.logs.pattern import Pattern
from offsetguard_spark.ingest import LogBatch, parsed_counts, parsed_events
from offsetguard_spark.session import make_session

EXCERPTS = Path(__file__).parents[1] / "tests" / "unit" / "sources" / "logs" / "excerpts"
SAMPLES = ("broker-4.9.8.log", "broker-5.3.3.log", "slave-5.3.3.log")
AIM = 3.0
MEMORY_AIM = 1.25
SMALL_MIB = 64
MIB = 1024 * 1024
ONE_IN_DUCKDB = {"subscription_refreshed": "subscription_changed"}  # a back reference tells them apart
HEAD = "^([0-9-]+ [0-9:]+) [A-Z]+ (.+?) - (.*)$"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where the logs are made, and kept for the next run")
    parser.add_argument("--size-mib", type=int, default=1024)
    parser.add_argument("--sample", type=Path, nargs="+", metavar="LOG", help="real logs to make the file of")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    template = template_of(arguments.sample or [EXCERPTS / name for name in SAMPLES])
    path = made_log(arguments.folder, arguments.size_mib, template)
    ok = compare(path, arguments.rounds)
    return 0 if memory_is_flat(arguments.folder, arguments.size_mib, template) and ok else 1


def template_of(samples: Sequence[Path]) -> bytes:
    """Return the lines of some logs, one after the other, with a place for the time."""
    time_stamp = rb"(?m)^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}"
    return b"".join(re.sub(time_stamp, b"@time@", sample.read_bytes().rstrip() + b"\n") for sample in samples)


def made_log(folder: Path, size_mib: int, template: bytes) -> Path:
    """Return a log of that size; made once of each template."""
    path = folder / f"broker-{size_mib}-{zlib.crc32(template):08x}.log"
    if path.exists() and path.stat().st_size >= size_mib * MIB:
        return path
    folder.mkdir(parents=True, exist_ok=True)
    at = datetime(2026, 11, 1)  # noqa: DTZ001 - as a log says it, without a zone
    with path.open("wb") as file:
        while file.tell() < size_mib * MIB:
            file.write(template.replace(b"@time@", str(at).encode()))
            at += timedelta(seconds=1)
    return path


def compare(path: Path, rounds: int) -> bool:
    """Run both sides in turn and print the table; returns whether the aim is met."""
    sides = {"Spark": Worker(SparkSide), "DuckDB": Worker(DuckSide)}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    answers: dict[str, dict[str, Any]] = {}
    for number in range(rounds + 1):
        for name, side in sides.items():
            answers[name] = side.ask(str(path))
            if number:
                seconds[name].append(answers[name]["seconds"])
            print(f"round {number or 'warm-up'}: {name} {answers[name]['seconds']:.1f} s", file=sys.stderr, flush=True)
    for side in sides.values():
        side.close()
    size_mib = path.stat().st_size / MIB
    with path.open("rb") as file:
        lines = sum(block.count(b"\n") for block in iter(lambda: file.read(MIB), b""))
    share = sum(count for count, _ in answers["DuckDB"]["records"].values()) / lines
    print(f"{path}: {size_mib:,.0f} MiB, {lines:,} lines, {share:.0%} of them events; {len(PATTERNS)} patterns")
    print("side     median s   min s   MiB/s   events       peak MiB of its processes")
    for name, its in seconds.items():
        middle, answer = statistics.median(its), answers[name]
        peak = ", ".join(f"{what} {mib:,.0f}" for what, mib in answer["peak_mib"].items())
        events = sum(count for count, _ in answer["records"].values())
        print(f"{name:8} {middle:8.1f} {min(its):7.1f} {size_mib / middle:7.1f} {events:8,}   {peak}")
    ratios = [ours / theirs for ours, theirs in zip(seconds["Spark"], seconds["DuckDB"], strict=True)]
    same = answers["Spark"]["records"] == answers["DuckDB"]["records"]
    print(f"ratio: median {statistics.median(ratios):.2f}, min {min(ratios):.2f} (aim: at most {AIM})")
    if not same:
        print("the two sides found different events: they do not do the same work")
        for kind in sorted(answers["Spark"]["records"] | answers["DuckDB"]["records"]):
            print(kind, *(answers[name]["records"].get(kind) for name in seconds))
    return same and statistics.median(ratios) <= AIM


def memory_is_flat(folder: Path, size_mib: int, template: bytes) -> bool:
    """Parse a small file and the large one, each in a fresh process, and compare what they needed at most."""
    peaks: list[dict[str, float]] = []
    for size in (min(SMALL_MIB, size_mib), size_mib):
        side = Worker(SparkSide)
        peaks.append(side.ask(str(made_log(folder, size, template)))["peak_mib"])
        side.close()
        print(f"memory, {size:5,} MiB: " + ", ".join(f"{what} {mib:,.0f} MiB" for what, mib in peaks[-1].items()))
    grown = max(peaks[1][what] / peaks[0][what] for what in peaks[0])
    print(f"memory grows by {grown:.2f} (aim: at most {MEMORY_AIM})")
    return grown <= MEMORY_AIM


class Worker:
    """One side in a process of its own: a path in, what it found out."""

    def __init__(self, side: Callable[[], SparkSide | DuckSide]) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(side, theirs))
        self._process.start()
        theirs.close()

    def ask(self, path: str) -> dict[str, Any]:
        """Have a file parsed; returns seconds, records and peak_mib."""
        self._connection.send(path)
        answer: dict[str, Any] = self._connection.recv()
        return answer

    def close(self) -> None:
        """End the process."""
        self._connection.send(None)
        self._process.join()


def work(start: Callable[[], SparkSide | DuckSide], connection: Connection) -> None:
    side = start()
    while (path := connection.recv()) is not None:
        begin = time.perf_counter()
        side.parse(path)
        seconds = time.perf_counter() - begin
        records: dict[str, list[int]] = {}
        for kind, count, times in side.records():
            known = records.setdefault(ONE_IN_DUCKDB.get(kind, kind), [0, 0])
            known[:] = known[0] + count, known[1] + int(times)
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        connection.send({"seconds": seconds, "records": records, "peak_mib": {"Python": own} | side.peak_mib()})
    side.stop()


class SparkSide:
    """The parsing of the ingest job, with its session."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        home = Path(self._folder.name)
        workspace = Workspace(home, home / "offsetguard.yml", f"sqlite:///{home / 'offsetguard.db'}")
        self._spark = make_session(workspace, {}, runs_for_minutes=True)
        self._parsed: DataFrame

    def parse(self, path: str) -> None:
        """Parse a file and keep its events."""
        batch = LogBatch("benchmark", (path,), "broker-a", routine=True)
        self._parsed = parsed_events(self._spark, batch, [path], Path(path).stat().st_size)
        parsed_counts(self._parsed)

    def records(self) -> Iterable[Sequence[Any]]:
        """Return (kind, events, sum of their times in seconds) of what was parsed, and drop it."""
        events = self._parsed.where("pattern IS NOT NULL")
        figures = ("count(*) AS events", "sum(unix_seconds(at)) AS seconds")
        rows = events.groupBy("pattern.kind").agg(*(F.expr(figure) for figure in figures)).collect()
        self._parsed.unpersist()
        return rows

    def peak_mib(self) -> dict[str, float]:
        """Return what the JVM's process has needed at most, as Linux counts it."""
        process = self._spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
        return {"JVM": int(re.findall(r"VmHWM:\s*([0-9]+)", status)[0]) / 1024}

    def stop(self) -> None:
        """Give back what it holds."""
        self._spark.stop()
        self._folder.cleanup()


class DuckSide:
    """What a DuckDB user would write."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()  # tables beyond its memory go there, as Spark's do
        self._connection = duckdb.connect(f"{self._folder.name}/events.duckdb")

    def parse(self, path: str) -> None:
        """Parse a file and keep its events."""
        self._connection.execute(f"CREATE OR REPLACE TABLE events AS {duckdb_query(path)}")

    def records(self) -> Iterable[Sequence[Any]]:
        """Return (kind, events, sum of their times in seconds) of what was parsed."""
        kinds = ", ".join(_quoted(pattern.kind) for pattern, _ in duckdb_patterns())
        figures = 'count(*), sum(epoch("at"))'
        rows = self._connection.execute(f"SELECT [{kinds}][kind + 1] AS name, {figures} FROM events GROUP BY name")
        return list(rows.fetchall())

    def peak_mib(self) -> dict[str, float]:
        """Return nothing: it has no process besides Python's."""
        return {}

    def stop(self) -> None:
        """Give back what it holds."""
        self._connection.close()
        self._folder.cleanup()


def duckdb_query(path: str) -> str:
    patterns = list(duckdb_patterns())
    kinds = " ".join(
        f"WHEN regexp_matches(message, {_quoted(regex)}) THEN {at}" for at, (_, regex) in enumerate(patterns)
    )
    fields = " ".join(f"WHEN {at} THEN {_extracted(pattern, regex)}" for at, (pattern, regex) in enumerate(patterns))
    head = f"regexp_extract(line, {_quoted(HEAD)}, ['written', 'thread', 'message']) AS head"
    columns = "columns = {'line': 'VARCHAR'}, header = false, delim = '\x01', quote = '', escape = ''"
    lines = f"read_csv({_quoted(path)}, {columns}, auto_detect = false)"
    return (
        f'SELECT written::TIMESTAMP - INTERVAL 8 HOUR AS "at", thread, kind, CASE kind {fields} END AS fields FROM ('
        f"SELECT written, thread, message, CASE {kinds} END AS kind FROM ("
        f"SELECT head.written, head.thread, head.message FROM (SELECT {head} FROM {lines})"
        ")) WHERE kind IS NOT NULL"
    )


def duckdb_patterns() -> Iterator[tuple[Pattern, str]]:
    """Yield the patterns that its engine can express in one line."""
    for pattern in PATTERNS:
        if not pattern.spans_lines and "\\3" not in pattern.regex:
            unbounded = re.sub(r"\{1,[0-9]+\}", "+", re.sub(r"\{0,[0-9]+\}", "*", pattern.regex))
            yield pattern, unbounded.replace(r"(?![^\n])", "$")


def _extracted(pattern: Pattern, regex: str) -> str:
    if not pattern.fields:
        return "'{}'"
    names = ", ".join(_quoted(field.name) for field in pattern.fields)
    return f"to_json(regexp_extract(message, {_quoted(regex)}, [{names}]))::VARCHAR"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


if __name__ == "__main__":
    raise SystemExit(main())
