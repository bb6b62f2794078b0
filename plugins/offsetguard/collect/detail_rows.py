"""Rows of what was asked about a few groups only: running info of clients, and rates of every replica."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from offsetguard.collect.broker_reading import BrokerReading, ClientAnswer, StatsItem
from offsetguard.collect.earlier_round import CountedPlace, EarlierFigures
from offsetguard.collect.landing import Row
from offsetguard.collect.replica import Answer
from offsetguard.model.intervals import Interval
from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.rocketmq.broker_figures import BrokerStats
from offsetguard.sources.rocketmq.clients import ConsumerRunningInfo, PopProcessQueueInfo, ProcessQueueInfo

_INT64_END = 2**63
_READ = "GROUP_GET_NUMS"  # messages that a group was handed out
GroupClient = tuple[str, str]  # (consumer group, client id)


def client_answers(readings: Sequence[BrokerReading]) -> dict[GroupClient, ClientAnswer]:
    """Return what each client said of itself; of several answers the newest info, else the last failure."""
    answers: dict[GroupClient, ClientAnswer] = {}
    for reading in readings:
        for client, answer in reading.running_info.items():
            known = answers.get(client)
            if known is None or known.at is None or (answer.at is not None and answer.at > known.at):
                answers[client] = answer
    return answers


def running_info_columns(answer: ClientAnswer | None) -> Row:
    """Return the running-info columns of a row of `client_snapshots`; None = the client was not asked."""
    if answer is None or answer.info is None:
        return {"running_info_failure": answer.failure if answer else None}
    info = answer.info
    queues = info.queues.values()
    pop_queues = info.pop_queues.values()
    return {
        "running_info_read_at": answer.at,
        "own_subscriptions": own_subscriptions(info),
        "orderly": info.orderly,
        "client_version_name": info.client_version_name,
        "consumer_start_at": info.consumer_start_at,
        "thread_count": info.thread_count,
        "max_reconsume_times": info.max_reconsume_times,
        "pull_threshold_for_queue": info.pull_threshold_for_queue,
        "pull_threshold_size_for_queue_mib": info.pull_threshold_size_for_queue_mib,
        "held_queue_count": len(queues) + len(pop_queues),
        "locked_queue_count": sum(1 for queue in queues if queue.locked),
        "cached_message_count": _sum(queue.cached_message_count for queue in queues),
        "cached_message_mib": _sum(queue.cached_message_mib for queue in queues),
        "pop_wait_ack_count": _sum(queue.wait_ack_count for queue in pop_queues) if pop_queues else None,
        **_rates(info),
    }


def own_subscriptions(info: ConsumerRunningInfo) -> list[str]:
    """Return `topic expression` of each subscription, sorted: two clients that say the same have the same list."""
    return sorted(f"{one.topic} {one.sub_string}" for one in info.subscriptions)


def client_queue_rows(cluster: str, interval: Interval, readings: Sequence[BrokerReading]) -> Iterator[Row]:
    """Yield the rows of `client_queue_snapshots`."""
    for (consumer_group, client_id), answer in sorted(client_answers(readings).items()):
        if answer.info is None:
            continue
        base = {
            "cluster": cluster,
            "interval_start": interval.start,
            "consumer_group": consumer_group,
            "client_id": client_id,
            "read_at": answer.at,
        }
        for queue, held in sorted(answer.info.queues.items()):
            yield {**base, **_queue(queue), **_held_columns(held)}
        for queue, popped in sorted(answer.info.pop_queues.items()):
            if queue not in answer.info.queues:
                yield {**base, **_queue(queue), **_popped_columns(popped)}


def broker_stats_rows(
    cluster: str, interval: Interval, readings: Sequence[BrokerReading], earlier: EarlierFigures | None = None
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
                "counting_since": _counting_since(reading, item, answer, earlier.counting_since if earlier else {}),
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


def _rates(info: ConsumerRunningInfo) -> Row:
    statuses = info.statuses.values()
    if not statuses:
        return {}
    return {
        "consume_ok_tps": sum(one.consume_ok_tps for one in statuses),
        "consume_failed_tps": sum(one.consume_failed_tps for one in statuses),
        "consume_rt_ms": max(one.consume_rt_ms for one in statuses),
        "pull_tps": sum(one.pull_tps for one in statuses),
    }


def _queue(queue: MessageQueue) -> Row:
    return {"topic": queue.topic, "broker_name": queue.broker_name, "queue_id": queue.queue_id}


def _held_columns(held: ProcessQueueInfo) -> Row:
    return {
        "commit_offset": held.commit_offset,
        "cached_message_count": held.cached_message_count,
        "cached_message_mib": held.cached_message_mib,
        "cached_min_offset": held.cached_min_offset,
        "cached_max_offset": held.cached_max_offset,
        "transaction_message_count": held.transaction_message_count,
        "dropped": held.dropped,
        "locked": held.locked,
        "last_lock_at": held.last_lock_at,
        "last_pull_at": held.last_pull_at,
        "last_consume_at": held.last_consume_at,
    }


def _popped_columns(popped: PopProcessQueueInfo) -> Row:
    return {
        "dropped": popped.dropped,
        "pop_wait_ack_count": popped.wait_ack_count,
        "last_pop_at": popped.last_pop_at,
    }


def _sum(values: Iterable[int | None]) -> int | None:
    """Add up; None when one is unknown, or when clients say so much that it cannot be right."""
    known = list(values)
    total = sum(value for value in known if value is not None)
    return None if None in known or not -_INT64_END <= total < _INT64_END else total
