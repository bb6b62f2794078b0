"""From readings to the rows of the smaller landed tables: topics, clients and their queues, moves, what is unreadable.

Pure functions, no requests, no clock. The big tables are made column by column in `queue_columns`, groups in
`group_rows`, replicas and their rates in `broker_rows`.
"""

import base64
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import islice

import pyarrow as pa

from offsetguard.collect.broker_reading import BrokerReading, ClientAnswer, GroupClient, Undecodable
from offsetguard.collect.landing import Row, table_of
from offsetguard.collect.system_names import topic_kind
from offsetguard.model.errors import SnapshotError
from offsetguard.model.intervals import Interval
from offsetguard.model.offsets import MessageQueue
from offsetguard.sources.logs.tailing import LogReading
from offsetguard.sources.rocketmq.consumers import ConsumerRunningInfo, ProcessQueueInfo
from offsetguard.sources.rocketmq.offset_table import INT32_RANGE, INT64_RANGE
from offsetguard.tables import CLIENT_QUEUE_SNAPSHOTS, UNDECODABLE_RECORDS, ColumnType, Table

ROWS_TOGETHER = 4_096  # as dictionaries, each of which takes ten times its place in a table
MAX_KEPT_BYTES = 64 * 1024  # of an undecodable record
_OF_HELD_QUEUE = {column.name for column in CLIENT_QUEUE_SNAPSHOTS.columns} & {
    field.name for field in fields(ProcessQueueInfo)
}
_RANGES = {ColumnType.INT32: INT32_RANGE, ColumnType.INT64: INT64_RANGE}


@dataclass(frozen=True, slots=True)
class SnapshotRows:
    """Makes the rows of one round. `own_names`: names of brokers and RocketMQ clusters, which are topics as well."""

    cluster: str
    interval: Interval
    own_names: frozenset[str]

    def topic_settings(self, masters: Iterable[BrokerReading]) -> Iterator[Row]:
        """Rows of `topic_settings`."""
        for reading in masters:
            system_names = self.own_names | reading.system_topics
            for topic, config in sorted((reading.topics or {}).items()):
                yield self.row(
                    broker_name=reading.broker_name,
                    topic=topic,
                    topic_kind=topic_kind(topic, system_names).value,
                    read_queue_nums=config.read_queue_nums,
                    write_queue_nums=config.write_queue_nums,
                    perm=config.perm,
                    orderly=config.order,
                )

    def clients(self, readings: Sequence[BrokerReading]) -> Iterator[Row]:
        """Rows of `client_snapshots`, of every replica that was asked for members."""
        answers = client_answers(readings)
        for reading in readings:
            for group, connections in sorted(reading.connections.items()):
                if connections is None:
                    continue
                subscriptions = [
                    f"{one.topic} {one.sub_string}" for _, one in sorted(connections.subscriptions.items())
                ]
                # a client that reconnects may be listed twice for a moment; the key is the client id
                clients = {client.client_id: client for client in connections.connections}
                counts = Counter(client.client_id for client in connections.connections)
                for client_id, client in sorted(clients.items()):
                    yield self.row(
                        consumer_group=group,
                        client_id=client_id,
                        broker_name=reading.broker_name,
                        broker_id=reading.replica.broker_id,
                        client_address=client.client_address,
                        connection_count=counts[client_id],
                        language=client.language,
                        version=client.version,
                        subscriptions=subscriptions,
                        **running_info_columns(answers.get((group, client_id))),
                    )

    def moves(self, masters: Iterable[BrokerReading]) -> Iterator[Row]:
        """Rows of `offset_moves` that events tell of."""
        for reading in masters:
            for event in reading.events:
                yield self.row(origin="event", source=reading.broker_name, **event)

    def undecodable(self, records: Iterable[Undecodable]) -> Iterator[Row]:
        """Rows of `undecodable_records`."""
        for one in records:
            yield self.row(
                source=one.source,
                position=one.position,
                reason=one.reason,
                body_base64=base64.b64encode(one.body[:MAX_KEPT_BYTES]).decode("ascii"),
            )

    def table(self, table: Table, rows: Iterable[Row], undecodable: list[Row]) -> pa.Table:
        """Make a table; rows with numbers too large go to `undecodable`: one of them would stop the landing."""
        source, parts, first = iter(rows), [table_of(table, ())], 0
        while made := list(islice(source, ROWS_TOGETHER)):
            try:
                parts.append(table_of(table, made))
            except SnapshotError:  # very rare: each number is looked at then only
                parts.append(table_of(table, self._fitting(table, made, first, undecodable)))
            first += len(made)
        return pa.concat_tables(parts)

    def _fitting(self, table: Table, rows: Iterable[Row], first: int, undecodable: list[Row]) -> list[Row]:
        limits = {column.name: _RANGES[column.type] for column in table.columns if column.type in _RANGES}
        fitting = []
        for position, row in enumerate(rows, first):
            too_large = [name for name, limit in limits.items() if row.get(name) is not None and row[name] not in limit]
            if not too_large:
                fitting.append(row)
            elif table is not UNDECODABLE_RECORDS:
                kept = json.dumps(row, default=str).encode()[:MAX_KEPT_BYTES]
                undecodable.append(
                    self.row(
                        source=table.name,
                        position=position,
                        reason=", ".join(
                            f"{name}: a number beyond {limits[name].stop.bit_length()} bits" for name in too_large
                        ),
                        body_base64=base64.b64encode(kept).decode("ascii"),
                    )
                )
        return fitting

    def row(self, **columns: object) -> Row:
        """Return a row of this cluster and interval."""
        return {"cluster": self.cluster, "interval_start": self.interval.start, **columns}


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
    held = {
        "held_queue_count": len(queues) + len(pop_queues),
        "locked_queue_count": sum(1 for queue in queues if queue.locked),
        "cached_message_count": _sum(queue.cached_message_count for queue in queues),
        "cached_message_mib": _sum(queue.cached_message_mib for queue in queues),
    }
    return {
        "running_info_read_at": answer.at,
        # sorted: two clients that say the same have the same list
        "own_subscriptions": sorted(f"{one.topic} {one.sub_string}" for one in info.subscriptions),
        "orderly": info.orderly,
        "client_version_name": info.client_version_name,
        "consumer_start_at": info.consumer_start_at,
        "thread_count": info.thread_count,
        "max_reconsume_times": info.max_reconsume_times,
        "pull_threshold_for_queue": info.pull_threshold_for_queue,
        "pull_threshold_size_for_queue_mib": info.pull_threshold_size_for_queue_mib,
        **(held if info.lists_queues else {}),
        "pop_wait_ack_count": _sum(queue.wait_ack_count for queue in pop_queues) if pop_queues else None,
        **_rates(info),
    }


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
            yield {**base, **_queue(queue), **{name: getattr(held, name) for name in _OF_HELD_QUEUE}}
        for queue, popped in sorted(answer.info.pop_queues.items()):
            if queue not in answer.info.queues:
                yield {
                    **base,
                    **_queue(queue),
                    "dropped": popped.dropped,
                    "pop_wait_ack_count": popped.wait_ack_count,
                    "last_pop_at": popped.last_pop_at,
                }


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


def _sum(values: Iterable[int | None]) -> int | None:
    """Add up; None when one is unknown, or when clients say so much that it cannot be right."""
    known = list(values)
    total = sum(value for value in known if value is not None)
    return None if None in known or total not in INT64_RANGE else total


def unreadable_lines(reading: LogReading) -> Iterator[Undecodable]:
    """Yield the lines of which nobody can say when they were written."""
    for line in reading.undecodable:
        source = f"log {line.origin.source} {line.origin.file}"
        yield Undecodable(source, line.position, line.reason, line.text.encode("utf-8", "replace"))
