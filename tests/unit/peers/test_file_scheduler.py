"""The order in which the workers of a test run get files."""

from __future__ import annotations

from pathlib import Path

from offsetguard_peers.file_scheduler import LONGEST, kind_of, next_file

REPOSITORY = Path(__file__).parents[3]


def test_the_files_that_come_first_exist() -> None:
    assert [file for file in LONGEST if not (REPOSITORY / file).is_file()] == []


def test_a_worker_stays_with_what_it_has_started_and_quick_files_come_last() -> None:
    files = ["tests/unit/test_offsets.py", "tests/spark/test_gate.py", "tests/live/test_peers.py", *LONGEST]
    kind, given = "tests/spark/", []
    while files:
        given.append(next_file(files, kind))
        files.remove(given[-1])
        kind = kind_of(given[-1]) or kind
    kinds = [kind_of(file) for file in given]
    assert kinds == sorted(kinds, key=["tests/spark/", "tests/live/", None].index)
    spark = [file for file in LONGEST if file.startswith("tests/spark/")]
    assert given[: len(spark) + 1] == [*spark, "tests/spark/test_gate.py"]
