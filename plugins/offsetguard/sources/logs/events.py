"""Records as events (the time in UTC, the kind, the fields), as rows of `log_events`, and as moves of offsets.

Moves that a broker log tells of are rows of `offset_moves` (origin `log`); on 5.x they are all there is. A corrected
pull prints two lines of one thread: INFO with what was wrong (it has the client's address, or the queue), then WARN
`PULL_OFFSET_MOVED:correction offset`, which has neither. The second one is the move; the first completes it. A slave's
`none correction` moves nothing. What no line says (the queue id, mostly) stays None.
Source of the pairs: PullMessageProcessor, DefaultPullMessageResultHandler 4.9.7, 4.9.8, 5.3.3, 5.5.0.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from itertools import islice

from offsetguard.sources.logs.matching import ALL, PATTERNS, Matcher, Recognised, Value
from offsetguard.sources.logs.pattern import Pattern
from offsetguard.sources.logs.records import APPLICATION_HEAD, LAYOUTS, OBJECT_HEAD, SEPARATORS, Record, RecordReader

_LAYOUTS = tuple((layout, re.compile(layout.regex)) for layout in LAYOUTS)
_SHOWN_CHARACTERS = 300
_MOST_SEPARATORS = 16
_LEVEL = re.compile(r"\b(?:TRACE|DEBUG|INFO|WARN|ERROR)\b")
_NO_STAMP = "no time stamp: these lines stand before the first record of the file"
_FOREIGN = (  # what stands at the beginning of files that are not read, and how it is known
    (
        "log of the Go client, which is not read",
        re.compile(r'^(?:[A-Z]{4,5}\[[0-9]{4}\] |time="[0-9]{4}-[^"\n]{1,40}" level=|\{"level":")'),
    ),
    (
        "log of the C++ client, which is not read",
        re.compile(r"^\[[0-9]{4}-(?:[0-9]{2}|[A-Z][a-z]{2})-[0-9]{2} [0-9:.]{8,20}\] ?[(\[][a-z]{4,8}[)\]]"),
    ),
    (
        "lines tell the time of day only, so that nobody knows their day: let the application write the date",
        re.compile(r"^\[?[0-9]{2}:[0-9]{2}:[0-9]{2}[.,][0-9]{3}"),
    ),
)
_MAX_NAME_BYTES = 4096  # a name in a row of its own column; fields_json has it whole


@dataclass(frozen=True, slots=True)
class LogOrigin:
    """Where a log comes from; names are those of the configuration."""

    source: str = ""
    file: str = ""  # identity of the file, the same after its rotation
    broker_name: str | None = None  # None: a client's log
    broker_id: int | None = None


@dataclass(frozen=True, slots=True)
class LogEvent:
    """A record that a pattern recognised."""

    origin: LogOrigin
    position: int  # byte at which it begins, in the uncompressed file
    line: int  # number of its first line, from 1 where reading began
    at: datetime  # UTC
    kind: str
    level: str | None
    thread: str | None
    fields: dict[str, Value] = field(hash=False)
    routine: bool = False
    line_count: int = 1  # continuation lines included


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Lines of which it cannot be said when they were written; kept with the reason."""

    origin: LogOrigin
    position: int
    line: int
    line_count: int
    reason: str
    text: str  # its start


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that is readable and that no pattern is meant for."""

    line_count: int


def read_records(
    pieces: Iterable[bytes] | bytes,
    zone: tzinfo,
    *,
    origin: LogOrigin | None = None,
    patterns: Sequence[Pattern] = PATTERNS,
) -> Iterator[LogEvent | Unreadable | Skipped]:
    """Read a whole log, given in pieces of any size; a last line without line feed counts. Linear, bounded memory.

    `zone`: of the times in the log, see `zone_of`. `patterns`: other records are skipped.
    """
    reader = RecordReader()
    known_origin = origin or LogOrigin()
    matcher = ALL if patterns is PATTERNS else Matcher(patterns)
    for piece in [pieces] if isinstance(pieces, bytes) else pieces:
        for record in reader.feed(piece):
            yield outcome_of(record, zone, known_origin, matcher)
    for record in reader.finish(with_half_line=True):
        yield outcome_of(record, zone, known_origin, matcher)


def outcome_of(
    record: Record, zone: tzinfo, origin: LogOrigin, matcher: Matcher = ALL
) -> LogEvent | Unreadable | Skipped:
    """Say what a record is. A record of a pattern that the matcher has not counts as skipped."""
    if not record.has_head and record.text.strip():
        return _unreadable(record, origin, _foreign(record.text) or _NO_STAMP)
    for layout, regex in _LAYOUTS:
        head = regex.match(record.text)
        if head is None:
            continue
        parts = dict(zip(layout.fields, head.groups(), strict=True))
        at = _utc(parts["at"], zone)
        if at is None:
            return _unreadable(record, origin, f"{parts['at']} is no time")
        found = matcher.recognise(record.text[head.end() :])
        if found is None:
            return Skipped(record.line_count)
        return _event(record, origin, at, found, level=parts.get("level"), thread=parts.get("thread"))
    if not record.has_head:
        return Skipped(record.line_count)  # empty lines
    return _of_application(record, zone, origin, matcher) or _unreadable(
        record, origin, "begins with a time stamp, but is laid out like no log of RocketMQ"
    )


def _event(
    record: Record, origin: LogOrigin, at: datetime, found: Recognised, *, level: str | None, thread: str | None
) -> LogEvent:
    return LogEvent(
        origin=origin,
        position=record.position,
        line=record.line,
        at=at,
        kind=found.pattern.kind,
        level=level,
        thread=thread,
        fields=found.fields,
        routine=found.pattern.routine,
        line_count=record.line_count,
    )


def _of_application(
    record: Record, zone: tzinfo, origin: LogOrigin, matcher: Matcher
) -> LogEvent | Unreadable | Skipped | None:
    """Find a known message behind whatever an application's layout writes before it; None: the line has no layout."""
    if head := OBJECT_HEAD.match(record.text):
        return _of_object(record, head[1], zone, origin, matcher)
    head = APPLICATION_HEAD.match(record.text)
    if head is None:
        return None
    first_line = record.text.partition("\n")[0]
    places = [found.end() for found in islice(SEPARATORS.finditer(first_line, head.end()), _MOST_SEPARATORS)]
    at = _utc(head[1].replace(",", "."), zone)
    if not places or at is None:
        return None
    for place in places:
        if found := matcher.recognise(record.text[place:]):
            level = _LEVEL.search(first_line, head.end(), place)
            return _event(record, origin, at, found, level=level and level[0], thread=None)
    foreign = _foreign(first_line)
    return _unreadable(record, origin, foreign) if foreign else Skipped(record.line_count)


def _of_object(
    record: Record, time: str, zone: tzinfo, origin: LogOrigin, matcher: Matcher
) -> LogEvent | Unreadable | Skipped | None:
    """Read a record that is a JSON object: its message, with the trace behind it; Docker's has the whole line in it."""
    try:
        said = json.loads(record.text.partition("\n")[0])
    except (ValueError, RecursionError):
        return None
    texts = {name: value for name, value in said.items() if isinstance(value, str)}
    if "log" in texts:
        return outcome_of(replace(record, text=texts["log"].rstrip("\n")), zone, origin, matcher)
    message = next((texts[name] for name in ("message", "msg") if name in texts), None)
    at = _utc(time.replace(",", "."), zone)
    if message is None or at is None:
        return None
    trace = next((texts[name] for name in ("stack_trace", "exception", "thrown") if name in texts), None)
    if found := matcher.recognise(message if trace is None else f"{message}\n{trace}"):
        return _event(record, origin, at, found, level=texts.get("level"), thread=None)
    foreign = _foreign(record.text)
    return _unreadable(record, origin, foreign) if foreign else Skipped(record.line_count)


def _foreign(text: str) -> str | None:
    return next((reason for reason, sign in _FOREIGN if sign.search(text)), None)


def message_of(text: str) -> str | None:
    """Return what follows the head of a record's text; None when no layout fits."""
    for _, regex in _LAYOUTS:
        head = regex.match(text)
        if head is not None:
            return text[head.end() :]
    return None


def event_row(event: LogEvent, cluster: str, interval_start: datetime) -> dict[str, object]:
    """Return the row of `tables.LOG_EVENTS`."""
    fields = event.fields
    return {
        "cluster": cluster,
        "interval_start": interval_start,
        "source": event.origin.source,
        "file": event.origin.file,
        "position": event.position,
        "kind": event.kind,
        "at": event.at,
        "broker_name": event.origin.broker_name,
        "broker_id": event.origin.broker_id,
        "consumer_group": _name(fields, "consumer_group"),
        "topic": _name(fields, "topic"),
        "queue_id": _int32(fields.get("queue_id")),
        "client_id": _name(fields, "client_id") or _name(fields, "client_address"),
        "fields_json": json.dumps(fields, ensure_ascii=False),
    }


@lru_cache(maxsize=4096)  # many lines share a second
def _utc(text: str, zone: tzinfo) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=zone)).astimezone(UTC)  # some layouts name the zone
    except (ValueError, OverflowError):  # a 31st of February; the year 1 in another zone
        return None


def _unreadable(record: Record, origin: LogOrigin, reason: str) -> Unreadable:
    return Unreadable(origin, record.position, record.line, record.line_count, reason, record.text[:_SHOWN_CHARACTERS])


def _name(fields: dict[str, Value], name: str) -> str | None:
    value = fields.get(name)
    return value[:_MAX_NAME_BYTES] if isinstance(value, str) else None


def _int32(value: Value) -> int | None:
    return value if isinstance(value, int) and -(2**31) <= value < 2**31 else None


MOVE = "offset_corrected"
CAUSES = frozenset({"offset_too_small", "offset_beyond_end", "no_queue_data", "queue_was_reset"})


class CorrectedPulls:
    """Puts together what a broker says of a corrected pull. Events of one file must come in its order."""

    def __init__(self) -> None:
        """Begin with a file, or with several."""
        self._said_before: dict[tuple[LogOrigin, str | None], LogEvent] = {}

    def move(self, event: LogEvent, cluster: str, interval_start: datetime) -> dict[str, object] | None:
        """Return the row of `tables.OFFSET_MOVES` when the event is a correction."""
        thread = (event.origin, event.thread)
        if event.kind in CAUSES:
            self._said_before[thread] = event
        if event.kind != MOVE:
            return None
        cause = self._said_before.pop(thread, None)
        known = cause.fields if cause is not None and _same_pull(cause.fields, event.fields) else {}
        return _row(event, known, cluster, interval_start)


def moves_from(events: Iterable[LogEvent], cluster: str, interval_start: datetime) -> Iterator[dict[str, object]]:
    """Yield the row of `tables.OFFSET_MOVES` for every correction. Events of one file must come in its order."""
    pulls = CorrectedPulls()
    return filter(None, (pulls.move(event, cluster, interval_start) for event in events))


def _same_pull(cause: Mapping[str, Value], move: Mapping[str, Value]) -> bool:
    """Every field that both lines have is equal: a thread serves one pull after the other."""
    shared = ("requested_offset", "corrected_offset", "topic", "consumer_group")
    return all(cause[name] in {None, move[name]} for name in shared if name in cause)


def _row(
    event: LogEvent, known: Mapping[str, Value], cluster: str, interval_start: datetime
) -> dict[str, object] | None:
    requested, corrected = event.fields["requested_offset"], event.fields.get("corrected_offset")
    if requested is None or corrected is None or event.origin.broker_name is None:
        return None  # beyond 64 bits: no offset; no broker name: not a broker's log
    return {
        "cluster": cluster,
        "interval_start": interval_start,
        "origin": "log",
        "source": f"{event.origin.source}/{event.origin.file}",
        "position": event.position,
        "moved_at": event.at,
        "consumer_group": event.fields["consumer_group"],
        "client_id": known.get("client_address"),
        "topic": event.fields["topic"],
        "broker_name": event.origin.broker_name,
        "queue_id": _int32(event.fields.get("queue_id", known.get("queue_id"))),
        "requested_offset": requested,
        "corrected_offset": corrected,
        "nearest_start_at": None,
    }
