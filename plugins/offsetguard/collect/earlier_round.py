"""What a round takes over from the newest landed snapshot: event cursors, and the brokers that should be there.

A killed broker leaves the name server's list at once, so who is missing can only be told by who was there before.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from offsetguard.collect.landing import newest_manifest, read_table, snapshot_folder
from offsetguard.collect.manifest import EventCursor, Manifest, MissingMaster
from offsetguard.collect.replica import Replica
from offsetguard.intervals import Interval
from offsetguard.tables import BROKER_SNAPSHOTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from offsetguard.collect.landing import Row
    from offsetguard.collect.name_servers import ClusterMembers

MISSING_MASTER_REMEMBERED = timedelta(days=1)
UNKNOWN_ADDRESS = "unknown"  # a slave is listed whose master was never seen


@dataclass(frozen=True, slots=True)
class EarlierRound:
    """The newest landed round before this one; empty for a first one."""

    manifest: Manifest | None = None
    replicas: tuple[Replica, ...] = ()

    @classmethod
    def of(cls, manifest: Manifest, broker_rows: Iterable[Row]) -> EarlierRound:
        """Take over a round's manifest and its `broker_snapshots` rows."""
        replicas = (Replica(row["broker_name"], row["broker_id"], row["address"]) for row in broker_rows)
        return cls(manifest, tuple(sorted(replicas)))

    @property
    def cursors(self) -> Mapping[str, EventCursor]:
        """By broker name."""
        return {cursor.broker_name: cursor for cursor in self.manifest.event_cursors} if self.manifest else {}

    def missing_masters(self, members: ClusterMembers, interval: Interval) -> tuple[MissingMaster, ...]:
        """Masters that should be listed and are not: listed before, or a slave of theirs is listed now."""
        known = {one.broker_name: one for one in self.manifest.missing_masters} if self.manifest else {}
        before = {replica.broker_name: replica.address for replica in self.replicas if replica.is_master}
        expected = (before.keys() | members.broker_names) - members.master_broker_names
        missing = (
            known.get(name)
            or MissingMaster(broker_name=name, address=before.get(name, UNKNOWN_ADDRESS), missing_since=interval.start)
            for name in sorted(expected)
        )
        return tuple(
            one
            for one in missing
            if one.broker_name in members.broker_names or interval.start - one.missing_since < MISSING_MASTER_REMEMBERED
        )


def earlier_round(landing_folder: Path, cluster: str, interval: Interval) -> EarlierRound:
    """Read it from disk; raises SnapshotError naming the file when it cannot be read."""
    manifest = newest_manifest(landing_folder, cluster, interval)
    if manifest is None:
        return EarlierRound()
    folder = snapshot_folder(landing_folder, cluster, Interval(manifest.interval_start))
    return EarlierRound.of(manifest, read_table(folder, BROKER_SNAPSHOTS).to_pylist())
