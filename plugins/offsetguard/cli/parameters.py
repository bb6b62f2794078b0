"""What several commands take: options and their types, and which clusters and logins are meant.

A cluster is named by `--namesrv`, or by `--config` with `--cluster`; spans of time: `500ms`, `10s`, `5m`, `1h`, `7d`.
"""

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Generic, TypeVar

import click
from pydantic import TypeAdapter, ValidationError
from sqlalchemy import Engine

from offsetguard.config import Cluster, Config, Team
from offsetguard.config.fields import Address
from offsetguard.config.file import did_you_mean, load_config
from offsetguard.config.workspace import Workspace
from offsetguard.deliver.messages.wording import harmless
from offsetguard.model.errors import ConfigError, RocketMQError
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.header import Credentials
from offsetguard.sources.rocketmq.requests import GetBrokerClusterInfo, Request
from offsetguard.tables import GROUP_SNAPSHOTS

Command = TypeVar("Command", bound="Callable[..., Any] | click.Command")  # as click has it
T = TypeVar("T")
ACCESS_KEY, SECRET_KEY = "OFFSETGUARD_ACCESS_KEY", "OFFSETGUARD_SECRET_KEY"
ALL = "all"
NAMES_SHOWN = 20
_NAMED = ("consumer_group", "system_group")
_ADDRESS: TypeAdapter[str] = TypeAdapter(Address)
_NO_NAME = re.compile(r"[^A-Za-z0-9_.-]")
_DURATION_FORM = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(ms|s|min|m|h|d)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def format_option(a_line: str, shown: str = "a table") -> Callable[[Command], Command]:
    """Return the option `--format` of a command whose JSON lines hold one of `a_line` each; it gives `as_json`."""
    return click.option(
        "--format",
        "as_json",
        type=click.Choice(["auto", "table", "json"]),
        default="auto",
        show_default=True,
        callback=lambda _, __, chosen: chosen == "json" or (chosen == "auto" and not sys.stdout.isatty()),
        help=f"auto: {shown} on a terminal, JSON (one {a_line} per line) elsewhere.",
    )


class WithExamples(click.Group):
    """A group whose examples stand in the help of the commands that they show, too."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add one, with the lines of the group's help that call it."""
        super().add_command(cmd, name)
        call = f"offsetguard {self.name} {cmd.name} "
        lines = [f"  {line.strip()}" for line in (self.help or "").splitlines() if f"{line.strip()} ".startswith(call)]
        if lines and "Example" not in (cmd.help or ""):
            cmd.help = "\n".join([(cmd.help or "").rstrip(), "", "\b", "Examples:", *lines])


author_option = click.option(  # of a command that others will ask about
    "--author", envvar="USER", required=True, help="Who does this; without it, who is logged in ($USER)."
)
details_option = click.option(  # of a command that asks a live cluster
    "--details",
    type=click.Choice(["all", "suspects"]),
    default="all",
    show_default=True,
    help="Whose details are asked: of all groups and clients, or, on a large cluster, of those that lag.",
)


class Read(click.ParamType[T], Generic[T]):
    """A text that a function reads; what its ValueError says is told."""

    def __init__(self, name: str, read: Callable[[str], T]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> T:
        """Fail with an example for everything else."""
        try:
            return self._read(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _duration(text: str) -> timedelta:
    match = _DURATION_FORM.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no duration; write for example 500ms, 10s, 1min or 7d")
    return timedelta(seconds=float(match[1]) * _UNIT_S[match[2]])


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no moment; write for example 2026-11-22T18:00Z") from None
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone; write {text}Z for UTC")
    return moment.astimezone(UTC)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from error


def _log_folder(text: str) -> tuple[str | None, Path]:
    """Return (name or None, folder)."""
    name, _, folder = text.rpartition("=")
    if not Path(folder).is_dir():
        raise ValueError(f"{folder}: is not a folder; write DIR, or NAME=DIR such as broker-a-0=/srv/logs")
    return name or None, Path(folder)


DURATION = Read("duration", _duration)
MOMENT = Read("ISO 8601 moment", _moment)  # with its time zone
PATTERN = Read("regular expression", _pattern)
LOG_FOLDER = Read("[NAME=]DIR", _log_folder)  # NAME where the path does not tell whose logs they are


def refuse_unknown(names: Iterable[str], known: Collection[str], there_is_no: str, page: str) -> None:
    """Raise ValueError for the first name that is not known, with those that come close or the page that has all."""
    for name in names:
        if name not in known:
            similar = ", ".join(get_close_matches(name, known, n=3)) or f"see {page}"
            raise ValueError(f"{there_is_no} {name!r}; {similar}")


def concerns(consumer_group: str | None, pattern: re.Pattern[str] | None) -> bool:
    """Whether something about a group is wanted; what is about the whole cluster always is."""
    return pattern is None or consumer_group is None or pattern.search(consumer_group) is not None


def chosen_cluster(namesrv: str | None, config_file: Path | None, cluster: str | None) -> tuple[str, Config]:
    """Return the name of the one cluster that is meant and the configuration that describes it; raises UsageError."""
    names, config = chosen_clusters(namesrv, config_file, () if cluster is None else (cluster,))
    if len(names) > 1:
        raise click.UsageError(f"--cluster: say which one of {', '.join(names)}")
    return names[0], config


def chosen_clusters(
    namesrv: str | None, config_file: Path | None, clusters: Sequence[str]
) -> tuple[tuple[str, ...], Config]:
    """Return the names of the clusters and the configuration that describes them; raises UsageError.

    A file with one cluster needs no `--cluster`; `all` means every cluster of the file.
    """
    if namesrv is not None and config_file is None:
        if clusters:
            raise click.UsageError("--cluster names a cluster of --config; leave it out with --namesrv")
        name, config = _config_for(namesrv)
        return (name,), config
    if config_file is None or namesrv is not None:
        raise click.UsageError("say which cluster: either --namesrv HOST:PORT, or --config FILE with --cluster NAME")
    config = load_config(config_file)
    if not clusters and len(config.clusters) > 1:
        raise click.UsageError(f"--cluster: say which one of {', '.join(config.clusters)}")
    names = tuple(config.clusters) if not clusters or ALL in clusters else tuple(dict.fromkeys(clusters))
    for name in names:
        check_is_known("--cluster", name, config.clusters)
    return names, config


def check_is_known(option: str, name: str, known: Collection[str]) -> None:
    """Raise UsageError where there is nothing of that name, with the one that is meant, or with all that there are."""
    if name not in known:
        there = sorted(known)
        more = f" and {len(there) - NAMES_SHOWN} more" if len(there) > NAMES_SHOWN else ""
        hint = did_you_mean(name, known) or f"; there are: {', '.join(there[:NAMES_SHOWN]) or 'none'}{more}"
        raise click.UsageError(f"{option}: there is no {option.removeprefix('--')} {harmless(name, 100)!r}{hint}")


def check_cluster(engine: Engine, name: str | None) -> None:
    """Raise UsageError for a cluster that is neither configured nor was published, nor has an incident."""
    # not for commands that need no database
    from offsetguard.store import incidents, published_intervals  # noqa: PLC0415
    from offsetguard.store.database import reading  # noqa: PLC0415
    from offsetguard.views.workspace_views import configuration  # noqa: PLC0415

    file = configuration(Workspace.from_environment())
    with reading(engine) as session:
        of_incidents = {cluster for cluster, _ in incidents.groups(session)}
    known = {*published_intervals.clusters(engine), *of_incidents, *(file.config.clusters if file else ())}
    if name is not None and known:
        check_is_known("--cluster", name, known)


def check_group(rounds: Sequence[Mapping[str, Any]], *, name: str | None = None, pattern: str | None = None) -> None:
    """Raise UsageError where no round's tables have the group that is named, or one in whose name a pattern is found.

    Where none was seen at all, nothing can be said of names.
    """
    tables = [one[GROUP_SNAPSHOTS.name] for one in rounds]
    groups = {row["consumer_group"]: row for one in tables for row in one.select(_NAMED).to_pylist()}
    wanted = name or pattern
    if wanted and groups and not any(group == name if name else re.search(wanted, group) for group in groups):
        check_is_known("--group", wanted, {group for group, row in groups.items() if not row["system_group"]})


def _config_for(namesrv: str) -> tuple[str, Config]:
    """Return a cluster's name, made of its first name server, and a configuration with the default limits."""
    addresses = [address.strip() for address in namesrv.split(";") if address.strip()]
    for address in addresses:
        try:
            _ADDRESS.validate_python(address)
        except ValidationError:
            raise click.UsageError(f"--namesrv: {address!r} is no HOST:PORT, for example 10.0.0.1:9876") from None
    if not addresses:
        raise click.UsageError("--namesrv: names no name server; write for example 10.0.0.1:9876")
    name = safe_name(addresses[0])
    return name, default_config({name: addresses})


def default_config(name_servers: Mapping[str, Sequence[str]]) -> Config:
    """Return a configuration with the default limits for clusters by name, with their name servers."""
    nobody = {"nobody": Team.model_validate({"mail": ["nobody@localhost"]})}  # nothing is sent
    clusters = {name: Cluster(name_servers=list(addresses)) for name, addresses in name_servers.items()}
    return Config(clusters=clusters, teams=nobody, default_team="nobody")


def safe_name(text: str) -> str:
    """Return a text as the name of a cluster, which is also the name of a folder."""
    return _NO_NAME.sub("-", text).lstrip("._-")[:100] or "cluster"


def credentials_from(environment: Mapping[str, str] = os.environ) -> Credentials | None:
    """Read the login; raises ConfigError when half of it is there."""
    access_key, secret_key = environment.get(ACCESS_KEY), environment.get(SECRET_KEY)
    if not access_key and not secret_key:
        return None
    if not access_key or not secret_key:
        missing = SECRET_KEY if access_key else ACCESS_KEY
        raise ConfigError(f"environment variable {missing} is missing: a login needs {ACCESS_KEY} and {SECRET_KEY}")
    return Credentials(access_key, secret_key)


async def replica_labels(client: RocketMQClient, name_servers: Sequence[str], tell: Callable[[str], None]) -> list[str]:
    """Return the label of every replica that a name server lists; none when no name server answers, which is told."""
    try:
        return list((await first_answer(client, name_servers, GetBrokerClusterInfo(), tell)).labels().values())
    except RocketMQError as error:
        tell(str(error))
        return []


async def first_answer(
    client: RocketMQClient, name_servers: Sequence[str], request: Request[T], tell: Callable[[str], None]
) -> T:
    """Return what the first name server answers that does; raises what the last one fails with."""
    *others, last = name_servers
    for address in others:
        try:
            return await client.call(address, request)
        except RocketMQError as error:
            tell(str(error))
    return await client.call(last, request)
