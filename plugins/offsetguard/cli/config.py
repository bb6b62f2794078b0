"""`offsetguard config`: check the configuration file.

Asks a live cluster which consumer groups it has: `config check --live` compares the patterns with them.
"""

import asyncio
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import click

from offsetguard.cli.connections import opened
from offsetguard.cli.output import json_line
from offsetguard.cli.parameters import credentials_from, format_option
from offsetguard.collect.name_servers import unmatched_addresses
from offsetguard.config import EffectivePolicy
from offsetguard.config.checks import check_file, groups_not_seen
from offsetguard.config.file import ConfigFile, ConfigProblems, Problem, read_config_file
from offsetguard.config.routes import MATCHED_BY
from offsetguard.config.workspace import Workspace
from offsetguard.deliver.channels.channel import Unavailable
from offsetguard.deliver.messages.wording import harmless
from offsetguard.judge.registry import RULES
from offsetguard.model.errors import ConfigError, RocketMQError
from offsetguard.model.notification import LISTS_FOR_ALL, RECEIVER_LISTS, Receiver
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.header import Credentials
from offsetguard.sources.rocketmq.requests import (
    GetAllConsumerOffset,
    GetAllSubscriptionGroupConfig,
    GetBrokerClusterInfo,
)


@dataclass(frozen=True, slots=True)
class LiveGroups:
    """The consumer groups of a cluster, as far as it could be seen, and what of the file it does not bear out."""

    consumer_groups: frozenset[str]
    problems: Sequence[Problem]
    is_complete: bool  # a group that is not here does not exist


async def _live_groups_of(file: ConfigFile, name: str, credentials: Credentials | None) -> LiveGroups:
    """Ask all name servers for the masters, and those for their configured and their committing groups."""
    cluster, where = file.config.clusters[name], ("clusters", name)
    problems: list[Problem] = []
    addresses: dict[str, str | None] = {}  # broker name -> address of its master
    listed: set[str] = set()
    groups: set[str] = set()
    async with RocketMQClient.of(cluster, credentials) as client:
        asked = [client.call_many(address, [GetBrokerClusterInfo()]) for address in cluster.name_servers]
        for position, (answer,) in enumerate(await asyncio.gather(*asked)):
            if isinstance(answer, RocketMQError):
                problems.append(file.problem((*where, "name_servers", position), f"does not answer: {answer}"))
            else:
                addresses.update((broker.broker_name, broker.master_address) for broker in answer.brokers)
                listed.update(answer.labels())
        answered = len(problems) < len(cluster.name_servers)
        unseen = [f"{broker}: no master is registered" for broker, address in addresses.items() if address is None]
        masters = [cluster.address_map.get(at, at) for at in addresses.values() if at is not None]
        for found in await asyncio.gather(*(_groups_of(client, at) for at in masters)):
            if isinstance(found, RocketMQError):
                unseen.append(str(found))
            else:
                groups |= found
    problems += (file.problem(where, f"could not be seen whole: {reason}") for reason in unseen)
    for address in unmatched_addresses(cluster, listed) if answered else ():
        what = "no name server lists a broker under this address; correct or remove the entry"
        problems.append(file.problem((*where, "address_map", address), what))
    return LiveGroups(frozenset(groups), problems, answered and not unseen)


async def _groups_of(client: RocketMQClient, master: str) -> set[str] | RocketMQError:
    try:
        configured = await client.call(master, GetAllSubscriptionGroupConfig())
        committed = await client.call(master, GetAllConsumerOffset())
    except RocketMQError as error:
        return error
    return {*configured, *(group for _, group in (*committed.offsets, *committed.broadcast_offsets))}


Line = dict[str, Any]  # one JSON line; `kind` says what it is about

_EXIT_PROBLEMS, _EXIT_NOT_SEEN = 1, 2
DAILY_REPORT = "daily_report"  # as a `rule` in routes


@click.group()
def config() -> None:
    """Work with the configuration file: which clusters, limits, teams."""


@config.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--live", is_flag=True, help="Also ask the name servers whether each pattern matches a consumer group.")
@click.option("--connections", is_flag=True, help="Also ask the Airflow of this environment for what leads to teams.")
@format_option("object")
def check(file: Path | None, live: bool, connections: bool, as_json: bool) -> None:
    """Say what FILE means, and every problem in it with its line.

    FILE is by default the one that OFFSETGUARD_CONFIG names, else config/offsetguard.yml. Nothing is changed.

    \b
    Shown: clusters and their name servers; teams and who is told; each group
    pattern and each route, what it sets, and what holds by default.
    Problems: what cannot be read; names that stand nowhere; fields that never
    take effect because an entry above sets them first; teams that never hear
    anything; spans, quiet hours and escalations that contradict each other.
    Notes: what is right and worth knowing, such as what Slack webhooks cannot do.

    With --live, brokers that want a login get the access key and secret key of
    OFFSETGUARD_ACCESS_KEY and OFFSETGUARD_SECRET_KEY. With --connections, whom the
    file names and no Airflow connection leads to, or a malformed one, is a problem.

    \b
    Examples:
      offsetguard config check
      offsetguard config check --live --connections
      offsetguard config check staging.yml --format json | jq 'select(.kind == "problem")'

    \b
    Exit code: 0 = nothing wrong, 1 = problems, 2 = with --live: a cluster could not be seen (whole).
    """
    path = file or Workspace.from_environment().config_file
    lines, exit_code = _check(path, live=live, connections=connections)
    for text in map(json_line, lines) if as_json else _table(path, lines):
        click.echo(text)
    sys.exit(exit_code)


def _check(path: Path, *, live: bool, connections: bool) -> tuple[list[Line], int]:
    try:
        file = read_config_file(path)
    except ConfigProblems as error:
        return [_problem_line(problem) for problem in error.problems], _EXIT_PROBLEMS
    except ConfigError as error:
        return [
            {"kind": "problem", "file": str(path), "line": None, "field": None, "message": str(error)}
        ], _EXIT_PROBLEMS
    seen = asyncio.run(_live_groups(file)) if live else {}
    checked = check_file(file, {*RULES, DAILY_REPORT}, datetime.now(UTC))
    whole = {name: groups.consumer_groups for name, groups in seen.items() if groups.is_complete}
    live_problems = chain.from_iterable(groups.problems for groups in seen.values())
    problems = [*checked.problems, *live_problems, *groups_not_seen(file, whole)]
    problems += _without_connection(file) if connections else ()
    notes = (_problem_line(note, "note") for note in checked.notes)
    lines = [*_understood(file, seen), *notes, *map(_problem_line, problems)]
    if not all(groups.is_complete for groups in seen.values()):
        return lines, _EXIT_NOT_SEEN
    return lines, _EXIT_PROBLEMS if problems else 0


def _without_connection(file: ConfigFile) -> Iterator[Problem]:
    """Give whom teams and routes name, and Alertmanagers, that no usable connection leads to."""
    config = file.config
    named: list[tuple[tuple[str | int, ...], dict[str, Any]]] = [
        (("teams", name), team.model_dump()) for name, team in config.teams.items()
    ]
    named += [(("routes", position), route.model_dump()) for position, route in enumerate(config.routes)]
    named.append((("delivery",), config.delivery.model_dump()))
    places: list[tuple[tuple[str | int, ...], Receiver]] = [
        ((*where, field, position), (channel, receiver))
        for where, lists in named
        for field, channel in {**RECEIVER_LISTS, **LISTS_FOR_ALL}.items()
        for position, receiver in enumerate(lists.get(field) or ())
    ]
    ways = opened(config, [receiver for _, receiver in places])
    for where, receiver in places:
        if isinstance(way := ways[receiver], Unavailable):
            yield file.problem(where, way.reason)


async def _live_groups(file: ConfigFile) -> dict[str, LiveGroups]:
    credentials = credentials_from()
    found = await asyncio.gather(*(_live_groups_of(file, name, credentials) for name in file.config.clusters))
    return dict(zip(file.config.clusters, found, strict=True))


def _understood(file: ConfigFile, seen: Mapping[str, LiveGroups]) -> Iterator[Line]:
    config = file.config
    for name, cluster in config.clusters.items():
        live = {"consumer_groups": len(seen[name].consumer_groups)} if name in seen else {}
        yield {"kind": "cluster", "name": name, **cluster.model_dump(), **live}
    for name, team in config.teams.items():
        yield {"kind": "team", "name": name, "is_default": name == config.default_team, **team.model_dump()}
    for position, entry in enumerate(config.groups):
        line = file.document.line(("groups", position))
        sets = {field: getattr(entry, field) for field in entry.fields_set()}
        yield {"kind": "groups", "line": line, "match": entry.match, "cluster": entry.cluster, "sets": sets}
    defaults = EffectivePolicy(team=config.default_team).model_dump()
    yield {"kind": "groups", "line": None, "match": "*", "cluster": "*", "sets": defaults}
    for position, route in enumerate(config.routes):
        values = route.model_dump()
        matched_by = {field: values[field] for field in MATCHED_BY}
        sets = {field: values[field] for field in route.fields_set()}
        yield {"kind": "route", "line": file.document.line(("routes", position)), **matched_by, "sets": sets}
    yield {"kind": "delivery", **config.delivery.model_dump()}
    yield {"kind": "judgement", **config.judgement.model_dump()}


def _problem_line(problem: Problem, kind: str = "problem") -> Line:
    return {
        "kind": kind,
        "file": problem.file,
        "line": problem.line,
        "field": problem.field,
        "message": harmless(problem.what, 2_000),
    }


def _table(path: Path, lines: Iterable[Line]) -> Iterator[str]:
    by_kind: dict[str, list[Line]] = {}
    for line in lines:
        by_kind.setdefault(line["kind"], []).append(line)
    if by_kind.get("cluster"):
        yield "Clusters"
        yield from map(_cluster_text, by_kind["cluster"])
        yield "Teams"
        yield from (_team_text(team, by_kind["delivery"][0]) for team in by_kind["team"])
        yield "Consumer groups; for each field the first line that sets it wins"
        yield from map(_groups_text, by_kind["groups"])
        if by_kind.get("route"):
            yield "Routes; for each field the first line that sets it wins"
            yield from map(_route_text, by_kind["route"])
    for note in by_kind.get("note", []):
        yield f"{_place(note)}note: {note['message']}"
    problems = by_kind.get("problem", [])
    for wrong in problems:
        yield f"{_place(wrong)}{wrong['message']}"
    count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}" if problems else "nothing wrong"
    yield f"{path}: {count}"


def _place(line: Line) -> str:
    return f"{line['file']}:{line['line']}: {line['field']}: " if line["line"] else ""


def _cluster_text(cluster: Line) -> str:
    login = f"login: connection {cluster['connection']}" if cluster["connection"] else "no login"
    live = f", {cluster['consumer_groups']} consumer groups" if "consumer_groups" in cluster else ""
    return f"  {cluster['name']}: {', '.join(cluster['name_servers'])} ({login}{live})"


def _team_text(team: Line, delivery: Line) -> str:
    default = "  (default: hears what nobody else owns)" if team["is_default"] else ""
    named = [name for kind in RECEIVER_LISTS for name in team[kind]]
    if team["is_default"]:
        named = named or [name for kind in LISTS_FOR_ALL for name in delivery[kind]]
    receivers = ", ".join(named) or "nobody is told"
    return f"  {team['name']}: {receivers}{default}"


def _groups_text(entry: Line) -> str:
    where = f"line {entry['line']}" if entry["line"] else "default"
    sets = ", ".join(f"{field} {_shown(value)}" for field, value in entry["sets"].items()) or "nothing"
    cluster = "" if entry["cluster"] == "*" else f" in clusters {entry['cluster']}"
    return f"  {where}: {entry['match']}{cluster}: {sets}"


def _route_text(entry: Line) -> str:
    about = [f"{field} {entry[field]}" for field in MATCHED_BY if entry[field] not in {"*", "info"}]
    sets = [f"{field} {_shown(value)}" for field, value in entry["sets"].items()]
    return f"  line {entry['line']}: {', '.join(about) or 'everything'}: {', '.join(sets) or 'nothing'}"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " + ".join(map(_shown, value)) or "none"
    if isinstance(value, dict):  # a time window
        return " ".join(f"{name.rstrip('_')} {_shown(one)}" for name, one in value.items() if one)
    return f"{value:,}" if isinstance(value, int) else str(value)
