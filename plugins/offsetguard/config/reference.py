"""docs/configuration.md, made from the model: `python -m offsetguard.config.reference > docs/configuration.md`.

A field's meaning is the comment behind it in `config/`; the rest is its JSON schema, as pydantic makes it.
"""

import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from offsetguard.config import (
    Cluster,
    Collection,
    Config,
    Delivery,
    FleetCollection,
    Judgement,
    LogSource,
    Retention,
    Team,
    Tls,
)
from offsetguard.config.fields import Section
from offsetguard.config.groups import EffectivePolicy, GroupPolicy
from offsetguard.config.routes import MaintenanceEntry, QuietHours, RouteEntry
from offsetguard.model.meanings import meanings

_INTRODUCTION = """\
# Configuration

Made from `plugins/offsetguard/config/` by `python -m offsetguard.config.reference`; edit there, or below in that file.
[config/offsetguard.yml](../config/offsetguard.yml) is a whole file with examples in comments.

- **Where**: the environment variable `OFFSETGUARD_CONFIG` names the file; without it, `config/offsetguard.yml`.
- **When it holds**: every task reads it when it runs, so a change holds from the next task on; nothing is restarted.
- **When it is broken**: tasks go on with the last file that was right (kept as `last_good_config.yml` in
  `OFFSETGUARD_HOME`), each logs what is wrong with its line, and after two intervals the default team is told
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

Who is notified of trouble of a consumer group: its team (`groups`), else the default team. Trouble of brokers and of
the cluster itself belongs to the default team. The receivers are the team's, unless a route replaces them, kind by
kind; a team that is left with none is stood in for by the default team: somebody is always notified.

A route also matches what is about no group in particular only where its `consumer_group` is `*`.
"""


@dataclass(frozen=True, slots=True)
class _Section:
    path: str  # as in the file
    model: type[Section]
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
    _Section("routes[].quiet_hours[]", QuietHours, "Nobody is told later of what is over by then."),
    _Section("routes[].maintenance[]", MaintenanceEntry),
    _Section("delivery", Delivery),
    _Section("judgement", Judgement),
    _Section("retention", Retention),
    _Section("collection", FleetCollection),
)
_SCHEMAS: dict[str, dict[str, Any]] = (schema := Config.model_json_schema())["$defs"] | {"Config": schema}
_LINKS = {section.model.__name__: section.path for section in _SECTIONS}


def configuration_page() -> str:
    """Return the whole page as Markdown."""
    return "\n".join((_INTRODUCTION, *(_section(section) for section in _SECTIONS)))


def _section(section: _Section) -> str:
    said = " ".join(filter(None, (inspect.getdoc(section.model), section.says)))
    rows = ("| field | value | default | meaning |", "|---|---|---|---|", *_rows(section.model))
    return "\n".join((f"## {section.path}\n", f"{said}\n", *rows, ""))


def _rows(model: type[Section]) -> Iterator[str]:
    schema, explained = _SCHEMAS[model.__name__], meanings(model)
    defaults = {name: one.default for name, one in EffectivePolicy.model_fields.items() if not one.is_required()}
    for key, value in schema["properties"].items():
        default = "must be set" if key in schema.get("required", ()) else _default(value.get("default"))
        if model is GroupPolicy:
            default = "`default_team`" if key == "team" else _default(defaults[key]) if key in defaults else default
        meaning = (value.get("description") or explained[key]).replace("|", chr(92) + "|")
        yield f"| `{key}` | {_value(key, value)} | {default} | {meaning} |"


def _value(key: str, schema: dict[str, Any]) -> str:
    """Say what may be written: a list of mail addresses -> 'list of: mail address'."""
    match schema:
        case {"anyOf": [one, {"type": "null"}]}:
            return _value(key, one)
        case {"$ref": reference}:
            name = reference.rpartition("/")[2]
            return f"[{_LINKS[name]}](#{_anchor(_LINKS[name])})" if name in _LINKS else _value(key, _SCHEMAS[name])
        case {"enum": values} | {"format": str() as values}:
            return values if isinstance(values, str) else ", ".join(values)
        case {"type": "array", "items": entry}:
            return f"list of: {_value(key, entry)}" + (", at least one" if "minItems" in schema else "")
        case {"type": "object", "propertyNames": name, "additionalProperties": entry}:
            text = f"{_value(key, name)} -> {_value(key, entry)}"
            return text + (", at least one" if "minProperties" in schema else "")
    return "true or false" if schema["type"] == "boolean" else _number(key, schema)


def _number(key: str, schema: dict[str, Any]) -> str:
    unit = "ms" if key.endswith("_ms") else "number"
    if "exclusiveMinimum" in schema:
        return f"{unit}, more than {schema['exclusiveMinimum']:,}"
    least = f"{unit}, {schema['minimum']:,}"
    return f"{least} to {schema['maximum']:,}" if "maximum" in schema else f"{least} or more"


def _anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def _default(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"{value:,}"
    return f"`{value}`" if isinstance(value, str) and value else ""


if __name__ == "__main__":
    sys.stdout.write(configuration_page())
