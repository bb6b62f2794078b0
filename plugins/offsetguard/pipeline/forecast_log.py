"""Forecasts are written down with the interval that they were made of, and scored by the intervals that come after."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from offsetguard.forecast_scoring import Kind, Seen, Stated, outcome, says_something_new, seen
from offsetguard.store import forecasts as store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.orm import Session

    from offsetguard.facts import IntervalFacts, OffsetMoveFacts, QueueFacts

_OPEN_PER_SUBJECT = 40  # forecasts of a group, topic and kind; more say nothing more

Pair = tuple[str, str]


def keep_score(session: Session, facts: IntervalFacts) -> None:
    """Score the open forecasts of a cluster by an interval's facts, and state those that it makes.

    `facts`: with verdicts. The caller judges each interval once, in order of time, within one transaction.
    """
    shown = _shown(facts)
    standing: defaultdict[tuple[Pair, Kind], list[Stated]] = defaultdict(list)
    for row_id, stated in store.still_open(session, facts.cluster).items():
        pair = stated.consumer_group, stated.topic
        became = outcome(stated, shown.get(pair), facts.now)
        if became is None:
            standing[pair, stated.kind].append(stated)
        else:
            store.score(session, row_id, became, now=facts.now)
    for pair, of_group in shown.items():
        for kind, forecast in ((Kind.DRAIN, of_group.drain), (Kind.LOSS, of_group.loss)):
            stand = standing[pair, kind]
            if forecast is None or len(stand) >= _OPEN_PER_SUBJECT:
                continue
            if says_something_new(stand[-1] if stand else None, forecast, facts.now):
                store.state(session, facts.cluster, Stated(*pair, kind, facts.now, forecast))


def _shown(facts: IntervalFacts) -> Mapping[Pair, Seen]:
    queues: defaultdict[Pair, list[QueueFacts]] = defaultdict(list)
    moves: defaultdict[Pair, list[OffsetMoveFacts]] = defaultdict(list)
    for queue in facts.queues:
        queues[queue.consumer_group, queue.message_queue.topic].append(queue)
    for move in facts.offset_moves:
        moves[move.consumer_group, move.topic].append(move)
    pairs = ((group, (group.consumer_group, group.topic)) for group in facts.groups)
    return {pair: seen(group, queues[pair], moves[pair], facts.now) for group, pair in pairs}
