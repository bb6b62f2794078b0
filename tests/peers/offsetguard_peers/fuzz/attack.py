"""Fuzzing of everything that reads bytes from outside: `make fuzz`, or `python -m offsetguard_peers.fuzz`.

Goal: no input crashes, hangs, or takes memory without bound; what is refused is refused with the error that is meant
for it. Plan: real inputs, mutated (`inputs.py`), go to every reader (`targets.py`) in several processes; a finding
is kept as a file and can be made again from its seed and number. CPU time is counted rather than time, so a busy
machine finds no hangs that are not there.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from types import FrameType

from offsetguard_peers.fuzz.inputs import hostile
from offsetguard_peers.fuzz.target import Target
from offsetguard_peers.fuzz.targets import all_targets

HANG_S = 1.0  # CPU seconds for at most 64 KiB
MEMORY_BYTES = 300 * 1024 * 1024  # of address space on top of what a process has when it begins
CHUNK = 20_000


class Hung(BaseException):
    """A reader used more CPU time than any input is worth; not an Exception, so that no reader catches it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One input that was not read and not refused as it should be."""

    target: str
    seed: int
    number: int
    error: str  # type and text
    where: str  # file:line of ours, or of the target
    data: bytes


@dataclass(slots=True)
class Report:
    """What a run did; reports of several processes add up."""

    read: Counter[str] = field(default_factory=Counter)  # inputs that were accepted, by target
    refused: Counter[str] = field(default_factory=Counter)
    findings: dict[tuple[str, str, str], Finding] = field(default_factory=dict)  # the first of each kind
    finding_count: int = 0
    slowest: dict[str, tuple[float, int, int]] = field(default_factory=dict)  # target -> (CPU s, input bytes, number)
    peak_memory_bytes: int = 0

    @property
    def input_count(self) -> int:
        """How many inputs were tried."""
        return self.read.total() + self.refused.total() + self.finding_count

    def add(self, other: Report) -> None:
        """Take over what another process found."""
        self.read += other.read
        self.refused += other.refused
        self.findings = other.findings | self.findings
        self.finding_count += other.finding_count
        for target, slow in other.slowest.items():
            self.slowest[target] = max(self.slowest.get(target, slow), slow)
        self.peak_memory_bytes = max(self.peak_memory_bytes, other.peak_memory_bytes)


def run(seed: int, numbers: Iterable[int], targets: tuple[Target, ...] | None = None) -> Report:
    """Try inputs, each on one target chosen by weight; everything follows from seed and number."""
    chosen = targets or all_targets()
    weights = [target.weight for target in chosen]
    report = Report()
    for number in numbers:
        (target,) = random.Random(seed << 41 | number << 1 | 1).choices(chosen, weights)  # noqa: S311
        _try_one(target, seed, number, report)
    report.peak_memory_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return report


def _try_one(target: Target, seed: int, number: int, report: Report) -> None:
    data = hostile(seed, number, target.originals)
    before = time.thread_time()
    try:
        target.read(data)
        report.read[target.name] += 1
    except target.refusals:
        report.refused[target.name] += 1
    except (Exception, Hung) as error:  # noqa: BLE001  that is what is looked for; it is counted and kept
        report.finding_count += 1
        finding = Finding(target.name, seed, number, f"{type(error).__name__}: {error!s:.200}", _where(error), data)
        report.findings.setdefault((target.name, type(error).__name__, finding.where), finding)
    used = time.thread_time() - before, len(data), number
    report.slowest[target.name] = max(report.slowest.get(target.name, used), used)


def _where(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "offsetguard" in frame.filename]
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"


def _guard() -> None:
    """Limit this process: memory at all, and CPU time of one input (looked at four times in a second of CPU time)."""
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # the default one reserves gigabytes of address space
    arrow = importlib.import_module("pyarrow")  # else the first message that needs it is taken for a slow one
    arrow.set_cpu_count(1), arrow.set_io_thread_count(1)  # each thread takes address space
    all_targets()
    importlib.import_module("offsetguard_spark.landed")
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    def look(_: int, frame: FrameType | None) -> None:
        began = _input_began(frame)
        if began is not None and time.thread_time() - began > HANG_S:
            raise Hung(f"more than {HANG_S:.0f} s of CPU time")

    signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, 0.25, 0.25)


def _input_began(frame: FrameType | None) -> float | None:
    """Return the CPU time at which the input began that is being read; None between inputs."""
    while frame is not None and frame.f_code is not _try_one.__code__:
        frame = frame.f_back
    return frame.f_locals.get("before") if frame is not None else None


def _chunk(seed: int, first: int, count: int) -> Report:
    return run(seed, range(first, first + count))


def main() -> int:
    """Run from the command line; 1 = something was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=int, help="number of one input: try it again and show what it does")
    parser.add_argument("--out", type=Path, default=Path(".cache/fuzz"), help="where findings are kept")
    options = parser.parse_args()
    if options.only is not None:
        return _show(run(options.seed, [options.only]), options.out, 0.0)
    began = time.monotonic()
    total = Report()
    spawn = get_context("spawn")  # each process has the memory of its own imports only
    with ProcessPoolExecutor(options.processes, mp_context=spawn, initializer=_guard) as pool:
        firsts = range(0, options.inputs, CHUNK)
        chunks = [pool.submit(_chunk, options.seed, first, min(CHUNK, options.inputs - first)) for first in firsts]
        for done, chunk in enumerate(chunks, 1):
            total.add(chunk.result())
            if sys.stderr.isatty():
                print(f"\r{done * CHUNK:,} inputs, {total.finding_count} findings", end="", file=sys.stderr)
    return _show(total, options.out, time.monotonic() - began)


def _show(report: Report, out: Path, seconds: float) -> int:
    print(f"{'reader':<26}{'inputs':>12}{'refused':>9}{'slowest':>12}{'its size':>10}")
    for target in sorted({*report.read, *report.refused, *report.slowest}):
        inputs = report.read[target] + report.refused[target]
        used, size, _ = report.slowest[target]
        share = report.refused[target] / inputs if inputs else 0.0
        print(f"{target:<26}{inputs:>12,}{share:>9.0%}{used * 1000:>9.1f} ms{size:>10,}")
    rate = f", {report.input_count / seconds:,.0f}/s" if seconds else ""
    peak = report.peak_memory_bytes / 1024**2
    print(f"{report.input_count:,} inputs{rate}, {report.finding_count} findings, peak memory {peak:.0f} MiB")
    for finding in report.findings.values():
        out.mkdir(parents=True, exist_ok=True)
        file = out / f"{finding.target.replace(' ', '-')}-{finding.seed}-{finding.number}"
        file.write_bytes(finding.data)
        print(f"FOUND {finding.target}: {finding.error} at {finding.where}; kept as {file}")
        print(f"  again: python -m offsetguard_peers.fuzz --seed {finding.seed} --only {finding.number}")
    return 1 if report.finding_count else 0
