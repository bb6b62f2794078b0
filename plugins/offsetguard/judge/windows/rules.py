"""The rules by which a queue's window is judged, in their order: the first that fits gives the state.

Each is guarded by what is known: a figure that is None never fires a rule.
Source: Burrow (linkedin/Burrow core/internal/evaluator/caching.go) and what its users miss: a floor in messages and in
time, quiet topics, every rewind instead of the first, zeros that age.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from offsetguard.judge.windows.figures import LEAST_SAMPLES, WindowFigures
from offsetguard.model.verdicts import State

POP = "pop"  # of `GroupFacts.consumption`
_WAITING = "messages that wait: {effective_lag:messages}"
_STANDS_STILL = _WAITING + "; nothing was committed for {silence_ms:duration}"


@dataclass(frozen=True, slots=True)
class WindowRule:
    """One rule of the evaluator: the state that it gives, and why, as a template over the verdict's figures."""

    state: State
    reason: str


WINDOW_RULES: Mapping[str, WindowRule] = {
    "broadcasting": WindowRule(State.OK, "a broadcasting group keeps its offsets on its clients: it has no lag here"),
    "unsubscribed": WindowRule(
        State.UNSUBSCRIBED,
        _WAITING + "; no client of the group subscribes to the topic",
    ),
    "unsubscribed_and_nothing_waits": WindowRule(State.OK, "no client subscribes to the topic, and nothing waits"),
    "unsubscribed_without_commit": WindowRule(
        State.OK, "no client subscribes to the topic, and the group committed nothing"
    ),
    "committed_below_min": WindowRule(
        State.LOST, "the committed offset is {lost:messages} below the oldest message kept: they are gone"
    ),
    "was_below_min": WindowRule(
        State.LOST,
        "at {lost_at:moment} the committed offset was below the oldest message kept: messages are gone",
    ),
    "recreated": WindowRule(
        State.ANOMALY,
        "before {recreated_at:moment} the max offset moved back from {recreated_from:messages}: "
        "the queue was recreated or truncated",
    ),
    "offsets_disordered": WindowRule(
        State.ANOMALY, "at {disordered_at:moment} the offsets contradicted min <= consumer <= pull <= max"
    ),
    "rewound": WindowRule(
        State.REWOUND,
        "the committed offset moved back from {rewound_from:messages} to {rewound_to:messages}, last at "
        "{rewound_at:moment}, and has not been regained",
    ),
    "never_seen": WindowRule(State.UNKNOWN, "no sample shows both the queue's end and the group's commits"),
    "stale": WindowRule(State.UNKNOWN, "last seen at {seen_at:moment}: too long ago to say how it stands now"),
    "never_committed": WindowRule(
        State.NEVER_COMMITTED, "the queue has messages, and the group never committed an offset in it"
    ),
    "commit_removed": WindowRule(
        State.NEVER_COMMITTED, "the committed offset {committed_offset:messages} was removed from the broker"
    ),
    "never_committed_and_empty": WindowRule(State.OK, "the group committed nothing, and the queue holds no message"),
    "pop_not_begun": WindowRule(State.OK, "nothing of this queue was handed out yet, and the oldest message is young"),
    "nothing_waits": WindowRule(State.OK, "nothing waits"),
    "lag_allowed": WindowRule(State.OK, _WAITING + ", allowed: {allowed_lag:messages}"),
    "end_reached_recently": WindowRule(State.OK, "what was there a few samples ago has been consumed"),
    "quiet_topic": WindowRule(
        State.OK, _WAITING + " in this quiet topic; the oldest is at most {lag_ms_at_most:duration} old"
    ),
    "below_floor": WindowRule(State.OK, _WAITING + ": few, and young"),
    "stopped": WindowRule(State.STOPPED, _STANDS_STILL + ", and no client is online"),
    "offline": WindowRule(State.STOPPED, _WAITING + "; no client is online, and one sample shows no movement"),
    "stalled": WindowRule(State.STALLED, _STANDS_STILL + " while clients are online"),
    "stands_still": WindowRule(State.STALLED, _STANDS_STILL + "; whether clients are online is not known"),
    "nothing_handed_out": WindowRule(State.STALLED, _STANDS_STILL + ": nothing is handed out"),
    "loss_ahead": WindowRule(
        State.AT_RISK, "the oldest waiting messages will be deleted before they are consumed, in {loss_low_ms:duration}"
    ),
    "within_rhythm": WindowRule(
        State.OK, "nothing was committed for {silence_ms:duration}, as before (longest: {rhythm_ms:duration})"
    ),
    "rounds_missed": WindowRule(
        State.UNKNOWN, _WAITING + "; rounds were missed, and since then too few show whether the group moves"
    ),
    "one_sample": WindowRule(State.UNKNOWN, _WAITING + "; one sample shows no movement"),
    "growing": WindowRule(
        State.FALLING_BEHIND, "the lag grew by {growth:messages} to {effective_lag:messages} over the window"
    ),
    "shrinking": WindowRule(State.OK, _WAITING + ", fewer than before"),
    "growth_below_floor": WindowRule(State.OK, "the lag grew by {growth:messages} only"),
    "growth_unknown": WindowRule(
        State.UNKNOWN,
        "the lag grew by {growth:messages} only, but what was seen does not show how much older that is what waits",
    ),
    "keeps_pace": WindowRule(State.OK, _WAITING + "; the lag does not grow"),
}


def first_rule(figures: WindowFigures) -> str:
    """Return the id of the first rule that fits, but for a loss ahead."""
    waiting = figures.waiting
    if figures.state.seen is None:
        return "never_seen"
    if figures.context.subscribed is False:
        if waiting is None:
            return "unsubscribed_without_commit"
        return "unsubscribed" if waiting > 0 else "unsubscribed_and_nothing_waits"
    return (
        _what_happened(figures)
        or _what_is_not_known(figures)
        or _what_waits_too_little(figures)
        or _what_stands_still(figures)
        or _how_the_lag_moves(figures)
    )


def _what_happened(figures: WindowFigures) -> str | None:
    state, rewind = figures.state, figures.state.rewind
    if figures.lies_within(state.lost_at):
        return "committed_below_min" if figures.offsets.lost else "was_below_min"
    if figures.lies_within(state.recreated_at):
        return "recreated"
    if figures.lies_within(state.disordered_at):
        return "offsets_disordered"
    goes_on = rewind is not None and rewind.regained_at is None and figures.lies_within(rewind.rewound_at)
    return "rewound" if goes_on and (figures.waiting or 0) > figures.policy.allowed_lag else None


def _what_is_not_known(figures: WindowFigures) -> str | None:
    offsets = figures.offsets
    if figures.is_stale:
        return "stale"
    if offsets.consumer_offset is not None and not figures.commit_is_gone:
        return None
    if offsets.max_offset in (0, offsets.min_offset):
        return "never_committed_and_empty"
    return "commit_removed" if offsets.consumer_offset is not None else _without_commit(figures)


def _without_commit(figures: WindowFigures) -> str:
    if figures.context.consumption != POP:
        return "never_committed"
    if not figures.is_silent:
        return "pop_not_begun"
    return "nothing_handed_out" if figures.context.group_committed else "never_committed"


def _what_waits_too_little(figures: WindowFigures) -> str | None:
    waiting, policy, age_ms = figures.waiting or 0, figures.policy, figures.lag_ms_at_most
    if waiting <= policy.allowed_lag:
        return "lag_allowed" if waiting > 0 else "nothing_waits"
    if figures.end_was_reached:
        return "end_reached_recently"
    if age_ms is None or age_ms > policy.lag_floor_ms:
        return None
    if figures.new_messages is not None and figures.new_messages <= policy.lag_floor:
        return "quiet_topic"
    return "below_floor" if waiting < policy.lag_floor else None


def _what_stands_still(figures: WindowFigures) -> str | None:
    context, count = figures.context, figures.state.sample_count
    offline = context.online_client_count == 0
    if count == 1 and not figures.rounds_were_missed:
        return "offline" if offline else "one_sample"
    if offline and (figures.is_silent or (figures.never_moved and count > 1)):
        return "stopped"
    if figures.is_silent and (count >= LEAST_SAMPLES or figures.stood_still):
        if context.consumption == POP:
            return "nothing_handed_out"
        return "stands_still" if context.online_client_count is None else "stalled"
    if figures.rounds_were_missed:
        return "rounds_missed"
    return "within_rhythm" if figures.rests else None


def _how_the_lag_moves(figures: WindowFigures) -> str:
    growth, policy = figures.growth, figures.policy
    if not figures.grows or growth is None or growth <= 0:
        return "shrinking" if growth is not None and growth < 0 else "keeps_pace"
    least_ms, most_ms = figures.growth_ms_between
    if growth >= policy.lag_floor or (least_ms is not None and least_ms >= policy.lag_floor_ms):
        return "growing"
    return "growth_unknown" if most_ms is None or most_ms >= policy.lag_floor_ms else "growth_below_floor"
