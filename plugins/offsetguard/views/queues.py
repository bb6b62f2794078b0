"""The queues of one group: the worst now, and what waited in each over the span, as a list and as a picture.

`queue_facts` has the queues that are not provably healthy: a queue without a row there was healthy, or was not seen.
Healthy it was where its group and topic have facts of the interval, with as many brokers as ever in the span, and its
broker told of queues; there nothing waited. In all other intervals nothing is known of it.

The picture of the heat map has a pixel for each step of each queue, as a PNG of a palette. It is dark where nothing
waits, and the brighter the more waits, on a logarithmic scale that ends at the limit of the group: a calm one is dim.
The scale is told apart without seeing colours (viridis). What is not known is transparent, so that the page's own
hatching shows in either theme.
"""

import math
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar

import pyarrow as pa
from pydantic import ConfigDict, Field, field_validator

from offsetguard.model.intervals import INTERVAL_LENGTH, Interval
from offsetguard.model.offsets import sum_of_known
from offsetguard.model.views import Record
from offsetguard.views.course import POINTS, AskedMoment, AskedSpan, Name, Span
from offsetguard.views.fleet import Trust
from offsetguard.views.group import QueueLine, queue_lines

HEAT_QUEUES = 64
QUEUE_NAME = ("topic", "broker_name", "queue_id")
PAIRS = ("interval_start", "topic", "broker_count")  # of group_facts
BROKERS = ("interval_start", "broker_name", "consumed_queue_count")  # of broker_facts; only a master has a count
LAGS = (*QUEUE_NAME, "interval_start", "effective_lag")  # of queue_facts
_UNKNOWN = 1  # message: a lag that is not known stands before none
# Of the queues with the greatest lags, each step: how many intervals have a row, and the greatest (NULL: not known).
STEPS = f"""
FROM (
  WITH of_queues AS MATERIALIZED (
    SELECT topic, broker_name, queue_id, (epoch_us(interval_start) - epoch_us($since)) // $step_us AS place,
      max(effective_lag) AS greatest, count(*) AS row_count
    FROM queues GROUP BY ALL
  )
  FROM of_queues SEMI JOIN (
    SELECT topic, broker_name, queue_id FROM of_queues GROUP BY ALL
    ORDER BY coalesce(max(greatest), {_UNKNOWN}) DESC, topic, broker_name, queue_id LIMIT {HEAT_QUEUES}
  ) USING (topic, broker_name, queue_id)
)
"""
# Of each topic of the group, broker and step: in how many intervals a queue without a row was healthy; and, without a
# topic, of how many intervals the group has facts.
SEEN = """
FROM (
  WITH of_group AS MATERIALIZED (FROM pairs)
  SELECT topic, broker_name, (epoch_us(interval_start) - epoch_us($since)) // $step_us AS place,
    count(*) AS interval_count
  FROM (FROM of_group QUALIFY broker_count = greatest(1, max(broker_count) OVER (PARTITION BY topic)))
  JOIN (SELECT DISTINCT interval_start, broker_name FROM brokers WHERE consumed_queue_count > 0) USING (interval_start)
  GROUP BY ALL
  UNION ALL BY NAME SELECT count(DISTINCT interval_start) AS interval_count FROM of_group
)
"""
COLUMNS = 24  # of the table behind the picture
_MS = timedelta(milliseconds=1)


class AskedQueues(AskedSpan):
    """The queues of one group, in all of its topics or one."""

    consumer_group: Name
    topic: Annotated[str, Field(max_length=255)] = ""  # empty: all
    SPANS: ClassVar = (Span.HALF_HOUR, Span.TWO_HOURS, Span.SIX_HOURS, Span.DAY)

    @field_validator("span")
    @classmethod
    def _is_a_day_at_most(cls, span: Span | None) -> Span | None:
        if span not in {None, *cls.SPANS}:
            raise ValueError(f"one of {', '.join(cls.SPANS)}")
        return span

    @property
    def where(self) -> dict[str, list[str]]:
        """What rows of the group's queues are found by."""
        return {"consumer_group": [self.consumer_group], **({"topic": [self.topic]} if self.topic else {})}

    def ends(self, newest: Interval | None, facts_of: datetime | None, now: datetime) -> datetime:
        """Return the end of the last interval that is shown: the newest one's, or of the one that is missed now."""
        if self.until is not None:
            return self.until
        trust, _, _ = self.shown(facts_of, now)
        return newest.end if newest is not None and trust is Trust.FRESH else Interval.containing(now).start


class AskedPicture(AskedQueues):
    """The heat map alone."""

    until: AskedMoment


class QueueRows(Record):
    """What was published of the group's queues, as rows of tables: of the span, and of the newest interval."""

    model_config = ConfigDict(arbitrary_types_allowed=True, frozen=True)

    facts_of: datetime | None
    until: datetime
    steps: pa.Table  # of STEPS
    seen: pa.Table  # of SEEN
    topics: Sequence[dict[str, Any]] = ()
    queues: Sequence[dict[str, Any]] = ()
    unseen_broker_names: tuple[str, ...] = ()


class HeatLine(Record):
    """What waited in one queue; in CSV a line for each step: the queue, `at` and `effective_lag`."""

    topic: str
    broker_name: str
    queue_id: int
    greatest: tuple[int | None, ...]  # effective lag of each step, oldest first; None: not known


class HeatPoint(Record):
    """One step of one queue."""

    topic: str
    broker_name: str
    queue_id: int
    at: datetime  # its start
    effective_lag: int | None


class QueuesView(Record):
    """The whole view."""

    at: datetime
    asked: AskedQueues
    trust: Trust
    facts_of: datetime | None
    since: datetime
    until: datetime
    step_ms: int  # of the heat map
    queue_count: int | None  # in the newest facts; None: they do not have the group
    suspect_queue_count: int | None  # of these, those that are not provably healthy
    waiting_queue_count: int  # of those, the ones in which messages wait
    unknown_queue_count: int  # of those, the ones of which that is not known
    unseen_broker_names: tuple[str, ...]  # in the newest facts
    worst: tuple[QueueLine, ...]  # now; the worst first
    interval_count: int  # of the span, those that have facts of the group
    heat: tuple[HeatLine, ...]  # the worst first
    greatest: int | None  # of the heat map
    limit: int | None  # messages of the group that may wait (max_lag_messages); null: the configuration cannot be read

    def picture(self) -> bytes:
        """Return the heat map: brightest from the limit of the group on, whatever waited most."""
        most = (self.greatest or 0) if self.limit is None else self.limit
        return draw([line.greatest for line in self.heat], most)

    def points(self) -> Iterator[HeatPoint]:
        """Yield the heat map step by step."""
        step = self.step_ms * _MS
        for line in self.heat:
            name = {one: getattr(line, one) for one in QUEUE_NAME}
            for place, lag in enumerate(line.greatest):
                yield HeatPoint(**name, at=self.since + place * step, effective_lag=lag)

    def table(self) -> tuple[list[datetime], list[list[int | None]]]:
        """Return the heat map in COLUMNS at most: when each begins, and the greatest of each line."""
        count = len(self.heat[0].greatest) if self.heat else 0
        wide = max(1, -(-count // COLUMNS))
        firsts = range(0, count, wide)
        lines = [[_greatest(line.greatest[first : first + wide]) for first in firsts] for line in self.heat]
        return [self.since + first * self.step_ms * _MS for first in firsts], lines


def step_of(asked: AskedQueues) -> timedelta:
    """Return how long a step is: whole intervals, so that each has as many as any other."""
    return INTERVAL_LENGTH * -(-asked.length // (INTERVAL_LENGTH * POINTS))


def queues_view(asked: AskedQueues, rows: QueueRows, now: datetime, limit: int | None = None) -> QueuesView:
    """Return the view; `limit`: messages of the group that may wait."""
    step, since = step_of(asked), rows.until - asked.length
    seen = {(row["topic"], row["broker_name"], row["place"]): row["interval_count"] for row in rows.seen.to_pylist()}
    heat = heat_lines(rows.steps, seen, -(-asked.length // step))
    return QueuesView(
        at=now,
        asked=asked,
        trust=asked.shown(rows.facts_of, now)[0],
        facts_of=rows.facts_of,
        since=since,
        until=rows.until,
        step_ms=step // _MS,
        queue_count=sum_of_known(row["queue_count"] for row in rows.topics),
        suspect_queue_count=sum_of_known(row["suspect_queue_count"] for row in rows.topics),
        waiting_queue_count=sum((row["effective_lag"] or 0) > 0 for row in rows.queues),
        unknown_queue_count=sum(row["effective_lag"] is None for row in rows.queues),
        unseen_broker_names=rows.unseen_broker_names,
        worst=queue_lines(rows.queues),
        interval_count=seen[None, None, None],
        heat=heat,
        greatest=_greatest(lag for line in heat for lag in line.greatest),
        limit=limit,
    )


def heat_lines(
    steps: pa.Table, seen: Mapping[tuple[str | None, str | None, int | None], int], count: int
) -> tuple[HeatLine, ...]:
    """Return what waited in each queue that has rows, in so many steps; the worst first.

    `steps`: of STEPS. `seen`: by topic, broker and step the intervals in which a queue without a row was healthy.
    """
    found: dict[tuple[str, str, int], dict[int, tuple[int | None, int]]] = {}
    for row in steps.to_pylist():
        name = (row["topic"], row["broker_name"], row["queue_id"])
        found.setdefault(name, {})[row["place"]] = row["greatest"], row["row_count"]

    def lag(name: tuple[str, str, int], place: int) -> int | None:
        greatest, row_count = found[name].get(place, (None, 0))
        if seen.get((name[0], name[1], place), 0) <= row_count:
            return greatest
        return 0 if greatest is None else max(greatest, 0)  # without a row it was healthy for a while

    lines = [
        HeatLine(
            topic=name[0], broker_name=name[1], queue_id=name[2], greatest=tuple(lag(name, n) for n in range(count))
        )
        for name in found
    ]

    def place(line: HeatLine) -> tuple[int, str, str, int]:
        greatest = _greatest(line.greatest)
        return -(_UNKNOWN if greatest is None else greatest), line.topic, line.broker_name, line.queue_id

    return tuple(sorted(lines, key=place))


def _greatest(known: Iterable[int | None]) -> int | None:
    return max((one for one in known if one is not None), default=None)


_TRANSPARENT, _NOTHING, _LEAST, _MOST = 0, 1, 2, 63  # numbers in the palette
_DARK = (38, 50, 63)
_SCALE = ((59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))  # #3b528b to #fde725, evenly


def draw(lines: Sequence[Sequence[int | None]], most: int) -> bytes:
    """Return the PNG of lines of one length, at least one of each; None is not known; brightest from `most` on."""
    rows = b"".join(b"\0" + bytes(_number(one, most) for one in line) for line in lines)  # 0: no filter
    header = struct.pack(">IIBBBBB", len(lines[0]), len(lines), 8, 3, 0, 0, 0)  # of a palette, a byte a pixel
    chunks = (
        (b"IHDR", header),
        (b"PLTE", _palette()),
        (b"tRNS", b"\0"),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def _number(lag: int | None, most: int) -> int:
    if lag is None:
        return _TRANSPARENT
    if lag <= 0:
        return _NOTHING
    most = max(most, 1)  # a limit of 0 is exceeded by any
    return _LEAST + round((_MOST - _LEAST) * math.log1p(min(lag, most)) / math.log1p(most))


def _palette() -> bytes:
    steps = _MOST - _LEAST
    return bytes((0, 0, 0, *_DARK)) + b"".join(_colour((len(_SCALE) - 1) * n / steps) for n in range(steps + 1))


def _colour(place: float) -> bytes:
    """Return the colour between two of the scale."""
    below = min(int(place), len(_SCALE) - 2)
    part = place - below
    return bytes(round(low + part * (high - low)) for low, high in zip(_SCALE[below], _SCALE[below + 1], strict=True))
