"""One round of one cluster: what is asked of whom, at the same time, and when everybody must be done.

All replicas are asked at once. There is one barrier on the way: when each master has given its base, the suspects of
the whole cluster are known, and the same groups are asked in detail on every replica, since a group's rates are the sum
over all of them. Nobody waits there for a broker that hangs longer than its own time-out.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import datetime
from itertools import chain

from offsetguard.collect import read_broker
from offsetguard.collect.broker_reading import BrokerReading, GroupClient
from offsetguard.collect.client_stacks import StacksOfRound, read_stacks
from offsetguard.collect.detail_choice import (
    Allowance,
    DetailChoice,
    Suspect,
    SuspectReason,
    choose,
    is_in_share,
    round_number_of,
    suspect_of,
)
from offsetguard.collect.details import plan_clients, read_clients, read_rates
from offsetguard.collect.earlier_round import EarlierFigures, EarlierRound
from offsetguard.collect.group_members import (
    GroupMembers,
    ProxyMembers,
    SharedSubscriptions,
    groups_for_proxies,
    known_groups,
    merge_members,
    read_proxy_members,
)
from offsetguard.collect.held_back import read_held_back
from offsetguard.collect.manifest import Gap, MissingMaster, Outcome, RequestLedger
from offsetguard.collect.metrics_endpoint import BrokerMetrics, read_metrics
from offsetguard.collect.name_servers import ClusterMembers, find_members
from offsetguard.collect.offset_events import EventStart, read_events
from offsetguard.collect.pop_figures import pop_suspects
from offsetguard.collect.queue_reading import pair_readings
from offsetguard.collect.replica import Replica, ReplicaLink
from offsetguard.collect.resets import QueueReset, read_resets
from offsetguard.collect.retry_topics import groups_to_ask, read_oldest_dead_letters
from offsetguard.collect.system_names import is_system_group
from offsetguard.config import Cluster, Config, LogSource
from offsetguard.model.intervals import Interval
from offsetguard.model.offsets import MASTER_ID
from offsetguard.model.processes import left_behind
from offsetguard.sources.logs.tailing import LogGap, LogReading, read_logs
from offsetguard.sources.rocketmq.transport import Transport

DEADLINE_PART_FOR_READING = 0.75  # the rest is for rows of all that was read, and for landing them
DEADLINE_PART_FOR_BASE = 0.5  # of reading: masters that are not done then are not waited for at the barrier, nor logs


@dataclass(slots=True)
class Round:
    """The state of one round; `run` fills it."""

    cluster: str
    config: Config
    interval: Interval
    transport: Transport
    earlier: EarlierRound  # the round to go on from
    events: EventStart  # where the reading of OFFSET_MOVED_EVENT starts
    metrics_urls: Mapping[str, str]  # pages of brokers to be read, which no transport knows
    log_sources: Sequence[LogSource]  # likewise logs

    ledger: RequestLedger = field(default_factory=RequestLedger)
    members: ClusterMembers | None = None  # None: no name server answered
    missing: tuple[MissingMaster, ...] = ()
    readings: list[BrokerReading] = field(default_factory=list)
    group_members: dict[str, GroupMembers] | None = None  # as they were when the suspects were chosen
    choice: DetailChoice = field(default_factory=lambda: DetailChoice({}, ()))
    earlier_figures: EarlierFigures = field(default_factory=EarlierFigures)
    metrics: dict[str, BrokerMetrics] = field(default_factory=dict)  # by broker name; of those that answered
    proxy_members: ProxyMembers = field(default_factory=dict)  # of groups that no broker sees
    log_reading: LogReading = field(default_factory=LogReading)
    resets: list[QueueReset] = field(default_factory=list)
    stacks: StacksOfRound = field(default_factory=StacksOfRound)
    _late: set[asyncio.Task[None]] = field(default_factory=set)  # bases of masters that came too late for the choice
    _reading_logs: asyncio.Task[LogReading] | None = None
    _client_plan: dict[str, list[GroupClient]] = field(default_factory=dict)  # by the broker that is asked about them
    _dead_letter_groups: frozenset[str] = frozenset()  # whose oldest dead letter is asked for
    _subscriptions: SharedSubscriptions = field(default_factory=SharedSubscriptions)

    @property
    def _settings(self) -> Cluster:
        return self.config.clusters[self.cluster]

    @property
    def own_names(self) -> frozenset[str]:
        """Names of brokers and RocketMQ clusters."""
        return self.members.own_names if self.members else frozenset()

    async def run(self, deadline_s: float) -> None:
        """Ask name servers, then all replicas at once; nobody is waited for beyond DEADLINE_PART_FOR_READING."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + deadline_s * DEADLINE_PART_FOR_READING
        figures = asyncio.create_task(asyncio.to_thread(self.earlier.figures))
        self.log_reading = LogReading(cursors=self.earlier.manifest.log_cursors if self.earlier.manifest else ())
        if self.log_sources:
            self._reading_logs = asyncio.create_task(self._read_logs((ends_at - loop.time()) * DEADLINE_PART_FOR_BASE))
        try:
            async with asyncio.timeout((ends_at - loop.time()) / 2):
                self.members = await find_members(
                    self.transport, self.cluster, self._settings, self.ledger, self.earlier.master_broker_names
                )
        except TimeoutError:
            pass  # the name servers that were asked are gaps already
        if self.members is None:
            self._list_unasked()
        else:
            self.missing = self.earlier.missing_masters(self.members, self.interval)
            self.readings = [
                self._unlisted_reading(Replica(one.broker_name, MASTER_ID, one.address), one.missing_since)
                for one in self.missing
            ]
            await self._read_replicas(self.members.replicas, figures, ends_at - loop.time())
        self.earlier_figures = await figures
        if self.members is not None:  # no sooner: what was read before is there only now
            now = self.interval.end
            self.readings += [self._unlisted_reading(one) for one in self.earlier.missing_slaves(self.members, now)]
        if self._reading_logs is not None:
            self.log_reading = await self._reading_logs
            self._add_log_gaps()

    async def _read_logs(self, seconds: float) -> LogReading:
        """Read on; where the file system does not answer, all logs wait for the next round."""
        before = self.log_reading
        reading = left_behind(lambda: read_logs(self.log_sources, before.cursors), "logs")
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await asyncio.wrap_future(reading)
        reason = (
            f"the file system has not answered for {seconds:g} s, so no log of this cluster was read: look whether a"
            " network file system hangs, or leave its logs out until it is back"
        )
        hung = [LogGap(source.name, ", ".join(source.files), reason) for source in self.log_sources]
        return LogReading(cursors=before.cursors, gaps=tuple(hung))

    def _add_log_gaps(self) -> None:
        """Say what of the logs could not be read; a client's log belongs to no broker."""
        by_name = {source.name: source for source in self.log_sources}
        for gap in self.log_reading.gaps:
            source = by_name.get(gap.source)
            self.ledger.add_gap(
                Gap(
                    address=gap.path,
                    broker_name=source.broker_name if source else None,
                    broker_id=source.broker_id if source and source.broker_name else None,
                    what=f"log {gap.source}",
                    outcome=Outcome.UNDECODABLE,
                    reason=f"{gap.path}: {gap.reason}",
                )
            )

    def merged_members(self, masters: Sequence[BrokerReading]) -> dict[str, GroupMembers]:
        """Return what all masters know of the groups' members, those that came late as well."""
        return merge_members(masters) if self.group_members is None or self._late else self.group_members

    async def _read_replicas(
        self, replicas: Iterable[Replica], figures: asyncio.Task[EarlierFigures], seconds: float
    ) -> None:
        pairs = [(self._link(replica), BrokerReading(replica)) for replica in replicas]
        masters = [reading for _, reading in pairs if reading.replica.is_master]
        allowances = self._allowances([master.broker_name for master in masters])
        bases = [asyncio.create_task(self._read_base(link, reading, allowances)) for link, reading in pairs]
        of_masters = [base for base, (_, reading) in zip(bases, pairs, strict=True) if reading.replica.is_master]
        choosing = asyncio.create_task(self._choose(of_masters, seconds * DEADLINE_PART_FOR_BASE, masters, figures))
        tasks = {
            asyncio.create_task(self._read_replica(link, reading, base, choosing)): link
            for base, (link, reading) in zip(bases, pairs, strict=True)
        }
        others = {
            asyncio.create_task(self._read_metrics(masters)),
            asyncio.create_task(self._read_proxies(masters, choosing)),
        }
        self.readings += [reading for _, reading in pairs]
        done, late = await asyncio.wait(tasks.keys() | others, timeout=seconds)
        for task in late:
            task.cancel()
            if task in tasks:
                tasks[task].cut_off()
        choosing.cancel()
        await asyncio.gather(*late, choosing, return_exceptions=True)
        for task in done:
            task.result()  # a defect of ours must not look like a silent broker
        for link, reading in pairs:
            link.close(read_broker.unread_base(reading, self.own_names) if reading.replica.is_master else ())
            reading.answered_at, reading.failure = link.answered_at, link.failure

    def _allowances(self, masters: Sequence[str]) -> read_broker.Allowances:
        known, most = self.earlier.master_broker_names, self._settings.collection.entries
        return read_broker.Allowances(*(Allowance(masters, known, most) for _ in fields(read_broker.Allowances)))

    async def _read_base(self, link: ReplicaLink, reading: BrokerReading, allowances: read_broker.Allowances) -> None:
        await read_broker.read_runtime(link, reading)
        async with asyncio.TaskGroup() as together:
            together.create_task(read_broker.read_settings(link, reading))
            if reading.replica.is_master:
                together.create_task(
                    read_broker.read_base(link, reading, self.own_names, self._subscriptions, allowances)
                )

    async def _read_replica(
        self, link: ReplicaLink, reading: BrokerReading, base: asyncio.Task[None], choosing: asyncio.Task[None]
    ) -> None:
        await base
        await asyncio.shield(choosing)
        if reading.replica.is_master:
            await self._read_details_of_master(link, reading, came_late=base in self._late)
            await read_oldest_dead_letters(link, reading, self._dead_letter_groups)
            await read_held_back(link, reading)
            await read_events(link, reading, self.earlier.cursors.get(reading.broker_name), self.events)
            if self._reading_logs is not None:
                self.resets += await read_resets(link, reading, await asyncio.shield(self._reading_logs))
        else:
            await self._read_details_of_slave(link, reading)

    async def _read_metrics(self, masters: list[BrokerReading]) -> None:
        """Read the metrics pages that the configuration names."""
        if self.metrics_urls:
            names = [master.broker_name for master in masters]
            timeout_s = self._settings.request_timeout_ms / 1000
            self.metrics = await read_metrics(self.metrics_urls, names, self.ledger, timeout_s)

    async def _read_proxies(self, masters: list[BrokerReading], choosing: asyncio.Task[None]) -> None:
        """Ask the proxies that the configuration names about groups that no broker sees: all masters are needed."""
        if self._settings.proxies:
            await asyncio.shield(choosing)
            groups = groups_for_proxies(masters, self.choice.suspects)
            self.proxy_members = await read_proxy_members(self.transport, self._settings.proxies, groups, self.ledger)

    async def _read_details_of_master(self, link: ReplicaLink, reading: BrokerReading, *, came_late: bool) -> None:
        if reading.committed is None:
            return
        groups = self._detailed(reading)
        clients, limit = self._client_plan.get(reading.broker_name, ()), self._settings.collection.rates
        offsets = read_broker.read_detailed_offsets(
            link,
            reading,
            groups,
            members=merge_members([reading]) if came_late or self.group_members is None else self.group_members,
            system_names=self.own_names | reading.system_topics,
            earlier=self.earlier_figures,
            broken_groups=None if came_late else self.choice.groups_because(SuspectReason.ORDER_BROKEN),
        )
        async with asyncio.TaskGroup() as together:
            together.create_task(offsets)
            together.create_task(read_clients(link, reading, clients))
            together.create_task(read_rates(link, reading, reading, groups, limit=limit, ledger=self.ledger))
        await read_stacks(link, reading, self.stacks)

    async def _read_details_of_slave(self, link: ReplicaLink, reading: BrokerReading) -> None:
        """Ask for members and rates as well: a slave has its own connections and counts what it serves itself."""
        master = next(
            (one for one in self.readings if one.replica.is_master and one.broker_name == reading.broker_name), None
        )
        if master is None or reading.runtime is None:
            return
        await read_broker.read_replication(link, reading, master)
        groups = self._detailed(master)
        reading.detailed_groups = frozenset(groups)
        await read_broker.read_members(link, reading, groups, self._subscriptions)
        limit = self._settings.collection.rates
        await read_rates(link, reading, master, groups, limit=limit, ledger=self.ledger)

    def _detailed(self, master: BrokerReading) -> list[str]:
        """Return the groups that are asked in detail on a master and its slaves, worst first."""
        return [*self.choice.asked, *self._share_of([master])]

    async def _choose(
        self,
        bases: Sequence[asyncio.Task[None]],
        seconds: float,
        masters: list[BrokerReading],
        figures: asyncio.Task[EarlierFigures],
    ) -> None:
        """Wait for the bases of all masters, then choose whom to ask in detail.

        A slow broker is not waited for: its own suspects get no details in this round.
        """
        if bases:
            _, self._late = await asyncio.wait(bases, timeout=seconds)
        self.earlier_figures = await figures
        self.stacks = StacksOfRound(self._settings.collection.stacks, self.earlier_figures)
        members = self.group_members = merge_members(masters)
        self._dead_letter_groups = groups_to_ask(masters, self.earlier_figures.groups)
        found = chain(self._suspects(masters, members), pop_suspects(masters, self.earlier_figures.groups))
        limit = self._settings.collection.detail_groups
        self.choice = choose(found, limit, round_number_of(self.interval))
        self.ledger.leave_out(
            "details of suspect groups",
            self.choice.left_count,
            f"clusters.{self.cluster}.collection.detail_groups allows {limit} in a round; the others take turns",
        )
        self._client_plan = plan_clients(
            masters,
            self.choice.asked,
            self._share_of(masters),
            limit=self._settings.collection.running_info_clients,
            round_number=round_number_of(self.interval),
            ledger=self.ledger,
        )

    def _suspects(self, masters: Iterable[BrokerReading], members: Mapping[str, GroupMembers]) -> Iterator[Suspect]:
        for reading in masters:
            for pair in pair_readings(reading, members, self.own_names | reading.system_topics):
                before = self.earlier_figures.max_offsets.get((reading.broker_name, pair.topic), ())
                if (suspect := suspect_of(pair, before)) is not None:
                    self.stacks.look_at(reading.broker_name, pair)
                    yield suspect

    def _share_of(self, masters: Iterable[BrokerReading]) -> list[str]:
        """Return the healthy groups whose turn it is; suspects are asked for being suspect, in turn where many are."""
        rounds, number = self._settings.collection.share_rounds, round_number_of(self.interval)
        healthy = known_groups(masters, ()) - self.choice.suspects.keys()
        return sorted(group for group in healthy if not is_system_group(group) and is_in_share(group, rounds, number))

    def _link(self, replica: Replica) -> ReplicaLink:
        return ReplicaLink(
            self.transport,
            replica,
            self.ledger,
            self._login_advice,
            reached_at=self._settings.address_map.get(replica.address),
            cluster_key=f"clusters.{self.cluster}",
        )

    def _list_unasked(self) -> None:
        self.readings = [
            BrokerReading(replica, failure="no name server answered, so it was not asked")
            for replica in self.earlier.replicas()
        ]
        self.missing = self.earlier.manifest.missing_masters if self.earlier.manifest else ()

    def _unlisted_reading(self, replica: Replica, since: datetime | None = None) -> BrokerReading:
        whom = f"a master of {replica.broker_name}" if replica.is_master else f"the slave at {replica.address}"
        missing = f", missing since {since:%F %H:%M} UTC" if since else ""
        reason = f"no name server lists {whom}{missing}; start the broker, or, if it was removed on purpose, wait a day"
        self.ledger.add_gap(replica.gap("everything", Outcome.UNREACHABLE, reason))
        return BrokerReading(replica, failure=reason)

    @property
    def _login_advice(self) -> str:
        connection = self._settings.connection
        if connection is None:
            return (
                f"the cluster asks for a login: set clusters.{self.cluster}.connection to the id of an Airflow "
                "connection with the access key as login and the secret key as password"
            )
        return (
            f"correct the Airflow connection {connection!r} (access key = login, secret key = password) that "
            f"clusters.{self.cluster}.connection names"
        )
