"""`python -m offsetguard_peers.mutants.warm`: a process that runs pytest again and again, each time in a fork of it.

It has imported what takes long and is never changed, and nothing of the product: a fork imports that as it stands then.
Each line of standard input is a list of pytest's arguments in JSON. The answer is a line of JSON for each test that
starts, `["start", test]`, for the first that fails, `["failed", test]`, and at the end `["end", status]`: pytest's exit
code, or less than zero where a signal ended it. A test that takes longer than `TEST_S` ends the fork.
"""

import faulthandler
import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence

import pytest

TEST_S = 400  # of a busy machine; who goes round in circles is ended by it
_SLOW_TO_IMPORT = (
    "duckdb",
    "hypothesis",
    "hypothesis.strategies",
    "httpx",
    "jinja2",
    "numpy",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "sqlalchemy.orm",
    "yaml",
)


class _Reporter:
    """Says each test that starts or fails."""

    def __init__(self, say: Callable[[str, str | int], None]) -> None:
        self._say = say

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        _end_after_limit()
        self._say("start", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._say("failed", report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._say("failed", report.nodeid)


def _end_after_limit() -> None:
    faulthandler.dump_traceback_later(TEST_S, exit=True)  # no signal: tests and Airflow have handlers and timers


def main() -> None:
    """See the module's docstring."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # nothing else gets between the answers

    def say(what: str, value: str | int) -> None:
        answers.write(json.dumps([what, value]) + "\n")

    for name in _SLOW_TO_IMPORT:
        importlib.import_module(name)
    for line in sys.stdin:
        if process_id := os.fork():
            say("end", os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1]))
        else:
            os._exit(_run(json.loads(line), say))


def _run(arguments: Sequence[str], say: Callable[[str, str | int], None]) -> int:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    sys.argv = ["pytest", *arguments]
    _end_after_limit()
    return int(pytest.main(list(arguments), plugins=[_Reporter(say)]))


if __name__ == "__main__":
    main()
