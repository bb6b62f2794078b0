"""What the threads of a client do that holds up a queue: it is asked for its running info once more, with stacks.

Asked is who holds a queue whose committed offset has not moved since the round before although its next message has
waited there for STANDS; one that holds a queue of which nothing was ever committed, and has finished none of its
messages for so long; or one that has messages of a POP group in its hands of which none is finished. It has just said
what it does, so it answers. To write the stacks takes a JVM a safepoint of milliseconds.

Limits: one client of a group in AGAIN_AFTER, and `collection.stacks` of them in a round. What it said stays with the
group as long as something of it stands, so that it stands beside the warning that comes minutes later.
Source: ClientRemotingProcessor#getConsumerRunningInfo, UtilAll#jstack (4.9.7, 5.3.3, 5.5.0).
"""

import asyncio
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from offsetguard.collect.broker_reading import BrokerReading, PairReading
from offsetguard.collect.columns import microseconds
from offsetguard.collect.details import CLIENT_PATIENCE_S, can_answer
from offsetguard.collect.earlier_round import EarlierFigures
from offsetguard.collect.replica import ReplicaLink
from offsetguard.model.errors import NotRecorded, RequestTimedOut, RocketMQError
from offsetguard.model.fact_records import ClientStacks, as_text, of_text
from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq.codes import ClientTimedOut
from offsetguard.sources.rocketmq.consumers import ConsumerRunningInfo, ProcessQueueInfo
from offsetguard.sources.rocketmq.requests import GetConsumerRunningInfo
from offsetguard.sources.rocketmq.stacks import stacks_of

STANDS = timedelta(seconds=30)
AGAIN_AFTER = timedelta(minutes=10)
_STANDS_US = STANDS // timedelta(microseconds=1)


@dataclass(slots=True)
class StacksOfRound:
    """Which groups stand in a round, whom of their clients it asks for stacks, and what they said."""

    limit: int = 0
    figures: EarlierFigures = field(default_factory=EarlierFigures)
    standing: dict[str, dict[MessageQueue, bool]] = field(default_factory=dict)  # by group; whether it ever committed
    taken: dict[str, ClientStacks] = field(default_factory=dict)  # by group
    _asked: set[str] = field(default_factory=set)  # groups

    def look_at(self, broker_name: str, pair: PairReading) -> None:
        """Note the queues of a suspect pair that stand."""
        for queue_id, has_committed in self._standing_queues(broker_name, pair):
            queue = MessageQueue(pair.topic, broker_name, queue_id)
            self.standing.setdefault(pair.consumer_group, {})[queue] = has_committed

    def may_ask(self, consumer_group: str, at: datetime) -> bool:
        """Return whether a client of the group is to be asked now; no other one of it is then."""
        if consumer_group in self._asked or len(self._asked) >= self.limit or self._lately(consumer_group, at):
            return False
        self._asked.add(consumer_group)
        return True

    def held_up_by(self, consumer_group: str, info: ConsumerRunningInfo, at: datetime) -> int:
        """Return how many queues of its group, or POP messages, a client holds up."""
        standing = self.standing.get(consumer_group, {})
        count = sum(
            standing[queue] or (bool(held.cached_message_count) and _finished_long_ago(held, at))
            for queue, held in info.queues.items()
            if queue in standing
        )
        if count == 0 and self._pop_stands(consumer_group):
            return sum(one.wait_ack_count for one in info.pop_queues.values())
        return count

    def kept(
        self, consumer_group: str, masters: Sequence[BrokerReading], at_proxies: Collection[str] = ()
    ) -> str | None:
        """Return what is known of a group's threads, as its row of this round keeps it; None: nothing.

        `at_proxies`: ids of its clients that proxies list.
        """
        now = max((one.committed_at for one in masters if one.committed_at), default=None)
        if self.limit == 0 or now is None:
            return None
        stands = consumer_group in self.standing or self._pop_stands(consumer_group)
        said = self.taken.get(consumer_group)
        if said is None and (before := self._lately(consumer_group, now)) is not None:
            is_over = not stands and all(one.gave_offsets for one in masters)
            said = ClientStacks(before.client_id, before.taken_at) if is_over else before
        if said is None and stands:
            said = _untold(consumer_group, masters, at_proxies, now)
        return None if said is None else as_text(said)

    def _lately(self, consumer_group: str, now: datetime) -> ClientStacks | None:
        """Return what a client said that was asked less than AGAIN_AFTER ago, or why it did not."""
        before = of_text(self.figures.groups.get(consumer_group, {}).get("client_stacks"))
        return before if before is not None and before.asked and now - before.taken_at < AGAIN_AFTER else None

    def _standing_queues(self, broker_name: str, pair: PairReading) -> Iterator[tuple[int, bool]]:
        """Yield (queue id, whether it ever committed); nothing where there is no round before to compare with."""
        now = microseconds(pair.consumer_at)
        if now is None or self.figures.finished_at is None:
            return
        before = self.figures.ages.get((broker_name, pair.topic, pair.consumer_group), {})
        for queue_id, offsets in pair.offsets():
            if offsets.consumer_offset is None:
                if (offsets.max_offset or 0) > (offsets.min_offset or 0):
                    yield queue_id, False
            elif (offsets.effective_lag or 0) > 0:
                offset_before, stored_at = before.get(queue_id, (None, now))
                if offset_before == offsets.consumer_offset and now - stored_at >= _STANDS_US:
                    yield queue_id, True

    def _pop_stands(self, consumer_group: str) -> bool:
        """Whether a POP group had finished nothing for so long by the round before."""
        since = self.figures.groups.get(consumer_group, {}).get("pop_unfinished_since")
        seen_at = self.figures.finished_at
        return since is not None and seen_at is not None and seen_at - since >= STANDS


async def read_stacks(link: ReplicaLink, reading: BrokerReading, of_round: StacksOfRound) -> None:
    """Ask clients of this broker that have just answered and hold up their groups; fills `of_round.taken`."""
    holding_up = sorted(
        (-count, client, answer.at)
        for client, answer in reading.running_info.items()
        if answer.info is not None and answer.at is not None
        if (count := of_round.held_up_by(client[0], answer.info, answer.at))
    )
    for _, (group, client_id), at in holding_up:
        if not of_round.may_ask(group, at):
            continue
        connections = reading.connections.get(group)
        languages = (
            {one.language for one in connections.connections if one.client_id == client_id} if connections else {}
        )
        if languages and "JAVA" not in languages:
            of_round.taken[group] = ClientStacks(client_id, at, cannot_tell="stacks_not_java")
        elif (said := await _ask(link, group, client_id, at)) is not None:
            of_round.taken[group] = said


async def _ask(link: ReplicaLink, group: str, client_id: str, at: datetime) -> ClientStacks | None:
    """None: a recorded round, in which nobody asked this."""
    try:
        async with asyncio.timeout(CLIENT_PATIENCE_S):
            outcome = await link.ask_client(GetConsumerRunningInfo(group, client_id, jstack_enable=True))
    except TimeoutError:
        return ClientStacks(client_id, at, cannot_tell="stacks_silent")
    if isinstance(outcome, NotRecorded):
        return None
    if isinstance(outcome, ClientTimedOut | RequestTimedOut):
        return ClientStacks(client_id, at, cannot_tell="stacks_silent")
    if isinstance(outcome, RocketMQError) or outcome.body is None:
        return ClientStacks(client_id, at, cannot_tell="stacks_not_said")
    said = stacks_of(outcome.body.jstack, group, client_id, outcome.at)
    if said is None:
        return ClientStacks(client_id, at, cannot_tell="stacks_not_said")
    return said if said.is_known else replace(said, cannot_tell="stacks_no_threads")


def _untold(
    consumer_group: str, masters: Sequence[BrokerReading], at_proxies: Collection[str], now: datetime
) -> ClientStacks | None:
    """Say why nobody can tell of a group that stands: its clients cannot be asked, or one did not answer at all."""
    for master in masters:
        for (group, client_id), answer in sorted(master.running_info.items()):
            if group == consumer_group and answer.info is None:
                return ClientStacks(client_id, now, cannot_tell="stacks_silent", asked=False)
    clients = {(client_id, False) for client_id in at_proxies} | {
        (client.client_id, can_answer(master, consumer_group, client.client_id))
        for master in masters
        if (connections := master.connections.get(consumer_group)) is not None
        for client in connections.connections
    }
    if not clients or any(can for _, can in clients):
        return None
    return ClientStacks(min(clients)[0], now, cannot_tell="stacks_nobody_asks", asked=False)


def _finished_long_ago(held: ProcessQueueInfo, at: datetime) -> bool:
    return held.last_consume_at is not None and at - held.last_consume_at >= STANDS
