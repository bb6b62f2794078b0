"""Which replicas a cluster has, as its name servers list them."""

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from offsetguard.collect.manifest import Gap, Outcome, RequestLedger, outcome_of
from offsetguard.collect.replica import Replica, unreadable_entries
from offsetguard.config import Cluster
from offsetguard.model.errors import RocketMQError
from offsetguard.sources.rocketmq.codes import BrokerSystemError
from offsetguard.sources.rocketmq.requests import GetBrokerClusterInfo
from offsetguard.sources.rocketmq.routes import ClusterInfo
from offsetguard.sources.rocketmq.transport import Transport

ATTEMPTS, PAUSE_S = 3, 0.5  # before a cluster is called unseen


@dataclass(frozen=True, slots=True)
class ClusterMembers:
    """What a name server lists. `own_names`: of brokers and RocketMQ clusters."""

    replicas: tuple[Replica, ...]
    own_names: frozenset[str]

    @property
    def master_broker_names(self) -> frozenset[str]:
        """Brokers whose master is registered."""
        return frozenset(replica.broker_name for replica in self.replicas if replica.is_master)

    @property
    def broker_names(self) -> frozenset[str]:
        """Brokers with any replica."""
        return frozenset(replica.broker_name for replica in self.replicas)

    def completed_by(self, other: "ClusterMembers") -> "ClusterMembers":
        """Return these and what only another name server lists."""
        listed = {(replica.broker_name, replica.broker_id) for replica in self.replicas}
        added = (replica for replica in other.replicas if (replica.broker_name, replica.broker_id) not in listed)
        return ClusterMembers(tuple(sorted((*self.replicas, *added))), self.own_names | other.own_names)


async def find_members(
    transport: Transport, name: str, cluster: Cluster, ledger: RequestLedger, expected_masters: Collection[str] = ()
) -> ClusterMembers | None:
    """Ask the name servers in the configured order; None when none lists a broker.

    Each failure is a gap that names its key in the configuration. Name servers do not talk to each other; each knows
    all brokers, so the first answer is enough, unless it lacks one of `expected_masters` (broker names): a name server
    that was started a moment ago knows only the brokers that have registered since. Where none answers, all are asked
    again: one connection that takes long is no proof that a name server is down, and much hangs on it.
    """
    gaps: dict[str, Gap] = {}
    try:
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(PAUSE_S)
            found = await _ask_all(transport, name, cluster, ledger, expected_masters, gaps=gaps)
            if found is not None:
                _count_unmatched_addresses(name, cluster, found, ledger)
                return _limited(name, cluster, found, ledger, expected_masters)
            if all(gap.outcome is Outcome.ANSWERED for gap in gaps.values()):
                return None
    finally:  # also when the time is up
        for gap in gaps.values():
            ledger.add_gap(gap)
    return None


async def _ask_all(
    transport: Transport,
    name: str,
    cluster: Cluster,
    ledger: RequestLedger,
    expected_masters: Collection[str],
    *,
    gaps: dict[str, Gap],
) -> ClusterMembers | None:
    """Ask each name server once, until all that is expected is known; `gaps`: by address what is missing so far."""
    found: ClusterMembers | None = None
    for position, address in enumerate(cluster.name_servers):
        request = GetBrokerClusterInfo()
        key = f"clusters.{name}.name_servers.{position}"
        try:
            info = await _cluster_info(transport, address, request, ledger)
        except RocketMQError as error:
            outcome = outcome_of(error)
            ledger.count(outcome)
            reason = f"{error}; check {key} in the configuration"
            gaps[address] = Gap(address=address, what=str(request), outcome=outcome, reason=reason)
            continue
        ledger.count(Outcome.ANSWERED)
        for gap in unreadable_entries(address, request, info):
            ledger.add_gap(gap)
        if info.brokers:
            gaps.pop(address, None)
            members = _members(info)
            found = found.completed_by(members) if found else members
            if found.master_broker_names.issuperset(expected_masters):
                break
            continue
        reason = f"{address}: lists no broker at all; is it the right name server? {key} in the configuration"
        gaps[address] = Gap(address=address, what=str(request), outcome=Outcome.ANSWERED, reason=reason)
    return found


async def _cluster_info(
    transport: Transport, address: str, request: GetBrokerClusterInfo, ledger: RequestLedger
) -> ClusterInfo:
    """Ask a name server; once more when it trips: 4.9.7 walks a map that a broker is just being struck out of.

    It says code 1, ConcurrentModificationException, and a cluster whose only name server says so is not unseen.
    """
    try:
        return await transport.call(address, request)
    except BrokerSystemError as error:
        ledger.count(outcome_of(error))
        return await transport.call(address, request)


def _members(info: ClusterInfo) -> ClusterMembers:
    replicas = [
        Replica(broker.broker_name, broker_id, address)
        for broker in info.brokers
        for broker_id, address in broker.addresses.items()
    ]
    clusters = {broker.cluster for broker in info.brokers} | set(info.broker_names_by_cluster)
    return ClusterMembers(tuple(sorted(replicas)), frozenset({one.broker_name for one in replicas} | clusters))


def _limited(
    name: str, cluster: Cluster, found: ClusterMembers, ledger: RequestLedger, expected_masters: Collection[str]
) -> ClusterMembers:
    """Leave out replicas beyond the limit, as a gap: brokers that were there before go first, then masters."""
    limit, count = cluster.collection.replicas, len(found.replicas)
    if count <= limit:
        return found
    key = f"clusters.{name}.collection.replicas"
    reason = f"{key}: {count} replicas are listed, {limit} were asked; raise it if they are all of this cluster"
    ledger.add_gap(Gap(address=key, what="replicas beyond the limit", outcome=Outcome.ANSWERED, reason=reason))
    first = sorted(found.replicas, key=lambda one: (one.broker_name not in expected_masters, not one.is_master, one))
    return ClusterMembers(tuple(sorted(first[:limit])), found.own_names)


def _count_unmatched_addresses(name: str, cluster: Cluster, members: ClusterMembers, ledger: RequestLedger) -> None:
    for address in unmatched_addresses(cluster, (replica.address for replica in members.replicas)):
        reason = "no name server lists a broker under this address: it was moved, is down, or the entry is misspelt"
        ledger.leave_out(f"clusters.{name}.address_map: {address}", 1, reason)


def unmatched_addresses(cluster: Cluster, listed: Iterable[str]) -> list[str]:
    """Return the addresses in `address_map` under which no broker is listed."""
    known = set(listed)
    return [address for address in cluster.address_map if address not in known]
