"""OFFSET_MOVED_EVENT of one master (written by 4.x): read from a cursor to the end that the queue had at first.

Goal: no event is lost or counted twice, wherever the process dies. So nothing is stored here: the events and the cursor
behind them go into the same snapshot, which lands with one rename. The newest landed manifest *is* the cursor.
The min and max offsets are asked first, since a pull outside of them makes a 4.x broker write an event about us.
Pulls are made as TOOLS_CONSUMER, which exists on every broker: they create nothing there and disturb no group.

Source of the format: OffsetMovedEvent and PullMessageProcessor, 4.9.8; the topic has one queue, number 0.
"""

from dataclasses import replace
from enum import Enum

from offsetguard.collect.broker_reading import BrokerReading, Undecodable
from offsetguard.collect.manifest import EventCursor
from offsetguard.collect.replica import ReplicaLink
from offsetguard.collect.system_names import OFFSET_MOVED_EVENT, TOOLS_CONSUMER
from offsetguard.sources.rocketmq.fastjson import decode_object
from offsetguard.sources.rocketmq.json_fields import MalformedBytes, int_field, message_queue_of, text_field
from offsetguard.sources.rocketmq.message import Message, PullResult, PullStatus
from offsetguard.sources.rocketmq.requests import GetMaxOffset, GetMinOffset, PullMessage

QUEUE_ID = 0
MAX_EVENTS_PER_ROUND = 10_000  # per broker; the rest stays in the topic for the next rounds
PULL_SIZE = 32  # brokers give no more at once by default


class EventStart(Enum):
    """Where the very first reading of a broker's events starts, and whether they are read at all."""

    OLDEST = "oldest"  # nothing may be missed: what a landed round does
    NEWEST = "newest"  # the last MAX_EVENTS_PER_ROUND: what a diagnosis wants
    LEAVE = "leave"  # a newer round has read them already


async def read_events(link: ReplicaLink, reading: BrokerReading, cursor: EventCursor | None, start: EventStart) -> None:
    """Read events into `reading.events` and put the cursor behind them; on a failure it stays behind what was read.

    `cursor`: of the last landed round; None = never read.
    """
    if start is EventStart.LEAVE or reading.topics is None or OFFSET_MOVED_EVENT not in reading.topics:
        return
    low = await link.ask(GetMinOffset(OFFSET_MOVED_EVENT, QUEUE_ID))
    high = await link.ask(GetMaxOffset(OFFSET_MOVED_EVENT, QUEUE_ID))
    if low is None or low.body is None or high is None or high.body is None:
        return
    first, note = first_offset(cursor, low.body, high.body, start)
    end = min(high.body, first + MAX_EVENTS_PER_ROUND)
    if end < high.body:
        note = _joined(note, f"{high.body - end} more events are left for the next rounds")
    reading.event_cursor = EventCursor(broker_name=reading.broker_name, from_offset=first, next_offset=first, note=note)
    while (position := reading.event_cursor.next_offset) < end:
        request = PullMessage(
            topic=OFFSET_MOVED_EVENT,
            queue_id=QUEUE_ID,
            queue_offset=position,
            max_msg_nums=min(PULL_SIZE, end - position),
            consumer_group=TOOLS_CONSUMER,
        )
        pulled = await link.ask(request)
        if pulled is None or pulled.body is None or not take(reading, position, pulled.body):
            return


def first_offset(
    cursor: EventCursor | None, min_offset: int, max_offset: int, start: EventStart
) -> tuple[int, str | None]:
    """Where to start reading, and what to note about it: the topic may have been recreated, or events may be gone."""
    if cursor is None:
        near_end = max(min_offset, max_offset - MAX_EVENTS_PER_ROUND)
        return (near_end if start is EventStart.NEWEST else min_offset), None
    if cursor.next_offset > max_offset:
        note = f"the cursor {cursor.next_offset} lies beyond the end {max_offset}: the topic was recreated or truncated"
        return min_offset, f"{note}; read again from its min offset {min_offset}"
    if cursor.next_offset < min_offset:
        gone = min_offset - cursor.next_offset
        return min_offset, f"{gone} events were deleted by the broker before they were read"
    return cursor.next_offset, None


def take(reading: BrokerReading, position: int, pulled: PullResult) -> bool:
    """Keep what one pull brought and move the cursor, without a pause between; False when there is no more to pull."""
    cursor = reading.event_cursor
    if cursor is None or pulled.status is PullStatus.NO_NEW_MSG or pulled.next_begin_offset == position:
        return False
    note = cursor.note
    if pulled.status is PullStatus.OFFSET_ILLEGAL or pulled.next_begin_offset < position:
        note = _joined(note, f"the queue changed while it was read: sent from {position} to {pulled.next_begin_offset}")
    else:
        _keep(reading, position, pulled)
    reading.event_cursor = replace(cursor, next_offset=pulled.next_begin_offset, note=note)
    return pulled.status in (PullStatus.FOUND, PullStatus.NO_MATCHED_MSG) and pulled.next_begin_offset > position


def decode_event(message: Message) -> dict[str, object]:
    """Read one event's body, as columns of `offset_moves`; raises MalformedBytes."""
    document = decode_object(message.body)
    queue = message_queue_of(document.get("messageQueue"))
    return {
        "position": message.queue_offset,
        "moved_at": message.store_timestamp,
        "consumer_group": text_field(document, "consumerGroup"),
        "topic": queue.topic,
        "broker_name": queue.broker_name,
        "queue_id": queue.queue_id,
        "requested_offset": int_field(document, "offsetRequest"),
        "corrected_offset": int_field(document, "offsetNew"),
    }


def _keep(reading: BrokerReading, position: int, pulled: PullResult) -> None:
    for message in pulled.messages:
        if message.queue_offset < position:
            continue  # a broker may answer with the whole of a batch that began earlier
        try:
            reading.events.append(decode_event(message))
        except MalformedBytes as error:
            _keep_undecodable(reading, message.queue_offset, str(error), message.body)
    # a record without a readable header does not tell its offset: it is one of those that the others left free
    readable = {message.queue_offset for message in pulled.messages}
    free = (offset for offset in range(position, pulled.next_begin_offset) if offset not in readable)
    for record in pulled.undecodable:
        _keep_undecodable(reading, next(free, pulled.next_begin_offset), record.reason, record.raw)


def _keep_undecodable(reading: BrokerReading, position: int, reason: str, body: bytes) -> None:
    reading.undecodable.append(Undecodable(f"{OFFSET_MOVED_EVENT} of {reading.broker_name}", position, reason, body))


def _joined(note: str | None, addition: str) -> str:
    return f"{note}; {addition}" if note else addition
