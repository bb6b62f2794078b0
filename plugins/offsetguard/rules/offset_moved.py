"""A consumer group was sent to other offsets than it asked for, or its committed offsets jumped.

Means: asked below the oldest message = the broker deleted messages before they were consumed (lost =
corrected - requested); asked beyond the end = the queue was recreated, its broker lost its tail, or the offset was set
wrongly; the committed offset went back = somebody reset it, or the queue was recreated. The same request again and
again = a client that cannot keep the correction, mostly a broadcasting client whose local offset file cannot be
written: it drops the queue and takes it again from the old file at each rebalance (20 s).
Evidence: moves per (group, client, queue, requested offset) within the look-back window, each counted once, from
OFFSET_MOVED_EVENT (4.x), broker.log, or else the difference of two snapshots. Log lines do not name the queue.
Not judged: a request for offset 0 that is corrected upwards once; so starts a new group that consumes from the first
offset on a topic whose first messages are deleted already.
Do next: by variant.
Source: PullMessageProcessor (4.9.8, 5.3.3): event (4.x) and log line of every pull with code PULL_OFFSET_MOVED.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from offsetguard.offsets import MessageQueue
from offsetguard.rules.evidence import message_models, name_servers_of
from offsetguard.rules.rule import Finding, QueueEvidence, Rule, Severity, Texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from offsetguard.config import Config
    from offsetguard.facts import IntervalFacts, OffsetMoveFacts
    from offsetguard.rules.rule import Figure

# A correction that is kept comes once, and once more when the min offset moves on meanwhile; the third is a loop.
LOOPING_MOVES = 3

_LOOPED = (
    "asked for the same offset {requested_offset:messages} of topic {topic} on {worst_queue} {move_count} times in "
    "{span_ms:duration}, every {period_ms:duration}, and was sent to {corrected_offset:messages} each time"
)
_RESET = "mqadmin resetOffsetByTime -n {name_servers:shell} -g {consumer_group:shell} -t {topic:shell} -s "

RULE = Rule(
    id="offset_moved",
    severity=Severity.WARNING,
    needs=("offset_moves",),
    means="Brokers corrected offsets that a consumer group asked for: messages were lost, or its offsets are wrong.",
    texts={
        "default": Texts(
            summary="{consumer_group} lost {lost:messages} message{lost:plural} of {topic} to retention",
            cause="Consumer group {consumer_group} was overtaken by retention on {where}: the broker had deleted "
            "{lost:messages} message{lost:plural} before the group asked for them (worst: {worst_queue}, asked for "
            "{requested_offset:messages}, oldest kept {corrected_offset:messages}).",
            do_next="These messages are gone from the broker; if they matter, send them again from their source. So "
            "that it does not go on: speed up the group, or keep messages longer (fileReservedTime, disk space).",
        ),
        "broadcasting": Texts(
            summary="{consumer_group} skipped {lost:messages} deleted message{lost:plural} of {topic}",
            cause="Clients of the broadcasting group {consumer_group} asked for deleted messages on {where}: "
            "{lost:messages} message{lost:plural} were gone before a client asked for them (worst: {worst_queue}, "
            "asked for {requested_offset:messages}, oldest kept {corrected_offset:messages}).",
            do_next="See which client was away or slow; each keeps its own offsets in localOffsetStoreDir, which must "
            "outlive a restart (in Docker: a persistent path).",
        ),
        "looping_broadcasting": Texts(
            summary="{client} of {consumer_group} cannot persist its local offsets",
            cause="{client} of {consumer_group} cannot persist its local offsets: it " + _LOOPED + "; {lost:messages} "
            "message{lost:plural} are gone for it and it consumes nothing from such queues{in_all}.",
            do_next="Check the disk and the rights of localOffsetStoreDir (~/.rocketmq_offsets, or "
            "-Drocketmq.client.localOffsetStoreDir) on the client's host; in Docker set it to a persistent path, or a "
            "restart skips or repeats messages. Switch on the client log: it says 'persist consumer offset exception'.",
        ),
        "looping": Texts(
            summary="{consumer_group} asks for the same offsets of {topic} again and again",
            cause="{client} of {consumer_group} "
            + _LOOPED
            + ": the correction is not kept, and nothing is consumed from such queues{in_all}.",
            do_next="A broadcasting client loops like this when its local offset file cannot be written: check "
            "localOffsetStoreDir on the clients' hosts. Otherwise something sets the offset back after each "
            "correction: look for tools or code that reset the offsets of {consumer_group}.",
        ),
        "beyond_end": Texts(
            summary="{consumer_group} asked beyond the end of {topic}",
            cause="Consumer group {consumer_group} asked for offsets beyond the end of {where} (worst: {worst_queue}, "
            "asked for {requested_offset:messages}, sent to {corrected_offset:messages}): the queue was recreated, "
            "its broker lost its tail, or the offset was set wrongly.",
            do_next="Find out whether the topic was recreated or the broker lost data around {first_moved_at:moment}; "
            "messages written since may be skipped or repeated. To consume again from a moment on: "
            + _RESET
            + "'yyyy-MM-dd#HH:mm:ss:SSS'.",
        ),
        "moved_back": Texts(
            summary="{consumer_group} was set back on {topic}",
            cause="The committed offset of consumer group {consumer_group} went back on {where} (worst: {worst_queue}, "
            "from {requested_offset:messages} to {corrected_offset:messages}): {repeated:messages} "
            "message{repeated:plural} are consumed again.",
            do_next="Ask who reset the offsets around {first_moved_at:moment}. If nobody did, find out whether the "
            "topic was recreated or a replica that was behind took over; see that the consumers can take messages "
            "twice.",
        ),
    },
    title="offsets were moved",
    table=("lost", "repeated", "requested_offset", "corrected_offset", "move_count", "first_moved_at", "last_moved_at"),
    peak="lost",
    recovered="no offset of it was moved within the look-back window",
)

_STATES = {
    "default": "LOST",
    "broadcasting": "LOST",
    "looping_broadcasting": "LOST",
    "looping": "STALLED",
    "beyond_end": "ANOMALY",
    "moved_back": "REWOUND",
}
_LOSING = ("default", "broadcasting", "looping_broadcasting", "looping")


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """One finding per (consumer group, topic) with moves in the window."""
    models = message_models(facts)
    by_group: dict[tuple[str, str], list[OffsetMoveFacts]] = defaultdict(list)
    for move in facts.offset_moves:
        if not _first_start(move):
            by_group[move.consumer_group, move.topic].append(move)
    for (consumer_group, topic), moves in sorted(by_group.items()):
        model = models.get(consumer_group)
        variant, telling = _judge(moves, model)
        yield Finding(
            rule=RULE,
            cluster=facts.cluster,
            consumer_group=consumer_group,
            topic=topic,
            severity=Severity.CRITICAL if variant == "default" and model == "CLUSTERING" else RULE.severity,
            variant=variant,
            state=_STATES[variant],
            figures={
                **_figures(telling),
                **_where(telling, topic),
                "lost": sum(_lost(of) for of in _by_queue(telling).values()) if variant in _LOSING else None,
                "repeated": sum(_repeated(move) for move in telling) if variant == "moved_back" else None,
                "name_servers": name_servers_of(config, facts.cluster),
            },
            queues=_evidence(moves),
            broker_names=frozenset(move.broker_name for move in moves),
        )


def _first_start(move: OffsetMoveFacts) -> bool:
    return move.requested_offset == 0 < move.corrected_offset and not _loops(move)


def _loops(move: OffsetMoveFacts) -> bool:
    return move.move_count >= LOOPING_MOVES and move.origin != "snapshot"  # a snapshot does not show requests


def _judge(moves: Sequence[OffsetMoveFacts], model: str | None) -> tuple[str, list[OffsetMoveFacts]]:
    """Return the variant and the moves that tell it: a loop goes on, a loss is over, an odd request may be harmless."""
    if looping := [move for move in moves if _loops(move)]:
        return ("looping_broadcasting" if model == "BROADCASTING" else "looping"), looping
    if overtaken := [move for move in moves if move.requested_offset < move.corrected_offset]:
        return ("broadcasting" if model == "BROADCASTING" else "default"), overtaken
    if asked := [move for move in moves if move.origin != "snapshot"]:
        return "beyond_end", asked
    return "moved_back", list(moves)


def _figures(telling: Sequence[OffsetMoveFacts]) -> dict[str, Figure]:
    worst = min(telling, key=_worst_first)
    span_ms = round((worst.last_moved_at - worst.first_moved_at).total_seconds() * 1000)
    return {
        "client": f"Client {worst.client_id}" if worst.client_id else "A client",
        "requested_offset": worst.requested_offset,
        "corrected_offset": worst.corrected_offset,
        "move_count": worst.move_count,
        "span_ms": span_ms,
        "period_ms": span_ms // (worst.move_count - 1) if worst.move_count > 1 else None,
        "first_moved_at": min(move.first_moved_at for move in telling),
        "last_moved_at": max(move.last_moved_at for move in telling),
    }


def _where(telling: Sequence[OffsetMoveFacts], topic: str) -> dict[str, Figure]:
    """Say the places in words: where only log lines tell of moves, how many queues there are is not known."""
    worst = min(telling, key=_worst_first)
    count = None if any(move.queue_id is None for move in telling) else len(_by_queue(telling))
    queue = "a queue of" if worst.queue_id is None else "queue"
    place = worst.broker_name if worst.queue_id is None else f"{worst.broker_name}/{worst.queue_id}"
    return {
        "queue_count": count,
        "where": f"topic {topic}" if count is None else f"{count} queue{'' if count == 1 else 's'} of topic {topic}",
        "worst_queue": f"{queue} {place}",
        "in_all": "" if count is None else f" ({count} in all)",
    }


def _evidence(moves: Sequence[OffsetMoveFacts]) -> tuple[QueueEvidence, ...]:
    """Return the moves whose queue is known."""
    return tuple(
        QueueEvidence(
            MessageQueue(move.topic, move.broker_name, move.queue_id),
            {
                "requested_offset": move.requested_offset,
                "corrected_offset": move.corrected_offset,
                "lost": max(0, move.corrected_offset - move.requested_offset),
                "move_count": move.move_count,
                "last_moved_at": move.last_moved_at,
                **({"client_id": move.client_id} if move.client_id else {}),
            },
        )
        for move in sorted(moves, key=_worst_first)
        if move.queue_id is not None
    )


def _worst_first(move: OffsetMoveFacts) -> tuple[int, int, str, int, int]:
    looped = move.move_count if _loops(move) else 0
    queue_id = -1 if move.queue_id is None else move.queue_id
    return (-looped, -_distance(move), move.broker_name, queue_id, move.requested_offset)


def _distance(move: OffsetMoveFacts) -> int:
    return abs(move.corrected_offset - move.requested_offset)


def _repeated(move: OffsetMoveFacts) -> int:
    return max(0, move.requested_offset - move.corrected_offset)


def _by_queue(moves: Iterable[OffsetMoveFacts]) -> dict[tuple[str, int | None, int], list[OffsetMoveFacts]]:
    """Group by queue; moves of unknown queues stand alone: a group asks for one offset of a queue at a time."""
    found: dict[tuple[str, int | None, int], list[OffsetMoveFacts]] = defaultdict(list)
    for move in moves:
        alone = move.requested_offset if move.queue_id is None else 0
        found[move.broker_name, move.queue_id, alone].append(move)
    return found


def _lost(moves: Iterable[OffsetMoveFacts]) -> int:
    """Return the messages that lie in any of one queue's [requested, corrected): overlapping moves count once."""
    lost, counted_to = 0, 0
    for move in sorted(moves, key=lambda move: move.requested_offset):
        start = max(counted_to, move.requested_offset)
        if move.corrected_offset > start:
            lost += move.corrected_offset - start
            counted_to = move.corrected_offset
    return lost
