"""How fast a large broker.log is parsed with all patterns, and whether memory follows its size.

    uv run python benchmarks/parse_broker_log.py --folder logs            # 1 GiB, 5 rounds
    uv run python benchmarks/parse_broker_log.py --folder logs --size-mib 64
    uv run python benchmarks/parse_broker_log.py --folder logs --sample broker-a.log broker-b.log

The file is made once, of real lines, with a time that goes on: of the excerpts of the tests (stack traces included),
which were cut out for what they tell, so that nearly two lines in three are events; or of whole logs, with `--sample`.
How many lines are events is printed, since lines that no pattern is meant for are quick. It is parsed as the ingest job
does; the first round warms and does not count. A small file is parsed before, in a process of its own.

Exit code 1 when the large file takes more than 1.25 x the memory of the small one.
"""

import argparse
import multiprocessing
import re
import resource
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from offsetguard.config.workspace import Workspace
from offsetguard.sources.logs.matching import PATTERNS
from offsetguard_peers.spark.local import local_session
from offsetguard_spark.ingest import LogBatch, parsed_counts, parsed_rows

EXCERPTS = Path(__file__).parents[1] / "tests" / "unit" / "sources" / "logs" / "excerpts"
SAMPLES = ("broker-4.9.8.log", "broker-5.3.3.log", "slave-5.3.3.log")
MEMORY_AIM = 1.25
SMALL_MIB = 64
MIB = 1024 * 1024


@dataclass(frozen=True)
class Parsed:
    """What parsing a file took in one process: seconds of each round, events, and memory at most."""

    seconds: list[float]
    events: int
    peak_mib: dict[str, float]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where the logs are made, and kept for the next run")
    parser.add_argument("--size-mib", type=int, default=1024)
    parser.add_argument("--sample", type=Path, nargs="+", metavar="LOG", help="real logs to make the file of")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    template = template_of(arguments.sample or [EXCERPTS / name for name in SAMPLES])
    small, large = (
        made_log(arguments.folder, mib, template) for mib in (min(SMALL_MIB, arguments.size_mib), arguments.size_mib)
    )
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as processes:
        at_first, parsed = (processes.apply(parse, (file, arguments.rounds)) for file in (small, large))
    with large.open("rb") as file:
        lines = sum(block.count(b"\n") for block in iter(lambda: file.read(MIB), b""))
    median, mib = statistics.median(parsed.seconds), large.stat().st_size / MIB
    print(
        f"{large}: {mib:,.0f} MiB, {lines:,} lines, {parsed.events / lines:.0%} events; {len(PATTERNS)} patterns,"
        f" median {median:.1f} s (minimum {min(parsed.seconds):.1f})"
    )
    for what, peak in parsed.peak_mib.items():
        print(f"{what}: at most {peak:,.0f} MiB, for {small.name} {at_first.peak_mib[what]:,.0f}")
    grown = max(peak / at_first.peak_mib[what] for what, peak in parsed.peak_mib.items())
    print(f"memory grows by {grown:.2f} (aim: at most {MEMORY_AIM})")
    return int(grown > MEMORY_AIM)


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


def parse(file: Path, rounds: int) -> Parsed:
    """Parse a file as the ingest job does, once more than `rounds`."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        workspace = Workspace(home, home / "offsetguard.yml", f"sqlite:///{home / 'offsetguard.db'}")
        spark = local_session(workspace, **{"spark.driver.extraJavaOptions": "-XX:+UseSerialGC"})
        batch, seconds = LogBatch("benchmark", (str(file),), "broker-a", routine=True), []
        for _ in range(rounds + 1):
            started = time.perf_counter()
            parsed = parsed_rows(spark, batch, {str(file): "broker"}, file.stat().st_size)
            parsed_counts(parsed)
            seconds.append(time.perf_counter() - started)
            events = parsed.where("log_events IS NOT NULL").count()
            parsed.unpersist()
            print(f"{file.name}: {seconds[-1]:.1f} s", file=sys.stderr, flush=True)
        process = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
        status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
        peaks = {"JVM": int(re.findall(r"VmHWM:\s*([0-9]+)", status)[0]) / 1024}
        peaks["Python"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        spark.stop()
    return Parsed(seconds[1:], events, peaks)


if __name__ == "__main__":
    raise SystemExit(main())
