"""Sections `groups` and `judgement`: a consumer group's owner and limits, and what rules look at."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, StrictBool, StrictInt

from offsetguard.config.fields import (
    Count,
    Entry,
    Glob,
    Milliseconds,
    Name,
    Section,
    Window,
    first_to_set,
    matcher,
    matches,
)


class Judgement(Section):
    """Spans of time that the rules look at, and what brokers may be off by."""

    offset_move_window_ms: Milliseconds = 30 * 60_000  # how far back moved offsets of a group are counted together
    traffic_weeks: Annotated[StrictInt, Field(ge=2, le=52)] = (
        3  # earlier weeks without which no traffic is called unusual
    )
    log_window_ms: Milliseconds = 30 * 60_000  # of log lines about rebalance locks and subscriptions
    clock_skew_ms: Annotated[StrictInt, Field(ge=2_000)] = 10_000  # a broker's clock that is off by more is wrong
    slave_behind_ms: Milliseconds = 60_000  # a slave lacks at least so much of what its master writes: a finding
    disk_full_within_ms: Milliseconds = 4 * 3_600_000  # a disk from which files go by force within it: a finding


class GroupPolicy(Entry):
    """What holds for the consumer groups that a pattern matches; the first entry that names a field wins."""

    match: Glob  # glob on the consumer group, case matters
    cluster: Glob = "*"  # glob on the cluster's name
    team: Name | None = None  # who owns these groups
    max_lag_messages: Count | None = None  # more messages waiting than this is a finding
    max_lag_ms: Milliseconds | None = None  # the oldest waiting message is older than this: also a finding
    allowed_lag: Count | None = None  # messages that may wait for ever in a queue, as transaction markers leave them
    lag_floor: Count | None = None  # growth by fewer messages, that are also younger than lag_floor_ms, is no trouble
    lag_floor_ms: Milliseconds | None = None  # see lag_floor
    window_ms: Window | None = None  # how far back a queue's state looks
    loss_horizon_ms: Milliseconds | None = None  # messages that will be deleted unconsumed within it are AT_RISK
    orderly: StrictBool | None = None  # consumes with MessageListenerOrderly: its locks are checked
    lock_interval_ms: Milliseconds | None = None  # declared: -Drocketmq.client.rebalance.lockInterval of its clients


class WindowPolicy(Section):
    """By what the window of a queue is judged (`windows.py`): no limits, but what is too little to speak of."""

    allowed_lag: Count = 0  # messages that may wait for ever, e.g. where transaction markers leave a lag of 1
    lag_floor: Count = 1_000  # growth by fewer messages, that are also younger than lag_floor_ms, is no trouble
    lag_floor_ms: Milliseconds = 60_000
    window_ms: Milliseconds = 30 * 60_000
    loss_horizon_ms: Milliseconds = 4 * 3_600_000  # a loss further ahead is not yet a risk


MOST_REMEMBERED = 50_000  # groups of a cluster: anybody may commit under made-up names


class EffectivePolicy(WindowPolicy):
    """What holds for one consumer group of one cluster, with defaults filled in."""

    team: Name
    max_lag_messages: Count = 10_000
    max_lag_ms: Milliseconds = 5 * 60_000
    orderly: StrictBool = False
    lock_interval_ms: Milliseconds = 20_000


GroupPolicy.SETS = EffectivePolicy.key_names()


class Policies:
    """The policies of one configuration. Remembers what it found: every rule asks it for every group."""

    def __init__(self, entries: Sequence[GroupPolicy], default_team: str) -> None:
        """Take the sections of the file."""
        self._entries = entries
        self._default_team = default_team
        self._matchers = [matcher(entry.match) for entry in entries]
        self._found: defaultdict[str, dict[str, EffectivePolicy]] = defaultdict(dict)  # by cluster
        self._merged: dict[tuple[int, ...], EffectivePolicy] = {}

    def deciders(self, cluster: str, consumer_group: str) -> dict[str, int]:
        """Return for each field that an entry sets for a group the position of the first one that does."""
        return first_to_set(self._entries, self._matching(cluster, consumer_group))

    def of(self, cluster: str, consumer_group: str) -> EffectivePolicy:
        """Return what holds for a group of a cluster, with defaults filled in."""
        found = self._found[cluster]
        if consumer_group not in found:
            policy = self._merge(self._matching(cluster, consumer_group))
            if len(found) >= MOST_REMEMBERED:
                return policy
            found[consumer_group] = policy
        return found[consumer_group]

    def _matching(self, cluster: str, consumer_group: str) -> tuple[int, ...]:
        found = [position for position, match in enumerate(self._matchers) if match(consumer_group)]
        return tuple(position for position in found if matches(cluster, self._entries[position].cluster))

    def _merge(self, positions: tuple[int, ...]) -> EffectivePolicy:
        if positions not in self._merged:
            deciders = first_to_set(self._entries, positions)
            values = {name: getattr(self._entries[position], name) for name, position in deciders.items()}
            self._merged[positions] = EffectivePolicy.model_validate({"team": self._default_team, **values})
        return self._merged[positions]
