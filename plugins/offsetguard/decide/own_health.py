"""Whether OffsetGuard itself does its work: silence must not look like health.

Five things can go wrong without anybody noticing: judging stops, since what is not judged warns nobody; publishing is
late, since what is judged meanwhile was audited by nobody; a minute was judged that lies ahead, so that a clock is
wrong, and with it what is said of spans of time; the outbox does not drain, since a message that waits warns nobody
either; nor does one that was refused for good. All are seen in our database alone, so that whoever can read it can
tell.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Engine

from offsetguard.catalogue.text import format_duration, format_moment
from offsetguard.config import Config, Delivery
from offsetguard.judge.rules.facts_not_published import OLD_AFTER
from offsetguard.store import cycles, judged_intervals, outbox, published_intervals
from offsetguard.store.database import reading
from offsetguard.store.models import CycleRow


@dataclass(frozen=True, slots=True)
class SignsOfLife:
    """What the database shows; of clusters by their names."""

    judged_since: Mapping[str, datetime | None]  # start of the oldest judged interval that is kept; None: none yet
    judged_until: Mapping[str, datetime | None]  # end of the newest judged interval
    judged_ahead: Mapping[str, datetime]  # end of the newest interval that was judged and lies ahead
    published_until: Mapping[str, datetime | None]  # end of the newest published interval; None: none yet
    newest_cycles: Mapping[str, CycleRow]  # the publication that began last, if one is recorded
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
    clusters = list(config.clusters)
    with reading(engine) as session:
        oldest = {cluster: judged_intervals.oldest_interval(session, cluster) for cluster in clusters}
        newest = {cluster: judged_intervals.newest_interval(session, cluster, now) for cluster in clusters}
        ahead = {cluster: judged_intervals.newest_ahead(session, cluster, now) for cluster in clusters}
        backlog = outbox.backlog(session)
    published = {cluster: published_intervals.newest(engine, cluster) for cluster in clusters}
    return SignsOfLife(
        judged_since={cluster: None if interval is None else interval.start for cluster, interval in oldest.items()},
        judged_until={cluster: None if interval is None else interval.end for cluster, interval in newest.items()},
        judged_ahead={cluster: interval.end for cluster, interval in ahead.items() if interval is not None},
        published_until={cluster: None if one is None else one.interval.end for cluster, one in published.items()},
        newest_cycles={one.cluster: one for name in clusters for one in cycles.newest(engine, cluster=name, limit=1)},
        waiting_since=backlog.oldest_at,
        waiting_count=backlog.waiting_count,
        failed_count=backlog.failed_count,
    )


def find_troubles(signs: SignsOfLife, delivery: Delivery, *, now: datetime) -> tuple[Trouble, ...]:
    """Return what has stopped, by the limits of the configuration; none: OffsetGuard does its work."""
    troubles = [
        Trouble(cluster, f"nothing of cluster {cluster} was judged {_since(until, now)}")
        for cluster, until in sorted(signs.judged_until.items())
        if until is None or now - until > timedelta(milliseconds=delivery.silent_after_ms)
    ]
    troubles += _late_publications(signs, now)
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
    if since is not None and now - since > timedelta(milliseconds=delivery.undelivered_after_ms):
        waiting = _messages(signs.waiting_count)
        troubles.append(Trouble(None, f"the outbox does not drain: {waiting}, the oldest since {format_moment(since)}"))
    if signs.failed_count:
        refused = f"{_messages(signs.failed_count)} {'was' if signs.failed_count == 1 else 'were'} refused for good"
        do_next = "`offsetguard outbox list` says why, `outbox redrive` or `dismiss` ends it"
        troubles.append(Trouble(None, f"{refused}: {do_next}"))
    return tuple(troubles)


def troubles_of(engine: Engine, config: Config, *, now: datetime) -> tuple[Trouble, ...]:
    """Return what has stopped."""
    return find_troubles(read_signs(engine, config, now), config.delivery, now=now)


def _late_publications(signs: SignsOfLife, now: datetime) -> Iterator[Trouble]:
    """Yield clusters whose minutes are judged and not published, from when the rule `facts_not_published` says so.

    Where nothing is judged either, that alone is the trouble.
    """
    for cluster, judged_until in sorted(signs.judged_until.items()):
        published_until = signs.published_until[cluster]
        expected_from = published_until or signs.judged_since[cluster]
        if judged_until is None or expected_from is None or judged_until - expected_from < OLD_AFTER:
            continue
        if published_until is None:
            text = f"nothing of cluster {cluster} was published so far: its minutes are judged since "
        else:
            text = f"publishing of cluster {cluster} is late: its newest published minute ended "
        late = format_duration((now - expected_from).total_seconds() * 1000)
        yield Trouble(
            cluster,
            f"{text}{format_moment(expected_from)}, {late} ago. {_publication(signs.newest_cycles.get(cluster))}",
        )


def _publication(cycle: CycleRow | None) -> str:
    """Return what the publication does that began last; nothing more is known where none is recorded."""
    do_next = "`offsetguard cycles` shows the last publications"
    if cycle is None:
        return f"No publication has begun; {do_next}, and Airflow the task publish_interval"
    of = f"that of {format_moment(cycle.interval_start)}"
    if cycle.failed:
        return f"The last one, {of}, failed at {cycle.failed_step or 'start'}: {cycle.error}; {do_next}"
    if cycle.running_under is not None:
        return f"One is at work, {of}, since {format_moment(cycle.started_at)}; {do_next}"
    took = format_duration(cycle.duration_s * 1000)
    return f"Publishing goes on and is behind: the last one, {of}, took {took}; {do_next}"


def _messages(count: int) -> str:
    return f"{count} message{'' if count == 1 else 's'}"


def _since(until: datetime | None, now: datetime) -> str:
    if until is None:
        return "so far"
    silent_ms = (now - until).total_seconds() * 1000
    return f"for {format_duration(silent_ms)}: the newest judged minute ended {format_moment(until)}"
