"""Which clients went while others stayed, from round to round."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from offsetguard.collect.broker_reading import BrokerReading
from offsetguard.collect.departures import KEPT_FOR, departures
from offsetguard.collect.replica import Replica
from offsetguard.sources.rocketmq.brokers import BrokerRuntimeInfo, subscription_group_table
from offsetguard.sources.rocketmq.consumers import consumer_connections

NOW = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
BEFORE = NOW - timedelta(minutes=1)
AT = int(NOW.timestamp())
GROUPS = subscription_group_table(b'{"subscriptionGroupTable":{"billing":{}}}')


def master(name: str, client_ids: list[str] | None, **read: Any) -> BrokerReading:
    """Return a master that lists these clients of the group; None: it was not asked, or did not answer."""
    document = {"connectionSet": [{"clientId": one} for one in client_ids or ()]}
    seen = {} if client_ids is None else {"billing": consumer_connections(json.dumps(document).encode())}
    return BrokerReading(Replica(name, 0, "h:1"), **{"groups": GROUPS, "connections": seen, "answered_at": NOW, **read})


def gone(*masters: BrokerReading, before: str = "a@1#1 a@2#1 b@1#1", kept: tuple[str, ...] = ()) -> list[str] | None:
    return departures("billing", masters, frozenset(before.split()), kept, BEFORE)


def test_who_is_listed_by_no_master_any_more_has_gone() -> None:
    assert gone(master("broker-a", ["a@2#1"]), master("broker-b", ["b@1#1"])) == [f"{AT} 2 a@1#1"]
    assert gone(master("broker-a", ["a@1#1", "a@2#1", "b@1#1", "c@1#1"])) is None


def test_nobody_has_gone_of_whom_it_is_not_known() -> None:
    booted = BrokerRuntimeInfo({"bootTimestamp": str(int(BEFORE.timestamp() * 1000))})
    unknown = [
        [master("broker-a", [])],  # nobody is left: that is no rebalance
        [master("broker-a", ["b@1#1"]), master("broker-b", None)],
        [master("broker-a", ["b@1#1"]), master("broker-b", ["b@1#1"], groups=None)],
        [master("broker-a", ["b@1#1"], runtime=booted)],
    ]
    assert [gone(*masters) for masters in unknown] == [None] * 4
    assert gone(master("broker-a", ["b@1#1"]), before="") is None, "the round before is not known"


def test_what_was_noted_is_kept_for_a_while() -> None:
    old, young = (f"{AT - int(span.total_seconds())} 1 c@1#1" for span in (KEPT_FOR + timedelta(seconds=1), KEPT_FOR))
    assert gone(master("broker-a", ["a@1#1", "a@2#1"]), kept=(old, young)) == [young, f"{AT} 1 b@1#1"]
    assert gone(master("broker-a", None), kept=(young,)) == [young]
