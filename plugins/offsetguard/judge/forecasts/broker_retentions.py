"""What each broker of an interval will delete: of its facts, the marks of the last days, and when min offsets moved."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from itertools import pairwise

from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.forecasts.broker_cleaning import BrokerRetention, Cleaner, delete_hours, run_ahead
from offsetguard.judge.forecasts.byte_curve import ByteCurve, WriteRates
from offsetguard.model.fact_records import BrokerMark
from offsetguard.model.intervals import zone_of
from offsetguard.model.offsets import MASTER_ID, epoch_ms
from offsetguard.tables.broker_facts import BrokerFacts

DEFAULT_FILE_BYTES = 1 << 30  # mappedFileSizeCommitLog
DEFAULT_EXPIRED_PERCENT = 75  # diskMaxUsedSpaceRatio
DEFAULT_FORCED_PERCENT = 85  # diskSpaceCleanForciblyRatio; 4.x does not tell it
_HOUR_MS = 3_600_000
_MS = timedelta(milliseconds=1)
_TWICE = 2
_YOUNGER = 0.97  # of the reserved time: younger messages did not expire
_FULL = 0.01  # below the ratio at which files go by force, as far as brokers round it
_FILLED = 0.05  # below the ratio at which files go at any hour: marks are an hour apart, and made after a deletion


def retentions(facts: IntervalFacts, config: Config) -> Mapping[str, BrokerRetention]:
    """Return what each master will delete, by broker name; a master whose commit log was not seen is left out."""
    cluster = config.clusters.get(facts.cluster)
    zone = None if cluster is None or cluster.broker_time_zone is None else zone_of(cluster.broker_time_zone)
    marks: defaultdict[str, list[BrokerMark]] = defaultdict(list)
    for mark in facts.broker_marks:
        marks[mark.broker_name].append(mark)
    moved: defaultdict[str, list[datetime]] = defaultdict(list)
    for queue in facts.queues:
        if queue.window.min_moved_at is not None:
            moved[queue.message_queue.broker_name].append(queue.window.min_moved_at)
    masters = (broker for broker in facts.brokers if broker.broker_id == MASTER_ID)
    found = ((one.broker_name, retention(one, marks[one.broker_name], moved[one.broker_name], zone)) for one in masters)
    return {name: one for name, one in found if one is not None}


def tiered_broker_names(facts: IntervalFacts) -> frozenset[str]:
    """Return the brokers that keep messages in a tiered storage as well: what they delete locally can still be read.

    5.3.3 tells the tiered storage's oldest message as min offset, but its commit log's as earliest message; how long
    the storage keeps messages (tieredStoreFileReservedTime, the storage's own rules), nobody can tell.
    """
    return frozenset(one.broker_name for one in facts.brokers if "tiered" in (one.message_store_plug_in or "").lower())


def retention(
    broker: BrokerFacts, marks: Sequence[BrokerMark], moved: Iterable[datetime], zone: tzinfo | None
) -> BrokerRetention | None:
    """Return what a master will delete; None: its commit log was not seen.

    `marks`: oldest first; `moved`: when min offsets of its queues last moved.
    """
    now, low, high = broker.read_at, broker.commit_log_min_offset, broker.commit_log_max_offset
    if now is None or low is None or high is None:
        return None
    log = _log(broker, marks, now)
    if log is None:
        return None
    deletion = _last_deletion(broker, marks, moved)
    reserved_ms = None if broker.file_reserved_time_hours is None else broker.file_reserved_time_hours * _HOUR_MS
    expired = deletion is not None and reserved_ms is not None and deletion[1] >= _YOUNGER * reserved_ms
    forced, expired_ratio = forced_ratio(broker), (broker.disk_max_used_space_ratio or DEFAULT_EXPIRED_PERCENT) / 100
    fullest = _fullest(broker, marks)
    by_force = forced is not None and fullest is not None and fullest >= forced - _FULL
    one_time = deletion is None or not _recurs(broker, marks)  # by hand, or while a setting was another one
    # else it may have been any hour: the disk was full
    at_its_hour = expired and fullest is not None and fullest < expired_ratio - _FILLED
    cleaner = Cleaner(
        reserved_ms=reserved_ms,
        hours=delete_hours(broker.delete_when, zone, deletion[0] if deletion and at_its_hour else None, now),
        file_bytes=broker.commit_log_file_bytes or DEFAULT_FILE_BYTES,
        expired_ratio=expired_ratio,
        forced_ratio=forced,
        disk_ratio=broker.commit_log_disk_ratio,
        disk_bytes=broker.commit_log_disk_bytes,
        observed_age_ms=None if deletion is None or one_time or expired or by_force else deletion[1],
    )
    return run_ahead(cleaner, log, low, WriteRates(log, _recent_rates(broker, log)))


def _log(broker: BrokerFacts, marks: Sequence[BrokerMark], now: datetime) -> ByteCurve | None:
    """Return the commit log's curve: the oldest byte kept, the marks, and now."""
    points = [(epoch_ms(mark.at), mark.commit_log_max_offset) for mark in marks if mark.at < now]
    log = ByteCurve.of([*points, (epoch_ms(now), broker.commit_log_max_offset)])
    oldest = epoch_ms(broker.earliest_message_at), broker.commit_log_min_offset
    if log is None or None in oldest:
        return log
    whole = ByteCurve.of([oldest, *zip(log.times, log.positions, strict=True)])
    # clocks differ by seconds: a store time that contradicts the marks is left out, and not the marks
    return whole if whole is not None and len(whole.times) > len(log.times) else log


def _last_deletion(
    broker: BrokerFacts, marks: Sequence[BrokerMark], moved: Iterable[datetime]
) -> tuple[datetime, int] | None:
    """Return when the broker was last seen to delete, and how old its oldest message was then, ms; None: not seen."""
    before = [mark for mark in marks if mark.commit_log_min_offset != broker.commit_log_min_offset]
    since = [mark.at for mark in marks if mark.commit_log_min_offset == broker.commit_log_min_offset]
    seen = [*moved, *(min(since) for _ in before[:1] if since)]
    if not seen or broker.earliest_message_at is None:
        return None
    at = max(seen)
    return at, max(0, (at - broker.earliest_message_at) // _MS)


def _recurs(broker: BrokerFacts, marks: Sequence[BrokerMark]) -> bool:
    """Whether files were deleted between at least two pairs of marks: what happened once need not happen again."""
    lows = [*(mark.commit_log_min_offset for mark in marks), broker.commit_log_min_offset]
    return sum(before != after for before, after in pairwise(lows)) >= _TWICE


def forced_ratio(broker: BrokerFacts) -> float | None:
    """Return the used share of the disk above which files go whatever their age; None: they never do."""
    if broker.clean_file_forcibly is False:
        return None
    return (broker.disk_clean_forcibly_ratio or DEFAULT_FORCED_PERCENT) / 100


def _fullest(broker: BrokerFacts, marks: Sequence[BrokerMark]) -> float | None:
    """Return the highest use of the disk that the last marks and now show; None: none of them does."""
    ratios = (broker.commit_log_disk_ratio, *(mark.disk_ratio for mark in marks[-24:]))
    return max((ratio for ratio in ratios if ratio is not None), default=None)


def _recent_rates(broker: BrokerFacts, log: ByteCurve) -> tuple[float, ...]:
    minute = None
    if broker.commit_log_growth is not None and broker.commit_log_growth_ms:
        minute = broker.commit_log_growth / broker.commit_log_growth_ms
    hour = log.rate(log.now_ms - _HOUR_MS, log.now_ms)
    return tuple(rate for rate in (minute, hour) if rate is not None)
