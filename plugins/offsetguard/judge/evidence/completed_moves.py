"""Offset moves, completed by what clients' own logs say: "the pull request offset illegal" names the queue.

A 5.x broker's line of a correction names neither queue nor client id; where no broker tells of a move at all (its log
is not read), the client's line is all there is.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from offsetguard.facts.interval import IntervalFacts
from offsetguard.tables.facts import OffsetMoveFacts
from offsetguard.tables.log_facts import LogLineFacts

_ILLEGAL = "client_offset_illegal"
_Request = tuple[str, str, str, int]  # group, topic, broker, requested offset


def completed_moves(facts: IntervalFacts) -> Iterator[OffsetMoveFacts]:
    """Yield the moves of the facts with the queues that clients name, and moves that only clients tell of."""
    by_request: dict[_Request, list[OffsetMoveFacts]] = defaultdict(list)
    for line in facts.log_lines:
        move = _move(line)
        if move is not None:
            by_request[_request(move)].append(move)
    named: set[tuple[str, str, str, int | None]] = set()
    completed: set[_Request] = set()
    # a broker's lines of one request are two moves where some of them name no client: the one that names it comes first
    for move in sorted(facts.offset_moves, key=lambda one: one.client_id is None):
        of_clients = [] if move.queue_id is not None else by_request.get(_request(move), [])
        named.add((move.consumer_group, move.topic, move.broker_name, move.queue_id))
        if not of_clients:
            yield move
        elif len(of_clients) == 1:
            yield replace(move, queue_id=of_clients[0].queue_id)
        elif _request(move) not in completed:
            yield from (replace(one, client_id=move.client_id or one.client_id) for one in of_clients)
        completed.add(_request(move))
    for request, left in by_request.items():
        for move in left if request not in completed else ():
            place = (move.consumer_group, move.topic, move.broker_name)
            if (*place, move.queue_id) not in named and (*place, None) not in named:
                yield move


def _request(move: OffsetMoveFacts) -> _Request:
    return move.consumer_group, move.topic, move.broker_name, move.requested_offset


def _move(line: LogLineFacts) -> OffsetMoveFacts | None:
    if line.kind != _ILLEGAL or line.topic is None or line.broker_name is None or line.queue_id is None:
        return None
    fields = json.loads(line.newest_fields_json)
    requested, corrected = fields.get("requested_offset"), fields.get("corrected_offset")
    if requested is None or corrected is None:  # beyond 64 bits: no offset
        return None
    return OffsetMoveFacts(
        consumer_group=line.consumer_group,
        client_id=line.client_ids[0] if line.client_ids else line.source,
        topic=line.topic,
        broker_name=line.broker_name,
        queue_id=line.queue_id,
        requested_offset=requested,
        corrected_offset=corrected,
        move_count=line.spell_line_count,
        first_moved_at=line.spell_first_at,
        last_moved_at=line.last_at,
        origin="log",
    )
