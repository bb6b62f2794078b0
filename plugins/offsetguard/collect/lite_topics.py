"""Lite topics (5.5): one queue per chat session, thousands of them, folded so that they flood no table.

A lite topic is stored as `%LMQ%$<parent>$<lite>`, queue 0. It stands in no topic table (21, 206), has no retry topic,
and gives code 43 one key per group. Other light queues (`%LMQ%...` without the first `$`, as MQTT gateways make them)
have no parent. Source: LiteUtil, 5.5.0; bodies of a live 5.5.1 broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from offsetguard.collect.broker_reading import BrokerReading
from offsetguard.collect.manifest import Gap, Outcome
from offsetguard.collect.system_names import is_lite_topic, is_system_group
from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq.bodies import AllConsumerOffsets, ConsumeOffsets

_BEYOND_ALL_COUNTS = 2**63


@dataclass(frozen=True, slots=True)
class LiteFigures:
    """What is left of a group's lite topics after folding."""

    topic_count: int  # light queues with a committed offset of the group
    lag: int | None  # messages that wait in them; None: not asked in this round


def lite_topics_by_group(committed: AllConsumerOffsets) -> dict[str, set[str]]:
    """Return the light queues that each group has committed offsets for; groups without any are missing."""
    found: dict[str, set[str]] = {}
    for topic, group in committed.offsets:
        if is_lite_topic(topic):
            found.setdefault(group, set()).add(topic)
    return found


def lite_lag(queues: Mapping[MessageQueue, ConsumeOffsets]) -> int | None:
    """Sum what waits in the light queues of a group on one broker, from its 208; None when it lists none of them.

    Offsets that were committed beyond the end count as nothing, not as less than nothing.
    """
    waiting = [
        max(0, offsets.broker_offset - offsets.consumer_offset)
        for queue, offsets in queues.items()
        if is_lite_topic(queue.topic)
    ]
    return sum(waiting) if waiting else None


def lite_figures(
    committed: Iterable[AllConsumerOffsets], stats: Mapping[str, Iterable[Mapping[MessageQueue, ConsumeOffsets]]]
) -> dict[str, LiteFigures]:
    """Fold the lite topics of every group over all masters; groups without any are missing.

    `stats`: the 208 of the groups that were asked in detail. The lag is known only when every master that holds lite
    topics of the group was asked: half of a sum would look like less work than there is.
    """
    by_broker = [lite_topics_by_group(one) for one in committed]
    groups = sorted({group for one in by_broker for group in one})
    figures = {}
    for group in groups:
        holders = sum(group in one for one in by_broker)
        lags = [lag for one in stats.get(group, ()) if (lag := lite_lag(one)) is not None]
        topics = set().union(*(one.get(group, set()) for one in by_broker))
        lag = sum(lags) if len(lags) >= holders else None
        figures[group] = LiteFigures(len(topics), lag if lag is not None and lag < _BEYOND_ALL_COUNTS else None)
    return figures


def offsets_out_of_sight(master: BrokerReading, offsets_before: Callable[[str], int]) -> Gap | None:
    """Explain why all committed offsets of a broker are gone, where its switch `enableLmq` does; None otherwise.

    The switch makes the broker use another file (lmqConsumerOffset.json): the old offsets are not lost and come back
    when it is switched back, so this is no reset. `offsets_before(broker name)`: how many there were in the last round.
    """
    body = master.committed.body if master.committed else None
    switched_on = (master.settings or {}).get("enableLmq", "").lower() == "true"
    if body is None or not switched_on or any(_is_of_application(*pair) for pair in body.offsets):
        return None
    count = offsets_before(master.broker_name)
    if count == 0:
        return None
    return Gap(
        address=master.replica.address,
        broker_name=master.broker_name,
        broker_id=master.replica.broker_id,
        what="committed offsets",
        outcome=Outcome.ANSWERED,
        reason=f"all {count} committed offsets are gone, and enableLmq is on: since it was switched the broker reads "
        "lmqConsumerOffset.json instead of consumerOffset.json; switch it back, or copy the offsets over",
    )


def _is_of_application(topic: str, group: str) -> bool:
    return not is_lite_topic(topic) and not is_system_group(group)
