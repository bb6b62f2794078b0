"""docs/configuration.md, made from the model: `python -m offsetguard.config.reference > docs/configuration.md`.

A field's meaning is the comment behind it in `config/`, its type is read from its annotation.
"""

from __future__ import annotations

import ast
import inspect
import io
import sys
import textwrap
import tokenize
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from typing import Any

from offsetguard.catalogue.text import Language
from offsetguard.config import Cluster, Collection, Config, Delivery, Judgement, LogSource, Retention, Team, Tls
from offsetguard.config.groups import EffectivePolicy, GroupPolicy
from offsetguard.config.routes import Day, MaintenanceEntry, QuietHoursEntry, RouteEntry
from offsetguard.config.sections import key_of
from offsetguard.model.verdicts import Severity

_INTRODUCTION = """\
# Configuration

Made from `plugins/offsetguard/config/` by `python -m offsetguard.config.reference`; edit there, or below in that file.
[config/offsetguard.yml](../config/offsetguard.yml) is a whole file with examples in comments.

- **Where**: the environment variable `OFFSETGUARD_CONFIG` names the file; without it, `config/offsetguard.yml`.
- **When it holds**: every task reads it when it runs, so a change holds from the next task on; nothing is restarted.
- **When it is broken**: tasks go on with the last file that was right (kept as `last_good_config.yml` in
  `OFFSETGUARD_HOME`), each logs what is wrong with its line, and after two intervals the default team hears of it
  (rule [config_broken](rules.md#config_broken)). Where no file was right before, tasks fail with the same lines.
- **Check it**: `offsetguard config check` says what was understood and every problem with its line;
  `--live` also asks the name servers which patterns match no consumer group.
- **Try it**: `offsetguard routes test --cluster main --group order-settlement [--rule ...] [--severity ...] [--at ...]`
  says who would be told, how, when, what mutes it, who is escalated to, and by which lines of the file.
- **No secrets**: logins stand in Airflow connections; the file holds their ids.
- Patterns are globs: `*` anything, `?` one character, `[ab]` one of them; case matters. Times end in `_ms`.

## Which entry wins

In `groups` and in `routes`, for each field the first entry that matches and sets it wins; so special cases stand above
general ones, and what they do not set is inherited from below, at last from the defaults (`groups`), the team's own
receivers and `delivery` (`routes`). An entry that can never take effect is a problem to `config check`.

Who hears of trouble of a consumer group: its team (`groups`), else the default team. Trouble of brokers and of the
cluster itself belongs to the default team. The receivers are the team's, unless a route replaces them, kind by kind; a
team that is left with none is heard by the default team: somebody always hears.

A route also matches what is about no group in particular only where its `consumer_group` is `*`.
"""
_WORDS = {
    "Address": "host:port",
    "ConnectionId": "connection id",
    "Count": "number, 0 or more",
    "FilePath": "path",
    "Flag": "true or false",
    "Glob": "pattern",
    "Line": "text",
    "MailAddress": "mail address",
    "Milliseconds": "ms, more than 0",
    "MillisecondsOrNone": "ms, 0 or more",
    "Moment": "moment",
    "Name": "name",
    "SlackChannelName": "Slack channel",
    "TimeOfDay": 'time of day, "22:00"',
    "TimeZone": "time zone",
    "WebUrl": "web address",
    "Window": "ms, 60,000 to 1,800,000",
    "Day": " ".join(Day.__args__),  # type: ignore[attr-defined]  # of a Literal
    "Language": " or ".join(Language),
    "Severity": ", ".join(Severity),
    "int": "number",
}


@dataclass(frozen=True, slots=True)
class _Section:
    path: str  # as in the file
    model: type[Any]
    says: str = ""  # besides the model's docstring


_SECTIONS = (
    _Section("the file", Config),
    _Section("clusters.NAME", Cluster),
    _Section("clusters.NAME.tls", Tls),
    _Section("clusters.NAME.logs[]", LogSource),
    _Section("clusters.NAME.collection", Collection),
    _Section("teams.NAME", Team),
    _Section("groups[]", GroupPolicy, "Without an entry that sets a field, the default shown holds."),
    _Section("routes[]", RouteEntry, "The first five say what it is about; what is left out of them matches all."),
    _Section("routes[].quiet_hours[]", QuietHoursEntry, "Nobody is told later of what is over by then."),
    _Section("routes[].maintenance[]", MaintenanceEntry),
    _Section("delivery", Delivery),
    _Section("judgement", Judgement),
    _Section("retention", Retention),
)
_LINKS = {section.model.__name__: section.path for section in _SECTIONS}


def configuration_page() -> str:
    """Return the whole page as Markdown."""
    return "\n".join((_INTRODUCTION, *(_section(section) for section in _SECTIONS)))


def meanings(model: type[Any]) -> dict[str, tuple[str, str]]:
    """Return for each field of a section its type in words, and its meaning: the comment behind it."""
    source = textwrap.dedent(inspect.getsource(model))
    comments = {
        token.start[0]: token.string.removeprefix("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)  # noqa: S101 what a class's source is
    return {
        node.target.id: (_type(node.annotation), comments.get(node.end_lineno or 0, ""))
        for node in definition.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def _section(section: _Section) -> str:
    said = " ".join(filter(None, (inspect.getdoc(section.model), section.says)))
    rows = ("| field | value | default | meaning |", "|---|---|---|---|", *_rows(section.model))
    return "\n".join((f"## {section.path}\n", f"{said}\n", *rows, ""))


def _rows(model: type[Any]) -> Iterator[str]:
    told = meanings(model)
    for one in fields(model):
        kind, meaning = told[one.name]
        default = one.default if one.default_factory is MISSING else one.default_factory()
        if model is GroupPolicy and one.name in EffectivePolicy.__dataclass_fields__:
            default = EffectivePolicy.__dataclass_fields__[one.name].default
        shown = "`default_team`" if model is GroupPolicy and one.name == "team" else _default(default)
        yield f"| `{key_of(one.name)}` | {kind} | {shown} | {meaning.replace('|', chr(92) + '|')} |"


def _type(annotation: ast.expr) -> str:
    """Say what may be written: `list[MailAddress] | None` -> 'list of: mail address'."""
    match annotation:
        case ast.BinOp(left=left):  # ... | None
            return _type(left)
        case ast.Name(id=name):
            return f"[{_LINKS[name]}](#{_anchor(_LINKS[name])})" if name in _LINKS else _WORDS[name]
        case ast.Subscript(value=ast.Name(id="list"), slice=entry):
            return f"list of: {_type(entry)}"
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[key, value])):
            return f"{_type(key)} -> {_type(value)}"
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[what, ast.Call() as rule])):
            return f"{_type(what)}, {_limits(rule)}"
    raise TypeError(f"no words for {ast.unparse(annotation)}")


def _limits(rule: ast.Call) -> str:
    limits = {one.arg: ast.literal_eval(one.value) for one in rule.keywords}
    if not limits:
        return "at least one"
    return f"{limits['ge']:,} to {limits['le']:,}" if "le" in limits else f"{limits['ge']:,} or more"


def _anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def _default(value: object) -> str:
    if value is MISSING:
        return "must be set"
    if value is None or value in ([], {}, ""):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, Enum):
        return f"`{value.value}`"
    return f"`{value}`" if isinstance(value, str) else ""


if __name__ == "__main__":
    sys.stdout.write(configuration_page())
