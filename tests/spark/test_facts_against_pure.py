"""Every fact that the pipeline makes of an interval is that of the snapshot in memory, on random dirty clusters."""

from __future__ import annotations

import math
from dataclasses import asdict, fields
from datetime import timedelta
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from offsetguard.config import Config
from offsetguard.facts.interval import group_facts_of, queue_facts_of, record_of
from offsetguard.facts.rounds import facts_from_snapshot
from offsetguard.tables import BROKER_FACTS, CLUSTER_FACTS, GROUP_FACTS, LANDED, QUEUE_FACTS, TOPIC_FACTS
from offsetguard.tables.broker_facts import BrokerFacts, ClusterFacts
from offsetguard.tables.facts import TopicFacts
from offsetguard_peers.facts.frames import Frames, rows_of, sources_of

BROKERS = ("broker-a", "broker-b", "broker-c")
TOPICS = ("orders", "clicks", "%RETRY%g0")
GROUPS = ("g0", "g1", "g2")
FEW = settings(
    max_examples=2,
    phases=[Phase.generate],  # shrinking would start Spark queries by the hundred; the failure names the row
    suppress_health_check=list(HealthCheck),
)


def random_cluster(snapshot, random: Random) -> None:
    """Fill a snapshot with rows that know too little, contradict each other, and are far out."""
    _brokers(snapshot, random)
    _topics(snapshot, random)
    _queues(snapshot, random)
    _clients(snapshot, random)
    for group in GROUPS[:2]:
        snapshot.group(
            group,
            online_client_count=_maybe(random, random.randrange(4)),
            consumption=random.choice([None, "classic", "pop"]),
            retry_growth=_maybe(random, random.randrange(100)),
            dead_letter_growth=_maybe(random, random.randrange(3)),
            members_differ=_maybe(random, True),
            members_differ_since=_maybe(random, snapshot.read_at),
            missing_members=_maybe(random, ["c0 broker-b"]),
            pop_unfinished_since=_maybe(random, snapshot.read_at),
        )


def _brokers(snapshot, random: Random) -> None:
    for name in BROKERS[:2]:
        for broker_id in random.sample([0, 1, 2], random.randrange(1, 4)):
            answered = random.random() < 0.7
            snapshot.add(
                "broker_snapshots",
                broker_name=name,
                broker_id=broker_id,
                address="127.0.0.1:1",
                answered=answered,
                commit_log_max_offset=_maybe(random, random.randrange(10**12)),
                get_transferred_tps=_maybe(random, random.randrange(1000) / 8),
                put_tps=_maybe(random, random.randrange(1000) / 8),
                slave_behind_bytes=_maybe(random, random.randrange(10**6)) if broker_id else None,
                commit_log_disk_ratio=_maybe(random, random.random()),
                read_at=snapshot.read_at if answered else None,
            )
            for group in GROUPS:
                for topic in TOPICS:
                    _stats(snapshot, random, (name, broker_id), group, topic)


def _stats(snapshot, random: Random, replica: tuple[str, int], group: str, topic: str) -> None:
    name, broker_id = replica
    items = [("GROUP_GET_NUMS", f"{topic}@{group}", group)]
    if broker_id == 0:
        items += [("SNDBCK_PUT_NUMS", f"{topic}@{group}", group)]
        items += [("TOPIC_PUT_NUMS", topic, None)] if group == GROUPS[0] else []
    for stats_name, key, of_group in items:
        if random.random() < 0.7:
            snapshot.add(
                "broker_stats",
                broker_name=name,
                broker_id=broker_id,
                stats_name=stats_name,
                stats_key=key,
                topic=topic,
                consumer_group=of_group,
                counted=True,
                tps=random.choice([0.0, 0.0, random.randrange(10_000) / 16]),
                minute_sum=0,
                average=0.0,
                hour_sum=0,
                day_sum=0,
                counting_since=_maybe(random, snapshot.read_at - timedelta(seconds=random.randrange(900))),
                read_at=snapshot.read_at,
            )


def _topics(snapshot, random: Random) -> None:
    for topic in TOPICS:
        for name in random.sample(BROKERS, random.randrange(4)):
            if random.random() < 0.8:
                snapshot.add(
                    "topic_settings",
                    broker_name=name,
                    topic=topic,
                    topic_kind="normal",
                    read_queue_nums=random.randrange(1, 4),
                    write_queue_nums=random.randrange(1, 4),
                    perm=random.choice([2, 4, 6]),
                    orderly=False,
                )
            for queue_id in range(random.randrange(4)):
                low, high = sorted(random.randrange(2**60) for _ in range(2))
                seen = random.random() < 0.9
                snapshot.topic_queue(
                    topic,
                    queue_id,
                    low if seen else None,
                    high if seen else None,
                    broker_name=name,
                    last_update_at=_maybe(random, snapshot.interval.start),
                )


def _queues(snapshot, random: Random) -> None:
    for group in GROUPS:
        for topic in TOPICS:
            for name in random.sample(BROKERS, random.randrange(4)):
                for queue_id in range(random.randrange(6)):
                    low, committed, pull, high = (_offset(random) for _ in range(4))
                    if high is not None and random.random() < 0.3:
                        committed = pull = high
                    age_ms = random.randrange(-120_000, 10**9)
                    waits_since = snapshot.interval.end - timedelta(milliseconds=age_ms)
                    snapshot.queue(
                        group,
                        topic,
                        queue_id,
                        (low, committed, high),
                        broker_name=name,
                        pull_offset=pull,
                        oldest_unconsumed_at=_maybe(random, waits_since),
                        consumer_offset_read_at=_maybe(random, snapshot.read_at),
                    )


def _clients(snapshot, random: Random) -> None:
    for group in GROUPS:
        for number in range(random.randrange(4)):
            client_id = f"c{number}"
            told = _running_info(snapshot, random, group) if random.random() < 0.8 else {}
            version = random.choice([409, 533])
            for name in random.sample(BROKERS, random.randrange(1, 4)):
                snapshot.add(
                    "client_snapshots",
                    consumer_group=group,
                    client_id=client_id,
                    broker_name=name,
                    broker_id=0,
                    language="JAVA",
                    connection_count=random.choice([None, 1, 1, 2]),
                    version=version,
                    subscriptions=_maybe(random, [f"{random.choice(TOPICS)} {random.choice(['*', 'a || b'])}"]),
                    **told,
                )
            if told:
                _held_queues(snapshot, random, group, client_id)


def _running_info(snapshot, random: Random, group: str) -> dict[str, Any]:
    return {
        "running_info_read_at": snapshot.read_at,
        "own_subscriptions": _maybe(random, [f"{TOPICS[0]} {random.choice(['*', 'a > 3', ''])}", f"%RETRY%{group} *"]),
        "orderly": _maybe(random, random.random() < 0.5),
        "consumer_start_at": _maybe(random, snapshot.interval.start - timedelta(hours=random.randrange(9))),
        "thread_count": _maybe(random, random.randrange(1, 64)),
        "max_reconsume_times": _maybe(random, random.choice([-1, 16])),
        "pull_threshold_for_queue": _maybe(random, random.choice([-1, 1000])),
        "pull_threshold_size_for_queue_mib": _maybe(random, random.choice([-1, 100])),
        "consume_ok_tps": _maybe(random, random.randrange(100) / 4),
        "consume_failed_tps": _maybe(random, 0.0),
        "consume_rt_ms": _maybe(random, random.random()),
    }


def _held_queues(snapshot, random: Random, group: str, client_id: str) -> None:
    for topic in random.sample(TOPICS, random.randrange(3)):
        for queue_id in range(random.randrange(4)):
            snapshot.add(
                "client_queue_snapshots",
                consumer_group=group,
                client_id=client_id,
                topic=topic,
                broker_name=random.choice(BROKERS),
                queue_id=queue_id,
                cached_message_count=_maybe(random, random.choice([0, 999, 1000])),
                cached_message_mib=_maybe(random, random.choice([0, 100])),
                cached_min_offset=_maybe(random, random.randrange(100)),
                cached_max_offset=_maybe(random, random.randrange(100, 200)),
                dropped=_maybe(random, random.random() < 0.3),
                locked=_maybe(random, random.random() < 0.5),
                last_pull_at=_maybe(random, snapshot.interval.start + timedelta(milliseconds=random.randrange(99))),
                last_consume_at=_maybe(random, snapshot.interval.start + timedelta(milliseconds=random.randrange(99))),
                last_lock_at=_maybe(random, snapshot.interval.start - timedelta(milliseconds=random.randrange(99_000))),
                read_at=snapshot.read_at,
            )


def _maybe(random: Random, value: Any) -> Any:
    return value if random.random() < 0.8 else None


def _offset(random: Random) -> int | None:
    return random.choice([None, 0, 1, 2, 3, random.randrange(2**60)])


@FEW
@given(seed=st.integers(0, 2**32))
def test_every_table_of_an_interval_is_what_is_made_in_memory(
    spark: SparkSession, snapshot, config: Config, seed: int
) -> None:
    snapshot.rows = {table.name: [] for table in LANDED}
    random_cluster(snapshot, Random(seed))  # noqa: S311 it is a test
    sources = sources_of(Frames(spark, snapshot.rows), config, snapshot.interval)
    pure = facts_from_snapshot(snapshot.manifest(), snapshot.rows, config, snapshot.interval)

    queues = {_key(one): one for one in map(queue_facts_of, rows_of(sources.facts("queue_facts"), QUEUE_FACTS))}
    assert_equal_records(queues, {_key(one): one for one in pure.queues})
    groups = map(group_facts_of, rows_of(sources.facts("group_facts"), GROUP_FACTS))
    assert_equal_records(
        {(one.consumer_group, one.topic): one for one in groups},
        {(one.consumer_group, one.topic): one for one in pure.groups},
    )
    topics = [record_of(TopicFacts, row) for row in rows_of(sources.facts("topic_facts"), TOPIC_FACTS)]
    assert_equal_records({one.topic: one for one in topics}, {one.topic: one for one in pure.topics})
    brokers = [record_of(BrokerFacts, row) for row in rows_of(sources.facts("broker_facts"), BROKER_FACTS)]
    assert_equal_records(
        {(one.broker_name, one.broker_id): one for one in brokers},
        {(one.broker_name, one.broker_id): one for one in pure.brokers},
    )
    (cluster,) = rows_of(sources.facts("cluster_facts"), CLUSTER_FACTS)
    assert pure.cluster_facts is not None
    assert_equal_records({"": record_of(ClusterFacts, cluster)}, {"": pure.cluster_facts})
    sources.release()


def _key(queue) -> tuple[Any, ...]:
    return queue.consumer_group, queue.message_queue


def assert_equal_records(found: dict[Any, Any], expected: dict[Any, Any]) -> None:
    """Compare records by key and field, and name what differs."""
    assert found.keys() == expected.keys()
    differences = [
        f"{key} {name}: Spark {_plain(getattr(found[key], name))} pure {_plain(getattr(record, name))}"
        for key, record in expected.items()
        for name in (one.name for one in fields(record))
        if name != "violated_invariants" and not _same(getattr(found[key], name), getattr(record, name))
    ]
    assert not differences, "\n".join(differences)


def _same(found: Any, expected: Any) -> bool:
    if isinstance(expected, float) and isinstance(found, float):
        return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-5)
    if isinstance(expected, int) and not isinstance(expected, bool):
        expected = max(-(2**63), min(expected, 2**63 - 1))  # as a table's column is bounded; Python's numbers are not
    return bool(found == expected)


def _plain(value: Any) -> Any:
    return asdict(value) if hasattr(value, "__dataclass_fields__") else value
