"""What clients say: parallelism, caches, who holds a queue, and whether they subscribe alike."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from offsetguard.client_facts import (
    cache_is_full,
    filtered_topics,
    group_clients,
    parallelism,
    queue_holders,
    subscribed_expressions,
    topic_clients,
)
from offsetguard.tables import CLIENT_QUEUE_SNAPSHOTS, CLIENT_SNAPSHOTS

AT = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
Row = dict[str, Any]


def client(client_id: str, *, told: bool = True, **columns: Any) -> Row:
    row: Row = dict.fromkeys(column.name for column in CLIENT_SNAPSHOTS.columns)
    row |= {"consumer_group": "g", "client_id": client_id, "language": "JAVA", "version": 409}
    return row | {"running_info_read_at": AT if told else None} | columns


def held(client_id: str, queue_id: int, **columns: Any) -> Row:
    row: Row = dict.fromkeys(column.name for column in CLIENT_QUEUE_SNAPSHOTS.columns)
    row |= {"consumer_group": "g", "client_id": client_id, "topic": "t", "broker_name": "b", "queue_id": queue_id}
    return row | columns


@pytest.mark.parametrize(
    ("orderly", "queue_count", "online", "told", "threads", "expected"),
    [
        (True, 16, 10, 10, 100, 16),
        (True, 100, 10, 10, 100, 100),
        (False, 16, 10, 10, 100, 100),
        (False, 16, 10, 9, 90, None),
        (None, 16, 10, 10, 100, None),
        (True, 16, None, 10, 100, None),
        (True, 16, 1, None, None, None),
    ],
)
def test_an_orderly_group_consumes_one_message_of_a_queue_at_a_time(
    *, orderly: bool | None, queue_count: int, online: int | None, told: int | None, threads: int | None, expected: int
) -> None:
    """Incident I5: ten clients of ten threads and 16 queues."""
    found = parallelism(
        orderly=orderly,
        queue_count=queue_count,
        online_client_count=online,
        told_client_count=told,
        holding_thread_count=threads,
    )
    assert found == expected


def test_a_client_counts_once_however_many_brokers_see_it() -> None:
    rows = [client("c1", thread_count=20, broker_name=name) for name in ("b", "c")]
    rows += [client("c2", thread_count=10, version=533), client("c3", told=False)]
    found = group_clients(rows)
    assert (found.told_client_count, found.thread_count) == (2, 30)
    assert found.client_versions == ("JAVA 409", "JAVA 533")


def test_instances_that_share_a_client_id_are_named() -> None:
    rows = [client("c1", connection_count=1), client("c2", connection_count=2), client("c2", connection_count=1)]
    assert group_clients(rows).doubled_client_ids == ("c2",)
    assert group_clients([client("c1")]).doubled_client_ids is None  # an earlier release did not count them


def test_the_gap_between_renewals_is_told_by_the_clients_own_clock() -> None:
    """A queue that was pulled 35 s after the last renewal of its lock shows that no renewal came meanwhile."""
    rows = [
        held("c1", 0, locked=True, last_lock_at=AT, last_pull_at=AT + timedelta(seconds=35)),
        held("c1", 1, locked=True, last_lock_at=AT, last_consume_at=AT + timedelta(seconds=5)),
        held("c1", 2, locked=False, last_lock_at=AT, last_pull_at=AT + timedelta(hours=1)),
    ]
    assert topic_clients(rows, {})["g", "t"].renewal_gap_ms == 35_000


@pytest.mark.parametrize(
    ("own", "differ"),
    [
        ([["t *"], ["t *"]], False),
        ([["t tagA"], ["t tagB || tagC"]], True),
        ([["t *"], ["t *", "u *"]], True),
        ([["t *"]], None),
        ([["t *"], None], None),
    ],
)
def test_subscriptions_are_compared_as_the_clients_state_them(own: list[list[str] | None], differ: bool | None) -> None:
    rows = [client(f"c{number}", own_subscriptions=one) for number, one in enumerate(own)]
    assert group_clients(rows).subscriptions_differ is differ


def test_expressions_of_sql_have_spaces_and_a_group_may_be_filtered_by_the_brokers_word_alone() -> None:
    rows = [
        client("c1", own_subscriptions=["t a > 3 AND b", "u *"]),
        client("c2", told=False, subscriptions=["v tagA"]),
    ]
    assert subscribed_expressions(rows) == ({("g", "t"): {"a > 3 AND b"}, ("g", "u"): {"*"}}, {"g"})
    assert filtered_topics(rows) == {("g", "t"): True, ("g", "u"): False, ("g", "v"): True}


@pytest.mark.parametrize(
    ("cached", "mib", "limit", "limit_mib", "full"),
    [
        (1000, 1, 1000, 100, True),
        (10, 100, 1000, 100, True),
        (999, 99, 1000, 100, False),
        (999, 99, 1000, -1, False),
        (999, None, 1000, 100, None),
        (1000, None, 1000, None, True),
        (None, None, None, None, None),
    ],
)
def test_a_cache_is_full_by_messages_or_by_size(
    *, cached: int | None, mib: int | None, limit: int | None, limit_mib: int | None, full: bool | None
) -> None:
    limits = {"pull_threshold_for_queue": limit, "pull_threshold_size_for_queue_mib": limit_mib}
    assert cache_is_full({"cached_message_count": cached, "cached_message_mib": mib}, limits) is full


def test_of_several_clients_the_one_that_pulled_last_holds_the_queue() -> None:
    rows = [held("c1", 0), held("c2", 0, last_pull_at=AT, cached_message_count=5), held("c3", 0, dropped=True)]
    holder = queue_holders(rows, {})["g", "t", "b", 0]
    assert (holder.holder_client_id, holder.holder_count, holder.cached_message_count) == ("c2", 2, 5)


def test_a_queue_counts_once_and_what_is_given_up_is_not_held() -> None:
    clients = {("g", name): client(name, thread_count=4) for name in ("c1", "c2", "c3")}
    rows = [held("c1", 0, locked=True), held("c1", 1), held("c2", 1), held("c3", 2, dropped=True)]
    found = topic_clients(rows, clients)["g", "t"]
    assert (found.holding_client_count, found.held_queue_count, found.locked_queue_count) == (2, 2, 1)
    assert found.holding_thread_count == 8
