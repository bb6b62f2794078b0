"""What rules look up: groups without offsets are known by their clients, and no unknown moment is shown as 1970."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from offsetguard.facts.interval import IntervalFacts, online_groups_of
from offsetguard.judge.evidence.lookups import last_stored, message_models, online_clients
from offsetguard.model.intervals import Interval
from offsetguard.model.offsets import MessageQueue, QueueOffsets
from offsetguard_peers.judging.records import a_queue

INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
STORED_AT = datetime(2026, 11, 21, 10, 38, tzinfo=UTC)


def test_a_broadcasting_group_has_no_offsets_and_is_known_all_the_same() -> None:
    rows = [
        {"consumer_group": "news", "message_model": "BROADCASTING", "online_client_count": 3},
        {"consumer_group": "gone", "message_model": None, "online_client_count": 0},
    ]
    facts = IntervalFacts("demo", INTERVAL, INTERVAL.end, online_groups=tuple(online_groups_of(rows)))
    assert message_models(facts) == {"news": "BROADCASTING"}
    assert online_clients(facts) == {"news": 3}


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
    offsets = QueueOffsets(0, 20, consumer_offset, None)
    assert (
        last_stored(a_queue("billing", MessageQueue("orders", "broker-a", 0), offsets, last_timestamp=stored_at))
        == shown
    )
