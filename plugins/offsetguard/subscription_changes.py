"""Subscriptions that changed, and members of a group that subscribe differently: the pure side.

`offsetguard_spark.subscriptions` makes the same of the Iceberg tables; cases in tests/unit/log_facts/subscriptions.yml
and a property test hold the two equal. What both do:

1. A group's lines about a topic, of the look-back window. Each replica of each broker writes them, so the counts are
   those of the replica that wrote most. Clients raise `subVersion` at every rebalance, so a line whose expression is
   the same is noise; the version is never compared. Two expressions with the same tags are the same (`expression`).
2. Members, of this interval only: the newest running info of each client that was asked. Only what a client itself
   says shows a mismatch all the time; the brokers keep one subscription for the whole group, the newest one.
3. `%RETRY%` topics are left out: every client subscribes to its own group's.
A (group, topic) has a fact when there is a line, or when the members differ.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from offsetguard.facts import SubscriptionFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

Row = dict[str, Any]
_Key = tuple[str, str]  # consumer group, topic

ADDED, REFRESHED, CHANGED, REMOVED = (
    "subscription_added",
    "subscription_refreshed",
    "subscription_changed",
    "subscription_removed",
)
KINDS = (ADDED, REFRESHED, CHANGED, REMOVED)
RETRY_PREFIX = "%RETRY%"
EVERYTHING = "*"
TAG = "TAG"
MOST_CLIENTS = 20


def expression(sub_string: str | None, expression_type: str | None = None) -> str | None:
    """Return a subscription's expression as we compare and show it; None when it is not known.

    Tags are sorted, each once; the empty expression means every message. A type other than TAG is shown before it.
    """
    if sub_string is None:
        return None
    parts = {part.strip(" ") for part in sub_string.split("||")} - {""}
    text = " || ".join(sorted(parts)) or EVERYTHING
    return text if expression_type in {None, TAG} else f"{expression_type}: {text}"


class _Line(NamedTuple):
    """One line of one replica's log; lines that are equal in all are one."""

    broker_name: str | None
    broker_id: int | None
    position: int
    at: datetime
    kind: str
    before: str | None
    after: str | None


def subscription_facts(events: Iterable[Row], clients: Iterable[Row], since: datetime) -> list[SubscriptionFacts]:
    """Return the facts of one cluster, in no order.

    `events`: `log_events` rows, of which lines from `since` on count. `clients`: the interval's `client_snapshots`.
    """
    told: dict[_Key, dict[str, Any]] = {key: _told(lines) for key, lines in _lines(events, since).items()}
    seen = _seen(clients)
    differing = {key for key, one in seen.items() if one["mismatch"]}
    return [SubscriptionFacts(*key, **(told.get(key, {}) | seen.get(key, {}))) for key in told.keys() | differing]


def _lines(events: Iterable[Row], since: datetime) -> dict[_Key, set[_Line]]:
    lines: dict[_Key, set[_Line]] = defaultdict(set)
    for event in events:
        group, topic = event["consumer_group"], event["topic"]
        if event["kind"] not in KINDS or event["at"] is None or event["at"] < since or group is None or topic is None:
            continue
        if topic.startswith(RETRY_PREFIX):
            continue
        lines[group, topic].add(_line(event, json.loads(event["fields_json"])))
    return lines


def _line(event: Mapping[str, Any], fields: Mapping[str, Any]) -> _Line:
    kind, before, after = event["kind"], None, None
    if kind == CHANGED:
        before = expression(fields.get("old_sub_string"), fields.get("old_expression_type"))
        after = expression(fields.get("new_sub_string"), fields.get("new_expression_type"))
        if before is not None and before == after:  # the same tags in another order
            kind, before, after = REFRESHED, None, None
    return _Line(event["broker_name"], event["broker_id"], event["position"], event["at"], kind, before, after)


def _told(lines: Iterable[_Line]) -> dict[str, Any]:
    per_replica: dict[str, Counter[tuple[str | None, int | None]]] = {kind: Counter() for kind in KINDS}
    for line in lines:
        per_replica[line.kind][line.broker_name, line.broker_id] += 1
    most = {kind: max(counts.values(), default=0) for kind, counts in per_replica.items()}
    changes = [line for line in lines if line.kind == CHANGED]
    newest = max(changes, key=lambda line: (line.at, line.position, line.before or "", line.after or ""), default=None)
    return {
        "refreshed_count": most[REFRESHED],
        "changed_count": most[CHANGED],
        "added_count": most[ADDED],
        "removed_count": most[REMOVED],
        "first_changed_at": min((line.at for line in changes), default=None),
        "last_changed_at": newest.at if newest else None,
        "changed_from": newest.before if newest else None,
        "changed_to": newest.after if newest else None,
        "changed_expressions": tuple(sorted({one for line in changes for one in (line.before, line.after) if one})),
    }


class _Member(NamedTuple):
    """What the newest running info of one client says."""

    expressions: dict[str, str]  # topic -> expression
    start_at: datetime | None


def _seen(clients: Iterable[Row]) -> dict[_Key, dict[str, Any]]:
    rows = list(clients)
    held: dict[_Key, set[str]] = defaultdict(set)
    for row in rows:
        for topic, text in _pairs(row["subscriptions"]):
            held[row["consumer_group"], topic].add(text)
    facts = {}
    for group, members in _members(rows).items():
        topics = {topic for member in members.values() for topic in member.expressions}
        for topic in topics:
            facts[group, topic] = _compared(topic, members, held[group, topic])
    return facts


def _members(rows: Iterable[Row]) -> dict[str, dict[str, _Member]]:
    """Return the members by group and client id; several replicas may have a row of one client."""
    newest: dict[tuple[str, str], Row] = {}
    for row in rows:
        if row["own_subscriptions"] is not None and row["running_info_read_at"] is not None:
            key = row["consumer_group"], row["client_id"]
            if key not in newest or _newer(row) > _newer(newest[key]):
                newest[key] = row
    groups: dict[str, dict[str, _Member]] = defaultdict(dict)
    for (group, client_id), row in newest.items():
        groups[group][client_id] = _Member(_by_topic(row["own_subscriptions"]), row["consumer_start_at"])
    return groups


def _newer(row: Row) -> tuple[Any, ...]:
    return row["running_info_read_at"], row["broker_name"], row["broker_id"]


def _by_topic(subscriptions: Iterable[str] | None) -> dict[str, str]:
    """Return topic -> expression; a client has one subscription per topic, of two the greater text counts."""
    return dict(sorted(_pairs(subscriptions)))


def _pairs(subscriptions: Iterable[str] | None) -> Iterator[tuple[str, str]]:
    """Yield (topic, expression) of texts `topic expression`."""
    for text in subscriptions or ():
        topic, _, sub_string = text.partition(" ")
        if not topic.startswith(RETRY_PREFIX):
            yield topic, expression(sub_string) or EVERYTHING


def _compared(topic: str, members: Mapping[str, _Member], held: set[str]) -> dict[str, Any]:
    own = {client_id: one.expressions[topic] for client_id, one in members.items() if topic in one.expressions}
    unsubscribed = sorted(members.keys() - own.keys())
    losing = sorted(client_id for client_id, text in own.items() if held and text not in held)
    different = sorted(set(own.values()))
    return {
        "member_count": len(members),
        "member_expressions": tuple(different),
        "broker_expressions": tuple(sorted(held)),
        "losing_member_count": len(losing) if held else None,
        "losing_client_ids": tuple(losing[:MOST_CLIENTS]),
        "unsubscribed_member_count": len(unsubscribed),
        "unsubscribed_client_ids": tuple(unsubscribed[:MOST_CLIENTS]),
        "newest_member_start_at": max((one.start_at for one in members.values() if one.start_at), default=None),
        "mismatch": len(different) > 1 or bool(unsubscribed),
    }
