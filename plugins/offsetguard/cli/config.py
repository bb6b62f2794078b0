"""`offsetguard config check`: says what was understood of the configuration, and what is wrong with it, by line."""

from __future__ import annotations

import asyncio
import fnmatch
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from offsetguard.cli.config_live import find_consumer_groups
from offsetguard.cli.output import wants_json
from offsetguard.cli.parameters import format_option
from offsetguard.cli.which_clusters import credentials_from
from offsetguard.config import EffectivePolicy
from offsetguard.config.policies import fields_set
from offsetguard.config_file import ConfigProblems, Problem, did_you_mean, read_config_file
from offsetguard.config_shadowing import shadowed_fields
from offsetguard.errors import ConfigError
from offsetguard.messages.hostile import harmless
from offsetguard.workspace import Workspace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from offsetguard.cli.config_live import LiveGroups
    from offsetguard.config_file import ConfigFile

Line = dict[str, Any]  # one JSON line; `kind` says what it is about

_EXIT_PROBLEMS, _EXIT_NOT_SEEN = 1, 2


@click.group()
def config() -> None:
    """Work with the configuration file: which clusters, limits, teams."""


@config.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--live", is_flag=True, help="Also ask the name servers whether each pattern matches a consumer group.")
@format_option("object")
def check(file: Path | None, live: bool, output_format: str) -> None:
    """Say what FILE means, and every problem in it with its line.

    FILE is by default the one that OFFSETGUARD_CONFIG names, else config/offsetguard.yml. Nothing is changed.

    \b
    Shown: clusters and their name servers; teams and who is told; each group
    pattern, what it sets, and what holds by default; fields that never take
    effect because an entry above sets them first.

    With --live, brokers that want a login get the access key and secret key of
    OFFSETGUARD_ACCESS_KEY and OFFSETGUARD_SECRET_KEY.

    \b
    Examples:
      offsetguard config check
      offsetguard config check --live
      offsetguard config check staging.yml --format json | jq 'select(.kind == "problem")'

    \b
    Exit code: 0 = nothing wrong, 1 = problems, 2 = with --live: a cluster could not be seen (whole).
    """  # noqa: D301 click wants the character itself
    path = file or Workspace.from_environment().config_file
    lines, exit_code = _check(path, live=live)
    for text in map(json.dumps, lines) if wants_json(output_format) else _table(path, lines):
        click.echo(text)
    sys.exit(exit_code)


def _check(path: Path, *, live: bool) -> tuple[list[Line], int]:
    try:
        file = read_config_file(path)
    except ConfigProblems as error:
        return [_problem_line(problem) for problem in error.problems], _EXIT_PROBLEMS
    except ConfigError as error:
        return [
            {"kind": "problem", "file": str(path), "line": None, "field": None, "message": str(error)}
        ], _EXIT_PROBLEMS
    seen = asyncio.run(_look(file)) if live else {}
    problems = [*_shadowed(file), *_unanswered(file, seen), *_unmatched(file, seen)]
    lines = [*_understood(file, seen), *map(_problem_line, problems)]
    if not all(groups.is_complete for groups in seen.values()):
        return lines, _EXIT_NOT_SEEN
    return lines, _EXIT_PROBLEMS if problems else 0


async def _look(file: ConfigFile) -> dict[str, LiveGroups]:
    clusters = file.config.clusters
    credentials = credentials_from(os.environ)
    found = await asyncio.gather(*(find_consumer_groups(cluster, credentials) for cluster in clusters.values()))
    return dict(zip(clusters, found, strict=True))


def _understood(file: ConfigFile, seen: Mapping[str, LiveGroups]) -> Iterator[Line]:
    config = file.config
    for name, cluster in config.clusters.items():
        live = {"consumer_groups": len(seen[name].consumer_groups)} if name in seen else {}
        yield {"kind": "cluster", "name": name, **asdict(cluster), **live}
    for name, team in config.teams.items():
        yield {"kind": "team", "name": name, "is_default": name == config.default_team, **asdict(team)}
    for position, entry in enumerate(config.groups):
        line = file.document.line(("groups", position))
        sets = {field: getattr(entry, field) for field in fields_set(entry)}
        yield {"kind": "groups", "line": line, "match": entry.match, "cluster": entry.cluster, "sets": sets}
    defaults = asdict(EffectivePolicy(team=config.default_team))
    yield {"kind": "groups", "line": None, "match": "*", "cluster": "*", "sets": defaults}
    yield {"kind": "delivery", **asdict(config.delivery)}
    yield {"kind": "judgement", **asdict(config.judgement)}


def _shadowed(file: ConfigFile) -> Iterator[Problem]:
    for position, field, above in shadowed_fields(file.config):
        line = file.document.line(("groups", above))
        what = (
            f"never takes effect: groups[{above}] in line {line} ({file.config.groups[above].match!r}) matches the "
            "same groups and sets it first; move the special case above the general one"
        )
        yield file.problem(("groups", position, field), what)


def _unanswered(file: ConfigFile, seen: Mapping[str, LiveGroups]) -> Iterator[Problem]:
    for name, live in seen.items():
        for position, reason in live.silent_name_servers.items():
            yield file.problem(("clusters", name, "name_servers", position), f"does not answer: {reason}")
        for reason in live.unseen_brokers:
            yield file.problem(("clusters", name), f"could not be seen whole: {reason}")
        for address in live.unmatched_addresses:
            what = "no name server lists a broker under this address; correct or remove the entry"
            yield file.problem(("clusters", name, "address_map", address), what)


def _unmatched(file: ConfigFile, seen: Mapping[str, LiveGroups]) -> Iterator[Problem]:
    """Yield the patterns that no group of any of their clusters matches; only where all of those were seen whole."""
    for position, entry in enumerate(file.config.groups):
        clusters = {name: live for name, live in seen.items() if fnmatch.fnmatchcase(name, entry.cluster)}
        known = frozenset[str]().union(*(live.consumer_groups for live in clusters.values()))
        if not clusters or entry.match == "*" or not all(live.is_complete for live in clusters.values()):
            continue
        if not any(fnmatch.fnmatchcase(name, entry.match) for name in known):
            what = f"no consumer group of {', '.join(clusters)} matches {entry.match!r}"
            hint = did_you_mean(entry.match, known) or "; correct it, or ignore this until the group has started once"
            yield file.problem(("groups", position, "match"), harmless(what + hint, 1_000))


def _problem_line(problem: Problem) -> Line:
    return {
        "kind": "problem",
        "file": problem.file,
        "line": problem.line,
        "field": problem.field,
        "message": problem.what,
    }


def _table(path: Path, lines: Iterable[Line]) -> Iterator[str]:
    told: dict[str, list[Line]] = {}
    for line in lines:
        told.setdefault(line["kind"], []).append(line)
    if told.get("cluster"):
        yield "Clusters"
        yield from map(_cluster_text, told["cluster"])
        yield "Teams"
        yield from map(_team_text, told["team"])
        yield "Consumer groups; for each field the first line that sets it wins"
        yield from map(_groups_text, told["groups"])
    problems = told.get("problem", [])
    for wrong in problems:
        where = f"{wrong['file']}:{wrong['line']}: {wrong['field']}: " if wrong["line"] else ""
        yield f"{where}{wrong['message']}"
    count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}" if problems else "nothing wrong"
    yield f"{path}: {count}"


def _cluster_text(cluster: Line) -> str:
    login = f"login: connection {cluster['connection']}" if cluster["connection"] else "no login"
    live = f", {cluster['consumer_groups']} consumer groups" if "consumer_groups" in cluster else ""
    return f"  {cluster['name']}: {', '.join(cluster['name_servers'])} ({login}{live})"


def _team_text(team: Line) -> str:
    default = "  (default: hears what nobody else owns)" if team["is_default"] else ""
    return f"  {team['name']}: {', '.join([*team['mail'], *team['slack']]) or 'nobody is told'}{default}"


def _groups_text(entry: Line) -> str:
    where = f"line {entry['line']}" if entry["line"] else "default"
    sets = ", ".join(f"{field} {_shown(value)}" for field, value in entry["sets"].items()) or "nothing"
    cluster = "" if entry["cluster"] == "*" else f" in clusters {entry['cluster']}"
    return f"  {where}: {entry['match']}{cluster}: {sets}"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
