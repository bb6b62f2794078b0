"""What docs/pages-as-data.md says of each page and its records, from the views.

What a record is stands in its docstring, what a field means in the comment behind it.
"""

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel

from offsetguard import tables
from offsetguard.model.views import meanings
from offsetguard.views.changes import AskedChanges, ChangesView
from offsetguard.views.data_docs import AskedDataDocs, DataDocsView
from offsetguard.views.fleet import ClusterLine, Fleet, GroupLine, Wanted
from offsetguard.views.group import AskedGroup, GroupView, MemberLine, QueueLine, TopicLine
from offsetguard.views.incident import AskedIncident, IncidentPage
from offsetguard.views.incidents import IncidentList, WantedIncidents
from offsetguard.views.queues import AskedQueues, QueuesView
from offsetguard.views.search import AskedSearch, SearchView
from offsetguard.views.silences import AskedSilences, SilencesView
from offsetguard.views.topic import AskedTopic, ReaderLine, TopicQueueLine, TopicView

_OF_ALL = {  # what fields of these names mean in every view
    "at": "when this was asked, by the database's clock",
    "asked": "what the address says",
    "trust": "whether the facts are of now: late after two missed minutes, old after five",
    "facts_of": "when the brokers had been asked of which the newest facts tell",
    "since": "from here on courses go",
    "until": "up to here",
    "console_url": "the group in the console of `delivery.console_url`",
}
_COLUMNS_OF = {  # records whose fields are columns of a table
    ClusterLine: tables.CLUSTER_FACTS,
    GroupLine: tables.GROUP_FACTS,
    TopicLine: tables.GROUP_FACTS,
    QueueLine: tables.QUEUE_FACTS,
    MemberLine: tables.CLIENT_SNAPSHOTS,
    TopicView: tables.TOPIC_FACTS,
    ReaderLine: tables.GROUP_FACTS,
    TopicQueueLine: tables.TOPIC_QUEUE_SNAPSHOTS,
}
_WORDS = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}


@dataclass(frozen=True, slots=True)
class PageOfData:
    """One address below `/offsetguard/`."""

    address: str
    asked: type[BaseModel]
    view: type[BaseModel]
    csv: str  # the field of the view whose lines CSV has


PAGES = (
    PageOfData("fleet/", Wanted, Fleet, "groups"),
    PageOfData("fleet/group", AskedGroup, GroupView, "topics"),
    PageOfData("fleet/queues", AskedQueues, QueuesView, "heat"),
    PageOfData("fleet/topic", AskedTopic, TopicView, "readers"),
    PageOfData("changes/", AskedChanges, ChangesView, "changes"),
    PageOfData("data-docs/", AskedDataDocs, DataDocsView, "minutes"),
    PageOfData("silences/", AskedSilences, SilencesView, "silences"),
    PageOfData("search/", AskedSearch, SearchView, "found"),
    PageOfData("incidents/", WantedIncidents, IncidentList, "incidents"),
    PageOfData("incidents/{incident_id}", AskedIncident, IncidentPage, "timeline"),
)


def made() -> str:
    """Return pages and records as Markdown."""
    records = dict.fromkeys(record for page in PAGES for record in _records_of(page.view))
    shown = {one for page in PAGES for one in (page.asked, page.view)}
    shared = (line for record in records if record not in shown for line in _table(record))
    return "\n".join((*(line for page in PAGES for line in _page(page)), "## Records\n", *shared))


def _page(page: PageOfData) -> Iterator[str]:
    yield f"## /offsetguard/{page.address}\n"
    yield f"The address has {page.asked.__name__}, JSON is a {page.view.__name__}, CSV has its `{page.csv}`.\n"
    yield from _table(page.asked, says_default=True)
    yield from _table(page.view)


def _table(record: type[BaseModel], *, says_default: bool = False) -> Iterator[str]:
    schema = record.model_json_schema(mode="validation" if says_default else "serialization")
    columns = _COLUMNS_OF[record].columns if record in _COLUMNS_OF else ()
    meaning = _OF_ALL | {one.name: one.meaning.replace("NULL", "null") for one in columns} | meanings(record)
    required = schema.get("required", ())
    yield f"### {record.__name__}\n"
    yield f"{inspect.getdoc(record)}\n"
    yield f"| field | type | {'default' if says_default else 'null'} | meaning |"
    yield "|---|---|---|---|"
    for name, field in schema["properties"].items():
        may_be_null = any(one == {"type": "null"} for one in field.get("anyOf", ()))
        default = "must be given" if name in required else f"`{field['default']}`" if field.get("default") else ""
        third = default if says_default else "yes" if may_be_null else ""
        text = meaning.get(name, "").replace("|", "\\|")
        yield f"| `{name}` | {_type(field, schema.get('$defs', {}))} | {third} | {text} |"
    yield ""


def _type(field: dict[str, Any], definitions: dict[str, Any]) -> str:
    match field:
        case {"anyOf": [one, {"type": "null"}]}:
            return _type(one, definitions)
        case {"$ref": reference}:
            name = reference.rpartition("/")[2]
            values = definitions[name].get("enum")
            return ", ".join(f"`{one}`" for one in values) if values else f"[{name}](#{name.lower()})"
        case {"prefixItems": items}:
            return f"[{', '.join(_type(one, definitions) for one in items)}]"
        case {"type": "array", "items": entry}:
            return f"list of {_type(entry, definitions)}"
        case {"format": "date-time"}:
            return "moment"
    return _WORDS.get(field.get("type", ""), "object") + _limits(field)


def _limits(field: dict[str, Any]) -> str:
    if "maximum" in field and "minimum" in field:
        return f", {field['minimum']:,} to {field['maximum']:,}"
    return f", at most {field['maxLength']} characters" if "maxLength" in field else ""


def _records_of(record: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """Give a record and those below it, in the order of their fields."""
    yield record
    for field in record.model_fields.values():
        for one in _classes_in(field.annotation):
            yield from _records_of(one)


def _classes_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for one in get_args(annotation):
        yield from _classes_in(one)
