"""The order in which the workers of a test run get files."""

from __future__ import annotations

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
