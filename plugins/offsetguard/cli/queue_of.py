"""`offsetguard queue-of`: which queue a message key goes to, and how things stand there: why is order 4711 late?"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from offsetguard.cli.key_lookup import KeyLookup, LiveQueues
from offsetguard.cli.output import Duration, wants_json
from offsetguard.cli.parameters import format_option
from offsetguard.cli.which_clusters import chosen_clusters, credentials_from
from offsetguard.deliver.messages.wording import harmless
from offsetguard.sources.rocketmq.routes import java_hash_code, position_of, queues_of_brokers

STANDARD_INPUT = "-"
EXIT_WRONG_INPUT = 1
_TEXT_LIMIT = 2_000
_MOST_QUEUES = 100_000
Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """One key to look up, or what is wrong with the input line."""

    given: Line  # `id`, where the input has one
    key: str = ""
    topic: str = ""
    error: str | None = None


@click.command("queue-of")
@click.argument("key", required=False, default=STANDARD_INPUT)
@click.option("--topic", help="The topic; a line of the standard input may name its own.")
@click.option("--namesrv", metavar="HOST:PORT[;HOST:PORT]", help="The name servers: they know the topic's queues.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="In place of --namesrv: this file.")
@click.option("--cluster", help="With --config: which cluster of the file (needless when it has only one).")
@click.option("--queues", type=click.IntRange(1, _MOST_QUEUES), help="Write queues of the topic on each broker.")
@click.option("--brokers", metavar="NAME,NAME", help="With --queues: the brokers that have the topic, in any order.")
@click.option("--group", "consumer_group", help="Say how this consumer group stands in the key's queue, and why.")
@click.option("--samples", type=click.IntRange(1, 100), default=3, show_default=True, help="With --group: looks.")
@click.option("--every", type=Duration(), default="10s", show_default=True, help="With --group: time between looks.")
@format_option("key", "text")
def queue_of(
    *,
    key: str,
    topic: str | None,
    namesrv: str | None,
    config_file: Path | None,
    cluster: str | None,
    queues: int | None,
    brokers: str | None,
    consumer_group: str | None,
    samples: int,
    every: timedelta,
    output_format: str,
) -> None:
    """Say which queue SelectMessageQueueByHash picks for KEY: Java's hashCode, without its sign, modulo the queues.

    The queues are those that a Java producer lists: brokers by name, of each the write queues by number; a broker that
    may not be written to, or has no master, is left out. So ask the name servers where you can. They also tell the
    offsets of the queue and whether its broker answers; with --group, a few looks at the cluster tell how the group
    stands there and what `offsetguard check` finds about it. KEY - (or none) reads JSON lines from the standard input:
    {"key": "4711", "id": ..., "topic": ...} or "4711"; a line that is wrong yields {"id", "error"} in its place.

    \b
    Examples:
      offsetguard queue-of order-4711 --topic orders --queues 8 --brokers broker-0,broker-1,broker-2
      offsetguard queue-of order-4711 --topic orders --namesrv 10.0.0.1:9876
      offsetguard queue-of order-4711 --topic orders --namesrv 10.0.0.1:9876 --group billing   why is it late?
      jq '{id: .order, key: .customer}' late.json -c | offsetguard queue-of --topic orders --namesrv 10.0.0.1:9876

    \b
    Exit code: 0 = every key has its queue, 1 = some line is wrong (see "error"), 2 = wrong arguments.
    """  # noqa: D301 click wants the character itself
    asked = list(_read_keys(key, topic))
    live = namesrv is not None or config_file is not None
    _check(live=live, queues=queues, brokers=brokers, consumer_group=consumer_group)
    if live:
        (name,), config = chosen_clusters(namesrv, config_file, [cluster] if cluster is not None else [])
        source = LiveQueues(name, config, credentials_from(os.environ), consumer_group, samples, every)
        topics = sorted({one.topic for one in asked if one.error is None})
        lookups = asyncio.run(source.look_up(topics))
    else:
        names = {one.strip() for one in (brokers or "").split(",")} - {""}
        lookups = {
            one.topic: KeyLookup(queues_of_brokers(one.topic, ((name, queues or 0) for name in names)))
            for one in asked
            if one.error is None
        }
    lines = [_line(one, lookups) for one in asked]
    for line in map(json.dumps, lines) if wants_json(output_format) else _as_text(lines):
        click.echo(line)
    sys.exit(EXIT_WRONG_INPUT if any("error" in line for line in lines) else 0)


def _check(*, live: bool, queues: int | None, brokers: str | None, consumer_group: str | None) -> None:
    offline = queues is not None or brokers is not None
    if live == offline:
        raise click.UsageError("say which queues there are: either --namesrv HOST:PORT, or --queues N --brokers a,b")
    if offline and (queues is None or not (brokers or "").replace(",", "").strip()):
        raise click.UsageError("--queues N and --brokers a,b belong together: N write queues on each of them")
    if consumer_group is not None and not live:
        raise click.UsageError("--group needs a cluster to look at: --namesrv HOST:PORT")


def _read_keys(key: str, topic: str | None) -> Iterator[Asked]:
    if key != STANDARD_INPUT:
        if topic is None:
            raise click.UsageError("--topic: say which topic the message goes to")
        yield Asked({}, key, topic)
        return
    for text in sys.stdin.buffer:
        if text.strip():
            yield _read_line(text, topic)


def _read_line(text: bytes, default_topic: str | None) -> Asked:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Asked({"id": None}, error=f"no JSON: {str(error)[:200]}")
    if isinstance(value, str):
        value = {"key": value}
    if not isinstance(value, dict):
        return Asked({"id": None}, error='no JSON object and no text: write {"key": "4711"} or "4711"')
    given = {"id": value["id"]} if "id" in value else {}
    key, topic = value.get("key"), value.get("topic", default_topic)
    if not isinstance(key, str):
        return Asked({"id": None} | given, error='field key: is missing or no text; write numbers as texts: "4711"')
    if not isinstance(topic, str) or not topic:
        return Asked({"id": None} | given, error="field topic: is missing; write it here or as --topic")
    return Asked(given, key, topic)


def _line(asked: Asked, lookups: dict[str, KeyLookup]) -> Line:
    """Return the answer to one key; design section 7 fixes the first five fields."""
    if asked.error is not None:
        return asked.given | {"error": asked.error}
    hash_code = java_hash_code(asked.key)
    lookup = lookups[asked.topic]
    head = asked.given | {"key": asked.key, "topic": asked.topic, "hash": hash_code}
    if lookup.error is not None:
        return {"id": None} | head | {"error": lookup.error}
    position = position_of(hash_code, len(lookup.queues))
    queue = lookup.queues[position]
    found = {"broker_name": queue.broker_name, "queue_id": queue.queue_id}
    return head | found | {"position": position, "queue_count": len(lookup.queues)} | lookup.standing(queue)


def _as_text(lines: Iterable[Line]) -> Iterator[str]:
    for line in lines:
        for text in _texts_of(line):
            yield harmless(text, _TEXT_LIMIT)


def _texts_of(line: Line) -> Iterator[str]:
    if "error" in line:
        yield f"{line.get('key', line.get('id'))}: {line['error']}"
        return
    yield (
        f"{line['key']}: {line['topic']} {line['broker_name']}/{line['queue_id']}"
        f" (hash {line['hash']}, queue {line['position'] + 1} of {line['queue_count']})"
    )
    if "broker_answered" in line:
        kept = f"offsets {_shown(line['min_offset'])} to {_shown(line['max_offset'])}"
        yield f"  {line['broker_name']}: " + (
            kept if line["broker_answered"] else f"no answer: {line['broker_failure']}"
        )
    if "consumer_group" in line:
        yield (
            f"  {line['consumer_group']}: {line['state'] or 'no offsets'}: {line['reason']}; lag {_shown(line['lag'])}"
            f" in this queue, {_shown(line['group_lag'])} in all of the topic"
        )
        for finding in line["findings"]:
            yield f"  {finding['severity'].upper()}  {finding['summary']}  [{finding['rule']}]"
            yield f"    {finding['cause']}"
            yield f"    Do next: {finding['do_next']}"


def _shown(figure: int | None) -> str:
    return "unknown" if figure is None else f"{figure:,}"
