"""One topic: who reads it, its queues and what they keep, what comes in against what is usual at this hour."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from pydantic import ConfigDict

from offsetguard.model.views import Record
from offsetguard.views.course import AskedSpan, Course, Name, course_of
from offsetguard.views.fleet import Trust
from offsetguard.views.outlook import kept_since, place_by_age

COURSES = ("produce_tps", "message_count")  # of topic_facts
USUAL = ("baseline_tps", "baseline_spread_tps")  # likewise: what comes in at this hour of the week
QUEUES = 200  # on the page, and in JSON


class AskedTopic(AskedSpan):
    """One topic."""

    topic: Name


class ReaderLine(Record):
    """A consumer group that reads the topic."""

    consumer_group: str
    effective_lag: int | None = None
    beyond_end: int | None = None
    unknown_queue_count: int | None = None
    lag_ms: int | None = None
    consume_tps: float | None = None
    online_client_count: int | None = None


class TopicQueueLine(Record):
    """One queue: from where to where it can be read."""

    broker_name: str
    queue_id: int
    min_offset: int | None = None
    max_offset: int | None = None
    message_count: int | None = None  # that are kept
    last_update_at: datetime | None = None  # of the newest message


class TopicView(Record):
    """The whole view."""

    at: datetime
    asked: AskedTopic
    trust: Trust
    facts_of: datetime | None
    since: datetime
    until: datetime
    read_queue_count: int | None
    write_queue_count: int | None
    perm: int | None  # 2 = write, 4 = read, 6 = both
    message_count: int | None  # that are kept
    last_update_at: datetime | None
    kept_since: datetime | None  # every broker that has its queues keeps messages since then
    courses: tuple[Course, ...]
    usual: tuple[Course, ...]  # what usually comes in at this hour of the week: mean and spread; none: it is not known
    readers: tuple[ReaderLine, ...]  # what waits longest first
    queues: tuple[TopicQueueLine, ...]
    queue_count: int  # of all


class TopicRows(Record):
    """What was published of the topic, as rows of tables: of the span, and of the newest interval."""

    model_config = ConfigDict(arbitrary_types_allowed=True, frozen=True)

    facts_of: datetime | None
    history: pa.Table  # `interval_start`, COURSES and USUAL of topic_facts
    topics: Sequence[dict[str, Any]] = ()
    groups: Sequence[dict[str, Any]] = ()
    queues: Sequence[dict[str, Any]] = ()
    brokers: Sequence[dict[str, Any]] = ()  # all of the cluster


def topic_view(asked: AskedTopic, rows: TopicRows, now: datetime) -> TopicView:
    """Return the view."""
    trust, since, until = asked.shown(rows.facts_of, now)
    facts, holders = rows.topics[0] if rows.topics else {}, {row["broker_name"] for row in rows.queues}
    usual = tuple(course_of(rows.history, name, since, until) for name in USUAL)
    told = ("read_queue_count", "write_queue_count", "perm", "message_count", "last_update_at")
    return TopicView(
        at=now,
        asked=asked,
        trust=trust,
        facts_of=rows.facts_of,
        since=since,
        until=until,
        kept_since=kept_since(row for row in rows.brokers if row["broker_name"] in holders),
        courses=tuple(course_of(rows.history, name, since, until) for name in COURSES),
        usual=usual if usual[0].greatest is not None else (),
        readers=_reader_lines(rows.groups),
        queues=_queue_lines(rows.queues)[:QUEUES],
        queue_count=len(rows.queues),
        **{name: facts.get(name) for name in told},
    )


def _reader_lines(rows: Sequence[dict[str, Any]]) -> tuple[ReaderLine, ...]:
    lines = [ReaderLine(**{name: row[name] for name in ReaderLine.model_fields}) for row in rows]
    return tuple(sorted(lines, key=lambda one: (*place_by_age(one.lag_ms, one.effective_lag), one.consumer_group)))


def _queue_lines(rows: Sequence[dict[str, Any]]) -> tuple[TopicQueueLine, ...]:
    return tuple(
        TopicQueueLine(
            broker_name=row["broker_name"],
            queue_id=row["queue_id"],
            min_offset=row["min_offset"],
            max_offset=row["max_offset"],
            message_count=_kept(row["min_offset"], row["max_offset"]),
            last_update_at=row["last_update_at"],
        )
        for row in sorted(rows, key=lambda row: (row["broker_name"], row["queue_id"]))
    )


def _kept(min_offset: int | None, max_offset: int | None) -> int | None:
    return None if min_offset is None or max_offset is None else max_offset - min_offset
