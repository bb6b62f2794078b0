"""`offsetguard explain`: say what is made of samples that you give, and why."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from typing import IO, Annotated, Any, TypeVar

import click
from pydantic import BaseModel, BeforeValidator, StrictBool, ValidationError
from pydantic_core import PydanticCustomError

from offsetguard.cli.parameters import format_option
from offsetguard.config import Delivery, WindowPolicy
from offsetguard.decide.incidents.timing import LastSent, decide
from offsetguard.deliver.messages.wording import harmless
from offsetguard.facts.duckdb_engine import CurvePlace, producer_curve, time_lags
from offsetguard.judge.explained import GivenQueue, GivenSample, explain_queues
from offsetguard.judge.windows.figures import QueueContext
from offsetguard.store.columns import values_of

EXIT_WRONG_INPUT = 1
MESSAGE_MODELS = ("clustering", "broadcasting")
_TEXT_LIMIT = 2_000
_AT_ONCE = 1_000  # lines
LATEST_MS = 253_402_300_799_999  # the end of the year 9999
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Answer = dict[str, Any]
Given = TypeVar("Given")


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _wrong(text: str) -> PydanticCustomError:
    return PydanticCustomError("wrong", "{text}", {"text": text})


def _whole_number(least: int = 0, most: int = 2**63 - 1) -> BeforeValidator:
    """Take a whole number within limits, at most RocketMQ's longest offset; 1.0 is one, true and "1" are not."""

    def check(value: object) -> object:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise _wrong(f"is {_shown(value)}: write a whole number or null")
        if value is not None and not least <= value <= most:
            raise _wrong(f"is {_shown(value)}: it must be from {least} to {most}")
        return value

    return BeforeValidator(check)


def _message_model(value: object) -> object:
    if value is not None and (not isinstance(value, str) or value.casefold() not in MESSAGE_MODELS):
        raise _wrong(f"is {_shown(value)}: write {' or '.join(MESSAGE_MODELS)} or null")
    return value.casefold() if isinstance(value, str) else value


def _id(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _wrong(f"is {_shown(value)}: write a text or a whole number")
    return json.dumps(value)  # 1 and "1" are two


def _list_of_ids(value: object) -> object:
    if value is not None and not isinstance(value, list):
        raise _wrong(f"is no list: {_shown(value)}")
    return value or []  # Go writes an empty list as null


def _point(value: object) -> object:
    if not isinstance(value, list) or len(value) != 2:
        raise _wrong("is no point: write [max_offset, at_ms]")
    return value


Number = Annotated[int | None, _whole_number()]
MomentMs = Annotated[int, _whole_number(most=LATEST_MS)]
Ids = Annotated[frozenset[Annotated[str, BeforeValidator(_id)]], BeforeValidator(_list_of_ids)]
Point = Annotated[tuple[Number, Number], BeforeValidator(_point)]


class _Sample(BaseModel):
    at_ms: MomentMs
    consumer_offset: Number = None
    max_offset: Number = None
    min_offset: Number = None
    pull_offset: Number = None
    last_timestamp_ms: Number = None


class _Policy(BaseModel):
    allowed_lag: Number = None
    lag_floor: Number = None
    lag_floor_ms: Number = None
    window_ms: Annotated[int | None, _whole_number(1)] = None
    loss_horizon_ms: Number = None


class _QueueLine(BaseModel):
    now_ms: MomentMs
    samples: list[_Sample]
    online_clients: Number = None
    message_model: Annotated[str | None, BeforeValidator(_message_model)] = None
    orderly: StrictBool | None = None  # said of the queue; no verdict depends on it
    subscribed: StrictBool | None = None
    policy: _Policy | None = None

    @classmethod
    def read(cls, given: Any) -> GivenQueue:
        line = cls.model_validate(given)
        context = QueueContext(line.online_clients, line.message_model, line.subscribed)
        changes = line.policy.model_dump(exclude_none=True) if line.policy else {}
        samples = [GivenSample(**one.model_dump()) for one in line.samples]
        return GivenQueue(samples, context, WindowPolicy().model_copy(update=changes), line.now_ms)


class _TimeLagLine(BaseModel):
    now_ms: MomentMs
    curve: list[Point]
    consumer_offset: Number = None

    @classmethod
    def read(cls, given: Any) -> CurvePlace:
        line = cls.model_validate(given)
        return CurvePlace(producer_curve(line.curve), line.consumer_offset, line.now_ms)


class _LastSent(BaseModel):
    at_ms: MomentMs
    firing: Ids
    resolved: Ids = frozenset()


class _NotificationLine(BaseModel):
    now_ms: MomentMs
    last_sent: _LastSent | None = None
    firing: Ids
    resolved: Ids = frozenset()
    repeat_interval_ms: Annotated[int | None, _whole_number(most=LATEST_MS)] = None
    send_resolved: StrictBool | None = None


_input = click.argument("file", type=click.File("rb"), default="-")
_format = format_option("answer", "text")


@click.group()
def explain() -> None:
    """Say what OffsetGuard makes of what you give, and by which rule: the pipeline's own judgement.

    Each reads JSON, one object per line, from FILE or the standard input, and writes one answer per line. A line that
    is wrong yields {"id": ..., "error": "field x: ..."} in its place, and exit code 1 at the end.
    """


@explain.command()
@_input
@_format
def queue(file: IO[bytes], as_json: bool) -> None:
    """Say in which state a queue of a consumer group is: LOST, STALLED, FALLING_BEHIND, OK, ...

    A line has id, now_ms and samples, each with at_ms and what is known of consumer_offset, max_offset, min_offset,
    pull_offset and last_timestamp_ms; in any order. It may have online_clients, message_model (clustering or
    broadcasting), orderly, subscribed and policy: allowed_lag, lag_floor (messages), lag_floor_ms, window_ms,
    loss_horizon_ms. null, or nothing, is unknown and never 0. The answer has the state, the rule that fired and why;
    drain_ms and loss_ms are ranges from now on.

    \b
    Example:
      echo '{"id": 1, "now_ms": 180000, "online_clients": 0, "samples": [
        {"at_ms": 60000, "consumer_offset": 10, "max_offset": 900, "min_offset": 0},
        {"at_ms": 120000, "consumer_offset": 10, "max_offset": 1900, "min_offset": 0},
        {"at_ms": 180000, "consumer_offset": 10, "max_offset": 2900, "min_offset": 0}]}' |
        tr -d '\\n' | offsetguard explain queue

    \b
    Exit code: 0 = every line is answered, 1 = some line is wrong (see "error"), 2 = wrong arguments.
    """
    _show(file, as_json, _QueueLine.read, _of_queues)


@explain.command("time-lag")
@_input
@_format
def time_lag(file: IO[bytes], as_json: bool) -> None:
    """Say how old the oldest message is that was not consumed, by the max offsets of some samples.

    A line has id, curve ([[max_offset, at_ms], ...]), consumer_offset and now_ms. A message that was written between
    two samples lies on the straight line between them; after a stretch on which nothing was written, its end counts.
    Who stands at the newest point waits for nothing: 0. Before the curve lies one extrapolation by at most the curve's
    own length; what is older is unknown: null.

    \b
    Example:
      echo '{"id": 1, "curve": [[100, 0], [200, 60000]], "consumer_offset": 150, "now_ms": 60000}' |
        offsetguard explain time-lag

    \b
    Exit code: 0 = every line is answered, 1 = some line is wrong (see "error"), 2 = wrong arguments.
    """
    _show(file, as_json, _TimeLagLine.read, _of_time_lags)


@explain.command()
@_input
@_format
def notification(file: IO[bytes], as_json: bool) -> None:
    """Say whether a receiver is told about a group of incidents now, and why or why not: Alertmanager's decision.

    A line has id, now_ms, firing and resolved (ids of incidents), and last_sent: what the newest message said (at_ms,
    firing, resolved), or null when there was none. It may have repeat_interval_ms (4 h without it; more than that must
    have passed) and send_resolved (true without it).

    \b
    The reason is the first of these that holds:
      first           sent: something fires, and nothing was ever told, or the last message told that all has resolved
      new_firing      sent: something fires that the last message did not have
      all_resolved    sent, whether or not resolve notices are wanted: nothing fires any more
      nothing_firing  nothing fires, and nothing that was told did
      resolved        sent: a part has resolved that the last message had not, and resolve notices are wanted
      repeat          sent: the repeat interval has passed
      nothing_new     the last message still says it all

    The judge decides so for each team, cluster, rule and receiver, and knows further reasons from severity, time and
    mutes, which stand in its log: worse and escalated (sent); group_wait and group_interval (not yet);
    muted_by_inhibition, muted_until_seen, muted_by_maintenance, muted_by_silence, muted_by_quiet_hours, needs_nobody,
    acknowledged, resolved_unwanted and receiver_removed (not sent).

    \b
    Example:
      echo '{"id": 1, "now_ms": 7200000, "last_sent": {"at_ms": 3600000, "firing": ["a"], "resolved": []},
        "firing": ["a", "b"], "resolved": []}' | tr -d '\\n' | offsetguard explain notification

    \b
    Exit code: 0 = every line is answered, 1 = some line is wrong (see "error"), 2 = wrong arguments.
    """
    _show(file, as_json, _NotificationLine.model_validate, partial(map, _of_notification), at_once=1)


def _show(
    file: IO[bytes],
    as_json: bool,
    read: Callable[[Any], Given],
    answer: Callable[[list[Given]], Iterable[Answer]],
    at_once: int = _AT_ONCE,
) -> None:
    """Answer so many lines in one go, each in its place: a query costs as much for all of them as for one."""
    wrong = False
    lines = (line for line in file if line.strip())
    while part := list(islice(lines, at_once)):
        for found in _answers(part, read, answer):
            wrong = wrong or "error" in found
            click.echo(json.dumps(found) if as_json else _as_text(found))
    sys.exit(EXIT_WRONG_INPUT if wrong else 0)


def _answers(
    lines: list[bytes], read: Callable[[Any], Given], answer: Callable[[list[Given]], Iterable[Answer]]
) -> Iterator[Answer]:
    heads: list[Answer] = []
    asked: list[Given] = []
    for line in lines:
        head: Answer = {"id": None}
        try:
            given = _object_of(line)
            head["id"] = given.get("id")
            asked.append(read(given))
        except PydanticCustomError as error:
            head["error"] = f"field (line): {error.message()}"
        except ValidationError as error:
            head["error"] = f"field {_first_problem(error)}"
        heads.append(head)
    answers = iter(answer(asked))
    return (one if "error" in one else one | next(answers) for one in heads)


def _object_of(line: bytes) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is no JSON")

    try:
        given = json.loads(line, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"is no JSON: {str(error)[:200]}") from error
    if not isinstance(given, dict):
        raise _wrong(f"is no JSON object but {_shown(given)}")
    return given


def _first_problem(error: ValidationError) -> str:
    """Say what is wrong as `path: what to write`, such as `samples[3].at_ms: is missing: ...`."""
    problem = error.errors()[0]
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"]).removeprefix(".")
    kind, shown = problem["type"], _shown(problem["input"])
    if kind == "missing" or problem["input"] is None:
        return f"{path}: is missing: {'milliseconds since 1970' if path.endswith('_ms') else 'a list'}"
    says = {
        "model_type": f"is no JSON object but {shown}",
        "list_type": f"is no list: {shown}",
        "bool_type": f"is {shown}: write true, false or null",
    }
    return f"{path}: {says.get(kind, problem['msg'])}"


def _of_queues(given: list[GivenQueue]) -> list[Answer]:
    return [
        values_of(verdict, "drain", "loss", "figures")
        | {"drain_ms": verdict.drain and verdict.drain.range_ms, "loss_ms": verdict.loss and verdict.loss.range_ms}
        for verdict in explain_queues(given)
    ]


def _of_time_lags(given: list[CurvePlace]) -> list[Answer]:
    return [{"lag_ms": found.lag_ms, "reason": found.basis} for found in time_lags(given)]


def _of_notification(line: _NotificationLine) -> Answer:
    default = Delivery()
    sent, interval_ms, resolved = line.last_sent, line.repeat_interval_ms, line.send_resolved
    decision = decide(
        now=_moment(line.now_ms),
        last_sent=None if sent is None else LastSent(_moment(sent.at_ms), sent.firing, sent.resolved),
        firing=line.firing,
        resolved=line.resolved,
        repeat_interval_ms=default.repeat_interval_ms if interval_ms is None else interval_ms,
        send_resolved=default.send_resolved if resolved is None else resolved,
    )
    return {"send": decision.send, "reason": decision.reason}


def _moment(ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=ms)


def _as_text(answer: Answer) -> str:
    head = harmless(str(answer["id"]), _TEXT_LIMIT)
    if "error" in answer:
        return f"{head}: {harmless(answer['error'], _TEXT_LIMIT)}"
    if "send" in answer:
        return f"{head}: {'send' if answer['send'] else 'do not send'} ({answer['reason']})"
    if "state" not in answer:
        return f"{head}: {answer['lag_ms']} ms ({answer['reason']})"
    return f"{head}: {answer['state']}: {answer['reason']} [{answer['rule']}, {answer['samples_used']} samples]"
