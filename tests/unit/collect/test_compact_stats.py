"""What is kept compactly is what was decoded."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from offsetguard.collect.broker_reading import ConsumeQueues
from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq.offsets import ConsumeOffsets

NUMBERS = st.integers(-(2**63) + 1, 2**63 - 1)
MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001
QUEUES = st.builds(MessageQueue, st.sampled_from(["orders", "%RETRY%billing"]), st.just("broker-a"), st.integers(0, 99))
OFFSETS = st.builds(ConsumeOffsets, NUMBERS, NUMBERS, st.none() | NUMBERS, st.none() | MOMENTS)


@given(st.dictionaries(QUEUES, OFFSETS, max_size=30))
def test_every_queue_comes_back_and_no_other(decoded: dict[MessageQueue, ConsumeOffsets]) -> None:
    kept = ConsumeQueues(decoded)
    for topic in ("orders", "%RETRY%billing", "other"):
        expected = {queue.queue_id: offsets for queue, offsets in decoded.items() if queue.topic == topic}
        assert kept.of_topic(topic, "broker-a") == expected
