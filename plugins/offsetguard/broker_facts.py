"""Facts of broker replicas and of the cluster, of rows of one interval.

The same as Spark columns: `offsetguard_spark/facts/brokers.py`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from offsetguard.facts import BrokerFacts, ClusterFacts
from offsetguard.known_figures import growth, milliseconds_between, sum_of_known
from offsetguard.queue_sums import QueueFigures, sums_over
from offsetguard.rocketmq.bodies import MASTER_ID

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Row = Mapping[str, Any]

_SUMS = ("lag", "effective_lag", "inflight", "available", "lost", "suspect_queue_count")
_COUNTS = ("consumed_queue_count", "unknown_queue_count", "topic_queue_count", "message_count")
_AGES = ("lag_ms", "inflight_ms", "available_ms", "lost_ms")
_AS_SEEN = frozenset(one.name for one in fields(BrokerFacts)) - {
    *_SUMS,
    *_COUNTS,
    *_AGES,
    "listed",
    "slave_count",
    "get_tps",
    "commit_log_growth",
    "commit_log_growth_ms",
}


@dataclass(frozen=True, slots=True)
class BrokerSources:
    """What the facts are made of. `before`: `broker_facts` of an earlier interval, by (broker name, broker id)."""

    brokers: Sequence[Row]
    queues: Sequence[QueueFigures]
    topic_queues: Sequence[Row]
    before: Mapping[tuple[str, int], BrokerFacts]


def broker_facts(sources: BrokerSources) -> list[BrokerFacts]:
    """Return one record per listed replica, and one per master that has queues and is not listed (state files)."""
    sums = dict(_sums_by_broker(sources))
    slaves = Counter(row["broker_name"] for row in sources.brokers if row["broker_id"] != MASTER_ID)
    listed = {(row["broker_name"], row["broker_id"]): row for row in sources.brokers}
    unlisted = {(name, MASTER_ID) for name in sums} - listed.keys()
    return [
        _replica(replica, listed.get(replica), sums, slaves, sources.before.get(replica))
        for replica in sorted(listed.keys() | unlisted)
    ]


def cluster_facts(brokers: Sequence[BrokerFacts], topic_count: int, groups: Sequence[Row]) -> ClusterFacts | None:
    """Add up the brokers. `groups`: rows of `group_snapshots`. None: nothing was seen."""
    if not (brokers or topic_count or groups):
        return None
    slaves = [broker for broker in brokers if broker.broker_id != MASTER_ID]
    return ClusterFacts(
        broker_count=len({broker.broker_name for broker in brokers}),
        replica_count=sum(broker.listed for broker in brokers),
        answered_replica_count=sum(broker.answered or False for broker in brokers),
        topic_count=topic_count,
        consumer_group_count=len(groups),
        online_group_count=_online_count(groups),
        **{name: sum_of_known(getattr(broker, name) for broker in brokers) for name in (*_COUNTS, *_SUMS)},
        **{name: _greatest(getattr(broker, name) for broker in brokers) for name in _AGES},
        put_tps=sum_of_known(broker.put_tps for broker in brokers if broker.broker_id == MASTER_ID),
        get_tps=sum_of_known(broker.get_tps for broker in brokers),
        slave_get_tps=sum_of_known(broker.get_tps for broker in slaves),
        retry_growth=sum_of_known(row["retry_growth"] for row in groups),
        dead_letter_growth=sum_of_known(row["dead_letter_growth"] for row in groups),
        max_disk_ratio=_greatest(broker.commit_log_disk_ratio for broker in brokers),
        max_slave_behind_bytes=_greatest(broker.slave_behind_bytes for broker in slaves),
    )


def _replica(
    replica: tuple[str, int],
    row: Row | None,
    sums: Mapping[str, Mapping[str, Any]],
    slaves: Mapping[str, int],
    before: BrokerFacts | None,
) -> BrokerFacts:
    name, broker_id = replica
    columns: dict[str, Any] = {"answered": None}
    if row is not None:
        columns |= {column: value for column, value in row.items() if column in _AS_SEEN}
        columns |= {"get_tps": row["get_transferred_tps"], **_growth_columns(row, before)}
    if broker_id == MASTER_ID:
        columns |= {"slave_count": slaves[name], **sums.get(name, {})}
    return BrokerFacts(**(columns | {"broker_name": name, "broker_id": broker_id, "listed": row is not None}))


def _growth_columns(row: Row, before: BrokerFacts | None) -> dict[str, int | None]:
    grown = growth(row["commit_log_max_offset"], before.commit_log_max_offset if before else None)
    since_ms = milliseconds_between(before.read_at if before else None, row["read_at"])
    return {"commit_log_growth": grown, "commit_log_growth_ms": None if grown is None else since_ms}


def _sums_by_broker(sources: BrokerSources) -> Iterator[tuple[str, dict[str, Any]]]:
    queues: dict[str, list[QueueFigures]] = defaultdict(list)
    kept: dict[str, list[Row]] = defaultdict(list)
    for queue in sources.queues:
        queues[queue.row["broker_name"]].append(queue)
    for row in sources.topic_queues:
        kept[row["broker_name"]].append(row)
    for name in queues.keys() | kept.keys():
        columns: dict[str, Any] = {}
        if name in queues:
            columns |= asdict(sums_over(queues[name]))
            columns["consumed_queue_count"] = len(queues[name])
            columns["unknown_queue_count"] = sum(queue.offsets.max_offset is None for queue in queues[name])
        if name in kept:
            columns["topic_queue_count"] = len(kept[name])
            columns["message_count"] = sum_of_known(_kept(row) for row in kept[name])
        yield name, columns


def _kept(row: Row) -> int | None:
    low, high = row["min_offset"], row["max_offset"]
    return None if low is None or high is None else high - low


def _online_count(groups: Iterable[Row]) -> int | None:
    return sum_of_known(None if (count := row["online_client_count"]) is None else int(count > 0) for row in groups)


def _greatest(values: Iterable[Any]) -> Any:
    return max((value for value in values if value is not None), default=None)
