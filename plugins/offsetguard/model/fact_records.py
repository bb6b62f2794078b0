"""Records that a judgement reads beside the tables: what was not seen, and what is remembered of earlier days."""

from dataclasses import dataclass
from datetime import datetime, timedelta


@dataclass(frozen=True, slots=True)
class CollectionGap:
    """Something that was asked for and not seen: a broker, or requests to one."""

    address: str
    broker_name: str | None  # None: a name server
    broker_id: int | None
    what: str  # e.g. "GET_TOPIC_STATS_INFO orders"
    outcome: str  # refused, timed_out, unreachable, connection_lost, undecodable
    reason: str
    first_missed_at: datetime | None = None  # start of the first of the rounds in a row with one of its kind


@dataclass(frozen=True, slots=True)
class UnseenBrokerFacts:
    """A master that gave no offsets, or a slave that answered nothing.

    The groups of a master are those that the last round to see it saw there; a slave hides none. It stands in the
    manifest as it is.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 pydantic's name, and pydantic is not imported here

    broker_name: str
    unseen_since: datetime | None  # start of the first round without it; None: not known
    consumer_groups: tuple[str, ...] = ()  # the first ones by name
    consumer_group_count: int | None = None  # all of them; None: not known
    broker_id: int = 0
    topics: tuple[
        str, ...
    ] = ()  # the first that a master had when it was seen last; not RocketMQ's own, nor for retries
    created_groups: tuple[str, ...] = ()  # likewise, those with settings there


@dataclass(frozen=True, slots=True)
class VanishedFacts:
    """A topic or consumer group that a master had and has no longer. It stands in the manifest as it is."""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 as above

    name: str
    is_group: bool
    broker_name: str
    last_seen_at: datetime | None  # end of the round before; None: not known
    gone_at: datetime  # start of the first round without it
    waiting_count: int | None  # messages that waited there when it was seen last, of all its groups; None: not seen
    online: bool | None  # clients that consume it were online then; None: not known
    deleted_at: datetime | None = None  # as the broker's log says
    deleted_by: str | None = None  # the thread that did: an operator's request has one, what replication brings another


@dataclass(frozen=True, slots=True)
class BrokerMark:
    """How far a master's commit log reached at a moment of the last days: about one an hour (`store.judge_memory`)."""

    broker_name: str
    at: datetime
    commit_log_min_offset: int
    commit_log_max_offset: int
    earliest_message_at: datetime | None
    disk_ratio: float | None


@dataclass(frozen=True, slots=True)
class Absences:
    """How often and how long no client of a consumer group was online in the last days (`store.judge_memory`)."""

    began_at: tuple[datetime, ...]  # starts of those that ended, oldest first
    longest: timedelta  # of these
    away_since: datetime | None = None  # the first look without a client in the one that goes on
    back_since: datetime | None = None  # the first look with one again after the newest, where none goes on
