"""Consumer groups as their verdicts show them: what the rules about lag and loss look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from offsetguard.catalogue import Sentence
from offsetguard.config import Config, EffectivePolicy
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence.lookups import queues_by_group
from offsetguard.judge.evidence.move_causes import HANDOVER
from offsetguard.judge.evidence.unseen import names
from offsetguard.judge.forecasts.broker_retentions import tiered_broker_names
from offsetguard.judge.windows.windows import above_limit
from offsetguard.model.verdicts import CannotTell, Figure, State
from offsetguard.tables.group_facts import GroupFacts
from offsetguard.tables.queue_state import WINDOW, QueueState
from offsetguard.tables.state import POINT_COUNT

_LEAST_WAITING = 10  # messages
_COMMITTED_WITHIN = timedelta(seconds=20)  # a client's interval of 5 s, a slow message, and a reading
_FIRST_SEEN_WITHIN = timedelta(minutes=3)  # a rebalance, a first commit, and a round or two


@dataclass(frozen=True, slots=True)
class JudgedGroup:
    """One (consumer group, topic) with its suspect queues and their verdicts."""

    group: GroupFacts
    policy: EffectivePolicy
    queues: tuple[QueueFacts, ...]

    def in_state(self, *states: State) -> list[QueueFacts]:
        """Return the queues in one of some states."""
        return [queue for queue in self.queues if queue.verdict is not None and queue.verdict.state in states]

    def by_rule(self, *rules: str) -> list[QueueFacts]:
        """Return the queues on which one of some window rules fired."""
        return [queue for queue in self.queues if queue.verdict is not None and queue.verdict.rule in rules]

    @property
    def above_limit(self) -> bool:
        """Whether more waits, or for longer, than the policy allows."""
        return above_limit(self.group, self.policy)

    @property
    def offline(self) -> bool:
        """Whether it is known that no client is online."""
        return self.group.online_client_count == 0

    def stands_still(self, now: datetime) -> bool:
        """Whether no queue moves in which messages wait, and more have come since: that is loud before any limit is.

        Not while a client has just come, or has just taken queues of one that went: it commits seconds after it has
        them.
        """
        waiting = [queue for queue in self.queues if (queue.offsets.effective_lag or 0) > 0]
        still = [one for one in self.in_state(State.STALLED, State.STOPPED) if not self._just_taken(one, now)]
        started_at = self.group.newest_client_start_at
        just_came = started_at is not None and now - started_at <= HANDOVER
        if is_little(waiting) or just_came or self.group.unknown_queue_count or len(still) < len(waiting):
            return False
        return any(map(more_came, still))

    def _just_taken(self, queue: QueueFacts, now: datetime) -> bool:
        """Whether its holder took it, or finished a message of it, since it could commit; orderly ones only try."""
        at = queue.last_consume_at
        return not self.group.orderly and at is not None and now - at <= _COMMITTED_WITHIN

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
            known_since = _known_since(window) if window is not None else None
            if window is None or known_since is None:
                return False
            before = unseen_at if unseen_at and known_since - WINDOW <= unseen_at <= known_since else None
            looked_at = before or known_since
            began_at = started_at or before  # a busy client may not tell
            if began_at is None or not looked_at - _FIRST_SEEN_WITHIN <= began_at <= known_since + _FIRST_SEEN_WITHIN:
                return False
            first = window.points[-1] if window.points else None
            waited_then += lag if first is None else max(0, first.max_offset - (first.committed_offset or 0))
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
    return sum(queue.offsets.effective_lag or 0 for queue in queues) < _LEAST_WAITING


def more_came(queue: QueueFacts) -> bool:
    """Whether messages were written after the last movement of the committed offset."""
    window = queue.window
    if window is None or window.max_unchanged_since is None:
        return False
    moments = [window.advanced_at, window.end_reached_at, window.first_seen_at]
    return all(moment is None or moment < window.max_unchanged_since for moment in moments)


def judged_groups(facts: IntervalFacts, config: Config) -> Iterator[JudgedGroup]:
    """Yield the groups that have a lag: no system topics or groups, no broadcasting groups."""
    queues = queues_by_group(facts)
    for group in facts.groups:
        if group.topic_kind == "system" or group.system_group or group.message_model == "BROADCASTING":
            continue
        policy = config.policy(facts.cluster, group.consumer_group)
        yield JudgedGroup(group, policy, tuple(queues.get((group.consumer_group, group.topic), ())))


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


def unseen_brokers(rule_id: str, facts: IntervalFacts) -> Iterator[CannotTell]:
    """Say that nothing is known of the queues on brokers that gave no offsets."""
    if facts.unseen_broker_names:
        yield CannotTell(rule_id, None, facts.unseen_broker_names, Sentence("offsets_not_seen"))
