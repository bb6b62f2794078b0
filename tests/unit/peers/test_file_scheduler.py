"""The order in which the workers of a test run get files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from offsetguard_peers.file_scheduler import (
    LONGEST,
    OWN_PEERS,
    SHARED_CLUSTERS,
    SPARK,
    WITH_OWN_PEERS,
    kind_of,
    next_file,
)

REPOSITORY = Path(__file__).parents[3]


SHARED = ("rocketmq_4", "rocketmq_5", "spark_server")  # fixtures


def test_the_files_that_are_named_exist() -> None:
    named = [*LONGEST, *WITH_OWN_PEERS]
    assert [path for path in named if not (REPOSITORY / path).exists()] == []


def test_files_with_peers_of_their_own_start_no_shared_ones() -> None:
    files = [file for path in WITH_OWN_PEERS for file in _python_files(REPOSITORY / path)]
    assert [file.name for file in files if any(name in file.read_text(encoding="utf-8") for name in SHARED)] == []


def _python_files(path: Path) -> list[Path]:
    return sorted(path.glob("test_*.py")) if path.is_dir() else [path]


def test_a_worker_stays_with_what_it_has_started_and_quick_files_come_last() -> None:
    files = ["tests/unit/test_offsets.py", "tests/spark/test_gate.py", "tests/live/test_peers.py", *LONGEST]
    kind, given = SPARK, []
    while files:
        given.append(next_file(files, kind))
        files.remove(given[-1])
        kind = kind_of(given[-1]) or kind
    kinds = [kind_of(file) for file in given]
    assert kinds == sorted(kinds, key=[SPARK, SHARED_CLUSTERS, OWN_PEERS, None].index)
    spark = [file for file in LONGEST if file.startswith("tests/spark/")]
    assert given[: len(spark) + 1] == [*spark, "tests/spark/test_gate.py"]


NOTES_ITS_WORKER = """\
import os, pathlib, time
import pytest
@pytest.mark.parametrize("number", range(3))
def test_that_notes_its_worker(number):
    time.sleep({seconds})
    folder = pathlib.Path(__file__).parents[2] / "noted"
    folder.mkdir(exist_ok=True)
    (folder / f"{{pathlib.Path(__file__).parent.name}} {{os.environ['PYTEST_XDIST_WORKER']}} {file} {{number}}").touch()
"""
USES_THE_SCHEDULER = """\
from offsetguard_peers.file_scheduler import FileScheduler
def pytest_xdist_make_scheduler(config, log):
    return FileScheduler(config, log)
"""


def test_of_three_workers_one_takes_quick_files_only_and_the_others_share_what_is_left(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(USES_THE_SCHEDULER)
    for kind, seconds, count in (("live", 0.3, 3), ("spark", 0.3, 3), ("unit", 0.0, 6)):
        (tmp_path / "tests" / kind).mkdir(parents=True)
        for number in range(count):
            name = f"test_{kind}_{number}"
            content = NOTES_ITS_WORKER.format(seconds=seconds, file=name)
            (tmp_path / "tests" / kind / f"{name}.py").write_text(content)
    command = [sys.executable, "-m", "pytest", "-p", "xdist", "-n", "3", "--dist", "loadfile", "tests"]
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # starts in half the time
    run = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    kinds_of = defaultdict(set)
    noted = [file.name.split() for file in (tmp_path / "noted").iterdir()]
    for kind, worker, *_ in noted:
        kinds_of[worker].add(kind)
    assert len(noted) == 3 * (3 + 3 + 6)
    assert kinds_of["gw2"] == {"unit"}
    assert kinds_of["gw0"] | kinds_of["gw1"] >= {"live", "spark"}
