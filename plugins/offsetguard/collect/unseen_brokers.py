"""What the rounds before know of what this one missed: since when, and which groups lay on masters without offsets.

Slaves are noted since when they answer nothing; they hide no group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offsetguard.collect.manifest import MAX_HIDDEN_GROUPS, UnseenBroker
from offsetguard.collect.system_names import is_system_group
from offsetguard.tables import QUEUE_SNAPSHOTS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from offsetguard.collect.earlier_round import EarlierRound


def unseen_masters(
    broker_names: Iterable[str], earlier: EarlierRound, started_at: datetime
) -> tuple[UnseenBroker, ...]:
    """Return a record of each master; what an earlier round noted of one that it missed, too, stays.

    Raises SnapshotError when a table of the earlier round cannot be read.
    """
    names = sorted(broker_names)
    if earlier.manifest is None:
        return tuple(UnseenBroker(broker_name=name, unseen_since=None) for name in names)
    noted = {one.broker_name: one for one in earlier.manifest.unseen_brokers if one.broker_id == 0}
    missed = earlier.manifest.unseen_broker_names  # by an earlier release, which noted nothing
    return tuple(
        noted.get(name)
        or UnseenBroker(
            broker_name=name,
            unseen_since=earlier.manifest.started_at if name in missed else started_at,
            **({} if name in missed else _groups_on(name, earlier)),
        )
        for name in names
    )


def silent_slaves(
    replicas: Iterable[tuple[str, int]], earlier: EarlierRound, started_at: datetime
) -> tuple[UnseenBroker, ...]:
    """Return a record of each slave (broker name, broker id) that answered nothing, as of masters."""
    before = earlier.manifest
    since = started_at if before else None
    noted = {(one.broker_name, one.broker_id): one.unseen_since for one in before.unseen_brokers} if before else {}
    return tuple(
        UnseenBroker(broker_name=name, broker_id=broker_id, unseen_since=noted.get((name, broker_id), since))
        for name, broker_id in sorted(replicas)
    )


def kinds_since(kinds: Iterable[str], earlier: EarlierRound, started_at: datetime) -> dict[str, datetime]:
    """Return when the first of the rounds in a row with a kind of gap was started; {} without a round before."""
    before = earlier.manifest
    if before is None:
        return {}
    known = {kind: before.gap_kinds_since.get(kind, before.started_at) for kind in before.gap_kinds}
    return {kind: known.get(kind, started_at) for kind in sorted(kinds)}


def _groups_on(broker_name: str, earlier: EarlierRound) -> dict[str, Any]:
    from pyarrow import compute as pc  # noqa: PLC0415 costs 0.1 s, and mostly every broker answers

    queues = earlier.columns(QUEUE_SNAPSHOTS, ("broker_name", "consumer_group"))
    if queues is None:
        return {}
    there = queues.filter(pc.equal(queues["broker_name"], broker_name))["consumer_group"].unique().to_pylist()
    groups = sorted(group for group in there if not is_system_group(group))
    return {"consumer_groups": tuple(groups[:MAX_HIDDEN_GROUPS]), "consumer_group_count": len(groups)}
