"""`make mutants SEED=… COUNT=…`: change the product in one place at a time, and see whether a test notices.

    python -m offsetguard_peers.mutants --seed 7 --count 100           all rooms in turn
    python -m offsetguard_peers.mutants --seed 7 --count 20 --rooms facts decide
    python -m offsetguard_peers.mutants --seed 7 --count 100 --list    what would be changed; runs nothing

A mutant is one comparison, operator, sign, constant or line that is another one, drawn by the seed: rooms take turns,
within a room each place is as likely as any other. A constant becomes twice as large: comparisons show who is off by
one. What changes no behaviour is not drawn: texts, annotations, decorators, docstrings, imports. Facts are changed in
the SQL that people write; DuckDB's text is made from it again, and what that refuses is drawn anew.

Each runs in a copy of the tracked files (`--workers` copies), first the tests of its own room, then all others without
a JVM; Spark's and Airflow's rooms have their own tests before these. Whoever survives all of them is printed as a
difference, to be killed by a case, or to be judged: some mutants mean the same. Exit code: 0 = at least `--least`
per cent were killed, 1 = fewer, 2 = the tests fail without any change.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import queue
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = ("plugins", "expectations", "spark", "tests/peers")
LOGIC = "plugins/offsetguard"
LIMIT_S = 1200  # a mutant that goes round in circles is killed by it
EVERYTHING = ("tests/unit", "tests/architecture")
OTHER_ROOMS = {
    "expectations": ("expectations/offsetguard_expectations", ("tests/unit/expectations", "tests/spark")),
    "spark": ("spark/offsetguard_spark", ("tests/unit/spark", "tests/spark")),
    "airflow": ("plugins/offsetguard_airflow", ("tests/airflow",)),
}
_NOT_DRAWN = ("reference.py", "__main__.py", "/migrations/", "/duckdb/")  # what is generated or generates, and the past


@dataclass(frozen=True)
class Mutant:
    """One changed place of one file."""

    room: str
    file: str  # below the root
    line: int
    before: str  # of the whole file
    text: str  # of the whole changed file

    def difference(self) -> str:
        """Return what changed, as a unified diff."""
        before = self.before.splitlines()
        lines = difflib.unified_diff(before, self.text.splitlines(), self.file, self.file, lineterm="", n=1)
        return "\n".join(lines)


_OTHER_OPERATOR: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}


def _changed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what a node may become."""
    match node:
        case ast.Compare(ops=ops):
            for n, operator in enumerate(ops):
                other = deepcopy(node)
                other.ops[n] = _OTHER_OPERATOR[type(operator)]()  # type: ignore[call-overload]
                yield other
        case ast.BoolOp(op=operator, values=values):
            yield ast.BoolOp(_OTHER_OPERATOR[type(operator)](), values)  # type: ignore[arg-type]
        case ast.BinOp(op=operator) if type(operator) in _OTHER_OPERATOR and not _is_text(node):
            yield ast.BinOp(node.left, _OTHER_OPERATOR[type(operator)](), node.right)  # type: ignore[arg-type]
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            yield operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield ast.Constant(_other_number(value))
        case ast.Call(func=ast.Name(id="min" | "max" as name)):
            yield ast.Call(ast.Name("max" if name == "min" else "min"), node.args, node.keywords)
        case ast.Expr(value=ast.Call() | ast.Yield() | ast.YieldFrom()) | ast.AugAssign():
            yield ast.Pass()


def _other_number(value: float) -> float:
    return value + 1 if value in {0, 1} else value * 2


def _is_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(one, ast.JoinedStr) or (isinstance(one, ast.Constant) and isinstance(one.value, str))
        for one in ast.walk(node)
    )


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a tree's nodes, but for those whose change is none of behaviour."""
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params", "bases"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.Import | ast.ImportFrom | ast.JoinedStr):
                continue
            if isinstance(child, ast.keyword) and child.arg == "strict":  # of zip: it only guards
                continue
            if not isinstance(child, ast.If) or "TYPE_CHECKING" not in ast.dump(child.test):
                yield child
                yield from _nodes(child)


def python_mutants(text: str) -> list[tuple[int, str]]:
    """Return all changed texts of a Python file, each with its line."""
    starts, at = [0, 0], 0
    for line in text.encode().splitlines(keepends=True):
        at += len(line)
        starts.append(at)
    found = []
    for node in _nodes(ast.parse(text)):
        if not isinstance(node, ast.expr | ast.stmt) or node.end_lineno is None or node.end_col_offset is None:
            continue
        begin, end = starts[node.lineno] + node.col_offset, starts[node.end_lineno] + node.end_col_offset
        for other in _changed(node):
            code = ast.unparse(ast.fix_missing_locations(other))
            code = f"({code})" if isinstance(other, ast.expr) and not isinstance(other, ast.Constant) else code
            whole = text.encode()
            found.append((node.lineno, (whole[:begin] + code.encode() + whole[end:]).decode()))
    return found


_NUMBER = r"(?<![\w.])\d+(?![\w.])"
_SQL: tuple[tuple[str, Sequence[str]], ...] = (
    (r"(?<![<>!=-])<(?![=>])", ("<=",)),
    (r"(?<![<-])>(?!=)", (">=",)),
    (r"<=", ("<",)),
    (r">=", (">",)),
    (r"(?<![<>!=])=(?![=>])", ("<>",)),
    (r"<>", ("=",)),
    (r"(?<= )\+(?= )", ("-",)),
    (r"(?<= )-(?= )", ("+",)),
    (r"\bMAX\(", ("MIN(", "SUM(")),
    (r"\bMIN\(", ("MAX(",)),
    (r"\bSUM\(", ("MAX(",)),
    (r"\bGREATEST\(", ("LEAST(",)),
    (r"\bLEAST\(", ("GREATEST(",)),
    (r"\bAND\b", ("OR",)),
    (r"\bOR\b", ("AND",)),
    (r"\bIS NOT NULL\b", ("IS NULL",)),
    (r"\bIS NULL\b", ("IS NOT NULL",)),
    (r"\bTRUE\b", ("FALSE",)),
    (r"\bFALSE\b", ("TRUE",)),
    (r"\bLEFT JOIN\b", ("INNER JOIN",)),
    (r"\bDESC\b", ("ASC",)),
    (r"\bDISTINCT\b", ("",)),
    (_NUMBER, ("{}",)),
    (r"(?m)^ +(?:AND|OR) .*\n", ("",)),  # a line
)
_COMMENT_OR_TEXT = re.compile(r"--[^\n]*|'[^']*'")
_WIDTH = re.compile(r"(?:DECIMAL|VARCHAR)\([^)]*\)|BETWEEN|INTERVAL \d+")


def sql_mutants(text: str) -> list[tuple[int, str]]:
    """Return all changed texts of an SQL file, each with its line."""
    code = _COMMENT_OR_TEXT.sub(lambda match: "\0" * len(match.group()), text)
    code = _WIDTH.sub(lambda match: "\0" * len(match.group()), code)
    return [
        (
            code.count("\n", 0, match.start()) + 1,
            text[: match.start()] + _written(what, match) + text[match.end() :],
        )
        for pattern, instead in _SQL
        for match in re.finditer(pattern, code)
        for what in instead
    ]


def _written(what: str, match: re.Match[str]) -> str:
    return what.format(_other_number(int(match.group()))) if match.group().isdigit() else what


def rooms(root: Path = ROOT) -> dict[str, str]:
    """Return the folder of each room."""
    named = {path.name: f"{LOGIC}/{path.name}" for path in sorted((root / LOGIC).iterdir()) if path.is_dir()}
    named |= {name: folder for name, (folder, _) in OTHER_ROOMS.items()}
    return {name: folder for name, folder in named.items() if any((root / folder).rglob("*.py"))}


def draw(seed: int, names: Sequence[str], root: Path = ROOT) -> Iterator[Mutant]:
    """Yield mutants without end, the rooms in turn; the same for each run on the same files."""
    random_of_seed = random.Random(seed)  # noqa: S311 -- it hides nothing
    folders = rooms(root)
    places = {name: list(_places(name, root / folders[name], root)) for name in names}
    while True:
        for name in names:
            yield random_of_seed.choice(places[name])


def _places(room: str, folder: Path, root: Path) -> Iterator[Mutant]:
    for path in sorted(path for path in folder.rglob("*") if path.suffix in {".py", ".sql"}):
        file = str(path.relative_to(root))
        if any(part in file for part in _NOT_DRAWN):
            continue
        mutants: Callable[[str], list[tuple[int, str]]] = sql_mutants if path.suffix == ".sql" else python_mutants
        before = path.read_text(encoding="utf-8")
        yield from (Mutant(room, file, line, before, text) for line, text in mutants(before))


class Copy:
    """The tracked files in a folder of their own, and tests that run there."""

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self._folder = folder
        tracked = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True).stdout
        for name in filter(None, tracked.decode().split("\0")):
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, target)
        for command in (["git", "init", "-q"], ["git", "add", "--all"]):  # some tests look at what is tracked
            subprocess.run(command, cwd=folder, check=True)
        (folder / ".cache").symlink_to(root / ".cache")
        (folder / ".venv").symlink_to(root / ".venv")
        paths = os.pathsep.join(str(folder / source) for source in SOURCES)
        # the examples that hypothesis tries are the same ones in each run with CI
        self._environment = {**os.environ, "PYTHONPATH": paths, "CI": "true", "PYTHONDONTWRITEBYTECODE": "1"}

    def failing_test(self, paths: Sequence[str], ignored: Sequence[str] = ()) -> str | None:
        """Run tests until one fails; returns its name, or None where all pass."""
        there = [path for path in paths if (self._folder / path).exists()]
        if not there:
            return None
        options = ["-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-m", "not slow and not browser"]
        command = [sys.executable, "-m", "pytest", *options, *there, *(f"--ignore={one}" for one in ignored)]
        try:
            done = self._run(command)
        except subprocess.TimeoutExpired:
            return f"time-out of {LIMIT_S} s"
        if done.returncode in {0, 5}:  # 5: there is no test
            return None
        named = re.findall(r"(?m)^(?:FAILED|ERROR) (\S+)", done.stdout)
        return named[0] if named else f"pytest ended with {done.returncode}: {done.stdout[-300:]}"

    def killed_by(self, mutant: Mutant) -> str | None:
        """Return the test that noticed; None: none did. Raises ValueError where the change is none."""
        file = self._folder / mutant.file
        file.write_text(mutant.text, encoding="utf-8")
        try:
            if file.suffix == ".sql":
                self._translate(mutant)
            own = _tests_of(mutant.room)
            return self.failing_test(own) or self.failing_test(EVERYTHING, ignored=own)
        finally:
            file.write_text(mutant.before, encoding="utf-8")
            if file.suffix == ".sql":
                self._run([sys.executable, "-m", "offsetguard_peers.facts.sql"])

    def _translate(self, mutant: Mutant) -> None:
        duckdb = self._folder / LOGIC / "facts" / "duckdb" / Path(mutant.file).name
        before = duckdb.read_text(encoding="utf-8") if duckdb.exists() else ""
        done = self._run([sys.executable, "-m", "offsetguard_peers.facts.sql"])
        if done.returncode or (duckdb.exists() and duckdb.read_text(encoding="utf-8") == before):
            raise ValueError(mutant.file)

    def _run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )


def _tests_of(room: str) -> tuple[str, ...]:
    return OTHER_ROOMS[room][1] if room in OTHER_ROOMS else (f"tests/unit/{room}",)


def run(mutants: Iterator[Mutant], *, count: int, workers: int, root: Path = ROOT) -> list[Mutant]:
    """Try `count` mutants; returns who survived, and prints a line for each as it ends.

    Raises SystemExit(2) if a test fails without any change.
    """
    survived: list[Mutant] = []
    with tempfile.TemporaryDirectory(prefix="offsetguard-mutants-") as folder, ThreadPoolExecutor(workers) as pool:
        copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()
        for number in range(workers):
            copies.put(Copy(Path(folder) / str(number), root))

        def is_tried(mutant: Mutant) -> bool:
            """Try one; False: it is refused, and another one has to be drawn."""
            copy, started = copies.get(), time.monotonic()
            try:
                test = copy.killed_by(mutant)
            except ValueError:
                return False
            finally:
                copies.put(copy)
            if test is None:
                survived.append(mutant)
            said = f"killed by {test}" if test else f"SURVIVED\n{mutant.difference()}\n"
            print(f"{mutant.file}:{mutant.line} {said} ({time.monotonic() - started:.0f} s)", flush=True)
            return True

        first = copies.get()
        if failing := first.failing_test(EVERYTHING):
            print(f"{failing} fails without any change: mend that first", file=sys.stderr)
            raise SystemExit(2)
        copies.put(first)
        left = count
        while left:
            left -= sum(pool.map(is_tried, islice(mutants, left)))
    return survived


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=None, help="drawn, and printed, by default")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--rooms", nargs="+", choices=sorted(rooms()), default=sorted(rooms()))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--least", type=float, default=90.0, help="per cent that must be killed")
    parser.add_argument("--list", action="store_true", help="print the mutants and run none")
    options = parser.parse_args()
    seed = random.randrange(1_000_000) if options.seed is None else options.seed  # noqa: S311 -- it hides nothing
    print(f"--seed {seed} --count {options.count} --rooms {' '.join(options.rooms)}", flush=True)
    mutants = draw(seed, options.rooms)
    if options.list:
        for _ in range(options.count):
            print(next(mutants).difference())
        return 0
    killed = options.count - len(run(mutants, count=options.count, workers=options.workers))
    print(f"{killed} of {options.count} killed ({killed / options.count:.0%})")
    return 0 if 100 * killed >= options.least * options.count else 1


if __name__ == "__main__":
    sys.exit(main())
