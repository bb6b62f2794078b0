"""How the queue of a key stands: its offsets, its broker, and a consumer group there."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import click

from offsetguard.cli.check import SamplingPlan, take_samples
from offsetguard.config import Config
from offsetguard.config.configuration import asking_everything
from offsetguard.facts.interval import IntervalFacts
from offsetguard.facts.sampled_rounds import facts_of_rounds
from offsetguard.facts.snapshot_facts import rows_of
from offsetguard.judge.registry import judge
from offsetguard.judge.rule import Finding
from offsetguard.judge.windows.windows import judge_queues
from offsetguard.model.errors import RocketMQError
from offsetguard.model.offsets import MessageQueue, QueueOffsets, offsets_of
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.requests import GetRouteInfoByTopic, GetTopicStatsInfo
from offsetguard.sources.rocketmq.routes import TopicRoute, queues_to_write
from offsetguard.sources.rocketmq.signing import Credentials
from offsetguard.tables import QUEUE_SNAPSHOTS

_HEALTHY = "everything was consumed"
_NEVER_SEEN = "the group has no offset here: it never committed, its clients keep the offsets, or its name is another"


@dataclass(frozen=True, slots=True)
class KeyLookup:
    """The queues of one topic, and what is known of them; `error`: why there are none."""

    queues: tuple[MessageQueue, ...] = ()
    error: str | None = None
    broker: Mapping[str, dict[str, Any]] = field(default_factory=dict)  # by broker name
    ends: Mapping[MessageQueue, tuple[int, int]] = field(default_factory=dict)  # (min, max)
    group: GroupStanding | None = None

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
    facts: IntervalFacts  # with verdicts
    findings: Sequence[Finding]
    offsets: Mapping[MessageQueue, QueueOffsets]

    def standing(self, queue: MessageQueue) -> dict[str, Any]:
        """Return how the group stands in a queue, and what was found that concerns it."""
        suspect = next(
            (
                one
                for one in self.facts.queues
                if (one.consumer_group, one.message_queue) == (self.consumer_group, queue)
            ),
            None,
        )
        pair = next(
            (one for one in self.facts.groups if (one.consumer_group, one.topic) == (self.consumer_group, queue.topic)),
            None,
        )
        offsets = self.offsets.get(queue)
        verdict = suspect.verdict if suspect else None
        state = verdict.state.value if verdict else None if offsets is None else "OK"
        return {
            "consumer_group": self.consumer_group,
            "state": state,
            "reason": verdict.reason if verdict else _NEVER_SEEN if offsets is None else _HEALTHY,
            "consumer_offset": offsets.consumer_offset if offsets else None,
            "pull_offset": offsets.pull_offset if offsets else None,
            "lag": offsets.lag if offsets else None,
            "effective_lag": offsets.effective_lag if offsets else None,
            "inflight": offsets.inflight if offsets else None,
            "lag_ms": (verdict.lag_ms if verdict else suspect.lag_ms) if suspect else 0 if offsets else None,
            "holder_client_id": suspect.holder_client_id if suspect else None,
            "online_client_count": pair.online_client_count if pair else None,
            "group_lag": pair.lag if pair else None,
            "group_lag_ms": pair.lag_ms if pair else None,
            "findings": [_finding(one) for one in self.findings if _concerns(one, self.consumer_group, queue)],
        }


@dataclass(frozen=True, slots=True)
class LiveQueues:
    """A cluster to ask, and a group that is of interest."""

    cluster: str
    config: Config
    credentials: Credentials | None
    consumer_group: str | None
    samples: int
    every: timedelta

    async def look_up(self, topics: Sequence[str]) -> dict[str, KeyLookup]:
        """Return the queues of topics and how they stand; a topic that cannot be looked up has an error."""
        settings = self.config.clusters[self.cluster]
        limits = settings.collection
        async with RocketMQClient(
            settings.request_timeout_ms, self.credentials, limits.max_in_flight, limits.max_requests_per_s, settings.tls
        ) as client:
            found = {topic: await self._look_up(client, topic) for topic in topics}
        if self.consumer_group is None or all(one.error is not None for one in found.values()):
            return found
        group = await self._group(self.consumer_group)
        return {topic: replace(one, group=group) for topic, one in found.items()}

    async def _look_up(self, client: RocketMQClient, topic: str) -> KeyLookup:
        try:
            route = await self._route(client, topic)
            queues = queues_to_write(topic, route)
        except (RocketMQError, ValueError) as error:
            return KeyLookup(error=f"field topic: {error}")
        if not queues:
            return KeyLookup(
                error=f"field topic: {topic} has no queue that may be written to and whose master is there"
            )
        brokers: dict[str, dict[str, Any]] = {}
        ends: dict[MessageQueue, tuple[int, int]] = {}
        for one in route.brokers:
            address = one.master_address
            brokers[one.broker_name] = {"broker_answered": True, "broker_failure": None}
            if address is None:
                continue
            reached_at = self.config.clusters[self.cluster].address_map.get(address, address)
            try:
                stats = await client.call(reached_at, GetTopicStatsInfo(topic))
            except RocketMQError as error:
                brokers[one.broker_name] = {"broker_answered": False, "broker_failure": str(error)}
                continue
            ends |= {queue: (end.min_offset, end.max_offset) for queue, end in stats.queues.items()}
        return KeyLookup(queues, broker=brokers, ends=ends)

    async def _route(self, client: RocketMQClient, topic: str) -> TopicRoute:
        failure: RocketMQError | None = None
        for address in self.config.clusters[self.cluster].name_servers:
            try:
                return await client.call(address, GetRouteInfoByTopic(topic))
            except RocketMQError as error:
                failure = error
        raise failure or ValueError("no name server is configured")

    async def _group(self, consumer_group: str) -> GroupStanding:
        asked = asking_everything(self.config, self.cluster)
        plan = SamplingPlan(self.cluster, asked, self.samples, self.every, self.credentials)
        rounds = await take_samples(plan, _tell_on_terminals)
        facts = facts_of_rounds(rounds, self.config)
        rows = rows_of(rounds[-1].tables[QUEUE_SNAPSHOTS.name])
        return GroupStanding(
            consumer_group,
            judge_queues(facts, self.config),
            judge(facts, self.config).findings,
            {
                MessageQueue(row["topic"], row["broker_name"], row["queue_id"]): offsets_of(row)
                for row in rows
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


def _finding(finding: Finding) -> dict[str, str]:
    return {
        "rule": finding.rule.id,
        "severity": finding.severity.value,
        "state": finding.state,
        "summary": finding.summary,
        "cause": finding.cause,
        "do_next": finding.do_next,
    }


def _tell_on_terminals(text: str) -> None:
    if sys.stderr.isatty():
        click.echo(text, err=True)
