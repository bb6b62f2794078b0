"""Everything about one cluster and interval."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from offsetguard.facts.brokers import BrokerFacts, BrokerMark, ClusterFacts
    from offsetguard.facts.gaps import CollectionGap, InvariantResult, UnseenBrokerFacts
    from offsetguard.facts.groups import GroupFacts, OnlineGroupFacts
    from offsetguard.facts.look_back import LockWaitFacts, LogLineFacts, OffsetMoveFacts, SubscriptionFacts
    from offsetguard.facts.queues import QueueFacts
    from offsetguard.facts.topics import TopicFacts, TrafficHour
    from offsetguard.intervals import Interval
    from offsetguard.verdicts import State


@dataclass(frozen=True, slots=True)
class IntervalFacts:
    """Everything that the rules may look at, for one cluster and interval. `now` is the interval's end."""

    cluster: str
    interval: Interval
    now: datetime
    queues: tuple[QueueFacts, ...] = ()
    groups: tuple[GroupFacts, ...] = ()
    offset_moves: tuple[OffsetMoveFacts, ...] = ()
    invariant_results: tuple[InvariantResult, ...] = ()
    gaps: tuple[CollectionGap, ...] = ()
    unseen_broker_names: frozenset[str] = field(default_factory=frozenset)  # masters that gave no offsets
    unseen_brokers: tuple[UnseenBrokerFacts, ...] = ()
    traffic_hours: tuple[TrafficHour, ...] = ()  # in the first interval of an hour
    cluster_unseen: bool = False  # no name server answered: nothing at all was seen
    logs_read: bool = False  # logs of brokers or clients: without lines they said nothing
    topics: tuple[TopicFacts, ...] = ()
    brokers: tuple[BrokerFacts, ...] = ()
    cluster_facts: ClusterFacts | None = None  # None: published by an earlier release, or nothing was seen
    lock_waits: tuple[LockWaitFacts, ...] = ()
    subscriptions: tuple[SubscriptionFacts, ...] = ()
    broker_marks: tuple[BrokerMark, ...] = ()  # oldest first; given by the judge: facts of one interval have none
    log_lines: tuple[LogLineFacts, ...] = ()
    online_groups: tuple[OnlineGroupFacts, ...] = ()
    config_problem: str | None = None  # given by the judge: what is wrong with the configuration file, by lines
    queue_states: Mapping[tuple[str, str], Mapping[State, int]] | None = field(default=None, compare=False)
    """By (consumer group, topic), how many suspect queues are in each state; None: not judged yet."""
