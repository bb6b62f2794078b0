"""Lite topics are folded into two figures of their group, and the switch of offset files is explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsetguard.collect.lite_topics import (
    LiteFigures,
    LiteTopic,
    lite_figures,
    lite_lag,
    lite_topic_of,
    lost_sight_of_offsets,
)
from offsetguard.offsets import MessageQueue
from offsetguard.rocketmq.bodies import ConsumeOffsets, ConsumeStats
from offsetguard.rocketmq.body_decoders import all_consumer_offsets, consume_stats

BODIES = Path(__file__).parents[1] / "rocketmq" / "bodies"
COMMITTED = all_consumer_offsets((BODIES / "43_5.5.1-lite.json").read_bytes())
CLASSIC = all_consumer_offsets((BODIES / "43_5.5.1.json").read_bytes())
STATS = consume_stats((Path(__file__).parent / "pop_cases" / "208_lite.json").read_bytes())

NAMES = [
    ("%LMQ%$chat$session-1", LiteTopic("chat", "session-1")),
    ("%LMQ%$chat$", None),
    ("%LMQ%$$session-1", None),
    ("%LMQ%$chat", None),
    ("%LMQ%$chat$a$b", None),
    ("%LMQ%chat", None),
    ("chat", None),
    ("", None),
]


@pytest.mark.parametrize(("name", "lite_topic"), NAMES)
def test_a_name_is_split_as_rocketmq_does(name: str, lite_topic: LiteTopic | None) -> None:
    assert lite_topic_of(name) == lite_topic


def stats(**lags: int) -> ConsumeStats:
    queues = {
        MessageQueue(f"%LMQ%$chat${name}", "broker-a", 0): ConsumeOffsets(10, 10 - lag, 10, None)
        for name, lag in lags.items()
    }
    return ConsumeStats({**queues, MessageQueue("orders", "broker-a", 0): ConsumeOffsets(99, 0, 0, None)}, 0.0)


def test_a_real_group_has_consumed_its_twelve_sessions() -> None:
    assert lite_figures([COMMITTED], {"lite-readers": [STATS]}) == {"lite-readers": LiteFigures(12, 0)}


def test_a_group_that_was_not_asked_has_an_unknown_lag() -> None:
    assert lite_figures([COMMITTED], {}) == {"lite-readers": LiteFigures(12, None)}


def test_the_lag_of_one_of_two_brokers_is_no_lag() -> None:
    assert lite_figures([COMMITTED, COMMITTED], {"lite-readers": [STATS]})["lite-readers"].lag is None
    assert lite_figures([COMMITTED, CLASSIC], {"lite-readers": [STATS]})["lite-readers"].lag == 0


def test_only_light_queues_count_and_none_of_them_less_than_nothing() -> None:
    assert lite_lag(stats(a=3, b=4, c=-5)) == 7
    assert lite_lag(ConsumeStats({}, 0.0)) is None


def test_groups_without_lite_topics_have_no_figures() -> None:
    assert lite_figures([CLASSIC], {"billing": [STATS]}) == {}


SWITCHES = [
    ({"enableLmq": "true"}, 0, 12, True),
    ({"enableLmq": "false"}, 0, 12, False),
    ({}, 0, 12, False),
    (None, 0, 12, False),
    ({"enableLmq": "true"}, 3, 12, False),
    ({"enableLmq": "true"}, 0, 0, False),
]


@pytest.mark.parametrize(("settings", "now", "before", "explained"), SWITCHES)
def test_offsets_that_vanish_with_the_switch_are_explained(
    settings: dict[str, str] | None, now: int, before: int, explained: bool
) -> None:
    note = lost_sight_of_offsets(settings, now, before)
    assert (note is not None and "lmqConsumerOffset.json" in note) == explained
