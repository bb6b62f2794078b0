"""`offsetguard queue-of`: say which queue a message key goes to, and how it stands."""

import asyncio
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import click

from offsetguard.cli.check import SamplingPlan, take_samples
from offsetguard.cli.finding_output import finding_document, how_settings_hold
from offsetguard.cli.output import progress, show, shown
from offsetguard.cli.parameters import (
    DURATION,
    check_group,
    chosen_cluster,
    credentials_from,
    first_answer,
    format_option,
)
from offsetguard.config import Cluster
from offsetguard.config.configuration import asking_everything
from offsetguard.config.file import did_you_mean
from offsetguard.deliver.messages.wording import pasteable
from offsetguard.facts.interval import QueueFacts
from offsetguard.facts.rounds import facts_of_rounds, rows_of
from offsetguard.judge.registry import judge
from offsetguard.judge.rule import Finding
from offsetguard.judge.windows.windows import judge_queues
from offsetguard.model.errors import RocketMQError
from offsetguard.model.offsets import MAX_QUEUES, MessageQueue, QueueOffsets, offsets_of
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.codes import TopicNotExist
from offsetguard.sources.rocketmq.requests import (
    GetAllTopicConfig,
    GetBrokerClusterInfo,
    GetRouteInfoByTopic,
    GetTopicStatsInfo,
)
from offsetguard.sources.rocketmq.routes import (
    java_hash_code,
    position_of,
    queues_of_brokers,
    queues_to_write,
)
from offsetguard.tables import QUEUE_SNAPSHOTS
from offsetguard.tables.group_facts import GroupFacts

STANDARD_INPUT = "-"
EXIT_WRONG_INPUT = 1
Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """One key to look up, or what is wrong with the input line."""

    given: Line  # `id`, where the input has one
    key: str = ""
    topic: str = ""
    error: str | None = None


@click.command()
@click.argument("key", required=False, default=STANDARD_INPUT)
@click.option("--topic", help="The topic; a line of the standard input may name its own.")
@click.option("--namesrv", metavar="HOST:PORT[;HOST:PORT]", help="The name servers: they know the topic's queues.")
@click.option("--config", "config_file", type=click.Path(path_type=Path), help="In place of --namesrv: this file.")
@click.option("--cluster", help="With --config: which cluster of the file (needless when it has only one).")
@click.option("--queues", type=click.IntRange(1, MAX_QUEUES), help="Write queues of the topic on each broker.")
@click.option("--brokers", metavar="NAME,NAME", help="With --queues: the brokers that have the topic, in any order.")
@click.option("--group", "consumer_group", help="Say how this consumer group stands in the key's queue, and why.")
@click.option("--samples", type=click.IntRange(1, 100), default=3, show_default=True, help="With --group: looks.")
@click.option("--every", type=DURATION, default="10s", show_default=True, help="With --group: time between looks.")
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
    as_json: bool,
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
    """
    asked = list(_read_keys(key, topic))
    live = namesrv is not None or config_file is not None
    _check(live=live, queues=queues, brokers=brokers, consumer_group=consumer_group)
    topics = sorted({one.topic for one in asked if one.error is None})
    if live:
        name, config = chosen_cluster(namesrv, config_file, cluster)
        plan = SamplingPlan(name, config, samples, every, credentials_from())
        lookups = asyncio.run(_look_up(plan, consumer_group, topics))
    else:
        names = {one.strip() for one in (brokers or "").split(",")} - {""}
        try:
            lookups = {
                topic: KeyLookup(queues_of_brokers(topic, ((name, queues or 0) for name in names))) for topic in topics
            }
        except ValueError as error:
            raise click.UsageError(f"--brokers: {error}") from error
    if key != STANDARD_INPUT and (wrong := lookups[asked[0].topic]).is_unknown:
        raise click.UsageError(f"--topic: {(wrong.error or '').removeprefix('field topic: ')}")
    lines = [_line(one, lookups) for one in asked]
    show(lines, chain.from_iterable(map(_texts_of, lines)), as_json=as_json, limit=2_000)
    for text in how_settings_hold((one for line in lines for one in line.get("findings", ())), config_file):
        click.echo(text, err=as_json)
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


def _line(asked: Asked, lookups: "dict[str, KeyLookup]") -> Line:
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


def _texts_of(line: Line) -> Iterator[str]:
    if "error" in line:
        yield f"{line.get('key', line.get('id'))}: {line['error']}"
        return
    yield (
        f"{line['key']}: {line['topic']} {line['broker_name']}/{line['queue_id']}"
        f" (hash {line['hash']}, queue {line['position'] + 1} of {line['queue_count']})"
    )
    if "broker_answered" in line:
        kept = f"offsets {shown(line['min_offset'])} to {shown(line['max_offset'])}"
        yield f"  {line['broker_name']}: " + (
            kept if line["broker_answered"] else f"no answer: {line['broker_failure']}"
        )
    if "consumer_group" in line:
        yield (
            f"  {line['consumer_group']}: {line['state'] or 'no offsets'}: {line['reason']}; lag {_lag(line)}"
            f" in this queue, {_lag(line, 'group_')} in all of the topic"
        )
        for finding in line["findings"]:
            yield f"  {finding['severity'].upper()}  {finding['summary']}  [{finding['rule']}]"
            yield f"    {finding['cause']}"
            yield f"    Do next: {finding['do_next']}"
            yield from (f"      {command}" for command in pasteable(finding["commands"]))


def _lag(line: Line, of: str = "") -> str:
    """Return what waits, and what lies beyond the end: two figures, of which none makes the other one less."""
    lag, beyond_end = line[f"{of}lag"], line[f"{of}beyond_end"]
    waits = shown(lag if lag is None else max(0, lag))
    return f"{waits} ({beyond_end:,} beyond the end)" if beyond_end else waits


_HEALTHY = "everything was consumed"
_OF_FINDING = ("rule", "severity", "state", "summary", "cause", "do_next", "commands")
_NEVER_SEEN = "the group has no offset here: it never committed, its clients keep the offsets, or its name is another"


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """The queues of one topic, and what is known of them; `error`: why there are none."""

    queues: tuple[MessageQueue, ...] = ()
    error: str | None = None
    is_unknown: bool = False  # no name server knows the topic
    broker: Mapping[str, dict[str, Any]] = field(default_factory=dict)  # by broker name
    ends: Mapping[MessageQueue, tuple[int, int]] = field(default_factory=dict)  # (min, max)
    group: "GroupStanding | None" = None

    def standing(self, queue: MessageQueue) -> dict[str, Any]:
        """Return the fields of the answer that say how the queue stands; none without a cluster to ask."""
        if not self.broker:
            return {}
        low, high = self.ends.get(queue, (None, None))
        of_queue = {"min_offset": low, "max_offset": high, **self.broker[queue.broker_name]}
        return of_queue | (self.group.standing(queue) if self.group else {})


@dataclass(frozen=True, slots=True)
class GroupStanding:
    """One consumer group, as a few looks at the cluster show it."""

    consumer_group: str
    suspects: Mapping[MessageQueue, QueueFacts]  # with verdicts
    pairs: Mapping[str, GroupFacts]  # by topic
    findings: Sequence[Finding]
    offsets: Mapping[MessageQueue, QueueOffsets]

    def standing(self, queue: MessageQueue) -> dict[str, Any]:
        """Return how the group stands in a queue, and what was found that concerns it."""
        suspect, pair, offsets = self.suspects.get(queue), self.pairs.get(queue.topic), self.offsets.get(queue)
        verdict = suspect.verdict if suspect else None
        concerned = (finding_document(one) for one in self.findings if _concerns(one, self.consumer_group, queue))
        return {
            "consumer_group": self.consumer_group,
            "state": verdict.state if verdict else None if offsets is None else "OK",
            "reason": verdict.reason if verdict else _NEVER_SEEN if offsets is None else _HEALTHY,
            "consumer_offset": offsets.consumer_offset if offsets else None,
            "pull_offset": offsets.pull_offset if offsets else None,
            "lag": offsets.lag if offsets else None,
            "effective_lag": offsets.effective_lag if offsets else None,
            "inflight": offsets.inflight if offsets else None,
            "beyond_end": offsets.beyond_end if offsets else None,
            "lag_ms": (verdict.lag_ms if verdict else suspect.lag_ms) if suspect else 0 if offsets else None,
            "holder_client_id": suspect.holder_client_id if suspect else None,
            "online_client_count": pair.online_client_count if pair else None,
            "group_lag": pair.lag if pair else None,
            "group_beyond_end": pair.beyond_end if pair else None,
            "group_lag_ms": pair.lag_ms if pair else None,
            "findings": [{name: document[name] for name in _OF_FINDING} for document in concerned],
        }


async def _look_up(plan: SamplingPlan, consumer_group: str | None, topics: Sequence[str]) -> dict[str, KeyLookup]:
    """Return the queues of topics and how they stand; a topic that cannot be looked up has an error."""
    cluster = plan.config.clusters[plan.cluster]
    async with RocketMQClient.of(cluster, plan.credentials) as client:
        found = {topic: await _look_up_topic(client, cluster, topic) for topic in topics}
    if consumer_group is None or all(one.error is not None for one in found.values()):
        return found
    group = await _group_standing(plan, consumer_group)
    return {topic: replace(one, group=group) for topic, one in found.items()}


async def _look_up_topic(client: RocketMQClient, cluster: Cluster, topic: str) -> KeyLookup:
    try:
        route = await first_answer(client, cluster.name_servers, GetRouteInfoByTopic(topic), progress(shown=False))
        queues = queues_to_write(topic, route)
    except TopicNotExist as error:
        near = did_you_mean(topic, await _topics_of(client, cluster))
        return KeyLookup(error=f"field topic: {error}{near}", is_unknown=True)
    except (RocketMQError, ValueError) as error:
        return KeyLookup(error=f"field topic: {error}")
    if not queues:
        return KeyLookup(error=f"field topic: {topic} has no queue that may be written to and whose master is there")
    brokers: dict[str, dict[str, Any]] = {}
    ends: dict[MessageQueue, tuple[int, int]] = {}
    if len(route.brokers) > (limit := cluster.collection.replicas):
        return KeyLookup(error=f"field topic: {topic} has {len(route.brokers)} brokers; collection.replicas is {limit}")
    asked = {one.broker_name: one.master_address for one in route.brokers}
    outcomes = await asyncio.gather(*(_ends_of(client, cluster, topic, address) for address in asked.values()))
    for broker_name, outcome in zip(asked, outcomes, strict=True):
        failure = str(outcome) if isinstance(outcome, RocketMQError) else None
        brokers[broker_name] = {"broker_answered": failure is None, "broker_failure": failure}
        if not isinstance(outcome, RocketMQError):
            ends |= outcome
    return KeyLookup(queues, broker=brokers, ends=ends)


async def _ends_of(
    client: RocketMQClient, cluster: Cluster, topic: str, address: str | None
) -> dict[MessageQueue, tuple[int, int]] | RocketMQError:
    if address is None:
        return {}
    try:
        stats = await client.call(cluster.address_map.get(address, address), GetTopicStatsInfo(topic))
    except RocketMQError as error:
        return error
    return {queue: (end.min_offset, end.max_offset) for queue, end in stats.queues.items()}


async def _topics_of(client: RocketMQClient, cluster: Cluster) -> set[str]:
    """Return the topics that masters know; none where nobody tells: nothing can be proposed then."""
    known: set[str] = set()
    with suppress(RocketMQError):
        found = await first_answer(client, cluster.name_servers, GetBrokerClusterInfo(), progress(shown=False))
        for address in (one.master_address for one in found.brokers[: cluster.collection.replicas]):
            if address is not None:
                topics = await client.call(cluster.address_map.get(address, address), GetAllTopicConfig())
                known |= topics.keys()
    return known


async def _group_standing(plan: SamplingPlan, consumer_group: str) -> GroupStanding:
    config = plan.config
    asked = replace(plan, config=asking_everything(config, plan.cluster))
    rounds = await take_samples(asked, progress(shown=sys.stderr.isatty()))
    check_group([one.tables for one in rounds], name=consumer_group)
    facts = facts_of_rounds(rounds, config)
    return GroupStanding(
        consumer_group,
        {one.message_queue: one for one in judge_queues(facts, config).queues if one.consumer_group == consumer_group},
        {one.topic: one for one in facts.groups if one.consumer_group == consumer_group},
        judge(facts, config).findings,
        {
            MessageQueue(row["topic"], row["broker_name"], row["queue_id"]): offsets_of(row)
            for row in rows_of(rounds[-1].tables[QUEUE_SNAPSHOTS.name])
            if row["consumer_group"] == consumer_group
        },
    )


def _concerns(finding: Finding, consumer_group: str, queue: MessageQueue) -> bool:
    """Whether a finding may be why a message of the queue is late: about the group there, its broker or everything."""
    if finding.consumer_group is None and finding.topic is None:
        return not finding.all_broker_names or queue.broker_name in finding.all_broker_names
    if finding.consumer_group not in (None, consumer_group) or finding.topic not in (None, queue.topic):
        return False
    of_topic = [one.message_queue for one in finding.queues if one.message_queue.topic == queue.topic]
    return not of_topic or queue in of_topic
