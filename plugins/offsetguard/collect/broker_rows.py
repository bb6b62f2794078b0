"""Rows of `broker_snapshots`: what every replica says of itself; and what this round missed, since when.

Slaves are noted since when they answer nothing; they hide no group.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from pyarrow import compute as pc

from offsetguard.collect.broker_reading import BrokerReading, StatsItem, slave_behind_bytes
from offsetguard.collect.earlier_round import CountedPlace, EarlierFigures, EarlierRound
from offsetguard.collect.held_back import held_back_columns
from offsetguard.collect.landing import Row
from offsetguard.collect.manifest import MAX_HIDDEN_GROUPS
from offsetguard.collect.replica import Answer
from offsetguard.collect.system_names import is_system_group
from offsetguard.model.fact_records import UnseenBrokerFacts
from offsetguard.model.intervals import Interval
from offsetguard.model.offsets import MASTER_ID
from offsetguard.sources.rocketmq.brokers import BrokerRuntimeInfo, BrokerStats
from offsetguard.tables import QUEUE_SNAPSHOTS

_INT32_END = 2**31
_NOTHING = EarlierFigures()
_READ = "GROUP_GET_NUMS"  # messages that a group was handed out


def unseen_masters(
    broker_names: Iterable[str], earlier: EarlierRound, started_at: datetime
) -> tuple[UnseenBrokerFacts, ...]:
    """Return a record of each master; what an earlier round noted of one that it missed, too, stays.

    Raises SnapshotError when a table of the earlier round cannot be read.
    """
    names = sorted(broker_names)
    if earlier.manifest is None:
        return tuple(UnseenBrokerFacts(broker_name=name, unseen_since=None) for name in names)
    noted = {one.broker_name: one for one in earlier.manifest.unseen_brokers if one.broker_id == MASTER_ID}
    return tuple(
        noted.get(name) or UnseenBrokerFacts(broker_name=name, unseen_since=started_at, **_groups_on(name, earlier))
        for name in names
    )


def silent_slaves(
    replicas: Iterable[tuple[str, int]], earlier: EarlierRound, started_at: datetime
) -> tuple[UnseenBrokerFacts, ...]:
    """Return a record of each slave (broker name, broker id) that answered nothing, as of masters."""
    before = earlier.manifest
    since = started_at if before else None
    noted = {(one.broker_name, one.broker_id): one.unseen_since for one in before.unseen_brokers} if before else {}
    return tuple(
        UnseenBrokerFacts(broker_name=name, broker_id=broker_id, unseen_since=noted.get((name, broker_id), since))
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
    queues = earlier.columns(QUEUE_SNAPSHOTS, ("broker_name", "consumer_group"))
    if queues is None:
        return {}
    there = queues.filter(pc.equal(queues["broker_name"], broker_name))["consumer_group"].unique().to_pylist()
    groups = sorted(group for group in there if not is_system_group(group))
    return {"consumer_groups": tuple(groups[:MAX_HIDDEN_GROUPS]), "consumer_group_count": len(groups)}


def broker_rows(
    cluster: str, interval: Interval, readings: Sequence[BrokerReading], earlier: EarlierFigures = _NOTHING
) -> Iterator[Row]:
    """Yield one row per replica of the round, masters and slaves.

    `earlier`: what the round before knew: who was the master, and since when messages are held back.
    """
    masters = {reading.broker_name: reading for reading in readings if reading.replica.is_master}
    for reading in readings:
        yield {
            "cluster": cluster,
            "interval_start": interval.start,
            "broker_name": reading.broker_name,
            "broker_id": reading.replica.broker_id,
            "address": reading.replica.address,
            "answered": reading.answered_at is not None,
            "failure": None if reading.answered_at is not None else reading.failure or "not asked before the deadline",
            "slave_behind_bytes": slave_behind_bytes(reading, masters.get(reading.broker_name)),
            "replicated_at": reading.replicated_at,
            "master_changed_at": earlier.master_changed_at(reading.replica, reading.answered_at or interval.start),
            "read_at": reading.answered_at,
            **_settings_columns(reading.settings or {}),
            **(_runtime_columns(reading.runtime) if reading.runtime else {}),
            "clock_ahead_ms": _clock_ahead_ms(reading),
            **held_back_columns(reading, earlier.masters.get(reading.broker_name, {})),
        }


def _clock_ahead_ms(reading: BrokerReading) -> int | None:
    """How far the replica's clock is ahead of ours, by whole seconds; negative: behind; None: it did not say.

    The replica says when it was started and for how many seconds it has run since, both by its own clock.
    """
    clock_at = reading.runtime.clock_at if reading.runtime else None
    if clock_at is None or reading.runtime_at is None:
        return None
    return round((clock_at - reading.runtime_at).total_seconds() * 1_000)


def _runtime_columns(runtime: BrokerRuntimeInfo) -> dict[str, object]:
    return {
        "version": runtime.broker_version_desc,
        "boot_at": runtime.boot_at,
        "commit_log_min_offset": runtime.commit_log_min_offset,
        "commit_log_max_offset": runtime.commit_log_max_offset,
        "commit_log_disk_ratio": runtime.commit_log_disk_ratio,
        "commit_log_disk_bytes": runtime.commit_log_disk_bytes,
        "dispatch_behind_bytes": runtime.integer("dispatchBehindBytes"),
        "put_tps": runtime.minute_tps("putTps"),
        "get_found_tps": runtime.minute_tps("getFoundTps"),
        "get_transferred_tps": runtime.minute_tps(
            "getTransferredTps" if "getTransferredTps" in runtime.table else "getTransferedTps"  # 4.x misspells it
        ),
        "page_cache_lock_time_ms": runtime.integer("pageCacheLockTimeMills"),
        "send_queue_size": runtime.integer("sendThreadPoolQueueSize"),
        "send_queue_head_wait_ms": runtime.integer("sendThreadPoolQueueHeadWaitTimeMills"),
        "pull_queue_size": runtime.integer("pullThreadPoolQueueSize"),
        "pull_queue_head_wait_ms": runtime.integer("pullThreadPoolQueueHeadWaitTimeMills"),
        "earliest_message_at": runtime.time("earliestMessageTimeStamp"),
        "active": runtime.is_active,
    }


def _settings_columns(settings: Mapping[str, str]) -> dict[str, object]:
    return {
        "role": settings.get("brokerRole"),
        "slave_read_enable": {"true": True, "false": False}.get(settings.get("slaveReadEnable", "")),
        "file_reserved_time_hours": _whole_number(settings.get("fileReservedTime")),
        "delete_when": settings.get("deleteWhen"),
        "disk_max_used_space_ratio": _whole_number(settings.get("diskMaxUsedSpaceRatio")),
        "disk_clean_forcibly_ratio": _whole_number(settings.get("diskSpaceCleanForciblyRatio")),
        "clean_file_forcibly": {"true": True, "false": False}.get(settings.get("cleanFileForciblyEnable", "")),
        "commit_log_file_bytes": _whole_number(settings.get("mappedFileSizeCommitLog")),
        "access_message_in_memory_max_ratio": _whole_number(settings.get("accessMessageInMemoryMaxRatio")),
        "message_store_plug_in": settings.get("messageStorePlugIn") or None,
        "broker_permission": _whole_number(settings.get("brokerPermission")),
        "rocketmq_cluster": settings.get("brokerClusterName"),
    }


def _whole_number(text: str | None) -> int | None:
    """Return a 32-bit setting; None where it is missing or no such number."""
    if text is None or len(text) > len("-2147483648") or not text.removeprefix("-").isdecimal():
        return None
    return int(text) if -_INT32_END <= int(text) < _INT32_END else None


def broker_stats_rows(
    cluster: str, interval: Interval, readings: Sequence[BrokerReading], earlier: EarlierFigures = _NOTHING
) -> Iterator[Row]:
    """Yield the rows of `broker_stats`, of every replica."""
    for reading in readings:
        for item, answer in reading.broker_stats.items():
            yield {
                "cluster": cluster,
                "interval_start": interval.start,
                "broker_name": reading.broker_name,
                "broker_id": reading.replica.broker_id,
                "stats_name": item.stats_name,
                "stats_key": item.stats_key,
                "topic": item.topic,
                "consumer_group": item.consumer_group,
                "queue_id": item.queue_id,
                "counted": answer.body is not None,
                **_stats_columns(answer.body),
                "counting_since": _counting_since(reading, item, answer, earlier.counting_since),
                "read_at": answer.at,
            }


def _stats_columns(stats: BrokerStats | None) -> Row:
    return {
        "tps": stats.minute.tps if stats else 0.0,
        "minute_sum": stats.minute.sum if stats else 0,
        "average": stats.minute.average if stats else 0.0,
        "hour_sum": stats.hour.sum if stats else 0,
        "day_sum": stats.day.sum if stats else 0,
    }


def _counting_since(
    reading: BrokerReading, item: StatsItem, answer: Answer[BrokerStats], earlier: Mapping[CountedPlace, datetime]
) -> datetime | None:
    """Of rates of reading only: since when a replica serves a group is asked for, of other rates it is not."""
    if item.stats_name != _READ or answer.body is None or answer.body.minute.tps <= 0:
        return None
    place = (reading.broker_name, reading.replica.broker_id, item.stats_name, item.stats_key)
    return earlier.get(place) or answer.at
