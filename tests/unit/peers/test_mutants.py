"""What tests do not notice is found: changes are drawn by a seed, each is one of behaviour, and survivors are shown."""

import ast
import subprocess
from itertools import islice
from pathlib import Path

import pytest

from offsetguard_peers.mutants import changes, runs

PYTHON = '''"""A docstring of 3 lines."""
LIMIT: Literal[5] = 10


@dataclass(frozen=True)
class Queue:
    def lag(self, at: int = 7) -> int:
        log(f"{at + 1}")
        return -max(self.end - at, 0) if at is not None and at < LIMIT else "a" + "b"
'''


def test_each_change_is_one_of_behaviour_and_stands_for_itself() -> None:
    changed = changes.python_mutants(PYTHON)
    whole = ast.dump(ast.parse(PYTHON))
    assert all(ast.dump(ast.parse(text)) != whole for _, text in changed)
    lines = {line for _, text in changed for line in text.splitlines() if line not in PYTHON.splitlines()}
    assert lines == {
        "LIMIT: Literal[5] = 20",
        "    def lag(self, at: int = 14) -> int:",
        "        pass",
        '        return (max(self.end - at, 0)) if at is not None and at < LIMIT else "a" + "b"',
        '        return -(min(self.end - at, 0)) if at is not None and at < LIMIT else "a" + "b"',
        '        return -max((self.end + at), 0) if at is not None and at < LIMIT else "a" + "b"',
        '        return -max(self.end - at, 1) if at is not None and at < LIMIT else "a" + "b"',
        '        return -max(self.end - at, 0) if (at is not None or at < LIMIT) else "a" + "b"',
        '        return -max(self.end - at, 0) if (at is None) and at < LIMIT else "a" + "b"',
        '        return -max(self.end - at, 0) if at is not None and (at <= LIMIT) else "a" + "b"',
    }


def test_facts_are_changed_where_they_compare_add_up_and_leave_out() -> None:
    text = "SELECT\n  SUM(lag) AS lag, -- MAX(lag)\n  'a = b'\nFROM pairs\nWHERE\n  a <= 3\n  AND b IS NULL\n"
    assert [line for line, _ in changes.sql_mutants(text)] == [6, 2, 7, 7, 6, 7]
    assert {changed for _, changed in changes.sql_mutants(text)} == {
        text.replace("SUM(lag)", "MAX(lag)", 1),
        text.replace("<=", "<"),
        text.replace("3", "6"),
        text.replace("AND", "OR"),
        text.replace("IS NULL", "IS NOT NULL"),
        text.replace("  AND b IS NULL\n", ""),
    }


def test_a_seed_draws_the_same_changes_from_each_room_in_turn() -> None:
    names = ["decide", "facts", "spark"]
    first, again = (list(islice(changes.draw(7, names), 30)) for _ in range(2))
    assert first == again != list(islice(changes.draw(8, names), 30))
    assert [one.room for one in first] == names * 10


@pytest.mark.slow
def test_what_no_test_notices_survives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = {
        "plugins/offsetguard/__init__.py": "",
        "plugins/offsetguard/room/__init__.py": "",
        "plugins/offsetguard/room/figures.py": "def seen(a):\n    return a < 5\n\n\ndef other(a):\n    return a > 7\n",
        "tests/unit/room/test_noticed.py": (
            "from offsetguard.room.figures import seen\n\n\n"
            "def test_noticed():\n    assert [seen(n) for n in (4, 5, 6)] == [True, False, False]\n"
        ),
    }
    for name, text in project.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for command in (["git", "init", "-q"], ["git", "add", "."]):
        subprocess.run(command, cwd=tmp_path, check=True)
    survived = runs.run(changes.draw(1, ["room"], tmp_path), count=12, workers=2, root=tmp_path)
    assert {one.line for one in survived} == {6}
    printed = capsys.readouterr().out
    assert "killed by tests/unit/room/test_noticed.py::test_noticed" in printed
    assert "SURVIVED" in printed
    assert printed.count("\n-    return a > 7") == len(survived)


def test_tests_that_fail_without_any_change_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in {
        "plugins/offsetguard/room/a.py": "A = 1\n",
        "tests/unit/test_a.py": "def test_a(): assert 0\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for command in (["git", "init", "-q"], ["git", "add", "."]):
        subprocess.run(command, cwd=tmp_path, check=True)
    with pytest.raises(SystemExit, match="2"):
        runs.run(changes.draw(1, ["room"], tmp_path), count=1, workers=1, root=tmp_path)
    assert "test_a.py::test_a fails without any change" in capsys.readouterr().err
