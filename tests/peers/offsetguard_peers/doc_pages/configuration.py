"""What docs/configuration.md says of each section: its fields, from the model.

A field's meaning is the comment behind it in `config/`; the rest is its JSON schema, as pydantic makes it.
"""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from offsetguard import config
from offsetguard.config.fields import Section
from offsetguard.config.groups import EffectivePolicy, GroupPolicy
from offsetguard.config.routes import MaintenanceEntry, QuietHours, RouteEntry
from offsetguard.model.views import meanings


@dataclass(frozen=True, slots=True)
class _Section:
    path: str  # as in the file
    model: type[Section]
    says: str = ""  # besides the model's docstring


_SECTIONS = (
    _Section("the file", config.Config),
    _Section("clusters.NAME", config.Cluster),
    _Section("clusters.NAME.tls", config.Tls),
    _Section("clusters.NAME.logs[]", config.LogSource),
    _Section("clusters.NAME.collection", config.Collection),
    _Section("teams.NAME", config.Team),
    _Section("groups[]", GroupPolicy, "Without an entry that sets a field, the default shown holds."),
    _Section("routes[]", RouteEntry, "The first five say what it is about; what is left out of them matches all."),
    _Section("routes[].quiet_hours[]", QuietHours, "Nobody is told later of what is over by then."),
    _Section("routes[].maintenance[]", MaintenanceEntry),
    _Section("delivery", config.Delivery),
    _Section("judgement", config.Judgement),
    _Section("retention", config.Retention),
    _Section("collection", config.FleetCollection),
)
_SCHEMAS: dict[str, dict[str, Any]] = (schema := config.Config.model_json_schema())["$defs"] | {"Config": schema}
_LINKS = {section.model.__name__: section.path for section in _SECTIONS}


def made() -> str:
    """Return the sections as Markdown."""
    return "\n".join(_section(section) for section in _SECTIONS)


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
