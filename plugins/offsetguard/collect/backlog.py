"""What has landed and is not published, and what of it is published next.

One session publishes all that waits, of every cluster, whichever minute's task began it (`hold_if_free` of SESSION):
the task of a minute that finds one at work leaves its minute to it. So nothing queues, a backlog costs one start of
Spark, and whoever publishes, a recomputation of the past too, takes a live minute first.

    live         newer than all that is published of its cluster. Oldest first, as the state of its queues is folded
                 minute by minute; of a longer backlog the newest CAUGHT_UP. The cluster goes first whose newest
                 publication is the oldest, and with it, in one publication, all whose next interval is the same one;
                 and the intervals behind it that all of these wait for, up to one that another cluster waits for
                 next, and together no more than ROWS_AT_ONCE rows of one hour. The first minute of an hour goes by
                 itself: it folds the usual traffic of the hour before.
                 A cluster of which one has failed since its newest publication goes by itself, after the others, and
                 minute by minute:
                 whatever is wrong with it, they do not begin again because of it. So do all of a publication that
                 ended TRIES times as a whole, by which it shows whose snapshot it is that Spark dies of.
    passed over  older than the newest published one: its task failed, or the backlog was longer. Newest first, when
                 nothing live waits in any cluster; facts of its own minute only, as of any older interval.

What failed by itself TRIES times is left out until somebody asks for it: otherwise a snapshot that is damaged, or that
Spark dies of, would be tried for ever, and nothing behind it.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from sqlalchemy import Engine

from offsetguard.collect.landing import landed_intervals, read_manifest, snapshot_folder
from offsetguard.model.errors import SnapshotError
from offsetguard.model.intervals import Interval, Minute
from offsetguard.store import cycles, published_intervals
from offsetguard.store.published_intervals import PublishedInterval

SESSION = "publishing session"  # the lock of whoever publishes all that waits
CAUGHT_UP = 10  # intervals: what was told meanwhile, not audited, lies within them
ROWS_AT_ONCE = 500_000  # landed ones: with more of them a publication costs what its rows cost, however many intervals
TRIES = 2
_EVER, _NEVER = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Intervals that have landed and are not published, all of them of one cluster or more."""

    clusters: tuple[str, ...]
    intervals: tuple[Interval, ...]  # oldest first
    is_live: bool  # newer than all that is published of each of the clusters


def next_waiting(
    engine: Engine,
    landing_folder: Path,
    clusters: Iterable[str],
    *,
    live_only: bool = False,
    in_order: int = CAUGHT_UP,
    without: Collection[Minute] = (),
) -> Waiting | None:
    """Return what is to be published next; None: nothing waits.

    `in_order`: how many of a cluster's live intervals are published oldest first. `without`: tried already.
    """
    newest = {cluster: published_intervals.newest(engine, cluster) for cluster in clusters}
    together: dict[str, list[Interval]] = {}
    alone: dict[str, list[Interval]] = {}
    for cluster in sorted(newest, key=lambda name: (_published_at(newest[name]), name)):
        of_it = newest[cluster]
        since = _EVER if of_it is None else of_it.interval.end
        live = _untried(engine, cluster, landed_intervals(landing_folder, cluster, since, _NEVER), without)
        if live:
            has_failed = cycles.failed_often(engine, cluster, since, times=1)
            is_doubted = has_failed or cycles.failed_together(engine, cluster, since, times=TRIES)
            (alone if is_doubted else together)[cluster] = live[-in_order:]
    if together:
        return _oldest(landing_folder, together)
    for cluster, live in alone.items():
        return Waiting((cluster,), (live[0],), is_live=True)
    if live_only:
        return None
    for cluster in sorted(newest):
        if left := _untried(engine, cluster, _unpublished(engine, landing_folder, cluster), without):
            return Waiting((cluster,), (left[-1],), is_live=False)
    return None


def _oldest(landing_folder: Path, live: Mapping[str, list[Interval]]) -> Waiting:
    """Return what the first cluster waits for, and what goes with it; `live`: of each cluster, oldest first."""
    first = next(iter(live.values()))[0]
    waiting = {cluster: of_it for cluster, of_it in live.items() if of_it[0] == first}
    until = min((of_it[0] for of_it in live.values() if of_it[0] > first), default=Interval(_NEVER))
    hour = first.start.replace(minute=0)
    taken, row_count = [first], _row_count(landing_folder, waiting, first)
    for interval, *same in islice(zip(*waiting.values(), strict=False), 1, None):
        row_count += _row_count(landing_folder, waiting, interval)
        if (
            any(one != interval for one in same)
            or interval >= until
            or first.start == hour
            or interval.start.replace(minute=0) != hour
            or row_count > ROWS_AT_ONCE
        ):
            break
        taken.append(interval)
    return Waiting(tuple(waiting), tuple(taken), is_live=True)


def _row_count(landing_folder: Path, clusters: Iterable[str], interval: Interval) -> int:
    """Return how many rows have landed; none where a manifest cannot be read, which the publication will say."""
    count = 0
    for cluster in clusters:
        with suppress(SnapshotError):
            count += read_manifest(snapshot_folder(landing_folder, cluster, interval)).row_count
    return count


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


def _untried(engine: Engine, cluster: str, landed: list[Interval], without: Collection[Minute] = ()) -> list[Interval]:
    if not landed:
        return []
    failed = cycles.failed_often(engine, cluster, landed[0].start, times=TRIES)
    return [one for one in landed if one.start not in failed and (cluster, one) not in without]
