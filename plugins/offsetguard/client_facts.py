"""What a group's clients say of themselves, and which queues they hold: parallelism, caches, versions, subscriptions.

Only clients that were asked (running info) tell; a figure of all of them is None where not all told.
The same as Spark columns: `offsetguard_spark/facts/clients.py`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from offsetguard.known_figures import any_of, milliseconds_between, sum_of_known

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    Row = Mapping[str, Any]

GroupClient = tuple[str, str]  # (consumer group, client id)
QueueOfGroup = tuple[str, str, str, int]  # (consumer group, topic, broker name, queue id)
EVERYTHING = frozenset({"*", ""})  # expressions that match every message


@dataclass(frozen=True, slots=True)
class GroupClients:
    """The columns of `group_facts` of the same names, alike for all topics of a group."""

    told_client_count: int | None = None
    thread_count: int | None = None
    orderly: bool | None = None
    max_reconsume_times: int | None = None
    consume_ok_tps: float | None = None
    consume_failed_tps: float | None = None
    consume_rt_ms: float | None = None
    newest_client_start_at: datetime | None = None
    client_versions: tuple[str, ...] | None = None
    doubled_client_ids: tuple[str, ...] | None = None
    subscriptions_differ: bool | None = None


@dataclass(frozen=True, slots=True)
class TopicClients:
    """What the clients that told hold of one topic, and how they subscribe to it."""

    holding_client_count: int = 0
    held_queue_count: int = 0
    locked_queue_count: int = 0
    full_cache_queue_count: int = 0
    cached_message_count: int | None = None
    renewal_gap_ms: int | None = None
    holding_thread_count: int | None = None


@dataclass(frozen=True, slots=True)
class QueueHolder:
    """The columns of `queue_facts` of the same names."""

    holder_client_id: str
    holder_count: int
    locked: bool | None
    cached_message_count: int | None
    cached_min_offset: int | None
    cached_max_offset: int | None
    cache_is_full: bool | None
    last_lock_at: datetime | None
    last_pull_at: datetime | None
    last_consume_at: datetime | None


def group_clients(clients: Sequence[Row]) -> GroupClients:
    """Summarize one group's rows of `client_snapshots`: a client has one row per broker that sees it."""
    by_id = {row["client_id"]: row for row in clients}
    told = [row for row in by_id.values() if row["running_info_read_at"] is not None]
    own = [tuple(row["own_subscriptions"]) for row in told if row["own_subscriptions"] is not None]
    return GroupClients(
        told_client_count=len(told) or None,
        thread_count=sum_of_known(row["thread_count"] for row in told),
        orderly=_greatest(row["orderly"] for row in told),
        max_reconsume_times=_greatest(row["max_reconsume_times"] for row in told),
        consume_ok_tps=sum_of_known(row["consume_ok_tps"] for row in told),
        consume_failed_tps=sum_of_known(row["consume_failed_tps"] for row in told),
        consume_rt_ms=_greatest(row["consume_rt_ms"] for row in told),
        newest_client_start_at=_greatest(row["consumer_start_at"] for row in told),
        client_versions=tuple(sorted({_version(row) for row in clients} - {""})) if clients else None,
        doubled_client_ids=_doubled(clients),
        subscriptions_differ=len(set(own)) > 1 if len(own) > 1 else None,
    )


def topic_clients(held: Iterable[Row], clients: Mapping[GroupClient, Row]) -> dict[tuple[str, str], TopicClients]:
    """Summarize the rows of `client_queue_snapshots` by (consumer group, topic). `clients`: by (group, client id)."""
    by_topic: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in held:
        if not row["dropped"]:
            by_topic[row["consumer_group"], row["topic"]].append(row)
    return {(group, topic): _of_topic(group, rows, clients) for (group, topic), rows in by_topic.items()}


def queue_holders(held: Iterable[Row], clients: Mapping[GroupClient, Row]) -> dict[QueueOfGroup, QueueHolder]:
    """Return who holds each queue; of several clients (a rebalance, or broadcasting) the one that pulled last."""
    by_queue: dict[QueueOfGroup, list[Row]] = defaultdict(list)
    for row in held:
        if not row["dropped"]:
            by_queue[row["consumer_group"], row["topic"], row["broker_name"], row["queue_id"]].append(row)
    return {queue: _holder(rows, clients) for queue, rows in by_queue.items()}


def subscribed_expressions(clients: Iterable[Row]) -> tuple[dict[tuple[str, str], set[str]], set[str]]:
    """Return by (group, topic) by which expressions clients themselves subscribe, and the groups of which one told."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    told: set[str] = set()
    for row in clients:
        if row["own_subscriptions"] is not None:
            told.add(row["consumer_group"])
        for topic, expression in _subscriptions(row["own_subscriptions"]):
            found[row["consumer_group"], topic].add(expression)
    return dict(found), told


def filtered_topics(clients: Iterable[Row]) -> dict[tuple[str, str], bool]:
    """Tell by (group, topic) whether a client, or the broker for all of them, subscribes to a part of it only."""
    found: dict[tuple[str, str], bool] = {}
    for row in clients:
        for subscriptions in (row["subscriptions"], row["own_subscriptions"]):
            for topic, expression in _subscriptions(subscriptions):
                pair = row["consumer_group"], topic
                found[pair] = found.get(pair, False) or expression not in EVERYTHING
    return found


def parallelism(
    *,
    orderly: bool | None,
    queue_count: int,
    online_client_count: int | None,
    told_client_count: int | None,
    holding_thread_count: int | None,
) -> int | None:
    """Return how many messages can be consumed at once; None when not every connected client told.

    A client without a queue consumes nothing. An orderly group consumes one message of a queue at a time (incident I5).
    """
    if orderly is None or online_client_count is None or (told_client_count or 0) < online_client_count:
        return None
    threads = holding_thread_count or 0
    return min(queue_count, threads) if orderly else threads


def cache_is_full(held: Row, client: Row) -> bool | None:
    """Whether the client has stopped pulling because it has as many messages, or MiB, of the queue as it may have."""
    return any_of(
        (
            _reaches(held["cached_message_count"], client.get("pull_threshold_for_queue")),
            _reaches(held["cached_message_mib"], client.get("pull_threshold_size_for_queue_mib")),
        )
    )


def _of_topic(group: str, rows: Collection[Row], clients: Mapping[GroupClient, Row]) -> TopicClients:
    holders = {row["client_id"] for row in rows}
    full = (row for row in rows if cache_is_full(row, clients.get((group, row["client_id"]), {})))
    return TopicClients(
        holding_client_count=len(holders),
        held_queue_count=_queue_count(rows),
        locked_queue_count=_queue_count(row for row in rows if row["locked"]),
        full_cache_queue_count=_queue_count(full),
        cached_message_count=sum_of_known(row["cached_message_count"] for row in rows),
        renewal_gap_ms=_greatest(_renewal_gap_ms(row) for row in rows),
        holding_thread_count=sum_of_known(clients.get((group, one), {}).get("thread_count") for one in holders),
    )


def _renewal_gap_ms(held: Row) -> int | None:
    """Return how much later than the last renewal of its lock the queue was pulled or consumed: the client's clock."""
    moments = [moment for moment in (held["last_pull_at"], held["last_consume_at"]) if moment is not None]
    if not held["locked"] or held["last_lock_at"] is None or not moments:
        return None
    return milliseconds_between(held["last_lock_at"], max(moments))


def _doubled(clients: Collection[Row]) -> tuple[str, ...] | None:
    if all(row["connection_count"] is None for row in clients):
        return None
    return tuple(sorted({row["client_id"] for row in clients if (row["connection_count"] or 0) > 1}))


def _holder(rows: Collection[Row], clients: Mapping[GroupClient, Row]) -> QueueHolder:
    row = max(rows, key=lambda one: (one["last_pull_at"] is not None, one["last_pull_at"], one["client_id"]))
    return QueueHolder(
        holder_client_id=row["client_id"],
        holder_count=len(rows),
        locked=row["locked"],
        cached_message_count=row["cached_message_count"],
        cached_min_offset=row["cached_min_offset"],
        cached_max_offset=row["cached_max_offset"],
        cache_is_full=cache_is_full(row, clients.get((row["consumer_group"], row["client_id"]), {})),
        last_lock_at=row["last_lock_at"],
        last_pull_at=row["last_pull_at"],
        last_consume_at=row["last_consume_at"],
    )


def _subscriptions(texts: Sequence[str] | None) -> Iterator[tuple[str, str]]:
    """Yield (topic, expression) of `topic expression` texts; topics have no spaces, SQL expressions do."""
    for text in texts or ():
        topic, _, expression = text.partition(" ")
        yield topic, expression


def _queue_count(rows: Iterable[Row]) -> int:
    return len({(row["broker_name"], row["queue_id"]) for row in rows})


def _reaches(amount: int | None, limit: int | None) -> bool | None:
    if limit is not None and limit <= 0:
        return False  # no limit
    return None if amount is None or limit is None else amount >= limit


def _version(client: Row) -> str:
    parts = (client["language"], client["version"])
    return " ".join(str(part) for part in parts if part is not None)


def _greatest(values: Iterable[Any]) -> Any:
    return max((value for value in values if value is not None), default=None)
