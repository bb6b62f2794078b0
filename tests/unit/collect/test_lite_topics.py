"""Lite topics are folded into two figures of their group, and the switch of offset files is explained."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from offsetguard.collect.broker_reading import BrokerReading, ConsumeQueues
from offsetguard.collect.group_rows import LiteFigures, lite_figures, lite_lag, offsets_out_of_sight
from offsetguard.collect.replica import Answer, Replica
from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq.offset_table import AllConsumerOffsets, all_consumer_offsets
from offsetguard.sources.rocketmq.offsets import ConsumeOffsets, consume_stats

BODIES = Path(__file__).parents[1] / "rocketmq" / "bodies"
COMMITTED = all_consumer_offsets((BODIES / "43_5.5.1-lite.json").read_bytes())
SWITCHED = all_consumer_offsets(
    b'{"offsetTable":{"rmq_sys_REVIVE@CID_RMQ_SYS_REVIVE_GROUP":{0:1},"%LMQ%$a$b@g":{0:1}}}'
)
CLASSIC = all_consumer_offsets((BODIES / "43_5.5.1.json").read_bytes())
STATS = ConsumeQueues(consume_stats((Path(__file__).parent / "pop_cases" / "208_lite.json").read_bytes()).queues)


def stats(**lags: int) -> ConsumeQueues:
    queues = {
        MessageQueue(f"%LMQ%$chat${name}", "broker-a", 0): ConsumeOffsets(10, 10 - lag, 10, None)
        for name, lag in lags.items()
    }
    return ConsumeQueues({**queues, MessageQueue("orders", "broker-a", 0): ConsumeOffsets(99, 0, 0, None)})


def test_a_real_group_has_consumed_its_twelve_sessions() -> None:
    assert lite_figures([COMMITTED], {"lite-readers": [STATS]}) == {"lite-readers": LiteFigures(12, 0)}


def test_a_group_that_was_not_asked_has_an_unknown_lag() -> None:
    assert lite_figures([COMMITTED], {}) == {"lite-readers": LiteFigures(12, None)}


def test_the_lag_of_one_of_two_brokers_is_no_lag() -> None:
    assert lite_figures([COMMITTED, COMMITTED], {"lite-readers": [STATS]})["lite-readers"].lag is None
    assert lite_figures([COMMITTED, CLASSIC], {"lite-readers": [STATS]})["lite-readers"].lag == 0


def test_a_lag_that_no_column_holds_is_unknown() -> None:
    huge = ConsumeQueues({MessageQueue("%LMQ%$a$b", "broker-a", 0): ConsumeOffsets(2**63 - 1, -1, 0, None)})
    assert lite_figures([COMMITTED], {"lite-readers": [huge]})["lite-readers"].lag is None


def test_only_light_queues_count_and_none_of_them_less_than_nothing() -> None:
    assert lite_lag(stats(a=3, b=4, c=-5)) == 7
    assert lite_lag(ConsumeQueues({})) is None


def test_groups_without_lite_topics_have_no_figures() -> None:
    assert lite_figures([CLASSIC], {"billing": [STATS]}) == {}


SWITCHES = [
    ({"enableLmq": "true"}, SWITCHED, 12, True),
    ({"enableLmq": "false"}, SWITCHED, 12, False),
    ({}, SWITCHED, 12, False),
    (None, SWITCHED, 12, False),
    ({"enableLmq": "true"}, CLASSIC, 12, False),
    ({"enableLmq": "true"}, None, 12, False),
    ({"enableLmq": "true"}, SWITCHED, 0, False),
]


@pytest.mark.parametrize(("settings", "committed", "before", "explained"), SWITCHES)
def test_offsets_that_vanish_with_the_switch_are_explained(
    settings: dict[str, str] | None, committed: AllConsumerOffsets | None, before: int, explained: bool
) -> None:
    master = BrokerReading(Replica("broker-a", 0, "127.0.0.1:10911"), settings=settings)
    master.committed = Answer(committed, datetime.now(UTC)) if committed else None
    gap = offsets_out_of_sight(master, {"broker-a": before}.__getitem__)
    assert (gap is not None and gap.reason.startswith("all 12") and "lmqConsumerOffset.json" in gap.reason) == explained
