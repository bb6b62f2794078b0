"""Records that a judgement reads beside the tables: what was not seen, what is remembered, what clients' threads do."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from pydantic import TypeAdapter, ValidationError


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
class Unreached:
    """A team of which no receiver accepted what was written to it (`store.outbox`)."""

    team: str
    since: datetime  # when the oldest message of these was written
    message_count: int
    because: str  # the reason of one of them


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


@dataclass(frozen=True, slots=True)
class ThreadStack:
    """Threads with one stack: where they are in the application's code, and what that has called."""

    count: int
    state: str  # java.lang.Thread.State, e.g. BLOCKED, TIMED_WAITING, RUNNABLE
    frames: tuple[
        str, ...
    ]  # innermost first, `com.acme.OrderListener.consumeMessage:42`; "..." where some are left out
    called: str | None = None  # method of the JDK or of RocketMQ that the innermost one called
    waits_for_network: bool = False  # by its innermost method, which Java calls RUNNABLE
    thread: str | None = None  # name of a service thread of the client; None: consume threads


@dataclass(frozen=True, slots=True)
class ClientStacks:
    """The consume threads of a client, most threads first; and its service threads that are in the application's code.

    Without stacks and without `cannot_tell` only the moment is known: what was seen then is over.
    """

    client_id: str
    taken_at: datetime
    thread_count: int = 0  # consume threads
    idle_count: int = 0  # of these, those that wait for messages
    stacks: tuple[ThreadStack, ...] = ()
    cannot_tell: str | None = None  # key of a sentence of the catalogue: why nobody knows
    asked: bool = True  # False: nobody asked this client for its stacks

    @property
    def other_count(self) -> int:
        """Consume threads whose stacks are not among those that are kept."""
        kept = sum(one.count for one in self.stacks if one.thread is None)
        return max(0, self.thread_count - self.idle_count - kept)

    @property
    def is_known(self) -> bool:
        """Whether there is something to be said."""
        return self.cannot_tell is not None or self.thread_count > 0 or bool(self.stacks)


_STACKS: TypeAdapter[ClientStacks] = TypeAdapter(ClientStacks)


def as_text(stacks: ClientStacks) -> str:
    """Return it as JSON, as it is kept in a column."""
    return _STACKS.dump_json(stacks, exclude_defaults=True).decode()


def of_text(text: str | None) -> ClientStacks | None:
    """Return what a column keeps; None for what another release wrote and this one cannot read."""
    try:
        return None if text is None else _STACKS.validate_json(text)
    except ValidationError:
        return None
