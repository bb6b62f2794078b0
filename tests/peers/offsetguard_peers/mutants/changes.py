"""What may be changed: one comparison, operator, sign, constant or line of Python or of a fact's SQL, drawn by a seed.

A constant becomes twice as large: comparisons show who is off by one. What changes no behaviour is not drawn: texts,
annotations, decorators, docstrings, imports.
"""

from __future__ import annotations

import ast
import difflib
import random
import re
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[4]
LOGIC = "plugins/offsetguard"
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
