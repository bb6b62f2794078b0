"""The tracked files in a folder of their own, and tests that run there, on one changed file at a time."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Self

from offsetguard_peers.mutants.changes import OTHER_ROOMS, ROOT, Mutant

SOURCES = ("plugins", "expectations", "spark", "tests/peers")
EVERYTHING = ("tests/unit", "tests/architecture")
_OPTIONS = ("-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-m", "not slow and not browser")
_NO_TEST = 5  # pytest's exit code


class Tests(StrEnum):
    """Those of a mutant's room, which are quick and notice most of them, and all others without a JVM."""

    OWN = "own"
    OTHERS = "others"


class FailsWithoutChange(Exception):
    """A test that noticed a change fails without it, too."""


class Copy:
    """The tracked files, and a warm process that runs their tests."""

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self._folder = folder
        self._passed: set[str] = set()  # names of tests, as the files are
        self._changes = 0
        tracked = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True).stdout
        for name in filter(None, tracked.decode().split("\0")):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target)
        for command in (["git", "init", "-q"], ["git", "add", "--all"]):  # some tests look at what is tracked
            subprocess.run(command, cwd=folder, check=True)
        (folder / ".cache").symlink_to(root / ".cache")
        (folder / ".venv").symlink_to(root / ".venv")
        paths = os.pathsep.join([*(str(folder / source) for source in SOURCES), *_own_source(root)])
        # the examples that hypothesis tries are the same ones in each run with CI
        self._environment = {**os.environ, "PYTHONPATH": paths, "CI": "true"}
        self._warm = subprocess.Popen(
            [sys.executable, "-m", "offsetguard_peers.mutants.warm"],
            cwd=folder,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._warm.stdin is not None
        self._warm.stdin.close()
        self._warm.wait()

    def failing_test(self, paths: Sequence[str], *options: str) -> str | None:
        """Run tests until one fails; returns its name, or None where all pass."""
        if not paths:
            return None
        assert self._warm.stdin is not None
        assert self._warm.stdout is not None
        self._warm.stdin.write(json.dumps([*_OPTIONS, *options, *paths]) + "\n")
        self._warm.stdin.flush()
        started = failed = None
        for line in self._warm.stdout:
            match json.loads(line):
                case ["start", test]:
                    started = test
                case ["failed", test]:
                    failed = failed or test
                case ["end", status] if status in {0, _NO_TEST}:
                    return None
                case ["end", status]:
                    return failed or started or f"pytest, which ended with {status} before the first test"
        raise RuntimeError("the process that runs the tests has ended; what it said is above")

    def test_files(self, *paths: str) -> list[str]:
        """Return the files with tests below some paths, which need not be there."""
        return [
            str(file.relative_to(self._folder))
            for path in paths
            for file in sorted((self._folder / path).rglob("test_*.py"))
        ]

    def killed_by(self, mutant: Mutant, tests: Tests, first: Sequence[str] = ()) -> str | None:
        """Return the test that noticed; None: none did, though all of them were run.

        The files `first` come first, and those that name what was changed. Raises ValueError where the change is
        none, and FailsWithoutChange.
        """
        files = own = self.test_files(*tests_of(mutant.room))
        if tests is Tests.OTHERS:
            files = [file for file in self.test_files(*EVERYTHING) if file not in own]
        name = re.compile(rf"\b{re.escape(Path(mutant.file).stem)}\b")
        near = [file for file in first if file in files]
        near += [file for file in files if name.search((self._folder / file).read_text(encoding="utf-8"))]
        parts = [list(dict.fromkeys(near)), [file for file in files if file not in near]]
        with self._changed(mutant):
            test = next(filter(None, map(self.failing_test, parts)), None)
        if test and "::" in test and test not in self._passed:
            if self.failing_test([test]):
                raise FailsWithoutChange(test)
            self._passed.add(test)
        return test

    @contextmanager
    def _changed(self, mutant: Mutant) -> Iterator[None]:
        file = self._folder / mutant.file
        duckdb = file.parent / "duckdb"
        files = [file, *(sorted(duckdb.glob("*.sql")) if file.suffix == ".sql" else [])]
        before = {one: (one.read_bytes(), one.stat().st_mtime) for one in files}
        try:
            file.write_text(mutant.text, encoding="utf-8")
            self._changes += 1  # bytecode is that of a file's second: no two changes share one
            os.utime(file, (at := before[file][1] + self._changes, at))
            if file.suffix == ".sql":
                command = [sys.executable, "-m", "offsetguard_peers.facts.sql"]
                done = subprocess.run(
                    command, cwd=self._folder, env=self._environment, capture_output=True, check=False
                )
                if done.returncode or all(one.read_bytes() == before[one][0] for one in files[1:]):
                    raise ValueError(mutant.file)
            yield
        finally:
            for one, (text, time) in before.items():
                one.write_bytes(text)
                os.utime(one, (time, time))


def _own_source(root: Path) -> list[str]:
    """Return where this package is, for a root that has no copy of it."""
    return [] if (root / SOURCES[-1]).exists() else [str(Path(__file__).parents[2])]


def tests_of(room: str) -> tuple[str, ...]:
    """Return the paths of a room's own tests."""
    return OTHER_ROOMS[room][1] if room in OTHER_ROOMS else (f"tests/unit/{room}",)
