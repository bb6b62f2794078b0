"""Whether OffsetGuard itself does its work: silence must not look like health.

Four things can go wrong without anybody noticing: judging stops, since what is not judged warns nobody; a minute was
judged that lies ahead, so that a clock is wrong, and with it what is said of spans of time; the outbox does not drain,
since a message that waits warns nobody either; nor does one that was refused for good. All are seen in our database
alone, so that whoever can read it can tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Engine

from offsetguard.catalogue.text import format_duration, format_moment
from offsetguard.config import Config
from offsetguard.store import judged_intervals, outbox
from offsetguard.store.database import reading


@dataclass(frozen=True, slots=True)
class SignsOfLife:
    """What the database shows."""

    judged_until: Mapping[str, datetime | None]  # cluster -> end of its newest judged interval; None: none yet
    judged_ahead: Mapping[str, datetime]  # cluster -> end of the newest interval that was judged and lies ahead
    waiting_since: datetime | None  # when the oldest message was written that is neither accepted nor refused
    waiting_count: int
    failed_count: int  # refused for good: an operator has to redrive or dismiss them, and until then they stay


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that has stopped."""

    cluster: str | None  # None: it concerns all
    text: str


def read_signs(engine: Engine, config: Config, now: datetime) -> SignsOfLife:
    """Read what there is to see."""
    with reading(engine) as session:
        newest = {cluster: judged_intervals.newest_interval(session, cluster, now) for cluster in config.clusters}
        ahead = {cluster: judged_intervals.newest_ahead(session, cluster, now) for cluster in config.clusters}
        backlog = outbox.backlog(session)
    return SignsOfLife(
        judged_until={cluster: None if interval is None else interval.end for cluster, interval in newest.items()},
        judged_ahead={cluster: interval.end for cluster, interval in ahead.items() if interval is not None},
        waiting_since=backlog.oldest_at,
        waiting_count=backlog.waiting_count,
        failed_count=backlog.failed_count,
    )


def find_troubles(
    signs: SignsOfLife, *, now: datetime, silent_after_ms: int, undelivered_after_ms: int
) -> tuple[Trouble, ...]:
    """Return what has stopped; none: OffsetGuard does its work."""
    troubles = [
        Trouble(cluster, f"nothing of cluster {cluster} was judged {_since(until, now)}")
        for cluster, until in sorted(signs.judged_until.items())
        if until is None or now - until > timedelta(milliseconds=silent_after_ms)
    ]
    troubles += [
        Trouble(
            cluster,
            f"of cluster {cluster} minutes were judged that lie ahead, up to {format_moment(until)}, "
            f"{format_duration((until - now).total_seconds() * 1000)} from now: the clock of this host or of the one "
            "that judged them is wrong; set both by NTP. They count as not judged until they come",
        )
        for cluster, until in sorted(signs.judged_ahead.items())
    ]
    since = signs.waiting_since
    if since is not None and now - since > timedelta(milliseconds=undelivered_after_ms):
        waiting = _messages(signs.waiting_count)
        troubles.append(Trouble(None, f"the outbox does not drain: {waiting}, the oldest since {format_moment(since)}"))
    if signs.failed_count:
        refused = f"{_messages(signs.failed_count)} {'was' if signs.failed_count == 1 else 'were'} refused for good"
        do_next = "`offsetguard outbox list --status failed` says why, `outbox redrive` or `dismiss` ends it"
        troubles.append(Trouble(None, f"{refused}: {do_next}"))
    return tuple(troubles)


def troubles_of(engine: Engine, config: Config, *, now: datetime) -> tuple[Trouble, ...]:
    """Return what has stopped, by the limits of the configuration."""
    delivery = config.delivery
    return find_troubles(
        read_signs(engine, config, now),
        now=now,
        silent_after_ms=delivery.silent_after_ms,
        undelivered_after_ms=delivery.undelivered_after_ms,
    )


def _messages(count: int) -> str:
    return f"{count} message{'' if count == 1 else 's'}"


def _since(until: datetime | None, now: datetime) -> str:
    if until is None:
        return "so far"
    silent_ms = (now - until).total_seconds() * 1000
    return f"for {format_duration(silent_ms)}: the newest judged minute ended {format_moment(until)}"
