"""Consumer groups as the windows and verdicts of their suspect queues show them: what rules about lag and loss look at.

Does the lag fall, does anything move (`lag_trend`, `moves`); and how does the backlog of a group that is behind move:
what `accumulation` says, or that it says nothing (`backlog_trend`).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

from offsetguard.catalogue import Sentence
from offsetguard.config import Config, EffectivePolicy
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence.capacity import LASTING, falls_behind_fast
from offsetguard.judge.evidence.lookups import master_boots, queues_by_group, waiting_in
from offsetguard.judge.evidence.move_causes import HANDOVER, just_came
from offsetguard.judge.evidence.unseen import names
from offsetguard.judge.forecasts import forecasts
from offsetguard.judge.forecasts.broker_retentions import tiered_broker_names
from offsetguard.judge.windows.windows import above_limit
from offsetguard.model.fact_records import Absences
from offsetguard.model.verdicts import FURTHEST_MS, CannotTell, Figure, State
from offsetguard.tables.group_facts import GroupFacts
from offsetguard.tables.queue_state import POINT_COUNT, WINDOW, QueueState

_LEAST_WAITING = 10  # messages
_FIRST_SEEN_WITHIN = timedelta(minutes=3)  # a rebalance, a first commit, and a round or two

RECENTLY = timedelta(seconds=60)
"""What brokers' rates cover, and what RocketMQ's own check calls "can't consume for a while" beyond."""

COMMITTED_WITHIN = timedelta(seconds=20)
"""A client's interval of 5 s, a slow message, and a reading."""

RHYTHM = 3
"""Absences that ended: so many show a rhythm, if they are regular."""

_REGULAR, _NEARLY = 0.6, 0.25  # so many of them begin as far apart as the median, but for such a part of it
_TROUBLE = (State.STALLED, State.FALLING_BEHIND, State.AT_RISK)
_PASSING = ("end_reached_recently", "within_rhythm", "quiet_topic", "nothing_waits", "lag_allowed")
_PARTS = 6  # of the window: a lag that does not grow over less than one of them says little, ...
_RECENT_PARTS = 10  # ... and whether it falls is seen in the newest of so many
_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class JudgedGroup:
    """One (consumer group, topic) with its suspect queues and their verdicts."""

    group: GroupFacts
    policy: EffectivePolicy
    queues: tuple[QueueFacts, ...]
    seen_at: datetime  # the look; the minute ends later
    absences: Absences | None = None
    up_since: datetime | None = None  # since when the first of all masters of its queues has been; None: not known

    def in_state(self, *states: State) -> list[QueueFacts]:
        """Return the queues in one of some states."""
        return [queue for queue in self.queues if queue.verdict is not None and queue.verdict.state in states]

    @property
    def standing(self) -> list[QueueFacts]:
        """The queues that stand still, with or without clients; also where what happened to them is their state."""
        happened = self.in_state(State.LOST, State.ANOMALY, State.REWOUND)
        return [*self.in_state(State.STALLED, State.STOPPED), *(one for one in happened if is_silent(one))]

    def by_rule(self, *rules: str) -> list[QueueFacts]:
        """Return the queues on which one of some window rules fired."""
        return [queue for queue in self.queues if queue.verdict is not None and queue.verdict.rule in rules]

    @property
    def above_limit(self) -> bool:
        """Whether more waits, or for longer, than the policy allows."""
        return above_limit(self.group, self.policy)

    @property
    def waits_unknown(self) -> bool:
        """Whether it is not known if more waits, or for longer, than the policy allows: some of it is not seen."""
        unknown = any((one.offsets.effective_lag or 0) > 0 and one.lag_ms is None for one in self.queues)
        return waits_unknown(self.group) or (unknown and not self.above_limit)

    @property
    def is_overrun(self) -> bool:
        """Whether clearly more is written than consumed, and most of what waits lies where it grows: no mere burst."""
        lasting, waiting = self.by_rule(*LASTING), self.group.effective_lag
        most = waiting is not None and 2 * waiting_in(lasting) >= waiting
        return most and grown_by(lasting) > 0 and falls_behind_fast(self.group, self.policy, self.seen_at)

    @property
    def offline(self) -> bool:
        """Whether no client is online, as far as its brokers know."""
        return self.group.online_client_count == 0

    @property
    def client_count(self) -> int | None:
        """How many clients are online; None = not known, nor where all masters of its queues were just started.

        They have forgotten all clients, and learn of each by its next heartbeat. These are 30 s apart; one was seen
        39 s after its broker was up. Who was away before that start is away all the same; who had only committed
        nothing for long may hang.
        """
        if not self.offline or self.up_since is None or not just_started(self.up_since, self.seen_at):
            return self.group.online_client_count
        away_since = self.absences.away_since if self.absences is not None else None
        return 0 if away_since is not None and away_since < self.up_since else None

    @property
    def stands_still(self) -> bool:
        """Whether no queue moves in which messages wait, and more have come since: that is loud before any limit is.

        Not while a client has just come, or has just taken queues of one that went: it commits seconds after it has
        them.
        """
        waiting = [queue for queue in self.queues if (queue.offsets.effective_lag or 0) > 0]
        still = [one for one in self.standing if not self._just_taken(one)]
        if (
            is_little(waiting)
            or just_came(self.group, self.seen_at)
            or self.group.unknown_queue_count
            or len(still) < len(waiting)
        ):
            return False
        return any(map(more_came, still))

    def _just_taken(self, queue: QueueFacts) -> bool:
        """Whether its holder took it, or finished a message of it, since it could commit; orderly ones only try."""
        at = queue.last_consume_at
        return not self.group.orderly and at is not None and self.seen_at - at <= COMMITTED_WITHIN

    @property
    def is_back_by_plan(self) -> bool:
        """Whether it comes and goes by a rhythm, and has been back for no longer than it was ever away, and moves."""
        known = self.absences
        if known is None or not has_rhythm(known) or self.stands_still:
            return False
        back_since = known.back_since  # None: it was away until this round
        return back_since is None or self.seen_at - back_since <= known.longest

    @property
    def is_newcomer(self) -> bool:
        """Whether the group was first seen when its newest client was started: what waited then is no fault of it.

        Rounds may be far apart where the collector was away: it was started after the round that did not see it.
        Of a lag of which most has come since, this is not so.
        """
        started_at, unseen_at = self.group.newest_client_start_at, self.group.uncommitted_at
        waiting = [(queue.window, lag) for queue in self.queues if (lag := queue.offsets.effective_lag or 0) > 0]
        if not waiting:
            return False
        waited_then = 0
        for window, lag in waiting:
            known_since = _known_since(window)
            if known_since is None:
                return False
            before = unseen_at if unseen_at and known_since - WINDOW <= unseen_at <= known_since else None
            looked_at = before or known_since
            began_at = started_at or before  # a busy client may not tell
            if began_at is None or not looked_at - _FIRST_SEEN_WITHIN <= began_at <= known_since + _FIRST_SEEN_WITHIN:
                return False
            first = window.points[-1] if window.points else None
            begins = window.seen_min_offset or 0  # of a queue in which nothing was committed by then
            waited_then += lag if first is None else max(0, first.max_offset - (first.committed_offset or begins))
        return 2 * waited_then >= sum(lag for _, lag in waiting)

    @property
    def worst(self) -> State:
        """The most severe state of its queues."""
        states = [queue.verdict.state for queue in self.queues if queue.verdict is not None]
        return min(states, key=lambda state: state.rank, default=State.OK)


def _known_since(window: QueueState) -> datetime | None:
    """Return when the queue was seen for the first time, also where rounds were missed since; None = longer ago.

    Missed rounds begin `first_seen_at` anew, but points go on. As long as there is room for one more, the oldest one
    is the first sample.
    """
    oldest, first = (window.points[-1].at if window.points else None), window.first_seen_at
    if oldest is None or first is None or oldest >= first:
        return first
    return oldest if len(window.points) < POINT_COUNT else None


def is_little(queues: Iterable[QueueFacts]) -> bool:
    """Whether so few messages wait in some queues as may behind one that takes a minute."""
    return waiting_in(queues) < _LEAST_WAITING


def waits_unknown(group: GroupFacts) -> bool:
    """Whether it is not known how many messages of a group wait, or for how long."""
    return group.effective_lag is None or (group.effective_lag > 0 and group.lag_ms is None)


def is_silent(queue: QueueFacts) -> bool:
    """Whether messages wait in a queue, and nothing was committed for longer than its rhythm and a minute."""
    figures = queue.verdict.figures if queue.verdict is not None else {}
    silence_ms, rhythm_ms = figures.get("silence_ms"), figures.get("rhythm_ms") or 0  # None: no pause was ever ended
    if not isinstance(silence_ms, int) or not isinstance(rhythm_ms, int) or (queue.offsets.effective_lag or 0) <= 0:
        return False
    return silence_ms > max(rhythm_ms, RECENTLY // _MS)


def grown_by(queues: Iterable[QueueFacts]) -> int:
    """Return by how many messages the lag of some queues grew over their windows; below 0 = it fell."""
    growths = (queue.verdict.figures.get("growth") for queue in queues if queue.verdict is not None)
    return sum(growth for growth in growths if isinstance(growth, int))


def more_came(queue: QueueFacts) -> bool:
    """Whether messages were written after the last movement of the committed offset."""
    window = queue.window
    if window.max_unchanged_since is None:
        return False
    moments = [window.advanced_at, window.end_reached_at, window.first_seen_at]
    return all(moment is None or moment < window.max_unchanged_since for moment in moments)


def judged_groups(facts: IntervalFacts, config: Config) -> Iterator[JudgedGroup]:
    """Yield the groups that have a lag: no system topics or groups, no broadcasting groups."""
    queues, boots = queues_by_group(facts), master_boots(facts)
    for group in facts.groups:
        if group.topic_kind == "system" or group.system_group or group.message_model == "BROADCASTING":
            continue
        policy = config.policy(facts.cluster, group.consumer_group)
        of_group = tuple(queues.get((group.consumer_group, group.topic), ()))
        up_since = [boots.get(name) for name in {queue.message_queue.broker_name for queue in of_group}]
        known = [one for one in up_since if one is not None]
        first = min(known, default=None) if len(known) == len(up_since) else None
        yield JudgedGroup(group, policy, of_group, facts.now, facts.absences.get(group.consumer_group), first)


def just_started(master_up_since: datetime, seen_at: datetime) -> bool:
    """Whether a master may not know by a look of all clients that run: it learns of each by its next heartbeat."""
    return seen_at - master_up_since <= HANDOVER


def clients_known(facts: IntervalFacts) -> Iterator[GroupFacts]:
    """Yield the groups of which brokers know by now who is online: that nobody is, no master that was just started."""
    started = any(just_started(at, facts.now) for at in master_boots(facts).values())
    return (group for group in facts.groups if group.online_client_count or not started)


def has_rhythm(known: Absences) -> bool:
    """Whether a group goes at regular times: each hour, each night, but for a weekend."""
    if len(known.began_at) < RHYTHM:
        return False
    began = (*known.began_at, *filter(None, [known.away_since]))
    apart = [(later - one).total_seconds() for one, later in pairwise(began)]
    usual = median(apart)
    return sum(abs(one - usual) <= _NEARLY * usual for one in apart) >= _REGULAR * len(apart)


def longest_ms(queues: Iterable[QueueFacts], figure: str) -> int | None:
    """Return the greatest of a figure of the queues' verdicts; None = no verdict has it."""
    values = (queue.verdict.figures.get(figure) for queue in queues if queue.verdict is not None)
    return max((value for value in values if isinstance(value, int)), default=None)


def longest_silence(queues: Iterable[QueueFacts]) -> Figure:
    """Return for how long nothing was committed on the one of some queues that has stood longest, as words.

    "At least" where its silence began before anybody looked.
    """
    longest: tuple[int, bool] | None = None
    for queue in queues:
        figures = queue.verdict.figures if queue.verdict is not None else {}
        silence_ms, unseen = figures.get("silence_ms"), figures.get("silence_began_unseen")
        if isinstance(silence_ms, int) and (longest is None or longest[0] < silence_ms):
            longest = silence_ms, bool(unseen)
    if longest is None:
        return None
    return Sentence("for_at_least" if longest[1] else "for_so_long", span_ms=longest[0])


def tiered_brokers(rule_id: str, facts: IntervalFacts) -> Iterator[CannotTell]:
    """Say that nobody can tell when messages on brokers with a tiered storage are gone."""
    if tiered := tiered_broker_names(facts):
        yield CannotTell(rule_id, None, tiered, Sentence("tiered_storage", brokers=names(sorted(tiered))))


@dataclass(frozen=True, slots=True)
class LagTrend:
    """How the lag of several queues changed between an earlier and the newest sample of each."""

    growth: int  # messages; below 0 = it fell
    span: timedelta  # the longest of the queues'

    @property
    def falls(self) -> bool:
        """Whether fewer messages wait than before."""
        return self.growth < 0


def lag_trend(queues: Iterable[QueueFacts], since: datetime | None = None) -> LagTrend | None:
    """Return the trend over the queues that have two samples; the earlier one not before `since` where that can be.

    None: no queue has two samples.
    """
    growth, longest = 0, timedelta()
    for queue in queues:
        newest = queue.window.seen
        if newest is None or newest.committed_offset is None:
            continue
        known = [point for point in queue.window.points if point.committed_offset is not None]
        later = [point for point in known if since is None or point.at >= since]
        then = (later or known)[-1] if known else None
        if then is None or then.committed_offset is None:
            continue
        before = max(0, then.max_offset - then.committed_offset)
        growth += max(0, newest.max_offset - newest.committed_offset) - before
        longest = max(longest, newest.at - then.at)
    return LagTrend(growth, longest) if longest else None


def finishes_messages(group: GroupFacts) -> bool:
    """Whether the clients of a concurrent group say that they finish messages."""
    return not group.orderly and (group.consume_ok_tps or 0) > 0


def finished_at(queue: QueueFacts, boots: Mapping[str, datetime]) -> datetime | None:
    """Return when its holder last finished a message of a queue; None = not known. `boots`: of `master_boots`.

    A client's last consumption is at first the time at which it took the queue, which all do again once its master is
    back. So within a minute of that a commit must have moved on.
    """
    at, boot_at = queue.last_consume_at, boots.get(queue.message_queue.broker_name)
    if at is None or boot_at is None or not timedelta(0) <= at - boot_at <= RECENTLY:
        return at
    advanced_at = queue.window.advanced_at
    return at if advanced_at is not None and advanced_at >= boot_at else None


def moves(queue: QueueFacts, group: GroupFacts | None, boots: Mapping[str, datetime]) -> bool | None:
    """Whether messages of a queue had just been finished when it was seen; None = nothing tells.

    `boots`: of `master_boots`.

    An orderly client's last consumption is its last attempt, of a message that fails for ever as well
    (ProcessQueue.takeMessages), and another one's may be the time at which it took the queue. So it counts for
    concurrent groups whose clients say that they finish messages. A first commit of the queue's start finishes nothing
    either.
    """
    window = queue.window
    if window.seen_at is None or window.first_seen_at is None:
        return None
    finishes = group is not None and finishes_messages(group)
    moments = [finished_at(queue, boots) if finishes else None]
    # where rounds were missed, it moved at any time since the one before
    if (window.committed_offset or 0) > (window.seen_min_offset or 0) and window.advanced_at != window.first_seen_at:
        moments.append(window.advanced_at)
    if any(moment is not None and window.seen_at - moment <= RECENTLY for moment in moments):
        return True
    return False if window.seen_at - window.first_seen_at >= RECENTLY else None


def most_moves(group: GroupFacts, queues: Iterable[QueueFacts], boots: Mapping[str, datetime]) -> bool | None:
    """Whether the queues that have most of a group's lag in a topic go on; None = nothing tells."""
    standing, moving, unknown = 0, 0, 0
    queues = tuple(queues)
    for queue in queues:
        lag, moved = queue.offsets.effective_lag or 0, moves(queue, group, boots)
        if moved is None:
            unknown += lag
        elif moved:
            moving += lag
        else:
            standing += lag
    if moving == standing == 0:  # windows of one sample; the group's rates tell of all its queues together
        if finished_long_ago(group, queues):
            return False
        rates = (group.consume_tps, None if group.orderly else group.consume_ok_tps)
        return True if any((rate or 0) > 0 for rate in rates) else None
    return moving >= standing + unknown


def finished_long_ago(group: GroupFacts, queues: Collection[QueueFacts]) -> bool:
    """Whether the holders of queues say that they have finished nothing for a while, whatever rates span.

    Those of an orderly group say when they tried to.
    """
    ages = [
        at is not None and seen_at is not None and seen_at - at > RECENTLY
        for at, seen_at in ((one.last_consume_at, one.window.seen_at) for one in queues)
    ]
    return not group.orderly and bool(ages) and all(ages)


@dataclass(frozen=True, slots=True)
class BacklogTrend:
    """A variant of `accumulation`, the state that goes with it, and its figures."""

    variant: str
    state: State
    growth: int | None = None  # messages over the window, of the queues that fall behind
    drained_ms: int | None = None  # at the latest, at the present pace


def backlog_trend(judged: JudgedGroup, now: datetime) -> BacklogTrend | None:
    """Return how the backlog moves; None: nothing waits that is worth a word, or another rule says it.

    Others speak of groups that are offline, and of topics that no client subscribes to.
    """
    in_trouble = judged.in_state(*_TROUBLE)
    if (judged.group.effective_lag or 0) <= 0 or not (judged.above_limit or in_trouble or judged.is_overrun):
        return None
    if judged.offline or judged.in_state(State.UNSUBSCRIBED):
        return None
    state = judged.worst if in_trouble else State.FALLING_BEHIND
    if judged.group.online_client_count is None:
        return BacklogTrend("clients_unknown", state if in_trouble else State.UNKNOWN)
    if judged.in_state(State.STALLED):
        return BacklogTrend("stalled", state)
    behind = judged.in_state(State.FALLING_BEHIND) or (judged.by_rule(*LASTING) if judged.is_overrun else [])
    if behind:
        return BacklogTrend("growing", state, growth=grown_by(behind))
    return _without_trouble(judged, now)


def _without_trouble(judged: JudgedGroup, now: datetime) -> BacklogTrend | None:
    behind = [queue for queue in judged.queues if (queue.offsets.effective_lag or 0) > 0]
    if behind and len(judged.by_rule(*_PASSING)) >= len(behind):
        return None
    if (drained_ms := _drained_ms(judged, now)) is not None:
        return BacklogTrend("draining", State.OK, drained_ms=drained_ms)
    long_known = behind and all(_span(queue) * _PARTS >= judged.policy.window_ms * _MS for queue in behind)
    return BacklogTrend("steady" if long_known else "default", State.FALLING_BEHIND)


def _drained_ms(judged: JudgedGroup, now: datetime) -> int | None:
    """Return when all is drained at the latest: of the forecasts the latest, else at the pace of the newest samples.

    None: not within FURTHEST_MS. At such a pace nothing is caught up with.
    """
    drain = forecasts.group_drain(queue.verdict for queue in judged.queues if queue.verdict is not None)
    if drain is not None and drain.high_ms < FURTHEST_MS:
        return drain.high_ms
    trend = lag_trend(judged.queues, now - judged.policy.window_ms * _MS / _RECENT_PARTS)
    if trend is None or trend.growth >= 0:
        return None
    drained_ms = round((judged.group.effective_lag or 0) * (trend.span / _MS) / -trend.growth)
    return drained_ms if drained_ms < FURTHEST_MS else None


def _span(queue: QueueFacts) -> timedelta:
    window = queue.window
    if window.seen_at is None or window.first_seen_at is None:
        return timedelta(0)
    return window.seen_at - window.first_seen_at
