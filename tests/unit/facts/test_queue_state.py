"""The folded window of a queue: a table of cases, and what must hold for every sequence of samples."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from offsetguard.facts.parameters import KEPT_FOR
from offsetguard.tables.queue_state import MISSED_AFTER, WINDOW, QueueState, Sample, curve
from offsetguard_peers.cases.running import together
from offsetguard_peers.facts.answers import History, figures_of, sample_at, states_of, stepped

CASES = yaml.safe_load((Path(__file__).parent / "queue_state_cases.yml").read_text(encoding="utf-8"))
START = datetime(2026, 11, 21, 9, 0, tzinfo=UTC)  # a multiple of the window since 1970
OFFSETS = st.integers(0, 12)
SAMPLES = st.lists(
    st.tuples(st.integers(1, 9), st.none() | OFFSETS, st.none() | OFFSETS, st.none() | OFFSETS), min_size=1, max_size=40
)


def minute(number: int) -> datetime:
    return START + timedelta(minutes=number)


def sample(at: datetime, low: int | None, committed: int | None, high: int | None) -> Sample:
    one = sample_at(at, low, committed, high)
    return one if high is not None else replace(one, consumer_offset_read_at=None, max_offset_read_at=None)


def folded(histories: list[History]) -> list[QueueState]:
    return [QueueState.from_row(row) for row in states_of(histories)]


def after_each(histories: list[History]) -> Iterator[tuple[History, list[QueueState]]]:
    """Yield each history with the states after each of its samples."""
    states = iter(folded([samples[:count] for samples in histories for count in range(1, len(samples) + 1)]))
    for samples in histories:
        yield samples, [next(states) for _ in samples]


def waits(one: Sample) -> bool:
    if one.consumer_offset is None:
        return one.min_offset != one.max_offset
    return one.offsets.effective_lag > 0


def disordered(one: Sample) -> bool:
    return any(violation.value != "OG-Q01" for violation in one.offsets.order_violations())


def sequence(drawn: list[tuple[int, int | None, int | None, int | None]]) -> History:
    """Make samples, some minutes after each other; a max offset of None: not seen."""
    at, samples = START, []
    for gap, *offsets in drawn:
        at += timedelta(minutes=gap)
        samples.append((at, sample(at, *offsets)))
    return samples


def sequences(drawn: list[tuple[Any, ...]]) -> list[History]:
    return [sequence(one) for one, *_ in drawn]


def test_the_table_of_cases() -> None:
    histories = [
        [
            (minute(one[0]), sample(minute(one[0]), *(one[1:] if len(one) > 2 else [None] * 3)))
            for one in case["samples"]
        ]
        for case in CASES
    ]
    found = {
        case["name"]: {name: in_minutes(row[name]) for name in case["expect"]}
        for case, row in zip(CASES, states_of(histories), strict=True)
    }
    assert found == {case["name"]: case["expect"] for case in CASES}


def in_minutes(value: Any) -> Any:
    return (value - START) / timedelta(minutes=1) if isinstance(value, datetime) else value


@together(SAMPLES)
def test_folding_a_sample_twice_changes_nothing(drawn) -> None:
    again = [(samples, one) for samples in sequences(drawn) for one in samples]
    states = states_of([samples for samples, _ in again])
    assert stepped(states, [[one] for _, one in again]) == states


def test_a_late_sample_changes_nothing() -> None:
    early, late, newest = (
        (minute(at), sample(minute(at), 0, committed, 100)) for at, committed in enumerate((9, 5, 9))
    )
    states = states_of([[early, newest]])
    assert stepped(states, [[late]]) == states


@together(SAMPLES)
def test_folding_sample_by_sample_gives_what_all_at_once_give(drawn) -> None:
    """Each sample onto what all before it give, the first onto nothing: so it holds for every sequence of steps."""
    beginnings = [samples[:count] for samples in sequences(drawn) for count in range(1, len(samples) + 1)]
    all_at_once = states_of(beginnings)
    before = [
        state | {"cluster": str(number + 1)}
        for number, (state, following) in enumerate(zip(all_at_once, beginnings[1:], strict=False))
        if len(following) > 1
    ]
    assert stepped(before, [samples[-1:] for samples in beginnings]) == all_at_once


@together(SAMPLES, st.randoms())
def test_a_rebuilt_state_is_the_folded_one_in_whatever_order_the_samples_come(drawn) -> None:
    histories = sequences(drawn)
    shuffled = [dice.sample(one, len(one)) for one, (_, dice) in zip(histories, drawn, strict=True)]
    assert states_of(shuffled) == states_of(histories)


@together(SAMPLES)
def test_what_is_told_of_events_is_what_reading_all_samples_again_tells(drawn) -> None:
    histories = sequences(drawn)
    rows = states_of(histories)
    newest = [
        max((one.max_offset_read_at for _, one in samples if one.max_offset_read_at), default=START)
        for samples in histories
    ]
    for samples, row, figures in zip(histories, rows, figures_of(rows, newest), strict=True):
        assert_events_are_told(samples, QueueState.from_row(row), is_suspect=figures["suspect"])


def assert_events_are_told(history: History, state: QueueState, *, is_suspect: bool) -> None:
    samples = [one for _, one in history if one.max_offset is not None]
    # Offsets before and after a recreated queue cannot be compared.
    starts = [0] + [at for at in range(1, len(samples)) if samples[at].max_offset < samples[at - 1].max_offset]
    life = samples[starts[-1] :] if samples else []

    def last(events) -> datetime | None:
        return max(events, default=None)

    assert state.recreated_at == (life[0].max_offset_read_at if len(starts) > 1 else None)
    assert state.lost_at == last(one.max_offset_read_at for one in life if one.offsets.lost)
    assert state.disordered_at == last(one.max_offset_read_at for one in life if disordered(one))
    assert state.end_reached_at == last(one.max_offset_read_at for one in life if not waits(one))
    committed = [one for one in life if one.consumer_offset is not None]
    pairs = list(pairwise(committed))
    back = [(a, b) for a, b in pairs if b.consumer_offset < a.consumer_offset <= b.max_offset]
    assert (state.rewind.rewound_at if state.rewind else None) == last(b.max_offset_read_at for _, b in back)
    corrected = [(a, b) for a, b in pairs if b.max_offset < a.consumer_offset > b.consumer_offset]
    went_on = [*corrected, *((a, b) for a, b in pairs if b.consumer_offset > a.consumer_offset)]
    advances = [b.max_offset_read_at for _, b in went_on]
    if committed and committed[0] is not life[0]:
        advances.append(committed[0].max_offset_read_at)
    assert state.advanced_at == last(advances)
    not_regained = [
        a for a, b in back if all(one.consumer_offset < a.consumer_offset for one in committed[committed.index(b) :])
    ]
    assert (state.rewind is not None and state.rewind.regained_at is None) == bool(not_regained)
    assert is_suspect or not not_regained


@together(SAMPLES)
def test_points_are_samples_and_reach_back_to_the_first_one_or_beyond_the_window(drawn) -> None:
    for samples, state in zip(sequences(drawn), folded(sequences(drawn)), strict=True):
        assert_points_are_samples([one for _, one in samples], state)


def assert_points_are_samples(samples: list[Sample], state: QueueState) -> None:
    seen = {one.max_offset_read_at: one for one in samples if one.max_offset is not None}
    assert all(seen[point.at].max_offset == point.max_offset for point in state.points)
    times = [point.at for point in state.points]
    assert times == sorted(times, reverse=True)
    if state.seen is None:
        return
    life = [at for at in seen if state.recreated_at is None or at >= state.recreated_at]
    oldest = times[-1] if times else state.seen.at
    assert oldest == min(life) or (len(times) == 5 and state.seen.at - oldest > WINDOW)
    assert not times or times[0] == sorted(life)[-2]


def rounds_were_missed(before: QueueState, at: datetime) -> bool:
    if before.seen_at is None:
        return False
    apart, usual = at - before.seen_at, before.seen_at - before.points[0].at if before.points else timedelta(0)
    return apart > MISSED_AFTER and apart > 2.5 * usual


@together(SAMPLES)
def test_all_pauses_of_the_last_window_are_told_and_none_of_two_windows_ago(drawn) -> None:
    for samples, states in after_each(sequences(drawn)):
        assert_pauses_are_told(samples, states)


def assert_pauses_are_told(samples: History, states: list[QueueState]) -> None:
    state, pauses, unbroken_since = None, [], START
    for (at, _), after in zip(samples, states, strict=True):
        before, state = state, after
        if before is not None and state.seen_at == at and rounds_were_missed(before, at):
            unbroken_since = at
        advanced = before is not None and state.advanced_at == at and state.recreated_at != at
        # a correction from beyond the end is a commit, and the time that it took no pause
        offsets = (before.committed_offset, state.committed_offset) if before is not None else (None, None)
        corrected = None not in offsets and offsets[0] > offsets[1]
        if before is not None and advanced and not corrected:
            moments = (before.advanced_at, before.end_reached_at, before.first_seen_at)
            began_at = max(moment for moment in moments if moment)
            if began_at >= unbroken_since and at > unbroken_since:
                pauses.append((at, (at - began_at) // timedelta(milliseconds=1)))
        if state.recreated_at == at:
            pauses.clear()
    assert state is not None
    told = max(filter(None, (state.longest_pause_ms, state.earlier_longest_pause_ms)), default=None)
    recent = [pause for at, pause in pauses if state.seen_at and at > state.seen_at - WINDOW]
    older = [pause for at, pause in pauses if state.seen_at and at > state.seen_at - 2 * WINDOW]
    assert max(recent, default=0) <= (told or 0) <= max(older, default=0)


@together(SAMPLES)
def test_the_producer_curve_never_goes_back_and_ends_at_the_newest_seen_sample(drawn) -> None:
    rows = states_of(sequences(drawn))
    for row, figures in zip(rows, figures_of(rows, [START] * len(rows)), strict=True):
        state = QueueState.from_row(row)
        points = curve(state)
        assert points == sorted(points)
        assert [at for _, at in points] == sorted(at for _, at in points)
        assert bool(points) == (state.seen is not None)
        assert not points or points[-1] == (state.seen_max_offset, state.seen_at)
        assert figures["produce_tps"] is None or figures["produce_tps"] >= 0


def test_of_the_newest_flat_stretch_the_producer_curve_has_the_first_and_the_last_point() -> None:
    samples = [(minute(at), sample(minute(at), 0, 0, high)) for at, high in enumerate((100, 110, 110, 110))]
    states = folded([samples, samples[:2], samples[:1]])
    assert [curve(state) for state in states] == [
        [(100, minute(0)), (110, minute(1)), (110, minute(3))],
        [(100, minute(0)), (110, minute(1))],
        [(100, minute(0))],
    ]


def test_a_queue_without_samples_for_a_day_is_dropped_and_starts_anew_when_it_comes_back() -> None:
    gone = START + KEPT_FOR
    old, younger = [(START, sample(START, 0, 50, 100))], [(minute(1), sample(START, 0, 50, 100))]
    back, new = [(gone, sample(gone, 0, 40, 100))], [(gone, sample(gone, 0, 100, 100))]
    before = states_of([old, old, younger])
    first, second, third = before
    found = stepped([second | {"cluster": "0"}, first | {"cluster": "2"}, third | {"cluster": "3"}], [back, new])
    anew = states_of([back, new])  # 40 after 50 is no rewind any more
    assert found == [*anew, third | {"cluster": "3"}]
