"""What a round brings together to judge POP groups: details of readings, metrics pages, proxies, the round before."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from offsetguard.collect.broker_reading import BrokerReading
from offsetguard.collect.detail_choice import Suspect, SuspectReason
from offsetguard.collect.detail_rows import client_answers
from offsetguard.collect.group_members import ProxyMembers
from offsetguard.collect.metrics_endpoint import BrokerMetrics
from offsetguard.collect.pop import Consumption
from offsetguard.collect.pop_figures import ClientTold, PopSources
from offsetguard.collect.system_names import is_lite_topic, is_system_group
from offsetguard.sources.rocketmq.detail_bodies import ConsumerRunningInfo

POP_STATISTICS = ("GROUP_CK_NUMS", "GROUP_ACK_NUMS")


def pop_sources(
    readings: Sequence[BrokerReading],
    groups_before: Mapping[str, Mapping[str, object]],
    *,
    metrics: Mapping[str, BrokerMetrics] | None = None,
    proxy_members: ProxyMembers | None = None,
    waiting_groups: Collection[str] = (),
) -> PopSources:
    """Bring them together. `readings`: of all replicas. `groups_before`: rows of `group_snapshots` by group."""
    answers = client_answers(readings)
    return PopSources(
        running_info={
            client: client_told(answer.info) for client, answer in answers.items() if answer.info is not None
        },
        popped=_popped(readings),
        metrics=metrics or {},
        proxy_members=proxy_members or {},
        remembered=remembered_consumption(groups_before),
        waiting_groups=waiting_groups,
    )


def client_told(info: ConsumerRunningInfo) -> ClientTold:
    """Return what a client's running info says about POP."""
    return ClientTold(bool(info.pop_queues), sum(queue.wait_ack_count for queue in info.pop_queues.values()))


def remembered_consumption(groups_before: Mapping[str, Mapping[str, object]]) -> dict[str, Consumption]:
    """Return how groups were recognised in the round before, from its rows of `group_snapshots`."""
    values = {group: row.get("consumption") for group, row in groups_before.items()}
    known = {consumption.value: consumption for consumption in Consumption}
    return {group: known[value] for group, value in values.items() if isinstance(value, str) and value in known}


def pop_suspects(
    masters: Iterable[BrokerReading], groups_before: Mapping[str, Mapping[str, object]]
) -> Iterator[Suspect]:
    """Yield the groups that were POP in the round before: whatever their offsets say, clients may hold messages.

    Groups of lite topics only are left out: nobody but their proxies could tell more of them.
    """
    remembered = {group for group, one in remembered_consumption(groups_before).items() if one is Consumption.POP}
    if remembered:
        committed = (master.committed.body.offsets for master in masters if master.committed and master.committed.body)
        known = {group for offsets in committed for topic, group in offsets if not is_lite_topic(topic)}
        yield from (Suspect(group, SuspectReason.POP, 0) for group in sorted(remembered & known))


def groups_for_proxies(masters: Iterable[BrokerReading], suspects: Collection[str] = ()) -> list[str]:
    """Return the groups that every master that knows them calls offline: their clients may sit behind a proxy.

    Suspects come first.
    """
    offline: set[str] = set()
    online: set[str] = set()
    for master in masters:
        for group, connections in master.connections.items():
            (offline if connections is None else online).add(group)
    unseen = (group for group in offline - online if not is_system_group(group))
    return sorted(unseen, key=lambda group: (group not in suspects, group))


def _popped(readings: Iterable[BrokerReading]) -> dict[str, bool]:
    """Return the groups whose POP statistics were asked for, and whether any exist.

    They are counted where messages are handed out, from the first time since the replica's start on.
    """
    popped: dict[str, bool] = {}
    for reading in readings:
        for item, answer in reading.broker_stats.items():
            if item.stats_name in POP_STATISTICS and item.consumer_group is not None:
                popped[item.consumer_group] = popped.get(item.consumer_group, False) or answer.body is not None
    return popped
