"""What must hold for the verdict on every window, however odd: gaps, unknowns, jumps, recreated queues, duplicates."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import example
from hypothesis import strategies as st

from offsetguard.config import WindowPolicy
from offsetguard.judge.explained import GivenQueue, GivenSample, explain_queues
from offsetguard.judge.windows.figures import QueueContext, WindowFigures
from offsetguard.judge.windows.windows import judge_windows
from offsetguard.model.verdicts import State
from offsetguard.tables.queue_state import QueueState, Sample
from offsetguard_peers.cases.running import together
from offsetguard_peers.facts.answers import figures_of, states_of

START_MS = 1_795_000_000_000 - 1_795_000_000_000 % 1_800_000
WINDOW_MS = 1_800_000

OFFSETS = st.none() | st.integers(0, 12) | st.integers(0, 5_000)
SAMPLES = st.lists(
    st.builds(
        GivenSample,
        at_ms=st.integers(0, 80).map(lambda minute: START_MS + minute * 45_000),
        consumer_offset=OFFSETS,
        max_offset=OFFSETS,
        min_offset=OFFSETS,
        pull_offset=st.none() | OFFSETS,
    ),
    max_size=25,
)
GROWING = st.lists(
    st.tuples(st.integers(1, 8), st.integers(0, 900), st.integers(0, 1_500), st.booleans()), min_size=1, max_size=25
)
CONTEXTS = st.builds(
    QueueContext,
    online_client_count=st.sampled_from([None, 0, 1, 2]),
    message_model=st.sampled_from([None, "clustering", "broadcasting"]),
    subscribed=st.sampled_from([None, True, True, False]),
)
POLICIES = st.builds(
    WindowPolicy,
    allowed_lag=st.sampled_from([0, 0, 1, 500]),
    lag_floor=st.sampled_from([0, 100, 1_000]),
    lag_floor_ms=st.sampled_from([1, 60_000, 300_000]),
    window_ms=st.sampled_from([600_000, WINDOW_MS]),
)


def living(drawn: list[tuple[int, int, int, bool]]) -> list[GivenSample]:
    """Make a queue that is written and consumed, of which now and then nothing is seen."""
    at_ms, consumer, end, samples = START_MS, 0, 0, []
    for gap, consumed, produced, seen in drawn:
        at_ms += gap * 15_000
        end += produced
        consumer = min(end, consumer + consumed)
        samples.append(GivenSample(at_ms, consumer, end, 0) if seen else GivenSample(at_ms))
    return samples


ANY = SAMPLES | GROWING.map(living)


def last_ms(samples: list[GivenSample]) -> int:
    return max((one.at_ms for one in samples), default=START_MS)


@together(ANY, CONTEXTS, POLICIES, st.integers(0, WINDOW_MS))
def test_every_window_gets_a_verdict_whose_figures_fit(drawn) -> None:
    given_queues = [
        GivenQueue(samples, context, policy, last_ms(samples) + later) for samples, context, policy, later in drawn
    ]
    for queue, verdict in zip(given_queues, explain_queues(given_queues), strict=True):
        assert verdict.reason
        assert 0 <= verdict.samples_used <= len({one.at_ms for one in queue.samples})
        assert verdict.lag_ms is None or verdict.lag_ms >= 0
        assert verdict.lost is None or verdict.lost >= 0
        for forecast in (verdict.drain, verdict.loss):
            assert forecast is None or 0 <= forecast.low_ms <= forecast.high_ms


@together(ANY, CONTEXTS, POLICIES, st.integers(0, WINDOW_MS))
def test_nothing_is_lost_while_every_commit_is_at_or_above_the_oldest_message(drawn) -> None:
    given_queues = []
    for samples, context, policy, later in drawn:
        sound = [
            replace(one, consumer_offset=max(one.consumer_offset, one.min_offset))
            if one.consumer_offset is not None and one.min_offset is not None
            else one
            for one in samples
        ]
        given_queues.append(GivenQueue(sound, context, policy, last_ms(sound) + later))
    assert [one for one in explain_queues(given_queues) if one.state is State.LOST] == []


@together(ANY, CONTEXTS, POLICIES, st.integers(1, 6), st.integers(1, 12))
def test_a_healthy_tail_never_makes_it_worse(drawn) -> None:
    """The tail: everything is consumed, sample for sample, and the queue grows."""
    given_before, given_after = [], []
    for samples, context, policy, count, gap in drawn:
        given_before.append(GivenQueue(samples, context, policy, last_ms(samples)))
        end = max([one.max_offset or 0 for one in samples] + [one.consumer_offset or 0 for one in samples], default=0)
        low = max((one.min_offset or 0 for one in samples), default=0)
        end = max(end, low)
        tail = [
            GivenSample(last_ms(samples) + number * gap * 15_000, end + 10 * number, end + 10 * number, low)
            for number in range(1, count + 1)
        ]
        given_after.append(GivenQueue([*samples, *tail], context, policy, last_ms(tail)))
    verdicts = explain_queues(given_before + given_after)
    for before, after in zip(verdicts[: len(drawn)], verdicts[len(drawn) :], strict=True):
        assert after.state.rank >= before.state.rank, (before, after)


@together(GROWING, CONTEXTS, POLICIES, st.sampled_from([2, 4, 8]), st.sampled_from([2, 4, 16]))
def test_scaling_time_and_offsets_alike_changes_nothing_but_figures(drawn) -> None:
    """Powers of two, so that no rounding of floats decides."""
    given_before, given_after = [], []
    for lives, context, policy, slower, larger in drawn:
        samples = living(lives)
        given_before.append(GivenQueue(samples, context, policy, last_ms(samples)))
        scaled = [
            GivenSample(
                one.at_ms * slower,
                *(None if x is None else x * larger for x in (one.consumer_offset, one.max_offset, one.min_offset)),
            )
            for one in samples
        ]
        scaled_policy = WindowPolicy(
            allowed_lag=policy.allowed_lag * larger,
            lag_floor=policy.lag_floor * larger,
            lag_floor_ms=policy.lag_floor_ms * slower,
            window_ms=policy.window_ms * slower,
            loss_horizon_ms=policy.loss_horizon_ms * slower,
        )
        given_after.append(GivenQueue(scaled, context, scaled_policy, last_ms(samples) * slower))
    for before, after in zip(explain_queues(given_before), explain_queues(given_after), strict=True):
        assert (after.state, after.rule, after.samples_used) == (before.state, before.rule, before.samples_used)


@together(ANY, CONTEXTS, POLICIES)
def test_a_sample_of_which_nothing_is_known_is_as_good_as_none(drawn) -> None:
    """Between known ones, that is: as the newest it may make the known ones stale, and never zero."""
    given_alone = [GivenQueue(samples, context, policy, last_ms(samples)) for samples, context, policy in drawn]
    given_mixed = [
        replace(one, samples=[*(GivenSample(known.at_ms - 7_000) for known in one.samples), *one.samples])
        for one in given_alone
    ]
    for alone, mixed in zip(explain_queues(given_alone), explain_queues(given_mixed), strict=True):
        assert (mixed.state, mixed.rule, mixed.lag, mixed.lost) == (alone.state, alone.rule, alone.lag, alone.lost)


@together(ANY, CONTEXTS, POLICIES, st.randoms())
def test_order_and_repetition_of_samples_do_not_matter(drawn) -> None:
    given_once, given_shuffled = [], []
    for samples, context, policy, dice in drawn:
        one_each = list({one.at_ms: one for one in samples}.values())
        given_once.append(GivenQueue(one_each, context, policy, last_ms(samples)))
        shuffled = dice.sample([*one_each, *one_each], 2 * len(one_each))
        given_shuffled.append(replace(given_once[-1], samples=shuffled))
    assert explain_queues(given_shuffled) == explain_queues(given_once)


@example([([GivenSample(START_MS, 10, None, 0)], QueueContext(), WindowPolicy())])
@together(SAMPLES.filter(bool) | GROWING.map(living), CONTEXTS, POLICIES)
def test_everything_that_is_judged_unhealthy_is_a_suspect(drawn) -> None:
    states = states_of(
        [list({one.at_ms: (_moment(one.at_ms), _sample(one)) for one in samples}.values()) for samples, *_ in drawn]
    )
    moments = [_moment(last_ms(samples) + 20_000) for samples, *_ in drawn]
    windows = [
        WindowFigures(QueueState.from_row(state), context, policy, now)
        for state, (_, context, policy), now in zip(states, drawn, moments, strict=True)
    ]
    for verdict, figures in zip(judge_windows(windows), figures_of(states, moments), strict=True):
        assert figures["suspect"] or verdict.state is State.OK, verdict


def _sample(given_sample: GivenSample) -> Sample:
    """Return the sample that a snapshot has: commits and ends are read or not, each by itself."""
    at = _moment(given_sample.at_ms)
    return Sample(
        min_offset=given_sample.min_offset if given_sample.max_offset is not None else None,
        max_offset=given_sample.max_offset,
        consumer_offset=given_sample.consumer_offset,
        pull_offset=given_sample.pull_offset,
        consumer_offset_read_at=at if given_sample.at_ms // 15_000 % 5 else None,
        max_offset_read_at=at if given_sample.max_offset is not None else None,
    )


def _moment(at_ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
