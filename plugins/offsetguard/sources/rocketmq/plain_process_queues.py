"""Reader for exactly the text that Java clients put into `mqTable` of a running info (307); None for every other text.

As `plain_form`, and under the same rules: a client that holds a hundred queues writes little else.
Source: bodies of Java clients 4.9.8, 5.3.3 and 5.5.1 (`ProcessQueueInfo`); bean fields come sorted by name.
"""

from __future__ import annotations

import re
from array import array

from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq import fastjson
from offsetguard.sources.rocketmq.detail_bodies import ProcessQueueInfo
from offsetguard.sources.rocketmq.json_fields import LAST_TIMESTAMP_MS
from offsetguard.sources.rocketmq.offset_table import INT32, INT64
from offsetguard.sources.rocketmq.plain_form import NEXT, NUMBER, QUEUE, QUEUE_SIGNS, plain_text, start_of_table

PROCESS_QUEUES = "mqTable"
_VALUES = {
    "cachedMsgCount": NUMBER,
    "cachedMsgMaxOffset": NUMBER,
    "cachedMsgMinOffset": NUMBER,
    "cachedMsgSizeInMiB": NUMBER,
    "commitOffset": NUMBER,
    "droped": "true|false",  # Java's spelling
    "lastConsumeTimestamp": NUMBER,
    "lastLockTimestamp": NUMBER,
    "lastPullTimestamp": NUMBER,
    "locked": "true|false",
    "transactionMsgCount": NUMBER,
    "transactionMsgMaxOffset": NUMBER,
    "transactionMsgMinOffset": NUMBER,
    "tryUnlockTimes": NUMBER,
}
_TIMES = ("lastConsumeTimestamp", "lastLockTimestamp", "lastPullTimestamp")
_WRITTEN = ",".join(f'"{name}":({form})' for name, form in _VALUES.items())
_HELD = re.compile(rf"{QUEUE}:\{{{_WRITTEN}\}}{NEXT}")
_HELD_SIGNS = QUEUE_SIGNS + len(":{}") + len(",".join(f'"{name}":' for name in _VALUES))


def plain_process_queues(body: bytes) -> tuple[dict[MessageQueue, ProcessQueueInfo], fastjson.Json] | None:
    """Read the queues that a client holds; returns them, and what stands around them. Raises MalformedBytes."""
    text = plain_text(body)
    start = start_of_table(text, PROCESS_QUEUES) if text is not None else None
    if text is None or not start:
        return None
    end = text.find("}}", start) + 1
    found = _HELD.findall(text, start, end)
    covered = sum(map(len, map("".join, found))) + len(found) * (_HELD_SIGNS + 1) - 1
    if not found or start + covered != end:
        return None
    columns = dict(zip(("brokerName", "queueId", "topic", *_VALUES), zip(*found, strict=True), strict=True))
    try:
        queue_ids = array(INT32, map(int, columns["queueId"]))
        number = {name: array(INT64, map(int, columns[name])) for name, form in _VALUES.items() if form is NUMBER}
    except OverflowError:
        return None
    if max(map(max, (number[name] for name in _TIMES))) > LAST_TIMESTAMP_MS:
        return None
    queues = map(MessageQueue, columns["topic"], columns["brokerName"], queue_ids)
    held = map(
        ProcessQueueInfo.as_told,
        number["cachedMsgCount"],
        number["cachedMsgSizeInMiB"],
        number["cachedMsgMinOffset"],
        number["cachedMsgMaxOffset"],
        number["commitOffset"],
        number["transactionMsgCount"],
        map("true".__eq__, columns["locked"]),
        map("true".__eq__, columns["droped"]),
        number["tryUnlockTimes"],
        number["lastLockTimestamp"],
        number["lastPullTimestamp"],
        number["lastConsumeTimestamp"],
    )
    around = fastjson.decode_object(f"{text[: start - 1]}null{text[end + 1 :]}".encode())
    return (dict(zip(queues, held, strict=True)), around) if around.get(PROCESS_QUEUES, "absent") is None else None
