"""Pairs that are kept for a second look are those that would be made again."""

from __future__ import annotations

from array import array
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from offsetguard.collect.broker_reading import BrokerReading, PairReading, QueueEnds
from offsetguard.collect.group_members import GroupMembers
from offsetguard.collect.queue_reading import keep_pairs, topic_readings
from offsetguard.collect.replica import Answer, Replica
from offsetguard.sources.rocketmq.body_decoders import all_consumer_offsets

NOW = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)
TOPICS = ("orders", "payments", "%RETRY%billing", "TBW102")
QUEUE_IDS = st.lists(st.integers(0, 3), unique=True, max_size=4)
COMMITTED = st.dictionaries(st.tuples(st.sampled_from(TOPICS), st.sampled_from(["billing", "ledger"])), QUEUE_IDS)
ENDS = st.dictionaries(st.sampled_from(TOPICS), QUEUE_IDS.map(sorted))
MEMBERS = {"ledger": GroupMembers(1, "CLUSTERING", "CONSUME_PASSIVELY", frozenset({"orders"}))}


def ends_of(queue_ids: list[int], at: datetime) -> QueueEnds:
    high = array("q", (10 + queue_id for queue_id in queue_ids))
    return QueueEnds(at, array("i", queue_ids), array("q", [0] * len(high)), high, array("q", [0] * len(high)))


def reading_of(committed: dict[tuple[str, str], list[int]], ends: dict[str, QueueEnds]) -> BrokerReading:
    rows = (f'"{topic}@{group}":{{{",".join(f"{one}:5" for one in ids)}}}' for (topic, group), ids in committed.items())
    offsets = all_consumer_offsets(f'{{"offsetTable":{{{",".join(rows)}}}}}'.encode())
    reading = BrokerReading(Replica("broker-a", 0, "127.0.0.1:10911"), committed=Answer(offsets, NOW), topics={})
    reading.queue_ends = dict(ends)
    return reading


def made(reading: BrokerReading) -> list[tuple[str, list[PairReading]]]:
    return list(topic_readings(reading, MEMBERS, ()))


@given(COMMITTED, ENDS, st.none() | st.sampled_from(TOPICS))
def test_kept_pairs_are_given_again_but_for_topics_whose_ends_were_read_again(
    committed: dict[tuple[str, str], list[int]], queue_ids: dict[str, list[int]], read_again: str | None
) -> None:
    ends = {topic: ends_of(ids, NOW) for topic, ids in queue_ids.items()}
    reading = reading_of(committed, ends)
    first = list(keep_pairs(reading, MEMBERS, ()))
    assert first == made(reading_of(committed, ends))
    if read_again in ends:
        later = ends_of(queue_ids[read_again], NOW + timedelta(seconds=1))
        reading.queue_ends[read_again] = ends[read_again] = later
    second = made(reading)
    assert second == made(reading_of(committed, ends))
    for (topic, pairs), (_, again) in zip(first, second, strict=True):
        assert (again is pairs) == (topic != read_again or topic not in ends), "what stands is not made twice"


def test_pairs_that_were_kept_with_other_members_are_made_anew() -> None:
    reading = reading_of({("payments", "ledger"): [0]}, {})
    kept = dict(keep_pairs(reading, {}, ()))
    broadcasting = {"ledger": GroupMembers(1, "BROADCASTING", "CONSUME_PASSIVELY", frozenset())}
    assert kept.keys() == {"payments"}
    assert list(topic_readings(reading, broadcasting, ())) == [], "its offsets are kept by the clients"
