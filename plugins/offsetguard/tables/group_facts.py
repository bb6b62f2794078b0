"""Facts of a consumer group in a topic: what the rules read first.

What concerns the whole group (members, retries, settings) stands on each of its topics' rows.
"""

from __future__ import annotations

from offsetguard.tables.columns import (
    BASELINE,
    CLIENT_SUMMARY,
    CLUSTER,
    CONSUMER_GROUP,
    INTERVAL_START,
    LAGS,
    TOPIC,
)
from offsetguard.tables.table import FACT_RETENTION, Column, ColumnType, Table

_S, _I4, _I8, _F, _B, _T = (
    ColumnType.STRING,
    ColumnType.INT32,
    ColumnType.INT64,
    ColumnType.FLOAT64,
    ColumnType.BOOLEAN,
    ColumnType.TIMESTAMP,
)

_RATES = (
    Column("broker_count", _I4, "brokers that have queues of the group in the topic"),
    Column("produce_tps", _F, "messages written per second to its queues, between the newest two samples of each"),
    Column("consume_tps", _F, "messages committed per second, between the newest two samples of each queue"),
    Column("get_tps", _F, "messages pulled per second over the last minute, all replicas that were seen; NULL = none"),
    Column("master_get_tps", _F, "the masters' part of it"),
    Column("slave_get_tps", _F, "the slaves' part of it"),
    Column(
        "unseen_rate_count",
        _I4,
        "replicas whose rate was not seen: get_tps is then a lower bound; NULL = none was asked",
    ),
    Column(
        "reads_moved_to_slave",
        _B,
        "on a broker a slave hands out more than the master, which lives; NULL = a replica was not seen",
    ),
    Column("slave_read_broker_names", ColumnType.STRING_LIST, "brokers of which that is so, sorted; NULL = none"),
    Column(
        "slave_read_since",
        _T,
        "when one of their slaves was first seen to hand out messages, in every round since; NULL = none",
    ),
    Column("send_back_tps", _F, "messages sent back for a retry per second, over its masters; NULL = not asked"),
    Column("filtered", _B, "clients subscribe to a part of the topic only (tags or SQL); NULL = no client was seen"),
    Column(
        "hit_ratio",
        _F,
        "share of the messages that match the filter, 0..1: pulled per second / committed per second;"
        " NULL = not filtered, or not known",
    ),
)
_CLIENTS = (
    Column("told_client_count", _I4, "connected clients that told what they do (running info); NULL = none was asked"),
    Column("holding_client_count", _I4, "of these, clients that hold a queue of the topic"),
    Column("idle_client_count", _I4, "of these, clients that hold none"),
    Column("held_queue_count", _I4, "queues of the topic that these clients hold"),
    Column("locked_queue_count", _I4, "of these, locked ones (means something for orderly groups only)"),
    Column("full_cache_queue_count", _I4, "of these, those whose cache has reached the client's pull threshold"),
    Column("cached_message_count", _I8, "messages of the topic that these clients have pulled and not finished"),
    Column(
        "renewal_gap_ms",
        _I8,
        "how long after the last renewal of its lock a queue of the topic was pulled or consumed, ms; the longest of"
        " locked queues; by the client's own clock",
    ),
    Column("thread_count", _I4, "consume threads of the clients that told"),
    Column("orderly", _B, "clients say that they consume orderly; NULL = none told"),
    Column(
        "parallelism",
        _I4,
        "messages that can be consumed at once: threads of the clients that hold queues, orderly at most one per queue;"
        " NULL = not every client told",
    ),
    Column("max_reconsume_times", _I4, "highest retry limit of the clients; -1 = the default: 16, endless for orderly"),
    Column("consume_ok_tps", _F, "messages finished per second, over the group's clients that told and all its topics"),
    Column("consume_failed_tps", _F, "messages failed per second, likewise"),
    Column("consume_rt_ms", _F, "mean time to consume a message, ms; the slowest client's"),
    Column("newest_client_start_at", _T, "when the client that was started last was started"),
    Column("client_versions", ColumnType.STRING_LIST, "distinct `language version` of all connected clients"),
    Column(
        "doubled_client_ids",
        ColumnType.STRING_LIST,
        "client ids that a broker lists with several connections: instances that share an id; NULL = not seen",
    ),
    Column(
        "subscription_expressions",
        ColumnType.STRING_LIST,
        "distinct expressions by which clients themselves subscribe to the topic; NULL = none told",
    ),
    Column(
        "subscriptions_differ",
        _B,
        "clients of the group subscribe to different topics or expressions; NULL = fewer than two told",
    ),
)
_SETTINGS = (
    Column("system_group", _B, "a group of RocketMQ's own; never judged"),
    Column("retry_max_times", _I4, "the group's setting: retries before a message goes to %DLQ%"),
    Column("consume_enabled", _B, "false = the broker refuses the group's pulls"),
    Column("which_broker_when_consume_slowly", _I8, "broker id that is suggested for reads far behind the end"),
    Column("members_differ", _B, "the masters list different clients; NULL = fewer than two masters could be compared"),
    Column("members_differ_since", _T, "first of the rounds in a row that saw them differ; NULL = they do not"),
    Column(
        "missing_members",
        ColumnType.STRING_LIST,
        "`client_id broker_name`: the first 20 that a master lacks and another lists; NULL = none, or not known",
    ),
    Column("retry_message_count", _I8, "messages kept in the group's retry topics; NULL = not seen"),
    Column("retry_growth", _I8, "messages sent to its retry topics since the round before; NULL = not known"),
    Column("dead_letter_message_count", _I8, "messages kept in %DLQ% of the group; NULL = not seen"),
    Column("dead_letter_growth", _I8, "messages sent to %DLQ% since the round before; NULL = not known"),
    Column("consumption", _S, "classic or pop (committed means handed out); NULL = could not be told"),
    Column("consumption_evidence", _S, "what told; NULL = nothing did"),
    Column("pop_available", _I8, "pop: messages not yet handed out; NULL = classic or unknown"),
    Column("pop_inflight", _I8, "pop: messages handed out and not acknowledged; NULL = classic or unknown"),
    Column("pop_inflight_origin", _S, "running_info or broker_metrics; NULL = pop_inflight is unknown"),
    Column(
        "pop_unfinished_since",
        _T,
        "pop: first of the rounds in a row that saw messages in flight and none finished; NULL = not so, or unknown",
    ),
    Column("lite_topic_count", _I8, "lite topics with offsets of the group"),
    Column("lite_lag", _I8, "messages that wait in those lite topics"),
    Column("suspect_reason", _S, "why the group was looked at in detail; NULL = provably healthy"),
    Column("in_detail", _B, "asked in detail in this round: pull offsets, rates, running info"),
)

GROUP_FACTS = Table(
    "group_facts",
    "one row per (consumer group, topic), over all its queues",
    ("cluster", "consumer_group", "topic", "interval_start"),
    (
        CLUSTER,
        INTERVAL_START,
        CONSUMER_GROUP,
        TOPIC,
        Column("topic_kind", _S, "normal, retry, dead_letter or system"),
        Column("queue_count", _I4, "queues of the topic that the group can read", nullable=False),
        Column("unknown_queue_count", _I4, "queues without a max offset in this snapshot", nullable=False),
        Column("never_committed_queue_count", _I4, "queues without a consumer offset", nullable=False),
        Column("suspect_queue_count", _I4, "queues that are not provably healthy; queue_facts has them"),
        *LAGS,
        *CLIENT_SUMMARY,
        Column("declared_orderly", _B, "the configuration says that the group consumes orderly"),
        Column("lock_interval_ms", _I8, "declared, ms"),
        Column("lock_max_live_time_ms", _I8, "declared, ms"),
        Column("violated_invariants", ColumnType.STRING_LIST, "ids of the trouble invariants of the group row", False),
        *_RATES,
        Column(
            "consumer_offset_total", _I8, "sum of consumer_offset: grows with what is committed; NULL = one unknown"
        ),
        Column("counted_at", _T, "when these consumer offsets were read; the oldest"),
        *_CLIENTS,
        *_SETTINGS,
        *BASELINE,
    ),
    retention=FACT_RETENTION,
)
