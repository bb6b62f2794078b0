"""The digests of group_facts: another one where anything differs that is compared to find changes, else the same."""

from datetime import UTC, datetime, timedelta
from typing import Any

from offsetguard.facts.changes import COMPARED
from offsetguard.model.intervals import Interval
from offsetguard.tables import CLIENT_SNAPSHOTS, GROUP_FACTS, GROUP_SNAPSHOTS, QUEUE_SNAPSHOTS
from offsetguard.tables.group_facts import GroupFacts
from offsetguard_peers.facts.answers import answers

INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
Row = dict[str, Any]
GROUP: Row = {"online_client_count": 1, "message_model": "CLUSTERING", "retry_max_times": 16, "consume_enabled": True}
CLIENT: Row = {"client_id": "a@1", "language": "JAVA", "version": 453, "running_info_read_at": INTERVAL.start}
CLIENT |= {"own_subscriptions": ["t TagA"], "max_reconsume_times": 16, "consumer_start_at": INTERVAL.start}
# by what differs: what a group and its client say otherwise
OTHERWISE: dict[str, tuple[Row, Row]] = {
    "online_client_count": ({"online_client_count": 2}, {}),
    "message_model": ({"message_model": "BROADCASTING"}, {}),
    "retry_max_times": ({"retry_max_times": 3}, {}),
    "consume_enabled": ({"consume_enabled": None}, {}),
    "consume_broadcast_enabled": ({"consume_broadcast_enabled": False}, {}),
    "consume_message_orderly": ({"consume_message_orderly": True}, {}),
    "which_broker_when_consume_slowly": ({"which_broker_when_consume_slowly": 1}, {}),
    "client_versions": ({"client_versions": ["JAVA 454"]}, {}),
    "subscription_expressions": ({}, {"own_subscriptions": ["t *"]}),
    "max_reconsume_times": ({}, {"max_reconsume_times": -1}),
    "newest_client_start_at": ({}, {"consumer_start_at": INTERVAL.start + timedelta(microseconds=1)}),
    "who is connected": ({}, {"client_id": "b@1"}),
    "nobody told": ({}, dict.fromkeys(("own_subscriptions", "max_reconsume_times", "consumer_start_at"))),
}


def facts_of(said: dict[str, tuple[Row, Row]]) -> dict[str, GroupFacts]:
    """Return the facts of each group, which says what is usual but for what is given."""
    rows = {
        GROUP_SNAPSHOTS.name: [{"consumer_group": group, **GROUP, **own} for group, (own, _) in said.items()],
        CLIENT_SNAPSHOTS.name: [
            {"consumer_group": group, "broker_name": broker, "broker_id": 0, **CLIENT, **own}
            for group, (_, own) in said.items()
            for broker in ("broker-a", "broker-b")
        ],
        QUEUE_SNAPSHOTS.name: [
            {"consumer_group": group, "topic": "t", "broker_name": "broker-a", "queue_id": 0, "origin": "broker"}
            for group in said
        ],
    }
    return {one.consumer_group: one for one in answers(GROUP_FACTS, GroupFacts, rows, INTERVAL)}


def test_digests_differ_with_all_that_is_compared_and_with_nothing_else() -> None:
    assert OTHERWISE.keys() >= set(COMPARED[GROUP_FACTS])
    busy = {"held_queue_count": 7, "consume_rt_ms": 9.0, "thread_count": 20}
    facts = facts_of({"usual": ({}, {}), "busy": ({"retry_growth": 5}, busy), **OTHERWISE})
    digests = {name: (one.seen_digest, one.told_digest) for name, one in facts.items()}
    assert digests["busy"] == digests["usual"]
    assert len(set(digests.values())) == len(digests) - 1
    for name in set(OTHERWISE) & set(GroupFacts.__dataclass_fields__):
        assert getattr(facts[name], name) != getattr(facts["usual"], name)
    assert digests["nobody told"] == (facts["usual"].seen_digest, None)
    assert None not in digests["usual"]
