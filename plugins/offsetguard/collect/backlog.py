"""What has landed and is not published, and what of it is published next.

One session publishes all that waits, of every cluster, whichever minute's task began it (`hold_if_free` of SESSION):
the task of a minute that finds one at work leaves its minute to it. So nothing queues, a backlog costs one start of
Spark, and whoever publishes, a recomputation of the past too, takes a live minute first.

    live         newer than all that is published of its cluster. Oldest first, as the state of its queues is folded
                 minute by minute; of a longer backlog the newest CAUGHT_UP. The cluster goes first whose newest
                 publication is the oldest, and with it, in one publication, all whose next interval is the same one.
                 A cluster of which one has failed since its newest publication goes by itself, after the others:
                 whatever is wrong with it, they do not begin again because of it. So do all of a publication that
                 ended TRIES times as a whole, by which it shows whose snapshot it is that Spark dies of.
    passed over  older than the newest published one: its task failed, or the backlog was longer. Newest first, when
                 nothing live waits in any cluster; facts of its own minute only, as of any older interval.

What failed by itself TRIES times is left out until somebody asks for it: otherwise a snapshot that is damaged, or that
Spark dies of, would be tried for ever, and nothing behind it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import Engine

from offsetguard.collect.landing import landed_intervals
from offsetguard.model.intervals import Interval
from offsetguard.store import cycles, published_intervals
from offsetguard.store.published_intervals import PublishedInterval

SESSION = "publishing session"  # the lock of whoever publishes all that waits
CAUGHT_UP = 10  # intervals: what was told meanwhile, not audited, lies within them
TRIES = 2
_EVER, _NEVER = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Waiting:
    """An interval that has landed and is not published, of one cluster or more."""

    clusters: tuple[str, ...]
    interval: Interval
    is_live: bool  # newer than all that is published of each of its clusters


def next_waiting(
    engine: Engine,
    landing_folder: Path,
    clusters: Iterable[str],
    *,
    live_only: bool = False,
    in_order: int = CAUGHT_UP,
    without: Collection[tuple[str, Interval]] = (),
) -> Waiting | None:
    """Return what is to be published next; None: nothing waits.

    `in_order`: how many of a cluster's live intervals are published oldest first. `without`: tried already.
    """
    newest = {cluster: published_intervals.newest(engine, cluster) for cluster in clusters}
    together: dict[str, Interval] = {}
    alone: dict[str, Interval] = {}
    for cluster in sorted(newest, key=lambda name: (_published_at(newest[name]), name)):
        of_it = newest[cluster]
        since = _EVER if of_it is None else of_it.interval.end
        live = _untried(engine, cluster, landed_intervals(landing_folder, cluster, since, _NEVER), without)
        if live:
            has_failed = cycles.failed_often(engine, cluster, since, times=1)
            is_doubted = has_failed or cycles.failed_together(engine, cluster, since, times=TRIES)
            (alone if is_doubted else together)[cluster] = live[-in_order:][0]
    if together:
        interval = next(iter(together.values()))
        return Waiting(tuple(one for one in together if together[one] == interval), interval, is_live=True)
    for cluster, interval in alone.items():
        return Waiting((cluster,), interval, is_live=True)
    if live_only:
        return None
    for cluster in sorted(newest):
        if left := _untried(engine, cluster, _unpublished(engine, landing_folder, cluster), without):
            return Waiting((cluster,), left[-1], is_live=False)
    return None


def given_up(engine: Engine, landing_folder: Path, cluster: str) -> list[Interval]:
    """Return a cluster's landed intervals that are not published and not tried again by themselves, oldest first."""
    unpublished = _unpublished(engine, landing_folder, cluster)
    return [one for one in unpublished if one not in set(_untried(engine, cluster, unpublished))]


def is_live(engine: Engine, cluster: str, interval: Interval) -> bool:
    """Whether an interval is newer than all that is published of its cluster."""
    newest = published_intervals.newest(engine, cluster)
    return newest is None or newest.interval < interval


def _unpublished(engine: Engine, landing_folder: Path, cluster: str) -> list[Interval]:
    published = set(published_intervals.starts(engine, cluster, _EVER, _NEVER))
    return [one for one in landed_intervals(landing_folder, cluster, _EVER, _NEVER) if one.start not in published]


def _published_at(newest: PublishedInterval | None) -> datetime:
    return _EVER if newest is None else newest.published_at


def _untried(
    engine: Engine, cluster: str, landed: list[Interval], without: Collection[tuple[str, Interval]] = ()
) -> list[Interval]:
    if not landed:
        return []
    failed = cycles.failed_often(engine, cluster, landed[0].start, times=TRIES)
    return [one for one in landed if one.start not in failed and (cluster, one) not in without]
