"""How does a queue stand? One window of samples in, one state and its reason out; without thresholds where that can be.

The order of judging, most severe first; the first that fits is the verdict:

1. nobody judges a broadcasting group (its offsets lie on the client), nor a topic that no client subscribes to;
2. what happened within the window stands, whatever came after: LOST, ANOMALY; a rewind until it is regained: REWOUND;
3. what was not seen lately is UNKNOWN; who has no committed offset has no lag: NEVER_COMMITTED;
4. lag <= allowed_lag is OK. So is a queue whose end was reached within the newest samples, unless what has come since
   waits in silence, and one whose few waiting messages are young: a quiet topic is judged by the age of its oldest
   unconsumed message and not by their count;
5. a silence longer than the window's own rhythm: STOPPED without clients, else STALLED;
6. a loss ahead, before the backlog is drained: AT_RISK;
7. a lag that grows by and large, by more than the floor: FALLING_BEHIND. One dip does not clear it, and an old zero
   does not hide it. Few more messages, of which nobody knows how much older they are: UNKNOWN.

Of a POP group committed means handed out: its lag is what waits to be handed out, and lag 0 does not mean done.
Works on the folded state (`queue_state.py`), the only thing that the pipeline keeps; unknown samples are not in it, and
nothing unknown is ever taken for zero. Every queue that is not OK is a suspect (`facts/queue_curves.sql`).
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice

from offsetguard.catalogue.text import render_text
from offsetguard.config import Config, EffectivePolicy
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.forecasts import broker_retentions, forecasts
from offsetguard.judge.forecasts.broker_retentions import tiered_broker_names
from offsetguard.judge.windows.figures import OVERRUN, QueueContext, WindowFigures, with_ages
from offsetguard.judge.windows.pace import EXTRAPOLATED, waits_between
from offsetguard.judge.windows.rules import POP, WINDOW_RULES, first_rule
from offsetguard.model.fact_records import Absences
from offsetguard.model.rocketmq import PUSH
from offsetguard.model.verdicts import DRAINED_MS, Figure, Forecast, QueueVerdict, State
from offsetguard.tables.group_facts import GroupFacts

_AT_ONCE = 10_000  # windows in memory with all their figures; a query costs as much for them as for one


def judge_windows(given: Iterable[WindowFigures]) -> list[QueueVerdict]:
    """Return the verdicts on queues, in their order."""
    windows, verdicts = iter(given), list[QueueVerdict]()
    while some := list(islice(windows, _AT_ONCE)):
        verdicts += map(_judged, with_ages(some))
    return verdicts


def _judged(figures: WindowFigures) -> QueueVerdict:
    if figures.context.broadcasting:
        return QueueVerdict(State.OK, "broadcasting", WINDOW_RULES["broadcasting"].reason)
    ahead = _Ahead.of(figures)
    rule = first_rule(figures)
    if ahead.at_risk and WINDOW_RULES[rule].state.rank > State.AT_RISK.rank:
        rule = "loss_ahead"
    return _verdict(rule, figures, ahead)


def judge_queues(facts: IntervalFacts, config: Config) -> IntervalFacts:
    """Return the facts with a verdict on every suspect queue."""
    groups = {(one.consumer_group, one.topic): one for one in facts.groups}
    contexts = {pair: _context(group, facts.absences.get(group.consumer_group)) for pair, group in groups.items()}
    policies = {name: config.policy(facts.cluster, name) for name in {one.consumer_group for one in facts.queues}}
    retentions, tiered = broker_retentions.retentions(facts, config), tiered_broker_names(facts)

    def window_of(queue: QueueFacts) -> WindowFigures:
        context = replace(
            contexts.get((queue.consumer_group, queue.message_queue.topic), _NOTHING_KNOWN),
            lag_ms=None if queue.lag_ms_basis == EXTRAPOLATED else queue.lag_ms,
            retention=retentions.get(queue.message_queue.broker_name),
            tiered=queue.message_queue.broker_name in tiered,
        )
        return WindowFigures(queue.window, context, policies[queue.consumer_group], facts.now)

    verdicts = zip(facts.queues, judge_windows(map(window_of, facts.queues)), strict=True)
    return replace(
        facts,
        queues=tuple(replace(queue, verdict=verdict) for queue, verdict in verdicts),
        groups=_without_guessed_ages(facts),
    )


def age_at_least_ms(queue: QueueFacts) -> int | None:
    """Return for how long the oldest message waits, ms: of one from before the curve as long as was seen.

    The line that is drawn beyond the first look is good for a page; no limit is exceeded by a guess.
    """
    return waits_between(queue.window)[0] if queue.lag_ms_basis == EXTRAPOLATED else queue.lag_ms


def _without_guessed_ages(facts: IntervalFacts) -> tuple[GroupFacts, ...]:
    queues = defaultdict[tuple[str, str], list[QueueFacts]](list)
    for queue in facts.queues:
        queues[queue.consumer_group, queue.message_queue.topic].append(queue)

    def known(group: GroupFacts) -> GroupFacts:
        own = queues[group.consumer_group, group.topic]
        if not any(one.lag_ms_basis == EXTRAPOLATED and one.lag_ms == group.lag_ms for one in own):
            return group
        return replace(group, lag_ms=max(age for age in map(age_at_least_ms, own) if age is not None))

    return tuple(map(known, facts.groups))


def is_subscribed(group: GroupFacts) -> bool | None:
    """Return whether a client of the group subscribes to the topic; None = not known.

    Only push consumers must: pull consumers with assigned queues and POP groups consume without a subscription that
    brokers know. What brokers hold is enough for a yes; a no takes all clients' own word, or the brokers' alone where
    no client was asked.
    """
    if not group.online_client_count or group.consume_type != PUSH or group.consumption == POP:
        return None
    if group.topic_kind != "normal" or group.client_versions is None:
        return None
    if group.filtered is not None or group.subscription_expressions:
        return True
    known = group.told_client_count or 0
    return None if 0 < known < group.online_client_count else False


def above_limit(group: GroupFacts, policy: EffectivePolicy) -> bool:
    """Whether more waits, or for longer, than the group's policy allows; unknown is neither."""
    waiting = group.effective_lag
    if waiting is None or waiting <= 0:  # an old time stamp without a message is no backlog
        return False
    return waiting > policy.max_lag_messages or (group.lag_ms is not None and group.lag_ms > policy.max_lag_ms)


def is_overrun(group: GroupFacts) -> bool | None:
    """Whether clearly more was written than the group consumed, over the last minute; None = not known."""
    if group.produce_tps is None or group.consume_tps is None:
        return None
    return group.produce_tps > OVERRUN * group.consume_tps


_NOTHING_KNOWN = QueueContext()


def _context(group: GroupFacts, absences: Absences | None) -> QueueContext:
    came_at = (group.newest_client_start_at, None if absences is None else absences.back_since)
    return QueueContext(
        online_client_count=group.online_client_count,
        message_model=group.message_model,
        subscribed=is_subscribed(group),
        consumption=group.consumption,
        came_at=tuple(at for at in came_at if at is not None),
        group_committed=group.never_committed_queue_count < group.queue_count - group.unknown_queue_count,
    )


@dataclass(frozen=True, slots=True)
class _Ahead:
    """What comes if everything goes on as now."""

    drain: Forecast | None
    loss: Forecast | None
    at_risk: bool

    @classmethod
    def of(cls, figures: WindowFigures) -> "_Ahead":
        context = figures.context
        if context.consumption == POP or context.subscribed is False or not figures.is_newest_seen:
            return cls(None, None, at_risk=False)
        drain = forecasts.drain(figures.state, figures.now)
        # who consumes what is written within a minute loses nothing, however early messages go
        in_time = figures.lag_ms is not None and figures.lag_ms <= DRAINED_MS
        is_safe = context.tiered or in_time
        loss = None if is_safe else forecasts.loss(figures.state, context.retention, figures.now)
        near = loss is not None and loss.low_ms <= figures.policy.loss_horizon_ms
        at_risk = loss is not None and near and not forecasts.drained_before(drain, loss)
        return cls(drain, loss, at_risk)


def _verdict(rule: str, figures: WindowFigures, ahead: _Ahead) -> QueueVerdict:
    offsets = figures.offsets
    shown = _shown(figures, ahead)
    return QueueVerdict(
        state=WINDOW_RULES[rule].state,
        rule=rule,
        reason=render_text(WINDOW_RULES[rule].reason, shown),
        lag=offsets.lag,
        effective_lag=offsets.effective_lag,
        lost=offsets.lost,
        lag_ms=figures.lag_ms,
        samples_used=figures.samples_used,
        drain=ahead.drain,
        loss=ahead.loss,
        figures=shown,
    )


def _shown(figures: WindowFigures, ahead: _Ahead) -> dict[str, Figure]:
    state, rewind = figures.state, figures.state.rewind
    return {
        "effective_lag": figures.offsets.effective_lag,
        "lost": figures.offsets.lost,
        "lag_ms": figures.lag_ms,
        "lag_ms_at_most": figures.lag_ms_at_most,
        "allowed_lag": figures.policy.allowed_lag,
        "online_client_count": figures.context.online_client_count,
        "committed_offset": state.committed_offset,
        "silence_ms": figures.silence_ms,
        "silence_began_unseen": figures.began_unseen,
        "rhythm_ms": figures.rhythm_ms or None,
        "growth": figures.growth,
        "growth_ms": figures.growth_ms,
        "new_messages": figures.new_messages,
        "seen_at": state.seen_at,
        "lost_at": state.lost_at,
        "disordered_at": state.disordered_at,
        "recreated_at": state.recreated_at,
        "recreated_from": state.recreated_from,
        "rewound_at": rewind.rewound_at if rewind else None,
        "rewound_from": rewind.rewound_from if rewind else None,
        "rewound_to": rewind.rewound_to if rewind else None,
        "loss_low_ms": ahead.loss.low_ms if ahead.loss else None,
    }
