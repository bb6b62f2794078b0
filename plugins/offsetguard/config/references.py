"""Names in the configuration that stand nowhere, or twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from offsetguard.config.fields import matches
from offsetguard.config.routes import RECEIVER_LISTS

Path = tuple[str | int, ...]
_HEARD = "the default team needs a mail address, a Slack channel or a Slack webhook: it hears the rest"


def reference_problems(document: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield (path, what is wrong) for names that stand nowhere or twice, and a default team that nobody hears.

    Takes plain values of any shape, so that a file's other problems do not hide these; wrong types are skipped.
    """
    teams, clusters = _mapping(document.get("teams")), _mapping(document.get("clusters"))
    yield from _default_team_problems(document.get("default_team"), teams)
    for position, entry in enumerate(_entries(document.get("groups"))):
        yield from _unknown(("groups", position, "team"), "team", entry.get("team"), teams)
        yield from _unmatched(("groups", position, "cluster"), "cluster", entry.get("cluster"), clusters)
    for position, entry in enumerate(_entries(document.get("routes"))):
        yield from _unmatched(("routes", position, "team"), "team", entry.get("team"), teams)
        yield from _unmatched(("routes", position, "cluster"), "cluster", entry.get("cluster"), clusters)
        yield from _unknown(("routes", position, "escalate_to"), "team", entry.get("escalate_to"), teams)
        for number, span in enumerate(_entries(entry.get("maintenance"))):
            where = ("routes", position, "maintenance", number, "cluster")
            yield from _unmatched(where, "cluster", span.get("cluster"), clusters)
    delivery = _mapping(document.get("delivery"))
    if delivery.get("heartbeat_url") and delivery.get("heartbeat_connection"):
        yield ("delivery", "heartbeat_url"), "heartbeat_connection says the address too; keep one of them"
    for cluster, entry in clusters.items():
        yield from _log_sources_of_one_name(cluster, _entries(_mapping(entry).get("logs")))


def _default_team_problems(name: object, teams: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    yield from _unknown(("default_team",), "team", name, teams)
    if isinstance(name, str) and name in teams and not any(_mapping(teams[name]).get(one) for one in RECEIVER_LISTS):
        yield ("teams", name), _HEARD


def _unknown(where: Path, kind: str, name: object, known: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    if isinstance(name, str) and name not in known:
        yield where, f"there is no {kind} {name!r}; {_known(f'{kind}s', known)}"


def _unmatched(where: Path, kind: str, pattern: object, known: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    if isinstance(pattern, str) and not any(matches(str(name), pattern) for name in known):
        yield where, f"no {kind} of this file is called {pattern!r}; {_known(f'{kind}s', known)}"


def _log_sources_of_one_name(cluster: str, sources: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Path, str]]:
    names = [source.get("name") for source in sources]
    for position, name in enumerate(names):
        if name is not None and name in names[:position]:
            yield ("clusters", cluster, "logs", position, "name"), f"there is another log source called {name!r}"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _entries(value: object) -> Sequence[Mapping[str, Any]]:
    return [_mapping(entry) for entry in value] if isinstance(value, list) else []


def _known(what: str, names: Iterable[object]) -> str:
    return f"{what}: {', '.join(sorted(map(str, names))) or 'none'}"
