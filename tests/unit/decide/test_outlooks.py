"""The curve of a lag is what the folded windows know: its ends are exact, and nothing lies outside of what was seen.

It ends with the figure that the finding's sentence says.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice

from hypothesis import strategies as st

from offsetguard.decide.outlooks import Outlooks
from offsetguard.facts.duckdb_engine import windows_of
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.model.intervals import Interval
from offsetguard.model.offsets import MessageQueue, QueueOffsets
from offsetguard.model.verdicts import QueueEvidence
from offsetguard.model.views import LAG_POINTS
from offsetguard.tables.queue_state import Sample
from offsetguard_peers.cases.running import together
from offsetguard_peers.facts.answers import sample_at
from offsetguard_peers.judging.records import a_queue, an_incident

START = datetime(2026, 11, 21, 6, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
ELSEWHERE = MessageQueue("refunds", "broker-a", 0)
Samples = list[tuple[int, int]]  # (max offset, committed offset), one a minute


def queues(*all_samples: Samples) -> list[QueueFacts]:
    """Make a queue of each list of samples, one a minute; all their windows are one query."""
    histories = {number: list(history(samples)) for number, samples in enumerate(all_samples)}
    return [
        a_queue("billing", MessageQueue("orders", "broker-a", number), window.sample.offsets, window=window)
        for number, window in windows_of(histories).items()
    ]


def history(samples: Samples) -> Iterator[tuple[datetime, Sample]]:
    for n, (high, committed) in enumerate(samples):
        at = START + n * MINUTE
        yield at, sample_at(at, 0, committed, high)


def outlooks(*queues: QueueFacts) -> Outlooks:
    interval = Interval(START)
    return Outlooks(IntervalFacts("demo", interval, interval.end, queues=queues))


def shown(
    *queues: QueueFacts, topic: str | None = "orders", named: Sequence[QueueFacts] = (), lag: int | None = None
) -> list[tuple[int, int]]:
    """Return the curve as (minute, lag); of a finding that names queues, and says that so much waits."""
    incident = an_incident(topic=topic)
    evidence = replace(
        incident.evidence,
        figures={"effective_lag": lag},
        queues=tuple(QueueEvidence(one.message_queue, {}) for one in named),
    )
    curve = outlooks(*queues).lag_curve(incident.subject, evidence)
    return [((one.at - START) // MINUTE, one.lag) for one in curve]


def test_a_group_that_stops_shows_nothing_until_then_and_a_growing_lag_since() -> None:
    samples = [(100 * n, 100 * min(n, 10)) for n in range(31)]
    course = shown(*queues(samples))
    assert (course[0], course[-1]) == ((0, 0), (30, 2_000))
    assert (10, 0) in course, "the last time that nothing waited is known exactly"
    assert all(lag == 100 * max(0, minute - 10) for minute, lag in course)


def test_the_last_commit_is_known_exactly_unless_the_group_was_set_back_since() -> None:
    stands = [(100 * n, max(0, 100 * min(n, 10) - 50)) for n in range(31)]
    assert (10, 50) in shown(*queues(stands))
    set_back = [(high, committed if minute < 20 else 0) for minute, (high, committed) in enumerate(stands)]
    assert not [lag for minute, lag in shown(*queues(set_back)) if minute == 10 and lag != 50]
    assert shown(*queues(set_back))[-1] == (30, 3_000)


def test_queues_of_a_group_are_added_up_and_those_of_others_are_not() -> None:
    samples = [(100 * n, 0) for n in range(31)]
    mine = queues(samples, samples)
    others = (replace(mine[0], consumer_group="other"), replace(mine[0], message_queue=ELSEWHERE))
    assert shown(*mine, *others)[-1] == (30, 6_000)
    assert shown(*mine, *others, topic=None)[-1] == (30, 9_000)


def test_the_curve_ends_with_what_waits_though_brokers_are_read_one_after_the_other() -> None:
    """The second broker is read 20 s after the first, and the first has one sample more."""
    samples = [(100 * n, 0) for n in range(31)]
    first = list(history(samples))
    second = [(at + timedelta(seconds=20), one) for at, one in history(samples[1:])]
    windows = windows_of({0: first, 1: second})
    queues = [
        a_queue("billing", MessageQueue("orders", "broker-a", n), one.sample.offsets, window=one)
        for n, one in windows.items()
    ]
    assert shown(*queues)[-1] == (30, 6_000)
    assert shown(*reversed(queues))[-1] == (30, 6_000)


def test_the_curve_is_of_the_queues_whose_lag_the_finding_says() -> None:
    blocked, others = [(100 * n, 0) for n in range(31)], [(100 * n, max(0, 100 * n - 70)) for n in range(31)]
    mine = queues(blocked, others)
    assert shown(*mine, named=mine[:1], lag=3_000)[-1] == (30, 3_000)
    assert shown(*mine, named=mine[:1], lag=3_070)[-1] == (30, 3_070), "the worst of those that it speaks of"
    retry = replace(mine[1], message_queue=MessageQueue("%RETRY%billing", "broker-a", 0))
    assert shown(*mine, retry, topic=None, lag=3_070)[-1] == (30, 3_070), "retries of a group are not its backlog"


def test_what_was_deleted_waits_no_more_in_the_curve_as_in_the_text() -> None:
    """Nothing is consumed beyond 1,000: 2,000 of what waits are deleted at minute 4, and 500 more at minute 6."""
    mins = [0, 0, 0, 0, 3_000, 3_000, 3_500]
    samples = [(START + n * MINUTE, sample_at(START + n * MINUTE, low, 1_000, 4_142)) for n, low in enumerate(mins)]
    (window,) = windows_of({0: samples}).values()
    queue = a_queue("billing", MessageQueue("orders", "broker-a", 0), window.sample.offsets, window=window)
    assert set(shown(queue)) >= {(0, 3_142), (4, 1_142)}
    assert shown(queue)[-1] == (6, 642)
    assert queue.offsets.effective_lag == 642


def test_there_is_no_curve_where_nothing_waits_or_nobody_knows() -> None:
    assert shown(*queues([(100 * n, 100 * n) for n in range(31)])) == []
    assert shown() == []
    about_topic = an_incident(consumer_group=None)
    assert outlooks(*queues([(100, 0)])).lag_curve(about_topic.subject, about_topic.evidence) == ()
    unknown = a_queue("billing", MessageQueue("orders", "broker-a", 0), QueueOffsets(0, 1, None))
    assert shown(unknown) == []


STEPS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 60)), min_size=2, max_size=45)


@together(st.lists(STEPS, min_size=1, max_size=3))
def test_the_newest_lag_is_exact_and_no_point_is_above_or_below_what_was_seen(drawn) -> None:
    """Writers write, and the group consumes at most what is there; all queues have as many samples as the first."""
    courses = [[course_of(moves, len(steps[0])) for moves in steps] for (steps,) in drawn]
    made = iter(queues(*(samples for courses_of_group in courses for samples in courses_of_group)))
    for samples_of_queues in courses:
        lags = [[high - committed for high, committed in samples] for samples in samples_of_queues]
        course = shown(*(next(made) for _ in lags))
        if not course:
            continue
        assert course[-1] == (len(lags[0]) - 1, sum(one[-1] for one in lags)), samples_of_queues
        assert len(course) <= LAG_POINTS
        assert [minute for minute, _ in course] == sorted({minute for minute, _ in course}), samples_of_queues
        assert all(0 <= lag <= sum(map(max, lags)) for _, lag in course), samples_of_queues


def course_of(moves: list[tuple[int, int]], count: int) -> Samples:
    """Make so many samples of a queue; `moves`: what is written and consumed before each, again and again."""
    high = committed = 0
    samples = []
    for written, consumed in islice(cycle(moves), count):
        high += written
        committed = min(high, committed + consumed)
        samples.append((high, committed))
    return samples
