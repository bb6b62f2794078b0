"""From readings to the rows of the smaller landed tables: pure functions, no requests, no clock.

The big ones are made column by column in `queue_columns`, groups in `group_rows`, replicas in `broker_rows`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from offsetguard.collect.broker_reading import BrokerReading, Undecodable
from offsetguard.collect.detail_rows import client_answers, running_info_columns
from offsetguard.collect.landing import Row, table_of
from offsetguard.collect.system_names import topic_kind
from offsetguard.model.errors import SnapshotError
from offsetguard.model.intervals import Interval
from offsetguard.sources.rocketmq.broker_settings import TopicConfig
from offsetguard.sources.rocketmq.offset_table import INT32_RANGE, INT64_RANGE
from offsetguard.tables import UNDECODABLE_RECORDS, ColumnType, Table

MAX_KEPT_BYTES = 64 * 1024  # of an undecodable record
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
                yield self._topic_setting_row(reading.broker_name, topic, config, system_names)

    def _topic_setting_row(
        self, broker_name: str, topic: str, config: TopicConfig, system_names: frozenset[str]
    ) -> Row:
        return self.row(
            broker_name=broker_name,
            topic=topic,
            topic_kind=topic_kind(topic, system_names).value,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            orderly=config.order,
        )

    def clients(self, readings: Sequence[BrokerReading]) -> Iterator[Row]:
        """Rows of `client_snapshots`, of every replica that was asked for members."""
        told = client_answers(readings)
        for reading in readings:
            for group, connections in sorted(reading.connections.items()):
                if connections is None:
                    continue
                subscriptions = [
                    f"{one.topic} {one.sub_string}" for _, one in sorted(connections.subscriptions.items())
                ]
                # a client that reconnects may be listed twice for a moment; the key is the client id
                clients, counts = {}, dict[str, int]()
                for client in connections.connections:
                    clients[client.client_id] = client
                    counts[client.client_id] = counts.get(client.client_id, 0) + 1
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
                        **running_info_columns(told.get((group, client_id))),
                    )

    def moves(self, masters: Iterable[BrokerReading]) -> Iterator[Row]:
        """Rows of `offset_moves` that events tell of."""
        for reading in masters:
            yield from self._move_rows(reading)

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
        made = list(rows)
        try:
            return table_of(table, made)
        except SnapshotError:  # very rare: each number is looked at then only
            return table_of(table, self._fitting(table, made, undecodable))

    def _fitting(self, table: Table, rows: Iterable[Row], undecodable: list[Row]) -> list[Row]:
        limits = {column.name: _RANGES[column.type] for column in table.columns if column.type in _RANGES}
        fitting = []
        for position, row in enumerate(rows):
            too_large = [name for name, limit in limits.items() if row.get(name) is not None and row[name] not in limit]
            if not too_large:
                fitting.append(row)
            elif table is not UNDECODABLE_RECORDS:
                kept = json.dumps(row, default=str).encode()[:MAX_KEPT_BYTES]
                undecodable.append(
                    self.row(
                        source=table.name,
                        position=position,
                        reason=", ".join(f"{name}: a number beyond {_bits(limits[name])} bits" for name in too_large),
                        body_base64=base64.b64encode(kept).decode("ascii"),
                    )
                )
        return fitting

    def row(self, **columns: object) -> Row:
        """Return a row of this cluster and interval."""
        return {"cluster": self.cluster, "interval_start": self.interval.start, **columns}

    def _move_rows(self, reading: BrokerReading) -> Iterator[Row]:
        for event in reading.events:
            yield self.row(
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


def _bits(limit: range) -> int:
    return limit.stop.bit_length()
