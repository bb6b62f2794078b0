"""Facts of a consumer group in a topic: what the rules read first.

What concerns the whole group (members, retries, settings) stands on each of its topics' rows.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, ClassVar

from offsetguard.tables import snapshots
from offsetguard.tables.table import (
    FACT_RETENTION,
    ClientSummary,
    ConsumerGroup,
    Int32,
    Lags,
    Table,
    Topic,
    UsualTraffic,
    columns_of,
    row_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts(Lags, ClientSummary, UsualTraffic):
    """One (consumer group, topic) over all its queues; sums are None when no queue is known."""

    consumer_group: ConsumerGroup
    topic: Topic
    topic_kind: Annotated[str | None, "normal, retry, dead_letter or system"] = None
    queue_count: Annotated[Int32, "queues of the topic that the group can read"]
    unknown_queue_count: Annotated[Int32, "queues without a max offset in this snapshot"]
    never_committed_queue_count: Annotated[Int32, "queues without a consumer offset"]
    suspect_queue_count: Annotated[Int32 | None, "queues that are not provably healthy; queue_facts has them"] = None
    _lags: ClassVar = columns_of(Lags)
    _client_summary: ClassVar = columns_of(ClientSummary)
    declared_orderly: snapshots.DeclaredOrderly = None
    lock_interval_ms: Annotated[int | None, "declared, ms"] = None
    lock_max_live_time_ms: Annotated[int | None, "declared, ms"] = None
    violated_invariants: Annotated[tuple[str, ...], "ids of the trouble invariants of the group row"] = ()
    broker_count: Annotated[Int32 | None, "brokers that have queues of the group in the topic"] = None
    produce_tps: Annotated[
        float | None, "messages written per second to its queues, between the newest two samples of each"
    ] = None
    consume_tps: Annotated[
        float | None, "messages committed per second, between the newest two samples of each queue"
    ] = None
    get_tps: Annotated[
        float | None, "messages pulled per second over the last minute, all replicas that were seen; NULL = none"
    ] = None
    master_get_tps: Annotated[float | None, "the masters' part of it"] = None
    slave_get_tps: Annotated[float | None, "the slaves' part of it"] = None
    unseen_rate_count: Annotated[
        Int32 | None, "replicas whose rate was not seen: get_tps is then a lower bound; NULL = none was asked"
    ] = None
    reads_moved_to_slave: Annotated[
        bool | None, "on a broker a slave hands out more than the master, which lives; NULL = a replica was not seen"
    ] = None
    slave_read_broker_names: Annotated[
        tuple[str, ...] | None,
        "brokers of which that is so, sorted; NULL = none",
    ] = None
    slave_read_since: Annotated[
        datetime | None,
        "when one of their slaves was first seen to hand out messages, in every round since; NULL = none",
    ] = None
    send_back_tps: Annotated[
        float | None, "messages sent back for a retry per second, over its masters; NULL = not asked"
    ] = None
    filtered: Annotated[
        bool | None, "clients subscribe to a part of the topic only (tags or SQL); NULL = no client was seen"
    ] = None
    hit_ratio: Annotated[
        float | None,
        "share of the messages that match the filter, 0..1: pulled per second / committed per second; NULL = not"
        " filtered, or not known",
    ] = None
    consumer_offset_total: Annotated[
        int | None, "sum of consumer_offset: grows with what is committed; NULL = one unknown"
    ] = None
    counted_at: Annotated[datetime | None, "when these consumer offsets were read; the oldest"] = None
    told_client_count: Annotated[
        Int32 | None, "connected clients that told what they do (running info); NULL = none was asked"
    ] = None
    holding_client_count: Annotated[
        Int32 | None, "of these, clients that hold a queue of the topic; NULL = none lists them (pull consumers of 4.x)"
    ] = None
    idle_client_count: Annotated[Int32 | None, "of these, clients that hold none"] = None
    held_queue_count: Annotated[Int32 | None, "queues of the topic that these clients hold"] = None
    locked_queue_count: Annotated[
        Int32 | None,
        "of these, locked ones (means something for orderly groups only)",
    ] = None
    full_cache_queue_count: Annotated[
        Int32 | None, "of these, those whose cache has reached the client's pull threshold"
    ] = None
    cached_message_count: Annotated[
        int | None, "messages of the topic that these clients have pulled and not finished"
    ] = None
    renewal_gap_ms: Annotated[
        int | None,
        "how long after the last renewal of its lock a queue of the topic was pulled or consumed, ms; the longest"
        " of locked queues; by the client's own clock",
    ] = None
    thread_count: Annotated[Int32 | None, "consume threads of the clients that told"] = None
    orderly: Annotated[bool | None, "clients say that they consume orderly; NULL = none told"] = None
    parallelism: Annotated[
        Int32 | None,
        "messages that can be consumed at once: threads of the clients that hold queues, orderly at most one per"
        " queue; NULL = not every client told",
    ] = None
    max_reconsume_times: Annotated[
        Int32 | None, "highest retry limit of the clients; -1 = the default: 16, endless for orderly"
    ] = None
    consume_ok_tps: Annotated[
        float | None, "messages finished per second, over the group's clients that told and all its topics"
    ] = None
    consume_failed_tps: Annotated[float | None, "messages failed per second, likewise"] = None
    consume_rt_ms: Annotated[float | None, "mean time to consume a message, ms; the slowest client's"] = None
    newest_client_start_at: Annotated[datetime | None, "when the client that was started last was started"] = None
    doubled_client_ids: Annotated[
        tuple[str, ...] | None,
        "client ids that a broker lists with several connections: instances that share an id; NULL = not seen",
    ] = None
    silent_client_ids: Annotated[
        tuple[str, ...] | None, "clients that do not say what they do while others do, the first 20; NULL = none does"
    ] = None
    subscription_expressions: Annotated[
        tuple[str, ...] | None,
        "distinct expressions by which clients themselves subscribe to the topic; NULL = none told",
    ] = None
    subscriptions_differ: Annotated[
        bool | None, "clients of the group subscribe to different topics or expressions; NULL = fewer than two told"
    ] = None
    system_group: Annotated[bool | None, "a group of RocketMQ's own; never judged"] = None
    retry_max_times: Annotated[Int32 | None, "the group's setting: retries before a message goes to %DLQ%"] = None
    consume_enabled: snapshots.ConsumeEnabled = None
    consume_broadcast_enabled: snapshots.ConsumeBroadcastEnabled = None
    consume_message_orderly: snapshots.ConsumeMessageOrderly = None
    refusals: Annotated[
        tuple[str, ...] | None,
        "`broker_name why` of the masters that refuse pulls of the group from the topic, by the first of their reasons:"
        " broker (brokerPermission), uncreated, disabled, forbidden (as in group_snapshots) or topic (perm); NULL ="
        " none is known",
    ] = None
    enabling_options: Annotated[str | None, "as in group_snapshots"] = None
    reset_settings: Annotated[str | None, "as in group_snapshots"] = None
    which_broker_when_consume_slowly: snapshots.WhichBrokerWhenConsumeSlowly = None
    members_differ: Annotated[
        bool | None, "the masters list different clients; NULL = fewer than two masters could be compared"
    ] = None
    members_differ_since: snapshots.MembersDifferSince = None
    missing_members: snapshots.MissingMembers = None
    departures: snapshots.Departures = None
    client_stacks: snapshots.StacksOfClient = None
    retry_message_count: snapshots.RetryMessageCount = None
    retry_growth: Annotated[
        int | None, "messages sent to its retry topics since the round before; NULL = not known"
    ] = None
    dead_letter_message_count: snapshots.DeadLetterMessageCount = None
    dead_letter_growth: Annotated[int | None, "messages sent to %DLQ% since the round before; NULL = not known"] = None
    oldest_dead_letter_at: snapshots.OldestDeadLetterAt = None
    uncommitted_at: snapshots.UncommittedAt = None
    consumption: Annotated[str | None, "classic or pop (committed means handed out); NULL = could not be told"] = None
    consumption_evidence: Annotated[str | None, "what told; NULL = nothing did"] = None
    pop_available: Annotated[int | None, "pop: messages not yet handed out; NULL = classic or unknown"] = None
    pop_inflight: snapshots.PopInflight = None
    pop_inflight_origin: snapshots.PopInflightOrigin = None
    pop_unfinished_since: Annotated[
        datetime | None,
        "pop: first of the rounds in a row that saw messages in flight and none finished; NULL = not so, or unknown",
    ] = None
    lite_topic_count: Annotated[int | None, "lite topics with offsets of the group"] = None
    lite_lag: Annotated[int | None, "messages that wait in those lite topics"] = None
    suspect_reason: snapshots.SuspectReason = None
    in_detail: Annotated[bool | None, "asked in detail in this round: pull offsets, rates, running info"] = None
    seen_digest: Annotated[
        str | None, "MD5 of who is online, client versions and the group's settings: another one where any differs"
    ] = None
    told_digest: Annotated[
        str | None, "likewise of what clients say: starts, subscriptions, retry limit; NULL = none of it is known"
    ] = None
    _usual_traffic: ClassVar = columns_of(UsualTraffic)


GROUP_FACTS = Table(
    "group_facts",
    "one row per (consumer group, topic), over all its queues",
    ("cluster", "consumer_group", "topic", "interval_start"),
    row_of(GroupFacts),
    retention=FACT_RETENTION,
)
