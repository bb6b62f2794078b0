"""Waits for rebalance locks, made of log lines: the pure side.

`offsetguard_spark.lock_waits` makes the same of the Iceberg table; cases in tests/unit/log_facts/lock_waits.yml and a
property test hold the two equal. What both do, in this order:

1. A line that was read twice (a repeated round; a log file read in a round and again as a whole) counts once.
2. What clients' logs say of a queue counts only where no broker's log tells of a refusal: a client names neither itself
   nor the holder, so it cannot complete the broker's line.
3. The lines of a queue are put in order. When some client gets the lock, all waits for the queue are over.
4. A wait is the refusals of one (queue, holder, waiter) between two such moments. A waiter is refused at each of its
   rebalances (20 s); where it is silent for longer than SILENCE it gave up, and a later refusal begins a new wait.
5. A wait ends when a client gets the lock within SILENCE of the last refusal; otherwise its end is not known.
6. A client that gets an expired lock without a refusal since somebody last got it has not waited: its wait has no
   refusals and lasts 0 ms. It tells that the holder had not renewed in time.

Whether the holder lives is not in the lines: `with_holders` looks it up among the group's clients.

Source of the lines: `logs.lock`, `logs.client`. A renewal prints nothing.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from offsetguard.facts import LockWaitFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

Row = dict[str, Any]

SILENCE = timedelta(seconds=90)  # four rebalances and a late one


class Said(StrEnum):
    """What a line says of a queue's lock."""

    REFUSED = "refused"
    EXPIRED = "expired"  # a client got it, for its holder had not renewed it
    RELEASED = "released"  # a client got it, for nobody held it any more
    GRANTED = "granted"  # a client got it, and does not know why


BROKER, CLIENT = "broker", "client"
OF_BROKERS = {"lock_refused": Said.REFUSED, "lock_expired": Said.EXPIRED, "lock_taken": Said.RELEASED}
OF_CLIENTS = ("client_lock_result", "client_lock_renewal")
OUTCOMES = {"Failed": Said.REFUSED, "OK": Said.GRANTED}  # field `outcome` of the clients' lines
KINDS = (*OF_BROKERS, *OF_CLIENTS)


class _Queue(NamedTuple):
    consumer_group: str
    topic: str
    broker_name: str
    queue_id: int


class _Line(NamedTuple):
    """One line of one queue; lines are ordered by their fields, and lines that are equal in all are one."""

    at: datetime
    position: int
    said: Said
    holder: str  # "" = not named
    client: str
    told_by: str


def lock_wait_facts(events: Iterable[Row], since: datetime) -> list[LockWaitFacts]:
    """Return the waits that `log_events` rows of one cluster tell of, of lines from `since` on, in no order."""
    queues: dict[_Queue, set[_Line]] = defaultdict(set)
    for event in events:
        if event["kind"] in KINDS and event["at"] is not None and event["at"] >= since:
            fields = json.loads(event["fields_json"])
            queue = _Queue(event["consumer_group"], event["topic"], fields.get("broker_name"), event["queue_id"])
            line = _line(event, fields)
            if line is not None and None not in queue:
                queues[queue].add(line)
    return [wait for queue, lines in queues.items() for wait in _waits(queue, lines)]


def with_holders(waits: Iterable[LockWaitFacts], clients: Iterable[Row], groups: Iterable[Row]) -> list[LockWaitFacts]:
    """Return the waits with what the clients of this interval tell of their holders.

    `clients`: rows of `client_snapshots`. `groups`: rows of `group_snapshots`; a group without `online_client_count`
    has clients that nobody saw.
    """
    started: dict[tuple[str, str], datetime | None] = {}
    for row in clients:
        key, start = (row["consumer_group"], row["client_id"]), row["consumer_start_at"]
        known = started.get(key)
        started[key] = start if known is None or (start is not None and start > known) else known
    seen = {row["consumer_group"] for row in groups if row["online_client_count"] is not None}
    return [
        replace(
            wait,
            holder_online=(wait.consumer_group, wait.holder_client_id) in started,
            holder_start_at=started.get((wait.consumer_group, wait.holder_client_id)),
        )
        if wait.holder_client_id is not None and wait.consumer_group in seen
        else wait
        for wait in waits
    ]


def _line(event: Mapping[str, Any], fields: Mapping[str, Any]) -> _Line | None:
    at, position = event["at"], event["position"]
    if event["kind"] in OF_BROKERS:
        holder, client = fields.get("holder_client_id") or "", event["client_id"] or ""
        return _Line(at, position, OF_BROKERS[event["kind"]], holder, client, BROKER)
    said = OUTCOMES.get(fields.get("outcome") or "")
    return None if said is None else _Line(at, position, said, "", "", CLIENT)


def _waits(queue: _Queue, lines: Iterable[_Line]) -> Iterator[LockWaitFacts]:
    broker_tells = any(line.said is Said.REFUSED and line.told_by == BROKER for line in lines)
    refusals: list[_Line] = []
    for line in sorted(lines):
        if broker_tells and line.told_by == CLIENT:
            continue
        if line.said is Said.REFUSED:
            refusals.append(line)
            continue
        if line.said is Said.EXPIRED and not refusals:
            yield _wait(queue, (line,), line, refusal_count=0)
        yield from _ended(queue, refusals, line)
        refusals = []
    yield from _ended(queue, refusals, None)


def _ended(queue: _Queue, refusals: Iterable[_Line], got: _Line | None) -> Iterator[LockWaitFacts]:
    """Yield the waits of refusals between which nobody got the lock. `got`: the line that says who got it then."""
    pairs: dict[tuple[str, str], list[_Line]] = defaultdict(list)
    for line in refusals:
        pairs[line.holder, line.client].append(line)
    for same in pairs.values():
        begins = 0
        for number, (line, following) in enumerate(zip(same, [*same[1:], None], strict=True), start=1):
            if following is None or following.at - line.at > SILENCE:
                yield _wait(queue, same[begins:number], got, refusal_count=number - begins)
                begins = number


def _wait(queue: _Queue, lines: Sequence[_Line], got: _Line | None, *, refusal_count: int) -> LockWaitFacts:
    """Return the wait of refusals of one client, or of the line by which it got an expired lock without any."""
    first, last = lines[0], lines[-1]
    end = got if got is not None and got.at - last.at <= SILENCE else None
    return LockWaitFacts(
        **queue._asdict(),
        holder_client_id=first.holder or None,
        waiter_client_id=first.client or None,
        told_by=first.told_by,
        refusal_count=refusal_count,
        first_refused_at=first.at,
        last_refused_at=last.at,
        ended_at=end.at if end else None,
        ended_by=end.said.value if end and end.said is not Said.GRANTED else None,
        next_holder_client_id=(end.client or None) if end else None,
        waited_ms=((end or last).at - first.at) // timedelta(milliseconds=1),
    )
