"""Section `clusters`: how each RocketMQ cluster is reached, and what looking at it may cost."""

from dataclasses import dataclass, field
from typing import Annotated

from offsetguard.config.fields import Address, ConnectionId, FilePath, Glob, Milliseconds, Name, TimeZone, WebUrl
from offsetguard.model.constraints import NO_OTHER_FIELDS, Count, Flag, NotEmpty, Number


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """How connections to name servers and brokers are encrypted; the section's presence switches TLS on."""

    __pydantic_config__ = NO_OTHER_FIELDS

    ca_file: FilePath | None = None  # PEM; without it: the machine's own authorities
    check_host_name: Flag = True  # false: a certificate of any host of that authority will do
    client_certificate_file: FilePath | None = None  # PEM, where brokers ask for one
    client_key_file: FilePath | None = None  # PEM, the key of that certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSource:
    """A folder with logs of one broker replica or of one client, read where this machine sees it."""

    __pydantic_config__ = NO_OTHER_FIELDS

    name: Name  # your name for it; each name once per cluster
    files: Annotated[list[Glob], NotEmpty()]  # globs of paths, e.g. /mnt/broker-a/logs/rocketmqlogs/*.log
    broker_name: Glob | None = None  # without it: a client's log
    broker_id: Count = 0  # 0: the master
    time_zone: TimeZone = "+08:00"  # brokers write GMT+8 wherever they run; 4.x clients write their host's zone


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """What a round may cost a broker."""

    __pydantic_config__ = NO_OTHER_FIELDS

    max_in_flight: Annotated[int, Number(ge=1, le=512)] = 256  # unanswered requests per broker; costly ones: 8
    max_requests_per_s: Annotated[int, Number(ge=10)] = 5_000  # per broker
    detail_groups: Count = 16  # suspect groups that are asked in detail per round
    share_rounds: Annotated[int, Number(ge=1)] = 60  # every other group is asked in detail once in so many rounds
    rates: Count = 128  # rates of groups and topics (315) per broker replica and round
    running_info_clients: Count = 64  # clients asked for running info per round


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One RocketMQ cluster."""

    __pydantic_config__ = NO_OTHER_FIELDS

    name_servers: Annotated[list[Address], NotEmpty()]  # all of them; one is enough to answer
    connection: ConnectionId | None = None  # Airflow connection with access key (login) and secret key (password)
    request_timeout_ms: Milliseconds = 3_000  # a broker that takes longer counts as "did not answer"
    lock_max_live_time_ms: Milliseconds = 60_000  # declared: -Drocketmq.broker.rebalance.lockMaxLiveTime of its brokers
    broker_time_zone: TimeZone | None = None  # of the brokers' hosts: deleteWhen is an hour there; without it: learned
    tls: Tls | None = None  # only if name servers and brokers speak TLS
    address_map: dict[Address, Address] = field(
        default_factory=dict
    )  # listed by the name server -> reachable from here
    proxies: list[Address] = field(
        default_factory=list
    )  # remoting ports of cluster-mode proxies: they know the members of gRPC groups
    metrics_urls: dict[Glob, WebUrl] = field(
        default_factory=dict
    )  # broker name -> its Prometheus exporter, e.g. http://10.0.0.1:5557/metrics
    logs: list[LogSource] = field(default_factory=list)  # where this machine can read the brokers' or clients' logs
    collection: Collection = Collection()  # what a round may cost a broker
