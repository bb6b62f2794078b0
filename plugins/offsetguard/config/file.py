"""Reads config/offsetguard.yml and tells every problem at once.

One line each: `file:line: path.to.field: what is wrong; did you mean 'x'?`

Every task reads the file when it runs, so a change holds from the next task on, without a restart. A file that was
found right is kept beside our data. Breaking it must not end collection, judgement and delivery: they go on with the
kept one, each task logs what is wrong, and the rule `config_broken` tells the default team.
"""

import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from offsetguard.config.configuration import Config, reference_problems
from offsetguard.config.fields import Section
from offsetguard.config.secret_values import gives_itself_away, smells
from offsetguard.config.workspace import Workspace, replace_text, why_unwritten
from offsetguard.config.yaml_lines import LinedDocument, Path, read_lined_yaml
from offsetguard.model.errors import ConfigError
from offsetguard.model.notification import RECEIVER_LISTS

_USE_A_CONNECTION = (
    "secrets do not belong in this file; use an Airflow connection and write its id here "
    "(clusters.<name>.connection, delivery.mail_connection, delivery.slack_connection, "
    "delivery.heartbeat_connection, and a team's lists of connections)"
)
_DURATION = re.compile(r"(\d+)\s*(ms|s|min|m|h|d)")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_WANTED = {
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "list_type": "must be a list: one '- entry' to a line",
    "dict_type": "must be a mapping: 'name:' with indented fields below it",
    "model_type": "must be a mapping: 'field: value' lines",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a file."""

    file: str
    line: int
    field: str  # groups[0].match
    what: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.field}: {self.what}"


class ConfigProblems(ConfigError):
    """The file can be read and does not hold; `problems` in the order of the file."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Say each problem on a line of its own."""
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A configuration that holds, and where each part of it stands."""

    path: pathlib.Path
    config: Config
    document: LinedDocument

    def problem(self, where: Path, what: str) -> Problem:
        """Name the file's line for something that is wrong with a part of the configuration."""
        return Problem(str(self.path), self.document.line(where), path_text(where), what)


def load_config(path: pathlib.Path) -> Config:
    """Read the file; raises ConfigError that lists every problem, one per line, each with its line."""
    return read_config_file(path).config


def read_config_file(path: pathlib.Path) -> ConfigFile:
    """Read the file and keep the lines; raises ConfigError as `load_config` does."""
    return parse_config(path, read_config_text(path))


def parse_config(path: pathlib.Path, text: str) -> ConfigFile:
    """Return what a file's text says; raises ConfigError as `load_config` does. `path` only stands in what is told."""
    document = _read_document(path, text)
    problems = {(line, where, what) for where, line, what in document.problems}
    values = {key: value for key, value in document.value.items() if value is not None or _is_required(key)}
    config, wrong = _validate(values)
    secrets = list(_secrets(values, ()))
    named = {where for where, _ in secrets} | {where for where, _, _ in document.problems}
    wrong = [*secrets, *((where, what) for where, what in wrong if where not in named)]
    problems.update((document.line(where), where, what) for where, what in wrong)
    if config is None or problems:
        in_order = sorted(problems, key=lambda problem: (problem[0], path_text(problem[1]), problem[2]))
        raise ConfigProblems([Problem(str(path), line, path_text(where), what) for line, where, what in in_order])
    return ConfigFile(path, config, document)


def path_text(path: Path) -> str:
    """Return a path as people write it: ('groups', 0, 'match') -> groups[0].match."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "the file"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the closest known name, or nothing when none is close."""
    by_lower = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""


def read_config_text(path: pathlib.Path) -> str:
    """Return the file's text; raises ConfigError that says why there is none."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(
            f"{path}: there is no such file; copy config/offsetguard.yml of the OffsetGuard distribution there, "
            "or name yours in the environment variable OFFSETGUARD_CONFIG"
        ) from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


def _read_document(path: pathlib.Path, text: str) -> LinedDocument:
    try:
        document = read_lined_yaml(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        context = f" {error.context}" if error.context else ""
        raise ConfigError(f"{path}:{line}: not YAML: {error.problem}{context}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path}:1: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(document.value, dict):
        raise ConfigError(
            f"{path}:1: the file: must be a mapping with clusters, teams and default_team, "
            f"but is {_kind(document.value)}; config/offsetguard.yml of the distribution shows how"
        )
    return document


def _validate(document: dict[str, Any]) -> tuple[Config | None, list[tuple[Path, str]]]:
    config, problems = None, []
    try:
        config = Config.model_validate(document)
    except ValidationError as error:
        # What a Config says about itself as a whole (path ()) is said below with the path of each part
        problems = [_explain(details) for details in error.errors() if details["loc"]]
    for where, what in reference_problems(document):
        named = _value_at(document, where)
        known = document.get("clusters" if where[-1] == "cluster" else "teams")
        suggestion = did_you_mean(named, known) if isinstance(named, str) and isinstance(known, dict) else ""
        problems.append((where, what + suggestion))
    return config, problems


def _is_required(key: str) -> bool:
    """Say whether a section left empty (`groups:` and only comments below it) is a mistake."""
    section = Config.model_fields.get(key)
    return section is None or section.is_required()


def _explain(details: ErrorDetails) -> tuple[Path, str]:
    where: Path = tuple(part for part in details["loc"] if part != "[key]")
    match details["type"]:
        case "extra_forbidden":
            known = sorted(_known_fields(where[:-1]))
            what = f"unknown key{did_you_mean(str(where[-1]), known)} (known here: {', '.join(known)})"
        case "missing":
            what = "is missing, and there is no default for it"
        case "too_short":
            what = "is empty; at least one entry is needed"
        case "greater_than" | "greater_than_equal":
            what = f"must be {'more than' if 'gt' in details['ctx'] else 'at least'} {_bound(details)}"
        case "enum" | "literal_error":
            known = _choices(details)
            hint = did_you_mean(str(details["input"]), known)
            what = f"must be one of {', '.join(known)}, but is {_kind(details['input'])}{hint}"
        case kind if kind in _WANTED:
            what = f"{_WANTED[kind]}, but is {_kind(details['input'])}{_hint(where, details['input'])}"
        case _:
            what = f"{_shown(details['input'])} {details['msg']}"
    return where, what


def _choices(details: ErrorDetails) -> list[str]:
    """Return what may stand there: pydantic gives it as text, `'en' or 'zh'`."""
    return re.findall(r"'([^']*)'", str(details["ctx"]["expected"]))


def _bound(details: ErrorDetails) -> str:
    limits = details["ctx"]
    return f"{limits.get('gt', limits.get('ge'))}, but is {_shown(details['input'])}"


def _hint(where: Path, value: object) -> str:
    name = next((part for part in reversed(where) if isinstance(part, str)), "")
    duration = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if name.endswith("_ms") and duration:
        return f"; milliseconds are meant: write {int(duration[1]) * _UNIT_MS[duration[2]]}"
    if isinstance(value, int) and name in {"from", "to", "daily_report_at"} and 0 <= value < 24 * 60:
        return f'; YAML reads 22:00 without quotes as a number: write "{value // 60:02}:{value % 60:02}"'
    if name == "slack" and value is None:
        return "; # starts a comment in YAML: write '#channel' in quotes"
    return ""


def _known_fields(where: Path) -> tuple[str, ...]:
    """Return the keys of the section at a path of the model."""
    section: type[Section] = Config
    for part in where:
        known = section.model_fields.get(part) if isinstance(part, str) else None
        section = _section_in(known.annotation if known else None) or section
    return section.key_names()


def _section_in(annotation: Any) -> type[Section] | None:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next(filter(None, map(_section_in, getattr(annotation, "__args__", ()))), None)


def _secrets(value: object, where: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, dict):
        for key, below in value.items():
            if smells(str(key)) and key not in RECEIVER_LISTS and not _is_chosen_name(where):
                yield (*where, key), _USE_A_CONNECTION
            else:
                yield from _secrets(below, (*where, key))
    elif isinstance(value, list):
        for position, below in enumerate(value):
            yield from _secrets(below, (*where, position))
    elif isinstance(value, str) and gives_itself_away(value):
        yield where, f"looks like a secret; {_USE_A_CONNECTION}"


def _is_chosen_name(where: Path) -> bool:
    """Say whether the keys below a path are names that the user chose: a team may be called `token-service`."""
    return where in {("clusters",), ("teams",)}


def _value_at(document: Any, where: Path) -> Any:
    for part in where:
        document = document[part]
    return document


def _kind(value: object) -> str:
    kinds = {dict: "a mapping", list: "a list", type(None): "empty"}
    word = _TYPE_WORDS.get(type(value), "a date to YAML; put it in quotes")
    return kinds.get(type(value)) or f"{_shown(value)} ({word})"


_TYPE_WORDS = {bool: "a yes/no value", int: "a number", float: "a number with a fraction", str: "text"}


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True, slots=True)
class ConfigInUse:
    """What a task goes by."""

    file: ConfigFile
    problem: str | None = None  # what is wrong with the file, a line for each mistake; None: it is the file
    not_kept: str | None = None  # why this file could not be kept for when it is broken; None: it was

    @property
    def config(self) -> Config:
        """What the file says."""
        return self.file.config


def config_in_use(workspace: Workspace, *, keep: bool = True) -> ConfigInUse:
    """Return what holds now; raises ConfigError when the file is broken and none that was right is kept.

    `keep`: keep a file that is right for when it is broken; who only looks changes nothing.
    """
    kept = workspace.last_good_config_file
    try:
        text = read_config_text(workspace.config_file)
        file = parse_config(workspace.config_file, text)
    except ConfigError as error:
        return ConfigInUse(_last_good(kept, error), str(error))
    return ConfigInUse(file, not_kept=_keep(kept, text, workspace.config_file.name) if keep else None)


def _last_good(kept: pathlib.Path, broken: ConfigError) -> ConfigFile:
    if not kept.is_file():
        raise broken
    try:
        return read_config_file(kept)
    except ConfigError:  # another release wrote it: what is said of the user's own file helps more
        raise broken from None


def _keep(kept: pathlib.Path, text: str, name: str) -> str | None:
    """Keep the text, unless it is there. That this is not possible stops nothing: the file itself is right."""
    try:
        if kept.is_file() and kept.read_text(encoding="utf-8") == text:
            return None
        kept.parent.mkdir(0o700, parents=True, exist_ok=True)
        replace_text(kept, text, durable=True)
    except OSError as error:
        return f"{why_unwritten(kept, error)}; a mistake in {name} would stop everything until then"
    return None
