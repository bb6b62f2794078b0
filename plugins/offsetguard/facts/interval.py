"""Everything about one cluster and interval, and what of it no table has as such."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from offsetguard.records import record
from offsetguard.tables.columns import ClientSummary

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from offsetguard.facts.gaps import CollectionGap, UnseenBrokerFacts
    from offsetguard.facts.queues import QueueFacts
    from offsetguard.intervals import Interval
    from offsetguard.tables.broker_facts import BrokerFacts, ClusterFacts
    from offsetguard.tables.facts import OffsetMoveFacts, TopicFacts
    from offsetguard.tables.gate import InvariantResult
    from offsetguard.tables.group_facts import GroupFacts
    from offsetguard.tables.log_facts import LockWaitFacts, LogLineFacts, SubscriptionFacts
    from offsetguard.verdicts import State


@record(kw_only=True)
class OnlineGroupFacts(ClientSummary):
    """A consumer group with clients online; one that broadcasts has no queue with an offset, and so no GroupFacts."""

    consumer_group: str
    message_model: str


@dataclass(frozen=True, slots=True)
class TrafficHour:
    """What was written to a topic in the hour that has just passed, and in the same hour of earlier weeks."""

    topic: str
    hour_start_at: datetime
    hour_tps: float
    usual_tps: float  # mean of the earlier weeks
    usual_spread_tps: float  # their standard deviation
    week_count: int  # earlier weeks


@dataclass(frozen=True, slots=True)
class BrokerMark:
    """How far a master's commit log reached at a moment of the last days: about one an hour (`store.broker_marks`)."""

    broker_name: str
    at: datetime
    commit_log_min_offset: int
    commit_log_max_offset: int
    earliest_message_at: datetime | None
    disk_ratio: float | None


@dataclass(frozen=True, slots=True)
class Absences:
    """How often and how long no client of a consumer group was online in the last days (`store.absences`)."""

    began_at: tuple[datetime, ...]  # starts of those that ended, oldest first
    longest: timedelta  # of these
    away_since: datetime | None = None  # start of the one that goes on


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
    absences: Mapping[str, Absences] = field(default_factory=dict)  # by consumer group; given by the judge, likewise
    log_lines: tuple[LogLineFacts, ...] = ()
    online_groups: tuple[OnlineGroupFacts, ...] = ()
    config_problem: str | None = None  # given by the judge: what is wrong with the configuration file, by lines
    queue_states: Mapping[tuple[str, str], Mapping[State, int]] | None = field(default=None, compare=False)
    """By (consumer group, topic), how many suspect queues are in each state; None: not judged yet."""
