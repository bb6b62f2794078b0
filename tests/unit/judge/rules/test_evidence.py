"""What rules show beside a queue: no unknown moment is shown as 1970."""

from datetime import UTC, datetime

import pytest

from offsetguard.judge.evidence.lookups import last_stored
from offsetguard.model.offsets import MessageQueue, QueueOffsets
from offsetguard_peers.judging.records import a_queue

STORED_AT = datetime(2026, 11, 21, 10, 38, tzinfo=UTC)


@pytest.mark.parametrize(
    ("consumer_offset", "stored_at", "shown"),
    [
        (10, STORED_AT, STORED_AT),
        (10, None, "unknown: the message before the committed offset is deleted, or nothing was consumed yet"),
        (None, None, "unknown: nothing was ever committed"),
    ],
)
def test_an_unknown_store_time_says_why_it_is_unknown(
    consumer_offset: int | None, stored_at: datetime | None, shown: datetime | str
) -> None:
    place, offsets = MessageQueue("orders", "broker-a", 0), QueueOffsets(0, 20, consumer_offset, None)
    assert last_stored(a_queue("billing", place, offsets, last_timestamp=stored_at)) == shown
