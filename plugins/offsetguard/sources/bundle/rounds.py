"""What of a bundle is collected: one round per interval, each with its moment, its transport and the logs up to it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from offsetguard.config import LogSource
from offsetguard.model.errors import BundleError
from offsetguard.model.intervals import Interval
from offsetguard.sources.bundle.log_replay import LogReplay
from offsetguard.sources.bundle.reader import Bundle, Moment, moments, open_bundle
from offsetguard.sources.bundle.replay import BundleTransport, last_max_lines
from offsetguard.sources.rocketmq.transport import Transport

MAX_ROUNDS = 5_000  # a day of one each 20 s
AT_TOLERANCE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Damage:
    """Something recorded that cannot be read, or was read from elsewhere: a gap of the round, and the bytes, if any."""

    source: str  # file, and line
    reason: str
    broker_name: str | None = None
    broker_id: int | None = None
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class RecordedRound:
    """One round to run through the normal collector; `transport` answers for this round only."""

    cluster: str  # as the bundle names it; its folder's name where it does not
    interval: Interval
    started_at: datetime
    transport: Transport
    log_sources: tuple[LogSource, ...]  # with the lines up to this round
    details: str = "all"  # whose pull offsets, rates and running info can be there: of all groups, or of suspects
    damages: tuple[Damage, ...] = ()
    origin: str = "broker"  # of the offsets, see `queue_snapshots.origin`


def rounds_of_bundle(folder: Path, at: datetime | None = None) -> Iterator[RecordedRound]:
    """Yield the rounds of a bundle, oldest first: the last one of each interval, or the one nearest to `at`.

    Raises BundleError when the folder is no bundle, holds no round, or none near `at`.
    """
    bundle = open_bundle(folder)
    chosen = chosen_moments(bundle, at)
    ends: list[datetime | None] = [Interval.containing(one.at).end for one in chosen]
    if at is None:
        ends[-1] = None
    yield from _rounds(bundle, chosen, ends)


def all_rounds_of_bundle(bundle: Bundle) -> Iterator[RecordedRound]:
    """Yield every round of an opened bundle, oldest first, each with the log lines up to its start; the last has all.

    So it is with live rounds, which read the logs first: what is written later, the next one finds. Of more than
    MAX_ROUNDS the last ones: all of them are held in memory. Raises BundleError when the bundle holds no round.
    """
    found = _all_moments(bundle)
    chosen = found[-MAX_ROUNDS:]
    if len(chosen) < len(found):
        bundle.notes.append(f"{bundle.folder}: holds {len(found):,} rounds; the last {MAX_ROUNDS:,} of them are judged")
    yield from _rounds(bundle, chosen, [*(one.at for one in chosen[:-1]), None])


def _rounds(bundle: Bundle, chosen: Sequence[Moment], ends: Sequence[datetime | None]) -> Iterator[RecordedRound]:
    """Yield rounds; `ends`: up to when each of them knows the logs, None = to their end."""
    logs, last_max = LogReplay(bundle), last_max_lines(bundle)
    for moment, end in zip(chosen, ends, strict=True):
        yield RecordedRound(
            cluster=bundle.meta.cluster or bundle.folder.resolve().name,
            interval=Interval.containing(moment.at),
            started_at=moment.at,
            transport=BundleTransport(bundle, moment, last_max),
            log_sources=logs.until(end),
            details=bundle.meta.details,
            damages=tuple(Damage(str(bundle.folder), note) for note in bundle.notes),
        )


def chosen_moments(bundle: Bundle, at: datetime | None) -> Sequence[Moment]:
    """Return the moments that stand for their intervals; a snapshot is one per interval."""
    all_moments = _all_moments(bundle)
    if at is None:
        return list({Interval.containing(one.at): one for one in all_moments}.values())
    nearest = min(all_moments, key=lambda one: abs(one.at - at))
    if abs(nearest.at - at) > AT_TOLERANCE:
        first, last = all_moments[0].at, all_moments[-1].at
        raise BundleError(f"{bundle.folder}: no round near {at:%F %T}; it holds {first:%F %T} to {last:%F %T} UTC")
    return [nearest]


def _all_moments(bundle: Bundle) -> Sequence[Moment]:
    if found := moments(bundle):
        return found
    raise BundleError(f"{bundle.folder}: holds no round: no broker was asked for its consumer offsets")
