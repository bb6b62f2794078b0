"""What happened within the look-back window: moves of offsets, waits for locks, subscriptions, log lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True, slots=True)
class OffsetMoveFacts:
    """Moves of one (group, client, queue, requested offset) within the look-back window."""

    consumer_group: str
    client_id: str | None  # or its address
    topic: str
    broker_name: str
    queue_id: int | None  # None: a log line, and nothing else, tells of the move
    requested_offset: int
    corrected_offset: int
    move_count: int
    first_moved_at: datetime
    last_moved_at: datetime
    origin: str = "event"  # event, log or snapshot


@dataclass(frozen=True, slots=True)
class LockWaitFacts:
    """One wait for a queue's rebalance lock within the look-back window."""

    consumer_group: str
    topic: str
    broker_name: str
    queue_id: int
    holder_client_id: str | None  # None: only a client's log tells of the wait
    waiter_client_id: str | None
    told_by: str  # broker or client
    refusal_count: int
    first_refused_at: datetime
    last_refused_at: datetime
    ended_at: datetime | None  # None: it still waits, or gave up
    ended_by: str | None  # expired or released
    next_holder_client_id: str | None
    waited_ms: int
    holder_online: bool | None = None  # at the interval; None: no holder is named, or the connections were not seen
    holder_start_at: datetime | None = None  # the process of that client id that is online


@dataclass(frozen=True, slots=True)
class SubscriptionFacts:
    """One (consumer group, topic) whose subscription changed, or whose members subscribe differently."""

    consumer_group: str
    topic: str
    refreshed_count: int = 0  # without another expression: noise
    changed_count: int = 0
    added_count: int = 0
    removed_count: int = 0
    first_changed_at: datetime | None = None
    last_changed_at: datetime | None = None
    changed_from: str | None = None
    changed_to: str | None = None
    changed_expressions: tuple[str, ...] = ()
    member_count: int = 0  # members whose own subscriptions were seen
    member_expressions: tuple[str, ...] = ()
    broker_expressions: tuple[str, ...] = ()
    losing_member_count: int | None = None  # None: what brokers hold was not seen
    losing_client_ids: tuple[str, ...] = ()
    unsubscribed_member_count: int = 0
    unsubscribed_client_ids: tuple[str, ...] = ()
    newest_member_start_at: datetime | None = None
    mismatch: bool = False


@dataclass(frozen=True, slots=True)
class LogLineFacts:
    """Lines of one kind that one log has about a group, within the look-back window."""

    consumer_group: str
    topic: str | None  # None: the lines name none
    kind: str
    source: str  # the log: one broker replica's, or one client's
    broker_name: str | None  # that wrote the lines, or that a client's lines are about
    queue_id: int | None
    line_count: int
    first_at: datetime
    last_at: datetime
    spell_line_count: int  # of the newest run of lines without a silence longer than 45 s
    spell_first_at: datetime
    client_ids: tuple[str, ...] = ()  # clients, or addresses, that the lines name; the first 20
    newest_fields_json: str = "{}"
