"""A support bundle played back: every round of it through the normal collector, each going on from the one before.

`collect --bundle` lands one snapshot per interval; here nothing is landed, and every round counts: whoever recorded
every five seconds wanted to see what happens between two intervals.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from offsetguard.collect.collector import collect_round
from offsetguard.collect.earlier_round import EarlierRound
from offsetguard.collect.offset_events import EventStart
from offsetguard.collect.snapshot import Snapshot
from offsetguard.config import Config
from offsetguard.config.configuration import asking_everything
from offsetguard.sources.bundle.reader import Bundle
from offsetguard.sources.bundle.rounds import all_rounds_of_bundle


async def replay(bundle: Bundle, cluster: str, config: Config) -> AsyncIterator[Snapshot]:
    """Yield the rounds of an opened bundle, oldest first; `cluster` names the entry of `config` that they are of.

    What is wrong with the bundle itself (`Bundle.notes`) is no gap of a round: it says nothing of the cluster. Raises
    BundleError when the bundle holds no round.
    """
    earlier: Snapshot | None = None
    for one in all_rounds_of_bundle(bundle):
        snapshot = await collect_round(
            cluster,
            asking_everything(config, cluster) if one.details == "all" else config,
            one.interval,
            started_at=one.started_at,
            earlier=EarlierRound(earlier.manifest, earlier.tables) if earlier else None,
            events=EventStart.OLDEST,
            transport=one.transport,
            origin=one.origin,
            log_sources=one.log_sources,
        )
        yield snapshot
        earlier = snapshot


async def snapshots_of_bundle(bundle: Bundle, cluster: str, config: Config) -> list[Snapshot]:
    """Return all rounds at once; see `replay`."""
    return [snapshot async for snapshot in replay(bundle, cluster, config)]
