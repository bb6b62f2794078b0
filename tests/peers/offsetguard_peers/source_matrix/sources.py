"""The sources that the collector has, as `sources.yml` says them, and the words of a cell."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard_peers.rocketmq.extra_requests import PeerRequestCode

YES, NO = "yes", "no"
OWN = "own counters only"
NOT_IN_VERSION = "not in this version"
ANY_ACCOUNT, SUB_RIGHT = "any account", "SUB"
MASTER, SLAVE, NAME_SERVER, CLIENT = "master", "slave", "name server", "client"
REPLICAS = (MASTER, SLAVE)


@dataclass(frozen=True, slots=True)
class Source:
    """One thing to know. `lands_in`: `table.column` of the landed snapshot; `only`: not every role of the section."""

    name: str
    title: str
    asked: str = ""
    lands_in: tuple[str, ...] = ()
    only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """Sources that the same peers answer."""

    title: str
    roles: tuple[str, ...]
    sources: tuple[Source, ...]
    note: str

    def roles_of(self, source: Source) -> tuple[str, ...]:
        """Who is asked for a source."""
        return source.only or self.roles


_CODES = {**RequestCode.__members__, **PeerRequestCode.__members__}


def _section(said: dict[str, Any]) -> Section:
    """Read one; of rights it names the requests, each of which is a source."""
    requests = {name: f"{name} ({_CODES[name]})" for name in said.get("requests", ())}
    found: dict[str, dict[str, Any]] = {name: {"title": title} for name, title in requests.items()}
    for name, fields in said.get("sources", {}).items():
        found[name] = {field: tuple(value) if isinstance(value, list) else value for field, value in fields.items()}
    sources = tuple(Source(name, **fields) for name, fields in found.items())
    return Section(said["title"], tuple(said["roles"]), sources, said.get("note", ""))


SECTIONS = tuple(map(_section, yaml.safe_load(Path(__file__).with_suffix(".yml").read_text(encoding="utf-8"))))


def sources() -> Iterator[tuple[Section, Source]]:
    """List all sources with their sections."""
    for section in SECTIONS:
        for source in section.sources:
            yield section, source
