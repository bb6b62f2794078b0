"""Facts and configurations as the cases of rules say them (tests/unit/judge/rules/cases/<rule>.yml)."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from offsetguard.config import Config
from offsetguard.facts.duckdb_engine import windows_of
from offsetguard.facts.interval import IntervalFacts, OnlineGroupFacts, QueueFacts, TrafficHour
from offsetguard.model.fact_records import (
    Absences,
    BrokerMark,
    CollectionGap,
    Unreached,
    UnseenBrokerFacts,
    VanishedFacts,
)
from offsetguard.model.intervals import Interval
from offsetguard.model.offsets import MessageQueue, QueueOffsets
from offsetguard.tables.broker_facts import BrokerFacts
from offsetguard.tables.facts import OffsetMoveFacts, TopicFacts
from offsetguard.tables.group_facts import GroupFacts
from offsetguard.tables.log_facts import LockWaitFacts, LogLineFacts, SubscriptionFacts
from offsetguard.tables.queue_state import QueueState, Sample
from offsetguard_peers.configs import one_team
from offsetguard_peers.judging.records import one_sample

START = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
END = Interval(START).end
# fields without a default, where a case does not say them
UNSAID: dict[type, dict[str, Any]] = {
    GroupFacts: {
        "topic": "orders",
        "topic_kind": "normal",
        "queue_count": 4,
        "unknown_queue_count": 0,
        "never_committed_queue_count": 0,
    },
    TopicFacts: {"topic_kind": "normal", "queue_count": 4, "consumer_group_count": 1, "message_count": None},
    BrokerFacts: {"broker_id": 0, "listed": True, "answered": True},
    BrokerMark: {"broker_name": "broker-a", "earliest_message_at": None, "disk_ratio": None},
    LockWaitFacts: {
        **dict.fromkeys(("holder_client_id", "waiter_client_id", "ended_at", "ended_by", "next_holder_client_id")),
        "topic": "orders",
        "broker_name": "broker-a",
        "queue_id": 0,
        "told_by": "broker",
        "refusal_count": 1,
    },
    SubscriptionFacts: {"topic": "orders"},
    VanishedFacts: {"broker_name": "broker-a", "waiting_count": None, "online": None},
}


History = tuple[tuple[datetime, Sample], ...]

_AS_GIVEN = ("cluster_unseen", "config_problem", "logs_read", "audited", "publication_ms")

_MOMENTS = ("unpublished_since_s_ago", "first_landed_s_ago", "publication_ended_s_ago")


def facts_of(given: dict[str, Any]) -> IntervalFacts:
    """Build facts: `..._s_ago` is seconds before the interval's end; offsets are [min, consumer, pull, max].

    `seen_s_ago`: the look, which is at the end where nothing is said.
    """
    return IntervalFacts(
        cluster="demo",
        interval=Interval(START),
        now=END - timedelta(seconds=given.get("seen_s_ago", 0)),
        queues=tuple(_queue(entry) for entry in given.get("queues", ())),
        groups=tuple(record(GroupFacts, entry) for entry in given.get("groups", ())),
        offset_moves=tuple(_move(entry) for entry in given.get("offset_moves", ())),
        gaps=tuple(record(CollectionGap, entry) for entry in given.get("gaps", ())),
        unseen_broker_names=frozenset(given.get("unseen_broker_names", ())),
        **{name: given[name] for name in _AS_GIVEN if name in given},
        **dict(_field(*item) for item in given.items() if item[0] in _MOMENTS),
        topics=tuple(record(TopicFacts, entry) for entry in given.get("topics", ())),
        brokers=tuple(record(BrokerFacts, entry) for entry in given.get("brokers", ())),
        broker_marks=tuple(record(BrokerMark, entry) for entry in given.get("broker_marks", ())),
        unreached=tuple(record(Unreached, entry) for entry in given.get("unreached", ())),
        lock_waits=tuple(record(LockWaitFacts, entry) for entry in given.get("lock_waits", ())),
        vanished=tuple(record(VanishedFacts, entry) for entry in given.get("vanished", ())),
        unseen_brokers=tuple(record(UnseenBrokerFacts, entry) for entry in given.get("unseen_brokers", ())),
        traffic_hours=tuple(record(TrafficHour, entry) for entry in given.get("traffic_hours", ())),
        subscriptions=tuple(record(SubscriptionFacts, entry) for entry in given.get("subscriptions", ())),
        absences={name: _absences(entry) for name, entry in given.get("absences", {}).items()},
        online_groups=tuple(record(OnlineGroupFacts, entry) for entry in given.get("online_groups", ())),
        log_lines=tuple(log_line(entry) for entry in given.get("log_lines", ())),
    )


def record(kind: type, entry: dict[str, Any]) -> Any:
    """Build a typed record by its field names: `x_s_ago` gives x_at, a list a tuple; the rest stays as it is."""
    return kind(**{**UNSAID.get(kind, {}), **dict(_field(*item) for item in entry.items())})


def _field(name: str, value: Any) -> tuple[str, Any]:
    if name == "s_ago":
        return "at", END - timedelta(seconds=value)
    if name.endswith("_s_ago"):
        moment = name.removesuffix("_s_ago")
        return moment if moment.endswith("since") else f"{moment}_at", END - timedelta(seconds=value)
    return name, tuple(value) if isinstance(value, list) else value


def _absences(entry: dict[str, Any]) -> Absences:
    """Build absences: `began_h_ago` and `longest_min` of those that ended, `away_min` of the one that goes on.

    Or `back_min`: since when the group is back.
    """
    began = sorted(END - timedelta(hours=hours) for hours in entry["began_h_ago"])
    away, back = (END - timedelta(minutes=entry[key]) if key in entry else None for key in ("away_min", "back_min"))
    return Absences(tuple(began), timedelta(minutes=entry["longest_min"]), away, back)


def log_line(entry: dict[str, Any]) -> LogLineFacts:
    """Build lines of one kind; `lines` and `spell` are [count, seconds ago of the first, and of the last]."""
    count, first, last = entry["lines"]
    spell_count, spell_first = entry.get("spell", (count, first))
    return record(  # type: ignore[no-any-return]
        LogLineFacts,
        {
            "topic": None,
            "source": "broker-a-0",
            "broker_name": "broker-a",
            "queue_id": None,
            **{name: value for name, value in entry.items() if name not in ("lines", "spell", "fields")},
            "line_count": count,
            "first_s_ago": first,
            "last_s_ago": last,
            "spell_line_count": spell_count,
            "spell_first_s_ago": spell_first,
            "newest_fields_json": json.dumps(entry.get("fields", {})),
        },
    )


def _queue(entry: dict[str, Any]) -> QueueFacts:
    """Build a suspect queue; `samples` are [seconds ago, min, consumer, pull, max], which its window is folded of."""
    fold_ahead([{"queues": [entry]}])
    said = {name: value for name, value in entry.items() if name not in ("offsets", "queue", "samples", "topic")}
    offsets = _offsets(entry)
    fixed = {
        "message_queue": _message_queue(entry),
        "offsets": offsets,
        "violated_invariants": tuple(violation.value for violation in offsets.order_violations()),
        "window": _WINDOWS[_history(entry)],
    }
    return QueueFacts(
        **{"last_timestamp": None, "lag_ms": None, **fixed, **dict(_field(*item) for item in said.items())}
    )


_WINDOWS: dict[History, QueueState] = {}


def fold_ahead(given: Iterable[dict[str, Any]]) -> None:
    """Fold the windows of the facts of many cases in one query: it costs as much as one for a single queue."""
    wanted = {_history(entry) for facts in given for entry in facts.get("queues", ())} - _WINDOWS.keys()
    if wanted:
        _WINDOWS.update(windows_of({history: list(history) for history in wanted}))


def _history(entry: dict[str, Any]) -> History:
    """Return a queue's samples; where none are given, one of its offsets, read now."""
    if entry.get("samples"):
        return tuple(_sample(*one) for one in entry["samples"])
    return ((END, one_sample(_offsets(entry), END)),)


def _offsets(entry: dict[str, Any]) -> QueueOffsets:
    given = entry["offsets"] if "offsets" in entry else entry["samples"][-1][1:]
    min_offset, consumer_offset, pull_offset, max_offset = given
    return QueueOffsets(min_offset, max_offset, consumer_offset, pull_offset)


def _sample(
    s_ago: float, min_offset: int, consumer_offset: int | None, pull_offset: int | None, max_offset: int
) -> tuple[datetime, Sample]:
    at = END - timedelta(seconds=s_ago)
    offsets = {
        "min_offset": min_offset,
        "max_offset": max_offset,
        "consumer_offset": consumer_offset,
        "pull_offset": pull_offset,
    }
    read = dict.fromkeys(("consumer_offset_read_at", "pull_offset_read_at", "max_offset_read_at"), at)
    return at, Sample(**offsets, **read)  # type: ignore[arg-type]


def _move(entry: dict[str, Any]) -> OffsetMoveFacts:
    requested, corrected = entry["moved"]
    broker_name, _, queue_id = entry.get("queue", "broker-a/0").partition("/")
    return OffsetMoveFacts(
        consumer_group=entry["consumer_group"],
        client_id=entry.get("client_id"),
        topic=entry.get("topic", "orders"),
        broker_name=broker_name,
        queue_id=int(queue_id) if queue_id else None,
        origin=entry.get("origin", "event"),
        requested_offset=requested,
        corrected_offset=corrected,
        move_count=entry.get("move_count", 1),
        first_moved_at=END - timedelta(seconds=entry.get("first_s_ago", 30)),
        last_moved_at=END - timedelta(seconds=entry.get("last_s_ago", 30)),
        nearest_start_at=_moment(entry.get("nearest_start_s_ago")),
        members_changed_at=_moment(entry.get("members_changed_s_ago")),
    )


def _moment(s_ago: float | None) -> datetime | None:
    return None if s_ago is None else END - timedelta(seconds=s_ago)


def _message_queue(entry: dict[str, Any]) -> MessageQueue:
    broker_name, queue_id = entry.get("queue", "broker-a/0").split("/")
    return MessageQueue(entry.get("topic", "orders"), broker_name, int(queue_id))


def config_of(policies: list[dict[str, Any]]) -> Config:
    """Build a configuration of one cluster and one team with these policies of groups."""
    return one_team(
        {
            "demo": {"name_servers": ["10.0.0.1:9876", "10.0.0.2:9876"], "proxies": ["10.0.0.9:8080"]},
        },
        team="operations",
        groups=policies,
    )
