"""config/offsetguard.yml: clusters, groups, teams and delivery, as one typed model.

No secrets in it: logins come from Airflow connections, whose ids stand here.
`config_file.load_config` reads the file and says where in it something is wrong.
"""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from offsetguard.errors import ConfigError
from offsetguard.time_zones import NOT_A_TIME_ZONE, zone_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


def _must_match(pattern: str, what_to_write: str) -> Callable[[str], str]:
    expression = re.compile(pattern, re.ASCII)

    def check(value: str) -> str:
        if not expression.fullmatch(value):
            raise PydanticCustomError("not_written_so", "{hint}", {"hint": what_to_write})
        return value

    return check


def _port_exists(address: str) -> str:
    if not 1 <= int(address.rpartition(":")[2]) <= 65_535:
        raise PydanticCustomError("no_such_port", "is not an address: ports go from 1 to 65535")
    return address


def _time_zone_exists(name: str) -> str:
    try:
        zone_of(name)
    except ConfigError as error:
        raise PydanticCustomError("no_such_time_zone", NOT_A_TIME_ZONE) from error
    return name


Name = Annotated[
    str,
    AfterValidator(
        _must_match(
            r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}",
            "is not a name: start with a letter or digit, then letters, digits, '_', '.' or '-', at most 100",
        )
    ),
]
Address = Annotated[
    str,
    AfterValidator(
        _must_match(
            r"[A-Za-z0-9_.-]+:\d{1,5}",
            "is not an address: write host:port, e.g. 127.0.0.1:9876, one address to a list entry",
        )
    ),
    AfterValidator(_port_exists),
]
Glob = Annotated[
    str, AfterValidator(_must_match(r"[^\x00-\x20\x7f]{1,255}", "is not a pattern: 1 to 255 characters without spaces"))
]
MailAddress = Annotated[
    str,
    AfterValidator(
        _must_match(
            r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?",
            "is not a mail address: write name@example.com, one address to a list entry",
        )
    ),
]
SlackChannelName = Annotated[
    str,
    AfterValidator(
        _must_match(
            r"#[^\s#@<>]{1,80}|[CGD][A-Z0-9]{6,}",
            "is not a Slack channel: write '#name' (in quotes, # starts a comment in YAML) or an id such as C0123ABCD",
        )
    ),
]
WebUrl = Annotated[
    str,
    AfterValidator(
        _must_match(
            r"https?://[^\s<>\"@|]+",
            "is not a page's address: write http://host:port or https://host without user name or password",
        )
    ),
]
ConnectionId = Annotated[
    str,
    AfterValidator(_must_match(r"[A-Za-z0-9_.-]{1,200}", "is not the id of an Airflow connection")),
]
TimeZone = Annotated[str, Field(max_length=100), AfterValidator(_time_zone_exists)]
FilePath = Annotated[str, AfterValidator(_must_match(r"[^\x00-\x1f]{1,4096}", "is not the path of a file"))]
Milliseconds = Annotated[int, Field(gt=0)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Tls(_Section):
    """How connections to name servers and brokers are encrypted; the section's presence switches TLS on."""

    ca_file: FilePath | None = None  # PEM; None = the machine's own authorities
    check_host_name: bool = True
    client_certificate_file: FilePath | None = None  # PEM, where brokers ask for one
    client_key_file: FilePath | None = None


class LogSource(_Section):
    """A folder with logs of one broker replica or of one client, read where this machine sees it."""

    name: Name
    files: Annotated[list[Glob], Field(min_length=1)]  # globs of paths, e.g. /mnt/broker-a/logs/rocketmqlogs/*.log
    broker_name: Glob | None = None  # None: a client's log
    broker_id: Annotated[int, Field(ge=0)] = 0
    time_zone: TimeZone = "+08:00"  # brokers write GMT+8 wherever they run; 4.x clients write their host's zone


class Collection(_Section):
    """What a round may cost a broker."""

    max_in_flight: Annotated[int, Field(ge=1, le=64)] = 8  # unanswered requests per broker
    max_requests_per_s: Annotated[int, Field(ge=10)] = 5_000  # per broker
    detail_groups: Annotated[int, Field(ge=0)] = 16  # suspect groups that are asked in detail per round
    share_rounds: Annotated[int, Field(ge=1)] = 60  # every other group is asked in detail once in so many rounds
    rates: Annotated[int, Field(ge=0)] = 128  # rates of groups and topics (315) per broker replica and round
    running_info_clients: Annotated[int, Field(ge=0)] = 64  # clients asked for running info per round


class Cluster(_Section):
    """One RocketMQ cluster."""

    name_servers: Annotated[list[Address], Field(min_length=1)]
    connection: ConnectionId | None = None  # Airflow connection with access key (login) and secret key (password)
    request_timeout_ms: Milliseconds = 3_000
    lock_max_live_time_ms: Milliseconds = 60_000  # declared: -Drocketmq.broker.rebalance.lockMaxLiveTime of its brokers
    tls: Tls | None = None
    address_map: dict[Address, Address] = {}  # listed by the name server -> reachable from here
    proxies: list[Address] = []  # remoting ports of cluster-mode proxies: they know the members of gRPC groups
    metrics_urls: dict[Glob, WebUrl] = {}  # broker name -> its Prometheus exporter, e.g. http://10.0.0.1:5557/metrics
    logs: list[LogSource] = []
    collection: Collection = Collection()


class GroupPolicy(_Section):
    """What holds for the consumer groups that a pattern matches; the first entry that names a field wins."""

    match: Glob  # glob on the consumer group, case matters
    cluster: Glob = "*"
    team: Name | None = None
    max_lag_messages: Annotated[int, Field(ge=0)] | None = None
    max_lag_ms: Milliseconds | None = None
    orderly: bool | None = None
    lock_interval_ms: Milliseconds | None = None  # declared: -Drocketmq.client.rebalance.lockInterval of its clients


class Team(_Section):
    """Who is told, and how."""

    mail: list[MailAddress] = []
    slack: list[SlackChannelName] = []


class Delivery(_Section):
    """When and through what messages go out."""

    repeat_interval_ms: Milliseconds = 4 * 3_600_000
    notify_within_ms: Milliseconds = 15 * 60_000  # older intervals are recorded as history and never sent
    send_resolved: bool = True
    mail_connection: ConnectionId = "offsetguard_smtp"
    mail_from: MailAddress = "offsetguard@localhost"
    slack_connection: ConnectionId = "offsetguard_slack"
    page_url: WebUrl | None = None  # where readers reach the Airflow UI, for links


class Judgement(_Section):
    """Spans of time that the rules look at."""

    offset_move_window_ms: Milliseconds = 30 * 60_000


class Config(_Section):
    """The whole file."""

    clusters: Annotated[dict[Name, Cluster], Field(min_length=1)]
    groups: list[GroupPolicy] = []
    teams: dict[Name, Team]
    default_team: Name
    delivery: Delivery = Delivery()
    judgement: Judgement = Judgement()

    @model_validator(mode="after")
    def _references_exist(self) -> Config:
        problems = [f"{'.'.join(map(str, path))}: {text}" for path, text in reference_problems(self.model_dump())]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def policy(self, cluster: str, consumer_group: str) -> EffectivePolicy:
        """Merge the entries that match a group, in file order: the first that names a field wins."""
        merged: dict[str, object] = {}
        for entry in self.groups:
            if fnmatch.fnmatchcase(consumer_group, entry.match) and fnmatch.fnmatchcase(cluster, entry.cluster):
                for field in EffectivePolicy.model_fields:
                    value = getattr(entry, field)
                    if value is not None:
                        merged.setdefault(field, value)
        return EffectivePolicy(**{"team": self.default_team, **merged})  # type: ignore[arg-type]

    def unmatched_patterns(self, cluster: str, consumer_groups: Iterable[str]) -> list[str]:
        """Return the `match` patterns for this cluster that no group of it matches: misspelt, or not started yet."""
        return [self.groups[position].match for position in self.unmatched_positions(cluster, consumer_groups)]

    def unmatched_positions(self, cluster: str, consumer_groups: Iterable[str]) -> list[int]:
        """Return the same as positions in `groups`, so that a file's line can be named."""
        names = list(consumer_groups)
        return [
            position
            for position, entry in enumerate(self.groups)
            if fnmatch.fnmatchcase(cluster, entry.cluster)
            and not any(fnmatch.fnmatchcase(name, entry.match) for name in names)
        ]


class EffectivePolicy(_Section):
    """What holds for one consumer group of one cluster, with defaults filled in."""

    team: Name
    max_lag_messages: Annotated[int, Field(ge=0)] = 10_000
    max_lag_ms: Milliseconds = 5 * 60_000
    orderly: bool = False
    lock_interval_ms: Milliseconds = 20_000


Path = tuple[str | int, ...]


def reference_problems(document: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield (path, what is wrong) for names that stand nowhere or twice, and a default team that nobody hears.

    Takes plain values of any shape, so that a file's other problems do not hide these; wrong types are skipped.
    """
    teams, clusters = _mapping(document.get("teams")), _mapping(document.get("clusters"))
    default_team = document.get("default_team")
    if isinstance(default_team, str):
        if default_team not in teams:
            yield ("default_team",), f"there is no team {default_team!r}; {_known('teams', teams)}"
        elif not any(_mapping(teams[default_team]).get(channel) for channel in Team.model_fields):
            yield ("teams", default_team), "the default team needs a mail address or a Slack channel: it hears the rest"
    for position, entry in enumerate(_entries(document.get("groups"))):
        team, pattern = entry.get("team"), entry.get("cluster")
        if isinstance(team, str) and team not in teams:
            yield ("groups", position, "team"), f"there is no team {team!r}; {_known('teams', teams)}"
        if isinstance(pattern, str) and not any(fnmatch.fnmatchcase(str(name), pattern) for name in clusters):
            text = f"no cluster of this file is called {pattern!r}; {_known('clusters', clusters)}"
            yield ("groups", position, "cluster"), text
    for cluster, entry in clusters.items():
        names = [source.get("name") for source in _entries(_mapping(entry).get("logs"))]
        for position, name in enumerate(names):
            if name is not None and name in names[:position]:
                yield ("clusters", cluster, "logs", position, "name"), f"there is another log source called {name!r}"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _entries(value: object) -> Sequence[Mapping[str, Any]]:
    return [_mapping(entry) for entry in value] if isinstance(value, list) else []


def _known(what: str, names: Iterable[object]) -> str:
    return f"{what}: {', '.join(sorted(map(str, names))) or 'none'}"
