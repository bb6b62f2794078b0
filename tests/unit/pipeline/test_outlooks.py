"""The curve of a lag is what the folded windows know: its ends are exact, and nothing lies outside of what was seen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from offsetguard.facts import IntervalFacts, QueueFacts
from offsetguard.intervals import Interval
from offsetguard.messages.view import LAG_POINTS
from offsetguard.offsets import MessageQueue
from offsetguard.pipeline.outlooks import Outlooks
from offsetguard_peers.examples import examples
from offsetguard_peers.group_facts import a_queue
from offsetguard_peers.queue_answers import sample_at, window_of

START = datetime(2026, 11, 21, 6, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
Samples = list[tuple[int, int]]  # (max offset, committed offset), one a minute


def queue(number: int, samples: Samples, *, group: str = "billing", topic: str = "orders") -> QueueFacts:
    starts = [START + n * MINUTE for n in range(len(samples))]
    folded = window_of(
        (start, sample_at(start, 0, committed, high)) for start, (high, committed) in zip(starts, samples, strict=True)
    )
    assert folded is not None
    return a_queue(group, MessageQueue(topic, "broker-a", number), folded.sample.offsets, window=folded)


def outlooks(*queues: QueueFacts) -> Outlooks:
    interval = Interval(START)
    return Outlooks(IntervalFacts("demo", interval, interval.end, queues=queues))


def shown(*queues: QueueFacts, topic: str | None = "orders") -> list[tuple[int, int]]:
    """Return the curve as (minute, lag)."""
    return [((one.at - START) // MINUTE, one.lag) for one in outlooks(*queues).lag_curve("billing", topic)]


def test_a_group_that_stops_shows_nothing_until_then_and_a_growing_lag_since() -> None:
    samples = [(100 * n, 100 * min(n, 10)) for n in range(31)]
    course = shown(queue(0, samples))
    assert (course[0], course[-1]) == ((0, 0), (30, 2_000))
    assert (10, 0) in course, "the last time that nothing waited is known exactly"
    assert all(lag == 100 * max(0, minute - 10) for minute, lag in course)


def test_queues_of_a_group_are_added_up_and_those_of_others_are_not() -> None:
    samples = [(100 * n, 0) for n in range(31)]
    queues = (queue(0, samples), queue(1, samples), queue(2, samples, group="other"))
    elsewhere = queue(3, samples, topic="refunds")
    assert shown(*queues, elsewhere)[-1] == (30, 6_000)
    assert shown(*queues, elsewhere, topic=None)[-1] == (30, 9_000)


def test_there_is_no_curve_where_nothing_waits_or_nobody_knows() -> None:
    assert shown(queue(0, [(100 * n, 100 * n) for n in range(31)])) == []
    assert outlooks().lag_curve("billing", "orders") == ()
    assert outlooks(queue(0, [(100, 0)])).lag_curve(None, "orders") == ()
    unknown = a_queue("billing", MessageQueue("orders", "broker-a", 0), queue(0, [(1, 0)]).offsets)
    assert shown(unknown) == []


@settings(max_examples=examples(0.6))
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 50), st.integers(0, 60)), min_size=2, max_size=45), min_size=1, max_size=3
    )
)
def test_the_newest_lag_is_exact_and_no_point_is_above_or_below_what_was_seen(
    steps: list[list[tuple[int, int]]],
) -> None:
    """Writers write, and the group consumes at most what is there; all queues have as many samples as the first."""
    queues, lags = [], []
    for number, moves in enumerate(one[: len(steps[0])] for one in steps):
        high = committed = 0
        samples = []
        for n in range(len(steps[0])):
            written, consumed = moves[n % len(moves)]
            high += written
            committed = min(high, committed + consumed)
            samples.append((high, committed))
        queues.append(queue(number, samples))
        lags.append([high - committed for high, committed in samples])
    course = shown(*queues)
    if not course:
        return
    assert course[-1] == (len(steps[0]) - 1, sum(one[-1] for one in lags))
    assert len(course) <= LAG_POINTS
    assert [minute for minute, _ in course] == sorted({minute for minute, _ in course})
    assert all(0 <= lag <= sum(map(max, lags)) for _, lag in course)
