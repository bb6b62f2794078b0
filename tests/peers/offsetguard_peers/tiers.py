"""The parts of `make test-all`: run one after the other, also after a failure, with a table at the end.

    python -m offsetguard_peers.tiers                     every part
    python -m offsetguard_peers.tiers incidents kills     these
    python -m offsetguard_peers.tiers --list              what there is, and how long it takes about
    python -m offsetguard_peers.tiers --left-out          what `make test` left out

What a part says goes into `.test-all/PART.log`; here is one line for each, and the end of what failed.
Exit code: 0 = every part passed, 1 = one failed, 2 = there is no such part.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[3]
LOGS = ROOT / ".test-all"
LAST_LINES = 10
PYTEST = (sys.executable, "-m", "pytest", "-q")
SPREAD = ("-n", "2", "--dist", "loadgroup")  # one worker gets all that share a server: offsetguard_peers/needs.py
RESTARTS = "tests/live/incidents/test_restarted_clients.py"
GUARDED = "guarded or access_control or login or certificate"

Command = tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """Commands that belong together; all of them run, also after one has failed."""

    name: str
    what: str
    minutes: str  # about, on two idle cores
    commands: tuple[Command, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def tests(*arguments: str) -> Command:
    """Return the command that runs some tests."""
    return (*PYTEST, *arguments)


def _soak(version: str) -> Command:
    return (sys.executable, "benchmarks/soak.py", "--version", version)


def _claims(version: str) -> Command:
    return (sys.executable, "benchmarks/claims.py", "--version", version)


_PARTS_OF_THEIR_OWN = ("engines", "warm_server", "publish_killed", "object_store")  # of tests/spark
PARTS = (
    Part(
        "unit-thorough",
        "tests without a JVM, with 200 examples where `make test` tries 10, and simulated weeks and worlds",
        "7",
        (tests(*SPREAD, "tests/unit", "tests/architecture", "-m", "not postgres"),),
        {"OFFSETGUARD_EXAMPLES": "thorough"},
    ),
    Part(
        "spark",
        "all that Spark computes and publishes, on one JVM",
        "7",
        (
            tests(
                "tests/spark",
                *(f"--ignore=tests/spark/test_{name}.py" for name in _PARTS_OF_THEIR_OWN),
            ),
        ),
        {"OFFSETGUARD_EXAMPLES": "thorough"},
    ),
    Part(
        "versions",
        "real brokers of every version: client, collector, details, logs, POP, state files, the source matrix",
        "8",
        (
            tests(
                *SPREAD,
                "tests/live",
                "--ignore=tests/live/incidents",
                "--ignore=tests/live/test_demo.py",
                "--ignore=tests/live/test_end_to_end.py",
                "--ignore=tests/live/test_killed_collector.py",
                "--ignore=tests/live/test_readme.py",
                "--ignore=tests/live/test_without_spark.py",
                "-k",
                f"not ({GUARDED})",
            ),
        ),
    ),
    Part(
        "kills",
        "collector, publisher and deliverer killed at any moment",
        "2",
        (
            tests(*SPREAD, "tests/spark/test_publish_killed.py", "tests/live/test_killed_collector.py"),
            (sys.executable, "-m", "offsetguard_peers.delivery.kills", "--kills", "50"),
        ),
    ),
    Part(
        "mutants",
        "100 places of the product changed, one at a time: tests notice at least 90 of them",
        "60",
        ((sys.executable, "-m", "offsetguard_peers.mutants", "--count", "100"),),
    ),
    Part("audit", "no known vulnerability in what uv.lock pins", "1", (("make", "audit"),)),
    Part(
        "engines",
        "a job on Spark Connect, by spark-submit and on spark://; the warm Spark of a workspace",
        "3",
        (tests("tests/spark/test_engines.py", "tests/spark/test_warm_server.py"),),
    ),
    Part(
        "object-store",
        "hosts that share an object store and no disk",
        "6",
        (tests("tests/spark/test_object_store.py", "tests/unit/collect/test_landed_objects.py"),),
    ),
    Part(
        "tls-acl", "brokers with TLS and access control, of every version", "1", (tests("tests/live", "-k", GUARDED),)
    ),
    Part("postgres", "the store and deliverers on PostgreSQL", "1", (tests("tests/unit", "-m", "postgres"),)),
    Part("airflow", "DAGs, connections and pages in Airflow", "1", (tests("tests/airflow", "-m", "not browser"),)),
    Part("browser", "Airflow's pages opened in Chromium", "3", (tests("tests/airflow", "-m", "browser"),)),
    Part("end-to-end", "brokers, Airflow, Spark, mail and Slack", "3", (tests("tests/live/test_end_to_end.py"),)),
    Part(
        "readme",
        "the README followed line by line, from a clone to the first true warning",
        "4",
        (tests("tests/live/test_readme.py"),),
    ),
    Part(
        "without-spark",
        "ten minutes without Spark while a group stops",
        "15",
        (tests("tests/live/test_without_spark.py"),),
    ),
    Part(
        "demo", "`make demo`: the first warning arrives, and nothing is left", "2", (tests("tests/live/test_demo.py"),)
    ),
    Part(
        "incidents",
        "the five incidents on live brokers of both lines, beside what only looks like them; a switch of master, a "
        "tiered storage",
        "12",
        (tests("tests/live/incidents", f"--ignore={RESTARTS}"),),
    ),
    Part(
        "restarts",
        "a client that restarts again and again for half an hour, on live brokers of both lines",
        "65",
        (tests(RESTARTS),),
    ),
    Part(
        "soak",
        "30 minutes of a busy cluster of each line, the collector away at times: only who stands still is named",
        "61",
        (_soak("4.9.7"), _soak("5.5.0")),
    ),
    Part(
        "claims",
        "an hour of troubles on live brokers of each line: every sentence of mails, Slack and pages against the truth",
        "125",
        (_claims("4.9.7"), _claims("5.5.0")),
    ),
    Part(
        "day",
        "an hour played through: processes killed, brokers and mail away, the disk full, the clock stepping",
        "12",
        ((sys.executable, "benchmarks/day.py", "--minutes", "60"),),
    ),
    Part(
        "compose",
        "all parts as containers: built, killed, restarted",
        "24",
        (tests("tests/compose", "-m", "compose"),),
    ),
)


def run(part: Part) -> tuple[bool, str]:
    """Run all commands of a part, and keep what they say; returns whether one failed, and a line about it."""
    LOGS.mkdir(exist_ok=True)
    log = log_of(part)
    started = time.monotonic()
    codes = []
    with log.open("w", encoding="utf-8") as written:
        for command in part.commands:
            written.write(f"$ {' '.join(command)}\n")
            written.flush()
            environment = {**os.environ, **part.environment}
            done = subprocess.run(
                command, cwd=ROOT, env=environment, stdout=written, stderr=subprocess.STDOUT, check=False
            )
            codes.append(done.returncode)
    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    said = last_lines(part, 1)[0].strip("= ")
    return any(codes), f"{part.name:14} {'FAILED' if any(codes) else 'passed'} {minutes:4} min {seconds:2} s   {said}"


def log_of(part: Part) -> Path:
    """Return the file with what a part said."""
    return LOGS / f"{part.name}.log"


def last_lines(part: Part, count: int) -> list[str]:
    """Return the end of what a part said."""
    return log_of(part).read_text(encoding="utf-8", errors="replace").splitlines()[-count:]


def run_all(parts: Sequence[Part]) -> int:
    """Run parts, print a line for each as it ends, and a table of all at the end; returns the exit code."""
    lines, failed = [], []
    for part in parts:
        print(f"{part.name:14} ... {part.what} (about {part.minutes} min)", flush=True)
        has_failed, line = run(part)
        lines.append(line)
        print(line, flush=True)
        if has_failed:
            failed.append(part)
            print("\n".join(f"    {said}" for said in last_lines(part, LAST_LINES)), flush=True)
    print("\n" + "\n".join(lines))
    for part in failed:
        print(f"{part.name}: {log_of(part).relative_to(ROOT)}; again: make test-all PART={part.name}")
    return 1 if failed else 0


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--list", action="store_true", help="name the parts and run none")
    parser.add_argument("--left-out", action="store_true", help="say what `make test` leaves out")
    options = parser.parse_args(arguments)
    there = {part.name: part for part in PARTS}
    if options.list or options.left_out:
        if options.left_out:
            print("make test left out what is slow. `make test-all` has it, or one part: make test-all PART=NAME")
        print("\n".join(f"  {part.name:14} {part.what} (about {part.minutes} min)" for part in there.values()))
        return 0
    if unknown := [name for name in options.parts if name not in there]:
        print(f"there is no part {', '.join(unknown)}; there are {', '.join(there)}", file=sys.stderr)
        return 2
    return run_all([there[name] for name in options.parts or there])


if __name__ == "__main__":
    sys.exit(main())
