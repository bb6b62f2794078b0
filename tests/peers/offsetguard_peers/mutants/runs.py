"""Try mutants one after the other in copies of the files, and keep what became of each."""

import hashlib
import json
import queue
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice, repeat
from pathlib import Path

from offsetguard_peers.mutants.changes import ROOT, Mutant
from offsetguard_peers.mutants.copies import EVERYTHING, Copy, FailsWithoutChange, Tests, tests_of

_FIRST = 3  # files of tests


class Results:
    """What became of mutants, of all runs: `.cache/mutants.jsonl`, a line of JSON each."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._file = root / ".cache" / "mutants.jsonl"
        self._file.parent.mkdir(exist_ok=True)
        self._file.touch()
        self._lines = [json.loads(line) for line in self._file.read_text(encoding="utf-8").splitlines()]
        self._files = _digest_of_tracked(root)

    def began(self) -> bool:
        """Whether a mutant of these files was tried, so that all tests could be collected."""
        return any(line["files"] == self._files for line in self._lines)

    def of(self, mutant: Mutant, tests: Tests) -> tuple[str | None] | None:
        """Return what noticed it of some tests, when all files were what they are; None: it was not tried by them."""
        key = self._key(mutant)
        return next(((line["test"],) for line in self._lines if line["key"] == key and line["tests"] == tests), None)

    def add(self, mutant: Mutant, tests: Tests, test: str | None) -> None:
        """Keep what noticed it, if anything did."""
        key = self._key(mutant)
        line = {"files": self._files, "key": key, "room": mutant.room, "tests": tests, "test": test}
        self._lines.append(line)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def noticed_last(self, room: str) -> list[str]:
        """Return the files whose tests noticed mutants of a room last, the last first."""
        tests = [line["test"] for line in reversed(self._lines) if line["room"] == room]
        return list(dict.fromkeys(test.split("::")[0] for test in tests if test and "::" in test))[:_FIRST]

    def _key(self, mutant: Mutant) -> str:
        return hashlib.sha256(f"{self._files}\0{mutant.file}\0{mutant.text}".encode()).hexdigest()


def _digest_of_tracked(root: Path) -> str:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True).stdout.split(b"\0")
    of_files = hashlib.sha256()
    for name in filter(None, names):
        of_files.update(name + b"\0" + hashlib.sha256((root / name.decode()).read_bytes()).digest())
    return of_files.hexdigest()


def run(mutants: Iterator[Mutant], *, count: int, workers: int, root: Path = ROOT) -> list[Mutant]:
    """Try `count` mutants; returns who survived, and prints a line for each as it ends.

    All are tried by the tests of their rooms before those that are left are tried by all others, which takes minutes
    each: most of what a run tells is told early. Raises SystemExit(2) if a test fails without any change.
    """
    results = Results(root)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="offsetguard-mutants-"))
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for number in range(workers):
            copies.put(stack.enter_context(Copy(Path(folder) / str(number), root)))
        pool = stack.enter_context(ThreadPoolExecutor(workers))
        killed = 0

        def tried(mutant: Mutant, tests: Tests) -> bool | None:
            """Return whether it was killed; None: it is refused, and another one has to be drawn."""
            nonlocal killed
            copy, started = copies.get(), time.monotonic()
            try:
                if (before := results.of(mutant, tests)) is not None:
                    (test,) = before
                else:
                    test = copy.killed_by(mutant, tests, results.noticed_last(mutant.room))
                    results.add(mutant, tests, test)
            except ValueError:
                return None
            finally:
                copies.put(copy)
            killed += test is not None
            figures = f"{time.monotonic() - started:.0f} s; {killed} of {count} killed"
            if test is None and tests is Tests.OTHERS:
                print(f"{mutant.file}:{mutant.line} SURVIVED ({figures})\n{mutant.difference()}\n", flush=True)
            else:
                said = f"killed by {test}" if test else f"survives {', '.join(tests_of(mutant.room))}"
                print(f"{mutant.file}:{mutant.line} {said} ({figures})", flush=True)
            return test is not None

        first = copies.get()
        try:
            if not results.began() and (failing := first.failing_test(first.test_files(*EVERYTHING), "--collect-only")):
                raise FailsWithoutChange(failing)
            copies.put(first)
            left: list[Mutant] = []
            to_draw = count
            while to_draw:
                drawn = list(islice(mutants, to_draw))
                fates = list(pool.map(tried, drawn, repeat(Tests.OWN)))
                left += [one for one, is_killed in zip(drawn, fates, strict=True) if is_killed is False]
                to_draw -= sum(is_killed is not None for is_killed in fates)
            fates = list(pool.map(tried, left, repeat(Tests.OTHERS)))
        except FailsWithoutChange as error:
            pool.shutdown(cancel_futures=True)
            print(f"{error} fails without any change: mend that first", file=sys.stderr)
            raise SystemExit(2) from error
    return [one for one, is_killed in zip(left, fates, strict=True) if not is_killed]
