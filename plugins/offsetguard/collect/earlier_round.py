"""What a round takes over from the newest landed snapshot: event cursors, expected brokers, and figures.

A killed broker leaves the name server's list at once, so who is missing can only be told by who was there before. And
how long something has been waiting, or how fast a retry topic grows, can only be told by a comparison.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from offsetguard.collect.landing import newest_manifest, read_parts, snapshot_folder
from offsetguard.collect.manifest import EventCursor, Manifest, MissingMaster
from offsetguard.collect.name_servers import ClusterMembers
from offsetguard.collect.replica import Replica
from offsetguard.model.errors import DamagedSnapshot
from offsetguard.model.intervals import Interval
from offsetguard.model.offsets import MASTER_ID, MessageQueue, QueueOffsets
from offsetguard.sources.bundle.replay import Damage
from offsetguard.tables import (
    BROKER_SNAPSHOTS,
    BROKER_STATS,
    CLIENT_SNAPSHOTS,
    GROUP_SNAPSHOTS,
    QUEUE_SNAPSHOTS,
    TOPIC_QUEUE_SNAPSHOTS,
    Table,
)

MISSING_REMEMBERED = timedelta(days=1)
UNKNOWN_ADDRESS = "unknown"  # a slave is listed whose master was never seen
_ENDS = ("broker_name", "topic", "queue_id", "max_offset")
_AGES = ("broker_name", "topic", "consumer_group", "queue_id", "consumer_offset", "oldest_unconsumed_at")
_GROUPS = (
    "consumer_group",
    "retry_max_offset",
    "dead_letter_message_count",
    "dead_letter_max_offset",
    "oldest_dead_letter_at",
    "uncommitted_at",
    "consumption",
    "members_differ_since",
    "pop_finished",
    "pop_unfinished_since",
    "client_stacks",
    "departures",
)
_BROKERS = (
    "broker_name",
    "broker_id",
    "address",
    "master_changed_at",
    "read_at",
    "half_message_count",
    "half_growing_since",
    "half_late_count",
    "half_late_since",
    "half_deleted_count",
    "given_up_max_offset",
    "delayed_late_count",
    "delayed_late_since",
    "delayed_deleted_count",
)
_CLIENTS = ("consumer_group", "client_id", "broker_id")
_COUNTING = ("broker_name", "broker_id", "stats_name", "stats_key", "counting_since")
Ages = dict[tuple[str, str, str], dict[int, tuple[int, int]]]
"""(broker, topic, group) -> queue id -> (consumer offset, store time of the message there, microseconds since 1970)."""
CountedPlace = tuple[str, int, str, str]
"""(broker name, broker id, stats name, stats key)."""


@dataclass(frozen=True, slots=True)
class EarlierRound:
    """The newest landed round before this one; empty for a first one."""

    manifest: Manifest | None = None
    tables: Mapping[str, pa.Table] = field(default_factory=dict)  # by name; those that this class reads
    folder: Path | None = None  # where they lie when they have not been read yet
    damages: set[Damage] = field(
        default_factory=set
    )  # what could not be read of it so far: those figures are not known

    def columns(self, table: Table, names: Sequence[str]) -> pa.Table | None:
        """Return some columns of one of its tables, texts dictionary-encoded or not; None for a first round."""
        parts = list(self.parts(table, names))
        return pa.concat_tables(parts) if parts else None

    def parts(self, table: Table, names: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the same part by part, so that not all of a large table is in memory at once.

        A file that cannot be read ends it, as if the rest had not been seen: a damaged round stops no later one.
        """
        if table.name in self.tables:
            yield self.tables[table.name].select(list(names))
        elif self.folder is not None:
            try:
                yield from read_parts(self.folder, table, names)
            except DamagedSnapshot as error:
                self.damages.add(_damage(error))

    @property
    def cursors(self) -> Mapping[str, EventCursor]:
        """By broker name."""
        return {cursor.broker_name: cursor for cursor in self.manifest.event_cursors} if self.manifest else {}

    @property
    def master_broker_names(self) -> tuple[str, ...]:
        """Brokers that it listed, or missed."""
        return self.manifest.master_broker_names if self.manifest else ()

    def replicas(self) -> tuple[Replica, ...]:
        """Return the brokers that it listed."""
        rows = self.columns(BROKER_SNAPSHOTS, ("broker_name", "broker_id", "address"))
        return tuple(sorted(Replica(**row) for row in (rows.to_pylist() if rows else ())))

    def missing_masters(self, members: ClusterMembers, interval: Interval) -> tuple[MissingMaster, ...]:
        """Masters that should be listed and are not: listed before, or a slave of theirs is listed now."""
        known = {one.broker_name: one for one in self.manifest.missing_masters} if self.manifest else {}
        expected = {*self.master_broker_names, *members.broker_names} - members.master_broker_names
        if not expected:
            return ()
        before = {replica.broker_name: replica.address for replica in self.replicas() if replica.is_master}
        missing = (
            known.get(name)
            or MissingMaster(broker_name=name, address=before.get(name, UNKNOWN_ADDRESS), missing_since=interval.start)
            for name in sorted(expected)
        )
        return tuple(
            one
            for one in missing
            if one.broker_name in members.broker_names or interval.start - one.missing_since < MISSING_REMEMBERED
        )

    def missing_slaves(self, members: ClusterMembers, now: datetime) -> tuple[Replica, ...]:
        """Slaves that were listed before and are not now, at no number: a switch of master gives them another one."""
        if self.manifest is None:
            return ()
        addresses = {replica.address for replica in members.replicas}
        places = {(replica.broker_name, replica.broker_id) for replica in members.replicas}
        since = {(one.broker_name, one.broker_id): one.unseen_since for one in self.manifest.unseen_brokers}
        return tuple(
            replica
            for replica in self.replicas()
            if not replica.is_master and replica.address not in addresses
            if (replica.broker_name, replica.broker_id) not in places
            if now - (since.get((replica.broker_name, replica.broker_id)) or now) < MISSING_REMEMBERED
        )

    def figures(self) -> EarlierFigures:
        """Return what its tables say of offsets and groups."""
        if self.manifest is None:
            return EarlierFigures()
        masters, slaves = _masters_and_slaves(self.columns(BROKER_SNAPSHOTS, _BROKERS))
        figures = EarlierFigures(
            max_offsets=_max_offsets(self.columns(TOPIC_QUEUE_SNAPSHOTS, _ENDS)),
            ages=_ages(self.parts(QUEUE_SNAPSHOTS, _AGES)),
            groups=_groups(self.parts(GROUP_SNAPSHOTS, _GROUPS)),
            seen_masters=frozenset(self.manifest.master_broker_names) - set(self.manifest.unseen_broker_names),
            clients=_clients(self.parts(CLIENT_SNAPSHOTS, _CLIENTS)),
            counting_since=_counting_since(self.columns(BROKER_STATS, _COUNTING)),
            masters=masters,
            slaves=slaves,
            finished_at=self.manifest.finished_at,
        )
        pa.default_memory_pool().release_unused()
        return figures


@dataclass(frozen=True, slots=True)
class EarlierFigures:
    """Figures of the earlier round that this one is compared with; empty for a first round."""

    max_offsets: Mapping[tuple[str, str], array[int]] = field(default_factory=dict)  # (broker, topic) -> by queue id
    ages: Ages = field(default_factory=dict)  # of what waited then
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # rows of group_snapshots, some columns
    clients: Mapping[str, frozenset[str]] = field(default_factory=dict)  # that masters listed, by consumer group
    seen_masters: frozenset[str] = frozenset()  # those that gave offsets
    counting_since: Mapping[CountedPlace, datetime] = field(default_factory=dict)
    masters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By broker name: the last known master, also one that is missing, as it stands in broker_snapshots."""
    slaves: frozenset[tuple[str, str]] = frozenset()  # broker names and addresses of the other replicas
    finished_at: datetime | None = None

    def master_changed_at(self, master: Replica, now: datetime) -> datetime | None:
        """When this master was first seen in another one's place: `now`, or before; None = no other one, or a slave.

        A master at an address where no slave was is the former one, started elsewhere: a pod, for one.
        """
        if not master.is_master:
            return None
        before = self.masters.get(master.broker_name, {})
        if before.get("address", UNKNOWN_ADDRESS) in (master.address, UNKNOWN_ADDRESS):
            return before.get("master_changed_at")
        return now if (master.broker_name, master.address) in self.slaves else None

    def oldest_unconsumed(self, group: str, queue: MessageQueue, offsets: QueueOffsets) -> int | None:
        """When the message at the consumer offset was stored, microseconds since 1970.

        None: it was not asked before, nothing waits, or it was deleted, so that another one is the oldest by now.
        """
        known = self.ages.get((queue.broker_name, queue.topic, group), {}).get(queue.queue_id)
        is_there = known is not None and known[0] == offsets.consumer_offset and not offsets.lost
        return known[1] if known is not None and is_there and (offsets.effective_lag or 0) > 0 else None


def earlier_round(landing_folder: Path, cluster: str, interval: Interval) -> EarlierRound:
    """Find it on disk; its tables are read when they are needed."""
    found: list[DamagedSnapshot] = []
    manifest = newest_manifest(landing_folder, cluster, interval, on_damage=found.append)
    folder = snapshot_folder(landing_folder, cluster, Interval(manifest.interval_start)) if manifest else None
    return EarlierRound(manifest, folder=folder, damages=set(map(_damage, found)))


def _damage(error: DamagedSnapshot) -> Damage:
    return Damage(source=error.file, reason=error.reason)


def _max_offsets(rows: pa.Table | None) -> dict[tuple[str, str], array[int]]:
    """Topics of which a queue was not seen, or has no place in the order of ids, are left out: not known."""
    found: dict[tuple[str, str], dict[int, int | None]] = {}
    for broker, topic, queue_id, max_offset in _values(rows):
        found.setdefault((broker, topic), {})[queue_id] = max_offset
    known = {key: [by_queue.get(queue_id) for queue_id in range(len(by_queue))] for key, by_queue in found.items()}
    return {key: array("q", ends) for key, ends in known.items() if None not in ends}  # type: ignore[arg-type]


def _ages(parts: Iterable[pa.Table]) -> Ages:
    found: Ages = {}
    for rows in parts:
        known = rows.filter(rows.column("oldest_unconsumed_at").is_valid())
        # as numbers: half of the time would go into moments with time zones
        place = known.schema.get_field_index("oldest_unconsumed_at")
        numbers = known.set_column(place, "oldest_unconsumed_at", known.column(place).cast("int64"))
        for broker, topic, group, queue_id, consumer, oldest in _values(numbers):
            if consumer is not None:
                found.setdefault((broker, topic, group), {})[queue_id] = consumer, oldest
    return found


def _groups(parts: Iterable[pa.Table]) -> dict[str, dict[str, object]]:
    """Return a row for each group; those of which the same is known, most of all, share one."""
    shared: dict[tuple[object, ...], dict[str, object]] = {}
    found: dict[str, dict[str, object]] = {}
    for rows in parts:
        for group, *values in _values(rows):
            known = (*values[:-1], tuple(values[-1] or ()))
            found[group] = shared.get(known) or shared.setdefault(known, dict(zip(_GROUPS[1:], known, strict=True)))
    return found


def _clients(parts: Iterable[pa.Table]) -> dict[str, frozenset[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for rows in parts:
        for group, client_id, broker_id in _values(rows):
            if broker_id == MASTER_ID:
                found[group].add(client_id)
    return {group: frozenset(client_ids) for group, client_ids in found.items()}


def _counting_since(rows: pa.Table | None) -> dict[CountedPlace, datetime]:
    return {(name, id_, stats, key): since for name, id_, stats, key, since in _values(rows) if since is not None}


def _masters_and_slaves(
    rows: pa.Table | None,
) -> tuple[dict[str, dict[str, object]], frozenset[tuple[str, str]]]:
    known = rows.to_pylist() if rows else []
    masters = {row["broker_name"]: row for row in known if row["broker_id"] == MASTER_ID}
    return masters, frozenset((row["broker_name"], row["address"]) for row in known if row["broker_id"] != MASTER_ID)


def _values(rows: pa.Table | None) -> zip[tuple[Any, ...]]:
    """Yield the values of each row, in the order of the columns."""
    return zip(*(column.to_pylist() for column in rows.columns), strict=True) if rows else zip()
