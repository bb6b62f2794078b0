"""Messages that a master has taken and delivers to nobody yet: half messages, delayed messages, timer messages.

A half message lies in RMQ_SYS_TRANS_HALF_TOPIC until its transaction is ended. The broker's check (each
transactionCheckInterval: 60 s in 4.x, 30 s in 5.x) passes those that are ended, writes the others again behind the end
and asks their producer; it commits how far it came for the group CID_RMQ_SYS_TRANS. It comes by for the first time an
interval after the broker was started: until two could have, no message is late, whatever it waited for while the broker
was away. After transactionCheckMax checks (15) a transaction is given up: its message goes to
TRANS_CHECK_MAX_TIME_TOPIC and is never delivered.
A delayed message lies in SCHEDULE_TOPIC_XXXX, queue = level - 1, until its level's time is over; runtime info says how
far each level was delivered, in 4.x nothing of levels that have delivered nothing yet.
Timer messages (5.x) lie in rmq_sys_wheel_timer, then in the timer wheel, of which runtime info says all that there is:
timerReadBehind, seconds that the wheel is read behind the clock; timerOffsetBehind, messages that are not in the wheel
yet; timerCongestNum, messages in the wheel.
Retention may delete messages that wait. The check then goes on from the queue's low end; the delivery of a level does
so as well, but tells of it only when it delivers again: until then its next message lies below the low end.
Source: TransactionalMessageServiceImpl, ScheduleMessageService.buildRunningStats, AdminBrokerProcessor
.prepareRuntimeInfo, TimerMessageStore (4.9.7, 5.3.3).

Nothing is asked where nothing waits: a broker whose check never committed is not asked about half messages, which are
unknown then; one whose runtime info tells that every level was delivered to its end is not asked about delayed ones.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from offsetguard.collect.broker_reading import BrokerReading, QueueEnds
from offsetguard.collect.landing import Row
from offsetguard.collect.read_broker import NO_SUCH_TOPIC
from offsetguard.collect.replica import ReplicaLink
from offsetguard.model.offsets import growth
from offsetguard.sources.rocketmq.brokers import BrokerRuntimeInfo
from offsetguard.sources.rocketmq.requests import GetTopicStatsInfo, SearchOffsetByTimestamp

HALF_TOPIC, CHECK_GROUP = "RMQ_SYS_TRANS_HALF_TOPIC", "CID_RMQ_SYS_TRANS"
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
_COUNTS = (
    "half_message_count",
    "half_late_count",
    "half_deleted_count",
    "given_up_max_offset",
    "delayed_message_count",
    "delayed_late_count",
    "delayed_deleted_count",
)
LATE_MS = 120_000  # two checks of 4.x, and far more than a delivery takes
_LEVEL = re.compile(r"scheduleMessageOffset_([1-9]\d{0,3})")
_PROGRESS = re.compile(r"(\d{1,19}),(\d{1,19})")
_DELAY = re.compile(r"(\d{1,9})([smhd])")
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MOST = 2**63 - 1  # that a column holds


@dataclass(frozen=True, slots=True)
class _Queue:
    """A queue in which messages wait from an offset on; late are those that were stored before a moment, in ms."""

    queue_id: int
    first: int
    count: int  # of those that are still there
    deleted: int  # of those that waited
    newest_ms: int  # store time of the newest; 0 or less: not known
    late_before_ms: int | None  # None: not known


async def read_held_back(link: ReplicaLink, reading: BrokerReading) -> None:
    """Ask a master about half and delayed messages, as far as its base says that there are any."""
    halves = await _read_halves(link, reading)
    given_up = await _read_given_up(link, reading, halves)
    delayed = await _read_delayed(link, reading.runtime, reading.settings)
    reading.held_back = {
        "half_message_count": _total(halves),
        "half_late_count": await _late_count(link, HALF_TOPIC, halves),  # of these, those that no check has passed
        "half_deleted_count": _deleted(halves),
        "given_up_max_offset": given_up,  # grows with each transaction that is given up
        "delayed_message_count": _total(delayed),
        "delayed_late_count": await _late_count(link, SCHEDULE_TOPIC, delayed),
        "delayed_deleted_count": _deleted(delayed),
    }


def held_back_columns(reading: BrokerReading, before: Mapping[str, Any]) -> Row:
    """Return a master's columns; `before`: its row of the round before, which says since when, and how many more.

    A slave has copies of its master's offsets, up to a minute old, and delivers nothing: it has no such columns.
    """
    if not reading.replica.is_master:
        return {}
    now, at = {name: reading.held_back.get(name) for name in _COUNTS}, reading.answered_at
    given_up, before_that = now["given_up_max_offset"], before.get("given_up_max_offset")
    columns: Row = {**now, "half_growing_since": _growing_since(now["half_message_count"], before)}
    for kind in ("half", "delayed"):
        for what in ("late", "deleted"):
            count, count_before = now[f"{kind}_{what}_count"], before.get(f"{kind}_{what}_count")
            columns[f"{kind}_{what}_growth"] = None if count is None or count_before is None else count - count_before
        columns[f"{kind}_late_since"] = (before.get(f"{kind}_late_since") or at) if now[f"{kind}_late_count"] else None
    return {**columns, "given_up_growth": growth(given_up, before_that), **_timer_columns(reading.runtime)}


def _timer_columns(runtime: BrokerRuntimeInfo | None) -> Row:
    behind_s, unread, in_wheel = (
        runtime.integer(name) if runtime else None
        for name in ("timerReadBehind", "timerOffsetBehind", "timerCongestNum")
    )
    return {
        "timer_behind_ms": None if behind_s is None else min(max(behind_s, 0) * 1_000, _MOST),
        "timer_unread_count": None if unread is None else max(unread, 0),
        "timer_message_count": None if in_wheel is None else max(in_wheel, 0),
    }


async def _read_halves(link: ReplicaLink, reading: BrokerReading) -> list[_Queue] | None:
    committed = reading.committed_offsets.get((HALF_TOPIC, CHECK_GROUP), {})
    if not committed:
        return None  # as a rule no producer uses transactions here; no check has passed a half message
    ends = await _ends_of(link, HALF_TOPIC)
    if ends is None:
        return None
    late_before_ms = 0 if _started_lately(reading.runtime) else _late_before_ms(reading.runtime)
    queues = []
    for queue_id, low, high, newest_ms in ends.rows():
        passed = committed.get(queue_id)
        first = max(passed or 0, low)
        deleted = 0 if passed is None else max(0, low - passed)
        queues.append(_Queue(queue_id, first, max(0, high - first), deleted, newest_ms, late_before_ms))
    return queues


async def _read_given_up(link: ReplicaLink, reading: BrokerReading, halves: list[_Queue] | None) -> int | None:
    if reading.topics is None or halves is None:
        return None
    if GIVEN_UP_TOPIC not in reading.topics:
        return 0
    ends = await _ends_of(link, GIVEN_UP_TOPIC)
    return None if ends is None else min(sum(max(high, 0) for high in ends.max_offsets), _MOST)


async def _read_delayed(
    link: ReplicaLink, runtime: BrokerRuntimeInfo | None, settings: Mapping[str, str] | None
) -> list[_Queue] | None:
    """Return the levels with messages that wait; None = runtime info is missing, or cannot be read."""
    progress = None if runtime is None else _progress(runtime)
    if runtime is None or progress is None:
        return None
    delays = delays_ms((settings or {}).get("messageDelayLevel", ""))
    if all(end <= first for first, end in progress.values()) and progress.keys() >= set(range(1, len(delays) + 1)):
        return []  # also where the levels cannot be read: then those that runtime info names are all that is known
    ends = await _ends_of(link, SCHEDULE_TOPIC)
    if ends is None:
        return None
    unsaid = {queue_id + 1: (low, high) for queue_id, low, high, _ in ends.rows()}
    newest_ms = dict(zip(ends.queue_ids, ends.last_update_ms, strict=True))
    queues = []
    for level, (delivered_to, end) in sorted({**unsaid, **progress}.items()):
        late_before_ms = _late_before_ms(runtime, delays[level - 1]) if level <= len(delays) else None
        low, _ = unsaid.get(level, (0, 0))
        first, deleted = max(delivered_to, low), max(0, low - delivered_to)
        newest = newest_ms.get(level - 1, 0)
        queues.append(_Queue(level - 1, first, max(0, end - first), deleted, newest, late_before_ms))
    return queues


def _progress(runtime: BrokerRuntimeInfo) -> dict[int, tuple[int, int]] | None:
    """Return level -> (next to be delivered, end), without the levels that 4.x says nothing of; None = unreadable."""
    found = {}
    for key, value in runtime.table.items():
        if (level := _LEVEL.fullmatch(key)) is None:
            continue
        if (offsets := _PROGRESS.fullmatch(value)) is None:
            return None
        found[int(level[1])] = int(offsets[1]), int(offsets[2])
    return found


def delays_ms(levels: str) -> list[int]:
    """Return the delay of each level from level 1 on, of the setting messageDelayLevel; [] where it cannot be read."""
    found = [_DELAY.fullmatch(level) for level in levels.split()]
    return [int(one[1]) * _UNIT_MS[one[2]] for one in found if one] if all(found) else []


def _late_before_ms(runtime: BrokerRuntimeInfo | None, delay_ms: int = 0) -> int | None:
    """Return the moment, by the broker's own clock, before which a message was stored that is late now."""
    clock_at = runtime.clock_at if runtime else None
    return None if clock_at is None else max(0, round(clock_at.timestamp() * 1_000) - delay_ms - LATE_MS)


def _started_lately(runtime: BrokerRuntimeInfo | None) -> bool:
    """Whether the broker was started so lately that it need not have checked anything twice, by its own clock."""
    boot_at, clock_at = (runtime.boot_at, runtime.clock_at) if runtime else (None, None)
    return boot_at is not None and clock_at is not None and clock_at - boot_at < timedelta(milliseconds=LATE_MS)


async def _late_count(link: ReplicaLink, topic: str, queues: list[_Queue] | None) -> int | None:
    """Count the messages that are late; None = unknown of one of the queues.

    Where the newest message of a queue is late all are, and no request 29 goes out: 4.x could not tell it.
    """
    if queues is None:
        return None
    total, searches = 0, {}
    for queue in queues:
        if queue.count == 0:
            continue
        if queue.newest_ms <= 0 or queue.late_before_ms is None:
            return None
        if queue.newest_ms < queue.late_before_ms:
            total += queue.count
        elif queue.late_before_ms > 0:
            searches[queue] = SearchOffsetByTimestamp(topic, queue.queue_id, queue.late_before_ms)
    answered = 0
    async for queue, answer in link.ask_each(searches):
        if answer.body is not None:
            answered += 1
            total += min(max(answer.body - queue.first, 0), queue.count)
    return min(total, _MOST) if answered == len(searches) else None


async def _ends_of(link: ReplicaLink, topic: str) -> QueueEnds | None:
    """Return the ends of one of RocketMQ's own topics; None = not seen."""
    answer = await link.ask(GetTopicStatsInfo(topic), answers=NO_SUCH_TOPIC)
    return None if answer is None else QueueEnds.of(answer.body, answer.at)


def _total(queues: list[_Queue] | None) -> int | None:
    return None if queues is None else min(sum(queue.count for queue in queues), _MOST)


def _deleted(queues: list[_Queue] | None) -> int | None:
    return None if queues is None else min(sum(queue.deleted for queue in queues), _MOST)


def _growing_since(now: int | None, before: Mapping[str, Any]) -> datetime | None:
    """Return the moment of the round since which the number has grown and has not fallen in any round."""
    earlier = before.get("half_message_count")
    if now is None or earlier is None or now < earlier or now == 0:
        return None
    since: datetime | None = before.get("half_growing_since")
    return since or (before.get("read_at") if now > earlier else None)
