"""config/offsetguard.yml: clusters, groups, teams and delivery, as one typed model.

No secrets in it: logins come from Airflow connections, whose ids stand here.
`config_file.load_config` reads the file and says where in it something is wrong.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any

from offsetguard.constraints import (
    NO_OTHER_FIELDS,
    BrokenRule,
    Checked,
    Count,
    Exactly,
    Flag,
    NotEmpty,
    Number,
    read_python,
)
from offsetguard.errors import ConfigError
from offsetguard.time_zones import NOT_A_TIME_ZONE, zone_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


def _written(pattern: str, what_to_write: str) -> Checked:
    expression = re.compile(pattern, re.ASCII)

    def check(value: str) -> None:
        if not expression.fullmatch(value):
            raise BrokenRule("not_written_so", what_to_write)

    return Checked(check)


def _port_exists(address: str) -> None:
    if not 1 <= int(address.rpartition(":")[2]) <= 65_535:
        raise BrokenRule("no_such_port", "is not an address: ports go from 1 to 65535")


def _time_zone_exists(name: str) -> None:
    try:
        zone_of(name)
    except ConfigError as error:
        raise BrokenRule("no_such_time_zone", NOT_A_TIME_ZONE) from error


Name = Annotated[
    str,
    Exactly(),
    _written(
        r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}",
        "is not a name: start with a letter or digit, then letters, digits, '_', '.' or '-', at most 100",
    ),
]
Address = Annotated[
    str,
    Exactly(),
    _written(
        r"[A-Za-z0-9_.-]+:\d{1,5}",
        "is not an address: write host:port, e.g. 127.0.0.1:9876, one address to a list entry",
    ),
    Checked(_port_exists),
]
Glob = Annotated[
    str, Exactly(), _written(r"[^\x00-\x20\x7f]{1,255}", "is not a pattern: 1 to 255 characters without spaces")
]
MailAddress = Annotated[
    str,
    Exactly(),
    _written(
        r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?",
        "is not a mail address: write name@example.com, one address to a list entry",
    ),
]
SlackChannelName = Annotated[
    str,
    Exactly(),
    _written(
        r"#[^\s#@<>]{1,80}|[CGD][A-Z0-9]{6,}",
        "is not a Slack channel: write '#name' (in quotes, # starts a comment in YAML) or an id such as C0123ABCD",
    ),
]
WebUrl = Annotated[
    str,
    Exactly(),
    _written(
        r"https?://[^\s<>\"@|]+",
        "is not a page's address: write http://host:port or https://host without user name or password",
    ),
]
ConnectionId = Annotated[str, Exactly(), _written(r"[A-Za-z0-9_.-]{1,200}", "is not the id of an Airflow connection")]
TimeZone = Annotated[
    str, Exactly(), _written(r"[^\x00-\x1f]{1,100}", "is not the name of a time zone"), Checked(_time_zone_exists)
]
FilePath = Annotated[str, Exactly(), _written(r"[^\x00-\x1f]{1,4096}", "is not the path of a file")]
Milliseconds = Annotated[int, Number(gt=0)]
Window = Annotated[int, Number(ge=60_000, le=30 * 60_000)]  # what is kept of a queue covers 30 min (queue_state.WINDOW)


@dataclass(frozen=True, kw_only=True)
class Tls:
    """How connections to name servers and brokers are encrypted; the section's presence switches TLS on."""

    __pydantic_config__ = NO_OTHER_FIELDS

    ca_file: FilePath | None = None  # PEM; None = the machine's own authorities
    check_host_name: Flag = True
    client_certificate_file: FilePath | None = None  # PEM, where brokers ask for one
    client_key_file: FilePath | None = None


@dataclass(frozen=True, kw_only=True)
class LogSource:
    """A folder with logs of one broker replica or of one client, read where this machine sees it."""

    __pydantic_config__ = NO_OTHER_FIELDS

    name: Name
    files: Annotated[list[Glob], NotEmpty()]  # globs of paths, e.g. /mnt/broker-a/logs/rocketmqlogs/*.log
    broker_name: Glob | None = None  # None: a client's log
    broker_id: Count = 0
    time_zone: TimeZone = "+08:00"  # brokers write GMT+8 wherever they run; 4.x clients write their host's zone


@dataclass(frozen=True, kw_only=True)
class Collection:
    """What a round may cost a broker."""

    __pydantic_config__ = NO_OTHER_FIELDS

    max_in_flight: Annotated[int, Number(ge=1, le=64)] = 32  # unanswered requests per broker; costly ones: 8
    max_requests_per_s: Annotated[int, Number(ge=10)] = 5_000  # per broker
    detail_groups: Count = 16  # suspect groups that are asked in detail per round
    share_rounds: Annotated[int, Number(ge=1)] = 60  # every other group is asked in detail once in so many rounds
    rates: Count = 128  # rates of groups and topics (315) per broker replica and round
    running_info_clients: Count = 64  # clients asked for running info per round


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """One RocketMQ cluster."""

    __pydantic_config__ = NO_OTHER_FIELDS

    name_servers: Annotated[list[Address], NotEmpty()]
    connection: ConnectionId | None = None  # Airflow connection with access key (login) and secret key (password)
    request_timeout_ms: Milliseconds = 3_000
    lock_max_live_time_ms: Milliseconds = 60_000  # declared: -Drocketmq.broker.rebalance.lockMaxLiveTime of its brokers
    broker_time_zone: TimeZone | None = None  # of the brokers' hosts: deleteWhen is an hour there; None: learned
    tls: Tls | None = None
    address_map: dict[Address, Address] = field(
        default_factory=dict
    )  # listed by the name server -> reachable from here
    proxies: list[Address] = field(
        default_factory=list
    )  # remoting ports of cluster-mode proxies: they know the members of gRPC groups
    metrics_urls: dict[Glob, WebUrl] = field(
        default_factory=dict
    )  # broker name -> its Prometheus exporter, e.g. http://10.0.0.1:5557/metrics
    logs: list[LogSource] = field(default_factory=list)
    collection: Collection = Collection()


@dataclass(frozen=True, kw_only=True)
class GroupPolicy:
    """What holds for the consumer groups that a pattern matches; the first entry that names a field wins."""

    __pydantic_config__ = NO_OTHER_FIELDS

    match: Glob  # glob on the consumer group, case matters
    cluster: Glob = "*"
    team: Name | None = None
    max_lag_messages: Count | None = None
    max_lag_ms: Milliseconds | None = None
    allowed_lag: Count | None = None
    lag_floor: Count | None = None
    lag_floor_ms: Milliseconds | None = None
    window_ms: Window | None = None
    loss_horizon_ms: Milliseconds | None = None
    orderly: Flag | None = None
    lock_interval_ms: Milliseconds | None = None  # declared: -Drocketmq.client.rebalance.lockInterval of its clients


@dataclass(frozen=True, kw_only=True)
class Team:
    """Who is told, and how."""

    __pydantic_config__ = NO_OTHER_FIELDS

    mail: list[MailAddress] = field(default_factory=list)
    slack: list[SlackChannelName] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """When and through what messages go out."""

    __pydantic_config__ = NO_OTHER_FIELDS

    repeat_interval_ms: Milliseconds = 4 * 3_600_000
    notify_within_ms: Milliseconds = 15 * 60_000  # older intervals are recorded as history and never sent
    send_resolved: Flag = True
    mail_connection: ConnectionId = "offsetguard_smtp"
    mail_from: MailAddress = "offsetguard@localhost"
    slack_connection: ConnectionId = "offsetguard_slack"
    page_url: WebUrl | None = None  # where readers reach the Airflow UI, for links


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """Spans of time that the rules look at."""

    __pydantic_config__ = NO_OTHER_FIELDS

    offset_move_window_ms: Milliseconds = 30 * 60_000
    traffic_weeks: Annotated[int, Number(ge=2, le=52)] = 3  # earlier weeks without which no traffic is called unusual
    log_window_ms: Milliseconds = 30 * 60_000  # of log lines about rebalance locks and subscriptions


@dataclass(frozen=True, kw_only=True)
class Retention:
    """How long things are kept, in whole days; `docs/tables.md` says which table holds snapshots and which facts."""

    __pydantic_config__ = NO_OTHER_FIELDS

    snapshots_days: Annotated[int, Number(ge=1)] = 7  # what was seen; also landed files, which facts are made of again
    facts_days: Annotated[int, Number(ge=1)] = 90  # what was made of it; also the records of cycles and of judgements


@dataclass(frozen=True, kw_only=True)
class Config:
    """The whole file."""

    __pydantic_config__ = NO_OTHER_FIELDS

    clusters: Annotated[dict[Name, Cluster], NotEmpty()]
    groups: list[GroupPolicy] = field(default_factory=list)
    teams: dict[Name, Team]
    default_team: Name
    delivery: Delivery = Delivery()
    judgement: Judgement = Judgement()
    retention: Retention = Retention()

    def __post_init__(self) -> None:
        """Raise ValueError for names that stand nowhere: see `reference_problems`."""
        problems = [f"{'.'.join(map(str, path))}: {text}" for path, text in reference_problems(asdict(self))]
        if problems:
            raise ValueError("; ".join(problems))

    @classmethod
    def from_values(cls, values: object) -> Config:
        """Return the configuration that plain values say, as YAML or JSON gives them; raises pydantic's errors."""
        return read_python(cls, values)

    def policy(self, cluster: str, consumer_group: str) -> EffectivePolicy:
        """Merge the entries that match a group, in file order: the first that names a field wins."""
        merged: dict[str, object] = {}
        for entry in self.groups:
            if fnmatch.fnmatchcase(consumer_group, entry.match) and fnmatch.fnmatchcase(cluster, entry.cluster):
                for name in field_names(EffectivePolicy):
                    value = getattr(entry, name)
                    if value is not None:
                        merged.setdefault(name, value)
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


@dataclass(frozen=True, kw_only=True)
class WindowPolicy:
    """By what the window of a queue is judged (`windows.py`): no limits, but what is too little to speak of."""

    __pydantic_config__ = NO_OTHER_FIELDS

    allowed_lag: Count = 0  # messages that may wait for ever, e.g. where transaction markers leave a lag of 1
    lag_floor: Count = 1_000  # growth by fewer messages, that are also younger than lag_floor_ms, is no trouble
    lag_floor_ms: Milliseconds = 60_000
    window_ms: Milliseconds = 30 * 60_000
    loss_horizon_ms: Milliseconds = 4 * 3_600_000  # a loss further ahead is not yet a risk


@dataclass(frozen=True, kw_only=True)
class EffectivePolicy(WindowPolicy):
    """What holds for one consumer group of one cluster, with defaults filled in."""

    team: Name
    max_lag_messages: Count = 10_000
    max_lag_ms: Milliseconds = 5 * 60_000
    orderly: Flag = False
    lock_interval_ms: Milliseconds = 20_000


Path = tuple[str | int, ...]


def field_names(section: type[Any]) -> tuple[str, ...]:
    """Return the keys that a section of the file may have."""
    return tuple(one.name for one in fields(section))


def reference_problems(document: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield (path, what is wrong) for names that stand nowhere or twice, and a default team that nobody hears.

    Takes plain values of any shape, so that a file's other problems do not hide these; wrong types are skipped.
    """
    teams, clusters = _mapping(document.get("teams")), _mapping(document.get("clusters"))
    default_team = document.get("default_team")
    if isinstance(default_team, str):
        if default_team not in teams:
            yield ("default_team",), f"there is no team {default_team!r}; {_known('teams', teams)}"
        elif not any(_mapping(teams[default_team]).get(channel) for channel in field_names(Team)):
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
