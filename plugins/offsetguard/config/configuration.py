"""The whole of config/offsetguard.yml as one typed model, and its sections `clusters` and `retention`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import time
from functools import cached_property
from typing import Annotated, Any

from pydantic import Field, StrictBool, StrictInt, model_validator

from offsetguard.config.fields import (
    Address,
    ConnectionId,
    Count,
    FilePath,
    Glob,
    HostRange,
    Milliseconds,
    Name,
    Section,
    TimeZone,
    WebUrl,
    matches,
)
from offsetguard.config.groups import EffectivePolicy, GroupPolicy, Judgement, Policies
from offsetguard.config.routes import Delivery, Route, RouteChoice, RouteEntry, Routing, Team
from offsetguard.model.notification import LISTS_FOR_ALL, RECEIVER_LISTS
from offsetguard.model.verdicts import Severity


class Tls(Section):
    """How connections to name servers and brokers are encrypted; the section's presence switches TLS on."""

    ca_file: FilePath | None = None  # PEM; without it: the machine's own authorities
    check_host_name: StrictBool = True  # false: a certificate of any host of that authority will do
    client_certificate_file: FilePath | None = None  # PEM, where brokers ask for one
    client_key_file: FilePath | None = None  # PEM, the key of that certificate


class LogSource(Section):
    """A folder with logs of one broker replica or of one client, read where this machine sees it."""

    name: Name  # your name for it; each name once per cluster
    files: Annotated[list[Glob], Field(min_length=1)]  # globs of paths, e.g. /mnt/broker-a/logs/rocketmqlogs/*.log
    broker_name: Glob | None = None  # without it: a client's log
    broker_id: Count = 0  # 0: the master
    time_zone: TimeZone = "+08:00"  # brokers write GMT+8 wherever they run; 4.x clients write their host's zone


class Collection(Section):
    """What a round may cost a broker."""

    max_in_flight: Annotated[StrictInt, Field(ge=1, le=512)] = 256  # unanswered requests per broker; costly ones: 8
    max_requests_per_s: Annotated[StrictInt, Field(ge=10)] = 5_000  # per broker
    detail_groups: Count = 16  # suspect groups that are asked in detail per round
    share_rounds: Annotated[StrictInt, Field(ge=1)] = 60  # every other group is asked in detail once in so many rounds
    rates: Count = 128  # rates of groups and topics (315) per broker replica and round
    running_info_clients: Count = 64  # clients asked for running info per round
    stacks: Count = 4  # of these, asked for thread stacks: one of a group that stands, once in 10 min; 0 = nobody is
    replicas: Annotated[StrictInt, Field(ge=1)] = 512  # that are asked at all, of those that name servers list
    entries: Annotated[StrictInt, Field(ge=1)] = (
        300_000  # topics, groups, and pairs of both with offsets: so many of each, of all masters; the rest is a gap
    )


class Cluster(Section):
    """One RocketMQ cluster."""

    name_servers: Annotated[list[Address], Field(min_length=1)]  # all of them; one is enough to answer
    connection: ConnectionId | None = None  # Airflow connection with access key (login) and secret key (password)
    request_timeout_ms: Milliseconds = 3_000  # a broker that takes longer counts as "did not answer"
    lock_max_live_time_ms: Milliseconds = 60_000  # declared: -Drocketmq.broker.rebalance.lockMaxLiveTime of its brokers
    broker_time_zone: TimeZone | None = None  # of the brokers' hosts: deleteWhen is an hour there; without it: learned
    tls: Tls | None = None  # only if name servers and brokers speak TLS
    address_map: dict[Address, Address] = {}  # listed by the name server -> reachable from here
    allowed_addresses: list[
        HostRange
    ] = []  # of brokers that name servers list; without it: all but link-local and clouds' metadata addresses
    proxies: list[Address] = []  # remoting ports of cluster-mode proxies: they know the members of gRPC groups
    metrics_urls: dict[Glob, WebUrl] = {}  # broker name -> its Prometheus exporter, e.g. http://10.0.0.1:5557/metrics
    logs: list[LogSource] = []  # where this machine can read the brokers' or clients' logs
    collection: Collection = Collection()  # what a round may cost a broker


class Retention(Section):
    """How long things are kept, in whole days; `docs/tables.md` says which table holds snapshots and which facts."""

    snapshots_days: Annotated[StrictInt, Field(ge=1)] = (
        7  # what was seen; also landed files, which facts are made of again
    )
    facts_days: Annotated[StrictInt, Field(ge=1)] = 90  # what was made of it; also incidents and messages that are over


class FleetCollection(Section):
    """How all clusters are asked."""

    tasks: Annotated[StrictInt, Field(ge=1, le=32)] = 1  # of Airflow, that deal the clusters out among them


class Config(Section):
    """The whole file."""

    clusters: Annotated[dict[Name, Cluster], Field(min_length=1)]  # by your name for it, which stands in every message
    groups: list[GroupPolicy] = []  # owners and limits of consumer groups
    teams: dict[Name, Team]  # who is told
    default_team: Name  # hears about brokers, and what nobody else owns; one channel will do, or an Alertmanager
    routes: list[RouteEntry] = []  # who is notified of what, when, in which language
    delivery: Delivery = Delivery()  # through what, and what holds where no route says otherwise
    judgement: Judgement = Judgement()  # spans of time that the rules look at, and what brokers may be off by
    retention: Retention = Retention()  # how long things are kept
    collection: FleetCollection = FleetCollection()  # for fleets that one process cannot ask within a minute

    @model_validator(mode="after")
    def _names_stand_somewhere(self) -> "Config":
        problems = [f"{'.'.join(map(str, path))}: {text}" for path, text in reference_problems(self.model_dump())]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    @cached_property
    def _policies(self) -> Policies:
        return Policies(self.groups, self.default_team)

    @cached_property
    def _routing(self) -> Routing:
        return Routing(self.routes, self.teams, self.default_team, self.delivery)

    def policy(self, cluster: str, consumer_group: str) -> EffectivePolicy:
        """Merge the entries that match a group, in file order: the first that names a field wins."""
        return self._policies.of(cluster, consumer_group)

    def team_of(self, cluster: str, consumer_group: str | None) -> str:
        """Return whose a group is; None: what is about no group is the default team's."""
        return self.default_team if consumer_group is None else self.policy(cluster, consumer_group).team

    def policy_deciders(self, cluster: str, consumer_group: str) -> dict[str, int]:
        """Return for each field of a group's policy that an entry of `groups` sets the position of the one that won."""
        return self._policies.deciders(cluster, consumer_group)

    def route(
        self, team: str, cluster: str, *, rule_id: str, severity: Severity, consumer_group: str | None = None
    ) -> Route:
        """Return who of a team is notified about a group (None: about the cluster), when and in which language."""
        return self.route_choice(team, cluster, rule_id=rule_id, severity=severity, consumer_group=consumer_group).route

    def route_choice(
        self, team: str, cluster: str, *, rule_id: str, severity: Severity, consumer_group: str | None = None
    ) -> RouteChoice:
        """Return the same with the entries of `routes` that decided each field."""
        return self._routing.choose(team, cluster, rule_id=rule_id, severity=severity, consumer_group=consumer_group)

    def daily_report_at(self, team: str) -> time | None:
        """Return when a team gets its daily report, by the clock of its zone; None: it gets none."""
        own = self.teams[team].daily_report_at if team in self.teams else None
        text = own or self.delivery.daily_report_at
        return None if text is None else time.fromisoformat(text)


EVERYTHING = {"detail_groups": 1_000_000, "share_rounds": 1, "rates": 1_000_000, "running_info_clients": 10_000}
"""Details of all groups in every round: for bundles, whose readers cannot ask again and whose replay burdens nobody."""


def asking_everything(config: Config, cluster: str) -> Config:
    """Return the configuration with the limits of a cluster's rounds lifted; the pace of requests stays."""
    settings = config.clusters[cluster]
    lifted = settings.model_copy(update={"collection": settings.collection.model_copy(update=EVERYTHING)})
    return config.model_copy(update={"clusters": {**config.clusters, cluster: lifted}})


Path = tuple[str | int, ...]
_HEARD = (
    "the default team needs somebody to tell (a mail address, a channel, a robot, or delivery.alertmanagers): it hears "
    "the rest"
)


def reference_problems(document: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield (path, what is wrong) for names that stand nowhere or twice, and a default team without receivers.

    Takes plain values of any shape, so that a file's other problems do not hide these; wrong types are skipped.
    """
    teams, clusters = _mapping(document.get("teams")), _mapping(document.get("clusters"))
    yield from _default_team_problems(document.get("default_team"), teams, _mapping(document.get("delivery")))
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
    for cluster, entry in clusters.items():
        yield from _log_sources_of_one_name(cluster, _entries(_mapping(entry).get("logs")))


def _default_team_problems(
    name: object, teams: Mapping[str, Any], delivery: Mapping[str, Any]
) -> Iterator[tuple[Path, str]]:
    yield from _unknown(("default_team",), "team", name, teams)
    if not isinstance(name, str) or name not in teams or any(map(delivery.get, LISTS_FOR_ALL)):
        return
    if not any(map(_mapping(teams[name]).get, RECEIVER_LISTS)):
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
