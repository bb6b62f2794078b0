"""The sources that the collector has: what each tells, how it is asked, and where it lands.

Whether a replica answers is not said here but measured (`source_measuring.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from offsetguard.sources.rocketmq.codes import RequestCode

# What a cell of the matrix may say.
YES, NO = "yes", "no"
OWN = "own counters only"
NOT_IN_VERSION = "not in this version"
ANY_ACCOUNT, SUB_RIGHT = "any account", "SUB"
_RIGHT = "(?:Cluster|Topic|Group) (?:Get|Sub|List)"
CELL = re.compile(
    rf"{YES}|{NO}|{OWN}|{NOT_IN_VERSION}|refused, code \d+|\w+\.log|{ANY_ACCOUNT}|{SUB_RIGHT}|{_RIGHT}(?:, {_RIGHT})*"
)

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


SECTIONS = (
    Section(
        "Offsets",
        REPLICAS,
        (
            Source(
                "max_and_min_offset",
                "max and min offset of every queue",
                "GET_TOPIC_STATS_INFO (202)",
                ("queue_snapshots.max_offset", "queue_snapshots.min_offset", "topic_queue_snapshots.max_offset"),
            ),
            Source(
                "consumer_offset",
                "consumer offset of every (group, topic, queue)",
                "GET_ALL_CONSUMER_OFFSET (43)",
                ("queue_snapshots.consumer_offset",),
            ),
            Source(
                "never_committed",
                "never committed, told apart from offset 0",
                "43 has no entry where GET_CONSUME_STATS (208) says 0",
            ),
            Source("pull_offset", "pull offset", "GET_CONSUME_STATS (208)", ("queue_snapshots.pull_offset",)),
            Source(
                "broadcast_offset",
                "what a broadcasting group has pulled",
                "GET_ALL_CONSUMER_OFFSET (43), key `topic@group@broadcast`",
                only=(MASTER,),
            ),
            Source(
                "last_timestamp",
                "store time of the last consumed message",
                "GET_CONSUME_STATS (208)",
                ("queue_snapshots.last_timestamp",),
            ),
            Source(
                "oldest_unconsumed",
                "age of the oldest message that waits",
                "QUERY_CONSUME_TIME_SPAN (303)",
                ("queue_snapshots.oldest_unconsumed_at",),
            ),
        ),
        "A slave answers with its own messages, but with a copy of its master's offsets, topics and groups: up to 10 s "
        "old on 4.x, up to 63 s on 5.x. So offsets are read from masters. A pull offset lives in the memory of the "
        "replica that served the pull.",
    ),
    Section(
        "Rates",
        REPLICAS,
        (
            Source(
                "put_rate",
                "messages sent to a topic",
                "VIEW_BROKER_STATS_DATA (315) TOPIC_PUT_NUMS",
                ("broker_stats.tps",),
            ),
            Source(
                "get_rate",
                "messages pulled by a group",
                "VIEW_BROKER_STATS_DATA (315) GROUP_GET_NUMS",
                ("broker_stats.tps",),
            ),
            Source(
                "get_latency",
                "time of a pull at the broker",
                "VIEW_BROKER_STATS_DATA (315) GROUP_GET_LATENCY",
                ("broker_stats.average",),
            ),
            Source(
                "send_back_rate",
                "messages sent back for a retry",
                "VIEW_BROKER_STATS_DATA (315) SNDBCK_PUT_NUMS",
                ("broker_stats.tps",),
            ),
        ),
        "Each replica counts what it served itself and says code 1 where it has counted nothing since its start. A "
        "group's figure is the sum over master and slaves.",
    ),
    Section(
        "Members",
        REPLICAS,
        (
            Source(
                "connections",
                "connections, subscription, consume type, message model, client version and language",
                "GET_CONSUMER_CONNECTION_LIST (203)",
                (
                    "client_snapshots.client_address",
                    "client_snapshots.subscriptions",
                    "group_snapshots.online_client_count",
                ),
            ),
            Source(
                "member_list",
                "the members as this broker gives them to the group",
                "GET_CONSUMER_LIST_BY_GROUP (38)",
            ),
            Source(
                "running_info",
                "running info of a client: threads, retry limit, own subscription, cached messages per queue",
                "GET_CONSUMER_RUNNING_INFO (307)",
                ("client_snapshots.thread_count", "client_queue_snapshots.cached_message_count"),
            ),
            Source(
                "queue_locks",
                "locks of an orderly client",
                "GET_CONSUMER_RUNNING_INFO (307)",
                ("client_queue_snapshots.locked", "client_queue_snapshots.last_lock_at"),
            ),
        ),
        "Clients send their heartbeats to masters and slaves, so each replica has a view of its own.",
    ),
    Section(
        "Brokers",
        REPLICAS,
        (
            Source(
                "runtime",
                "runtime figures: commit log, disk, rates, boot time",
                "GET_BROKER_RUNTIME_INFO (28)",
                ("broker_snapshots.version", "broker_snapshots.commit_log_max_offset"),
            ),
            Source("settings", "settings", "GET_BROKER_CONFIG (26)", ("broker_snapshots.role",)),
            Source(
                "topics",
                "topics, retry and dead-letter topics among them",
                "GET_ALL_TOPIC_CONFIG (21)",
                ("topic_settings.topic_kind",),
            ),
            Source(
                "groups",
                "consumer groups",
                "GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201)",
                ("group_snapshots.retry_max_times",),
            ),
            Source("system_topics", "the broker's own topics", "GET_SYSTEM_TOPIC_LIST_FROM_BROKER (305)"),
            Source(
                "slave_distance",
                "how far a slave's commit log is behind",
                "difference of two GET_BROKER_RUNTIME_INFO (28)",
                ("broker_snapshots.slave_behind_bytes",),
            ),
            Source("address_map", "asked at another address than the listed one", "`address_map` of the cluster"),
            Source(
                "dead_letters",
                "messages in a group's dead-letter topic",
                "GET_TOPIC_STATS_INFO (202) of %DLQ%group",
                ("group_snapshots.dead_letter_message_count",),
            ),
        ),
        "",
    ),
    Section(
        "Messages that brokers hold back",
        (MASTER,),
        (
            Source(
                "half_messages",
                "half messages that the broker's check has not passed: ended or not",
                "GET_TOPIC_STATS_INFO (202) of RMQ_SYS_TRANS_HALF_TOPIC, and the offset of CID_RMQ_SYS_TRANS in "
                "GET_ALL_CONSUMER_OFFSET (43)",
                ("broker_snapshots.half_message_count",),
            ),
            Source(
                "given_up",
                "transactions that were given up: nobody ended them",
                "GET_TOPIC_STATS_INFO (202) of TRANS_CHECK_MAX_TIME_TOPIC",
                ("broker_snapshots.given_up_max_offset",),
            ),
            Source(
                "delayed_messages",
                "messages of each delay level that were not delivered yet",
                "GET_BROKER_RUNTIME_INFO (28) `scheduleMessageOffset_LEVEL`, where 4.x leaves out levels that have "
                "delivered nothing yet: GET_TOPIC_STATS_INFO (202) of SCHEDULE_TOPIC_XXXX",
                ("broker_snapshots.delayed_message_count",),
            ),
            Source(
                "delayed_late",
                "of these, those that are late",
                "SEARCH_OFFSET_BY_TIMESTAMP (29) of SCHEDULE_TOPIC_XXXX",
                ("broker_snapshots.delayed_late_count",),
            ),
            Source(
                "timer_messages",
                "timer messages: in the wheel, not in it yet, how late it delivers",
                "GET_BROKER_RUNTIME_INFO (28) `timerCongestNum`, `timerOffsetBehind`, `timerReadBehind`",
                ("broker_snapshots.timer_message_count", "broker_snapshots.timer_behind_ms"),
            ),
            Source(
                "oldest_dead_letter",
                "store time of the oldest dead letter of a group",
                "GET_EARLIEST_MSG_STORETIME (32) of %DLQ%group",
                ("group_snapshots.oldest_dead_letter_at",),
            ),
        ),
        "Read from masters. A check writes the half messages that are not ended again, with a new store time: how long "
        "a transaction has been open no request tells. `timerReadBehind` is whole seconds; `timerEnqueueTps` and "
        "`timerDequeueTps` (messages that go into the wheel and out of it per second) are not collected.",
    ),
    Section(
        "Moved offsets",
        REPLICAS,
        (
            Source(
                "offset_moved_event",
                "messages of the topic OFFSET_MOVED_EVENT",
                "PULL_MESSAGE (11)",
                ("offset_moves.requested_offset",),
            ),
            Source(
                "offset_moved_line",
                "line `PULL_OFFSET_MOVED:correction offset`",
                "log file",
                ("offset_moves.requested_offset", "log_events.kind"),
            ),
        ),
        "5.x has the topic, but writes nothing to it: there the broker's log and the difference of two rounds tell of "
        "moved offsets. A slave corrects nobody while its master lives.",
    ),
    Section(
        "Log and state files",
        REPLICAS,
        (
            Source("lock_line", "line of the rebalance lock", "log file", ("log_events.kind",)),
            Source("pull_queue_line", "pull requests that wait, each second", "log file"),
            Source(
                "consumer_offset_file",
                "consumer offsets",
                "store/config/consumerOffset.json",
                ("queue_snapshots.consumer_offset",),
            ),
            Source("topics_file", "topics", "store/config/topics.json", ("topic_settings.topic_kind",)),
            Source(
                "groups_file",
                "consumer groups",
                "store/config/subscriptionGroup.json",
                ("group_snapshots.retry_max_times",),
            ),
        ),
        "Where brokers cannot be asked. A log file is shown by its name; [logs.md](logs.md) has all lines.",
    ),
    Section(
        "Clients' own files",
        (CLIENT,),
        (
            Source("rebalance_line", "queues that a client takes and gives up", "client log", ("log_events.kind",)),
            Source("client_offsets_file", "offsets of a broadcasting client", "offsets.json in the client's home"),
        ),
        "",
    ),
    Section(
        "POP groups",
        REPLICAS,
        (
            Source(
                "pop_recognised",
                "that a group pops",
                "VIEW_BROKER_STATS_DATA (315) GROUP_CK_NUMS",
                ("group_snapshots.consumption",),
            ),
            Source(
                "pop_consumer_offset",
                "how far messages were handed out",
                "GET_ALL_CONSUMER_OFFSET (43)",
                ("group_snapshots.pop_available",),
            ),
            Source(
                "pop_in_flight",
                "messages in flight",
                "the broker's Prometheus exporter, where it is switched on",
                ("group_snapshots.pop_inflight",),
            ),
        ),
        "A POP group's consumer offset says what was handed out, not what was acknowledged.",
    ),
    Section(
        "Access",
        (NAME_SERVER, MASTER, SLAVE),
        (
            Source("tls", "serves TLS, and nothing else in mode `enforcing`", "tls.server.mode=enforcing"),
            Source("unsigned", "request without a signature", "access control on"),
            Source("wrong_password", "request signed with a wrong secret key", "access control on"),
            Source("read_only_account", "request of an account that may only read", "access control on"),
        ),
        "Everything on this page was asked over TLS, by the account that may only read, from clusters with access "
        "control. Name servers check no signature.",
    ),
    Section(
        "Name servers",
        (NAME_SERVER,),
        (
            Source("listed_brokers", "brokers and their addresses", "GET_BROKER_CLUSTER_INFO (106)"),
            Source("route", "route of a topic", "GET_ROUTEINFO_BY_TOPIC (105)"),
            Source("all_topics", "all topics", "GET_ALL_TOPIC_LIST_FROM_NAMESERVER (206)"),
            Source(
                "fail_over", "a round is complete while another name server is dead", "`name_servers` of the cluster"
            ),
        ),
        "",
    ),
    Section(
        "Rights",
        (MASTER,),
        tuple(
            Source(code.name, f"{code.name} ({code})")
            for code in (
                RequestCode.GET_TOPIC_STATS_INFO,
                RequestCode.GET_ALL_CONSUMER_OFFSET,
                RequestCode.GET_CONSUME_STATS,
                RequestCode.QUERY_CONSUME_TIME_SPAN,
                RequestCode.QUERY_CONSUMER_OFFSET,
                RequestCode.GET_MIN_OFFSET,
                RequestCode.GET_MAX_OFFSET,
                RequestCode.GET_EARLIEST_MSG_STORETIME,
                RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
                RequestCode.VIEW_BROKER_STATS_DATA,
                RequestCode.GET_CONSUMER_CONNECTION_LIST,
                RequestCode.GET_CONSUMER_LIST_BY_GROUP,
                RequestCode.GET_CONSUMER_RUNNING_INFO,
                RequestCode.GET_BROKER_RUNTIME_INFO,
                RequestCode.GET_BROKER_CONFIG,
                RequestCode.GET_ALL_TOPIC_CONFIG,
                RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
                RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
                RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
                RequestCode.PULL_MESSAGE,
            )
        ),
        "What an account needs for a request, found by starting without rights and granting what the broker said was "
        "missing. A resource of 5.x is written `Topic:*`, `Group:*`, `Cluster:*`. 5.x keeps accounts and rights on "
        "each broker: create them on masters and slaves (`mqadmin createUser` and `createAcl` with `-c` do).",
    ),
)


def sources() -> Iterator[tuple[Section, Source]]:
    """List all sources with their sections."""
    for section in SECTIONS:
        for source in section.sources:
            yield section, source
