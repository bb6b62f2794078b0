"""`offsetguard explain`: what OffsetGuard makes of samples or incidents, and by which rule. Needs no cluster."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import chain, islice
from typing import IO, Any, TypeVar

import click

from offsetguard.cli.json_fields import LATEST_MS, FieldError, Fields, whole_number
from offsetguard.cli.output import wants_json
from offsetguard.cli.parameters import format_option
from offsetguard.config import Delivery, WindowPolicy
from offsetguard.decide.incidents.timing import LastSent, decide
from offsetguard.deliver.messages.wording import harmless
from offsetguard.facts.time_lag import CurvePlace, producer_curve, time_lags
from offsetguard.judge.explained import GivenQueue, GivenSample, explain_queues
from offsetguard.judge.windows.rules import QueueContext

EXIT_WRONG_INPUT = 1
MESSAGE_MODELS = ("clustering", "broadcasting")
_TEXT_LIMIT = 2_000
_AT_ONCE = 1_000  # lines
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSETS = ("consumer_offset", "max_offset", "min_offset", "pull_offset")
Answer = dict[str, Any]
Given = TypeVar("Given")

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
def queue(file: IO[bytes], output_format: str) -> None:
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
    """  # noqa: D301 click wants the character itself
    _answer_together(file, output_format, _given_queue, _of_queues)


@explain.command("time-lag")
@_input
@_format
def time_lag(file: IO[bytes], output_format: str) -> None:
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
    """  # noqa: D301 click wants the character itself
    _answer_together(file, output_format, _curve_place, _of_time_lags)


@explain.command()
@_input
@_format
def notification(file: IO[bytes], output_format: str) -> None:
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
    muted_by_inhibition, muted_until_seen, muted_by_maintenance, muted_by_silence, muted_by_quiet_hours, acknowledged,
    resolved_unwanted and receiver_removed (not sent).

    \b
    Example:
      echo '{"id": 1, "now_ms": 7200000, "last_sent": {"at_ms": 3600000, "firing": ["a"], "resolved": []},
        "firing": ["a", "b"], "resolved": []}' | tr -d '\\n' | offsetguard explain notification

    \b
    Exit code: 0 = every line is answered, 1 = some line is wrong (see "error"), 2 = wrong arguments.
    """  # noqa: D301 click wants the character itself
    _answer_lines(file, output_format, _of_notification)


def _answer_lines(file: IO[bytes], output_format: str, answer: Callable[[Fields], Answer]) -> None:
    """Answer each line as soon as it is read."""
    _show((_answered(line, answer) for line in file if line.strip()), output_format)


def _answer_together(
    file: IO[bytes], output_format: str, read: Callable[[Fields], Given], answer: Callable[[list[Given]], list[Answer]]
) -> None:
    """Answer a thousand lines in one go, each in its place: a query costs as much for all of them as for one."""
    _show(chain.from_iterable(_in_places(lines, read, answer) for lines in _in_parts(file)), output_format)


def _in_parts(file: IO[bytes]) -> Iterator[list[bytes]]:
    lines = (line for line in file if line.strip())
    while part := list(islice(lines, _AT_ONCE)):
        yield part


def _in_places(
    lines: list[bytes], read: Callable[[Fields], Given], answer: Callable[[list[Given]], list[Answer]]
) -> Iterator[Answer]:
    asked: list[Given] = []

    def keep(given: Fields) -> Answer:
        asked.append(read(given))
        return {}

    kept = [_answered(line, keep) for line in lines]
    answers = iter(answer(asked))
    return (one if "error" in one else one | next(answers) for one in kept)


def _show(answers: Iterable[Answer], output_format: str) -> None:
    as_json, wrong = wants_json(output_format), False
    for found in answers:
        wrong = wrong or "error" in found
        click.echo(json.dumps(found) if as_json else _as_text(found))
    sys.exit(EXIT_WRONG_INPUT if wrong else 0)


def _answered(line: bytes, answer: Callable[[Fields], Answer]) -> Answer:
    given_id = None
    try:
        given = Fields.read(line)
        given_id = given.values.get("id")
        return {"id": given_id} | answer(given)
    except FieldError as error:
        return {"id": given_id, "error": str(error)}


def _given_queue(given: Fields) -> GivenQueue:
    now_ms = given.moment_ms("now_ms")
    samples = [_given_sample(one) for one in given.objects("samples")]
    context = QueueContext(
        online_client_count=given.integer("online_clients"),
        message_model=given.word("message_model", MESSAGE_MODELS),
        orderly=given.flag("orderly"),
        subscribed=given.flag("subscribed"),
    )
    return GivenQueue(samples, context, _policy(given.inner("policy")), now_ms)


def _of_queues(given: list[GivenQueue]) -> list[Answer]:
    return [
        {
            "state": verdict.state.value,
            "rule": verdict.rule,
            "reason": verdict.reason,
            "lag": verdict.lag,
            "effective_lag": verdict.effective_lag,
            "lost": verdict.lost,
            "lag_ms": verdict.lag_ms,
            "samples_used": verdict.samples_used,
            "drain_ms": verdict.drain_ms,
            "loss_ms": verdict.loss_ms,
        }
        for verdict in explain_queues(given)
    ]


def _given_sample(given: Fields) -> GivenSample:
    offsets = {name: given.integer(name) for name in _OFFSETS}
    return GivenSample(given.moment_ms("at_ms"), last_timestamp_ms=given.integer("last_timestamp_ms"), **offsets)


def _policy(given: Fields) -> WindowPolicy:
    """Return the default policy with what is given; fields that it does not know are another release's."""
    least = {"allowed_lag": 0, "lag_floor": 0, "lag_floor_ms": 0, "window_ms": 1, "loss_horizon_ms": 0}
    changes = {name: given.integer(name, least=least[name]) for name in WindowPolicy.model_fields}
    return WindowPolicy().model_copy(update={name: value for name, value in changes.items() if value is not None})


def _curve_place(given: Fields) -> CurvePlace:
    now_ms = given.moment_ms("now_ms")
    points = [_point(value, f"curve[{position}]") for position, value in enumerate(given.items("curve"))]
    return CurvePlace(producer_curve(points), given.integer("consumer_offset"), now_ms)


def _of_time_lags(given: list[CurvePlace]) -> list[Answer]:
    return [{"lag_ms": found.lag_ms, "reason": found.basis.value} for found in time_lags(given)]


def _point(value: object, path: str) -> tuple[int | None, int | None]:
    if not isinstance(value, list) or len(value) != 2:
        raise FieldError(path, "is no point: write [max_offset, at_ms]")
    offset, at_ms = (None if one is None else whole_number(one, f"{path}[{n}]") for n, one in enumerate(value))
    return offset, at_ms


def _of_notification(given: Fields) -> Answer:
    default = Delivery()
    repeat_interval_ms = given.integer("repeat_interval_ms", most=LATEST_MS)
    send_resolved = given.flag("send_resolved")
    decision = decide(
        now=_moment(given.moment_ms("now_ms")),
        last_sent=None if given.values.get("last_sent") is None else _last_sent(given.inner("last_sent")),
        firing=given.ids("firing"),
        resolved=given.ids("resolved", needed=False),
        repeat_interval_ms=default.repeat_interval_ms if repeat_interval_ms is None else repeat_interval_ms,
        send_resolved=default.send_resolved if send_resolved is None else send_resolved,
    )
    return {"send": decision.send, "reason": decision.reason.value}


def _last_sent(given: Fields) -> LastSent:
    return LastSent(_moment(given.moment_ms("at_ms")), given.ids("firing"), given.ids("resolved", needed=False))


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
