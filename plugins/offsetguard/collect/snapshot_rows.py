"""From readings to the rows of the landed tables: pure functions, no requests, no clock."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from offsetguard.collect.broker_rows import broker_rows
from offsetguard.collect.queue_reading import merge_members, queue_readings
from offsetguard.collect.system_names import TopicKind, is_lite_topic, is_system_group, topic_kind
from offsetguard.tables import (
    BROKER_SNAPSHOTS,
    CLIENT_SNAPSHOTS,
    GROUP_SNAPSHOTS,
    LANDED,
    OFFSET_MOVES,
    QUEUE_SNAPSHOTS,
    TOPIC_QUEUE_SNAPSHOTS,
    TOPIC_SETTINGS,
    UNDECODABLE_RECORDS,
    ColumnType,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from offsetguard.collect.broker_reading import BrokerReading
    from offsetguard.collect.landing import Row
    from offsetguard.collect.queue_reading import GroupMembers, QueueReading
    from offsetguard.config import Config
    from offsetguard.intervals import Interval
    from offsetguard.rocketmq.bodies import TopicConfig
    from offsetguard.tables import Table

MAX_KEPT_BYTES = 64 * 1024  # of an undecodable record


@dataclass(frozen=True, slots=True)
class SnapshotRows:
    """Makes the rows of one round. `own_names`: names of brokers and RocketMQ clusters, which are topics as well."""

    cluster: str
    interval: Interval
    config: Config
    readings: Sequence[BrokerReading]
    own_names: frozenset[str]

    def all_tables(self) -> dict[str, list[Row]]:
        """Return every landed table's rows, by table name; the order of the rows is fixed."""
        masters = [reading for reading in self.readings if reading.replica.is_master]
        members = merge_members(masters)
        tables: dict[str, Iterable[Row]] = {
            QUEUE_SNAPSHOTS.name: (row for one in masters for row in self._queue_rows(one, members)),
            TOPIC_QUEUE_SNAPSHOTS.name: (row for one in masters for row in self._topic_queue_rows(one)),
            TOPIC_SETTINGS.name: (row for one in masters for row in self._topic_setting_rows(one)),
            GROUP_SNAPSHOTS.name: self._group_rows(masters, members),
            CLIENT_SNAPSHOTS.name: (row for one in masters for row in self._client_rows(one)),
            BROKER_SNAPSHOTS.name: broker_rows(self.cluster, self.interval, self.readings),
            OFFSET_MOVES.name: (row for one in masters for row in self._move_rows(one)),
            UNDECODABLE_RECORDS.name: (row for one in self.readings for row in self._undecodable_rows(one)),
        }
        fitting = {table.name: list(tables.get(table.name, ())) for table in LANDED}
        for table in LANDED:
            self._keep_only_fitting(table, fitting)
        return fitting

    def _keep_only_fitting(self, table: Table, tables: dict[str, list[Row]]) -> None:
        """Move rows with numbers beyond their column to `undecodable_records`: one of them would stop the landing."""
        narrow = [column.name for column in table.columns if column.type is ColumnType.INT32]
        misfits = [row for row in tables[table.name] if not all(_is_int32(row.get(name)) for name in narrow)]
        if misfits:
            tables[table.name] = [row for row in tables[table.name] if all(_is_int32(row.get(name)) for name in narrow)]
        for position, row in enumerate(misfits):
            tables[UNDECODABLE_RECORDS.name].append(
                self._row(
                    source=table.name,
                    position=position,
                    reason=f"a number beyond 32 bits in one of the columns {', '.join(narrow)}",
                    body_base64=base64.b64encode(json.dumps(row, default=str).encode()[:MAX_KEPT_BYTES]).decode(
                        "ascii"
                    ),
                )
            )

    def _row(self, **columns: object) -> Row:
        return {"cluster": self.cluster, "interval_start": self.interval.start, **columns}

    def _queue_rows(self, reading: BrokerReading, members: Mapping[str, GroupMembers]) -> Iterator[Row]:
        for queue in queue_readings(reading, members, self.own_names):
            yield self._row(
                consumer_group=queue.consumer_group,
                topic=queue.message_queue.topic,
                broker_name=queue.message_queue.broker_name,
                queue_id=queue.message_queue.queue_id,
                min_offset=queue.offsets.min_offset,
                max_offset=queue.offsets.max_offset,
                consumer_offset=queue.offsets.consumer_offset,
                pull_offset=queue.offsets.pull_offset,
                last_timestamp=queue.last_timestamp,
                oldest_unconsumed_at=oldest_unconsumed_at(reading, queue),
                consumer_offset_read_at=queue.consumer_at,
                pull_offset_read_at=queue.pull_at,
                max_offset_read_at=queue.max_at,
                origin="broker",
            )

    def _topic_queue_rows(self, reading: BrokerReading) -> Iterator[Row]:
        for topic, config in sorted((reading.topics or {}).items()):
            if topic_kind(topic, self.own_names) is TopicKind.SYSTEM:
                continue
            seen = reading.topic_readings.get(topic)
            listed = seen.queues if seen else {}
            for queue_id in sorted({*range(config.read_queue_nums), *listed}):
                offsets = listed.get(queue_id)
                yield self._row(
                    topic=topic,
                    broker_name=reading.broker_name,
                    queue_id=queue_id,
                    min_offset=offsets.min_offset if offsets else None,
                    max_offset=offsets.max_offset if offsets else None,
                    last_update_at=offsets.last_update_timestamp if offsets else None,
                    read_at=seen.at if seen and offsets else None,
                )

    def _topic_setting_rows(self, reading: BrokerReading) -> Iterator[Row]:
        for topic, config in sorted((reading.topics or {}).items()):
            yield self._topic_setting_row(reading.broker_name, topic, config)

    def _topic_setting_row(self, broker_name: str, topic: str, config: TopicConfig) -> Row:
        return self._row(
            broker_name=broker_name,
            topic=topic,
            topic_kind=topic_kind(topic, self.own_names).value,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            orderly=config.order,
        )

    def _group_rows(self, masters: Sequence[BrokerReading], members: Mapping[str, GroupMembers]) -> Iterator[Row]:
        lock_max_live_time_ms = self.config.clusters[self.cluster].lock_max_live_time_ms
        for group in sorted(_groups(masters) | members.keys()):
            settings = next((one.groups[group] for one in masters if one.groups and group in one.groups), None)
            member = members.get(group)
            policy = self.config.policy(self.cluster, group)
            yield self._row(
                consumer_group=group,
                system_group=is_system_group(group),
                retry_max_times=settings.retry_max_times if settings else None,
                consume_enabled=settings.consume_enable if settings else None,
                online_client_count=member.online_client_count if member else None,
                message_model=member.message_model if member else None,
                consume_type=member.consume_type if member else None,
                declared_orderly=policy.orderly,
                lock_interval_ms=policy.lock_interval_ms,
                lock_max_live_time_ms=lock_max_live_time_ms,
                in_detail=False,
            )

    def _client_rows(self, reading: BrokerReading) -> Iterator[Row]:
        for group, connections in sorted(reading.connections.items()):
            if connections is None:
                continue
            subscriptions = [f"{one.topic} {one.sub_string}" for _, one in sorted(connections.subscriptions.items())]
            # a client that reconnects may be listed twice for a moment; the key is the client id
            clients = {client.client_id: client for client in connections.connections}
            for client_id, client in sorted(clients.items()):
                yield self._row(
                    consumer_group=group,
                    client_id=client_id,
                    broker_name=reading.broker_name,
                    broker_id=reading.replica.broker_id,
                    client_address=client.client_address,
                    language=client.language,
                    version=client.version,
                    subscriptions=subscriptions,
                )

    def _move_rows(self, reading: BrokerReading) -> Iterator[Row]:
        for event in reading.events:
            yield self._row(
                origin="event",
                source=reading.broker_name,
                position=event.event_offset,
                moved_at=event.moved_at,
                consumer_group=event.consumer_group,
                client_id=None,
                topic=event.message_queue.topic,
                broker_name=event.message_queue.broker_name,
                queue_id=event.message_queue.queue_id,
                requested_offset=event.requested_offset,
                corrected_offset=event.corrected_offset,
            )

    def _undecodable_rows(self, reading: BrokerReading) -> Iterator[Row]:
        for record in reading.undecodable:
            yield self._row(
                source=record.source,
                position=record.position,
                reason=record.reason,
                body_base64=base64.b64encode(record.body[:MAX_KEPT_BYTES]).decode("ascii"),
            )


def oldest_unconsumed_at(reading: BrokerReading, queue: QueueReading) -> datetime | None:
    """Store time of the oldest message that the group can still consume; None: nothing waits, or unknown.

    The broker tells its age, not its time, so a broker's wrong clock does not matter. Where the message at the consumer
    offset was deleted, the oldest kept one counts.
    """
    answer = reading.time_spans.get((queue.consumer_group, queue.message_queue.topic))
    span = answer.body.queues.get(queue.message_queue) if answer and answer.body else None
    if answer is None or span is None or (queue.offsets.effective_lag or 0) <= 0:
        return None
    if queue.offsets.lost:
        return span.min_timestamp
    if span.delay_ms is None or span.delay_ms <= 0:
        return None  # unknown, consumed meanwhile, or a broker whose clock went back
    return answer.at - timedelta(milliseconds=span.delay_ms)


def _groups(masters: Iterable[BrokerReading]) -> set[str]:
    """Every group that a master knows by its settings or by a committed offset."""
    groups: set[str] = set()
    for reading in masters:
        groups.update(reading.groups or ())
        if reading.committed and reading.committed.body:
            groups.update(group for topic, group in reading.committed.body.offsets if not is_lite_topic(topic))
    return groups


def _is_int32(value: int | None) -> bool:
    return value is None or -(2**31) <= value < 2**31
