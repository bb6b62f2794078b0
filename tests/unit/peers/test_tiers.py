"""`make test-all` goes on after a failure, says what failed and where its log lies, and leaves no test file out."""

import sys
from pathlib import Path

import pytest

from offsetguard_peers import tiers
from offsetguard_peers.cases.running import for_each
from offsetguard_peers.tiers import PARTS, ROOT, Part


@pytest.fixture
def _logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tiers, "LOGS", tmp_path)
    monkeypatch.setattr(tiers, "ROOT", tmp_path)


def program(text: str) -> tuple[str, ...]:
    return (sys.executable, "-c", text)


@pytest.mark.usefixtures("_logs")
def test_a_failure_is_told_with_its_log_and_the_parts_behind_it_run(capsys: pytest.CaptureFixture[str]) -> None:
    bad = Part("bad", "fails", "0", (program("print('why'); raise SystemExit(3)"), program("print('also ran')")))
    good = Part("good", "passes", "0", (program("import os; print(os.environ['SAID'])"),), {"SAID": "7 passed"})
    assert tiers.run_all([bad, good]) == 1
    said = capsys.readouterr().out
    assert "    why\n" in said
    table = said.split("\n\n")[-1].splitlines()
    assert [line.split()[:2] for line in table[:2]] == [["bad", "FAILED"], ["good", "passed"]]
    assert table[0].endswith("also ran")
    assert table[1].endswith("7 passed")
    assert table[2] == "bad: bad.log; again: make test-all PART=bad"


@for_each("file", sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py")))
def test_every_file_of_tests_belongs_to_a_part(file: str) -> None:
    assert any(_runs(command, file) for part in PARTS for command in part.commands), "no part of `make test-all` has it"


def _runs(command: tuple[str, ...], file: str) -> bool:
    wholly = "-k" not in command or any("not (" in argument for argument in command)
    named = any(argument.startswith("tests/") and file.startswith(argument) for argument in command)
    ignored = any(file.startswith(one.removeprefix("--ignore=")) for one in command if one.startswith("--ignore="))
    return wholly and named and not ignored


def test_the_page_names_every_part_with_its_time() -> None:
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    missing = [row for part in PARTS if (row := f"| `{part.name}` | {part.what} | {part.minutes} |") not in page]
    assert missing == [], "docs/testing.md is old"
