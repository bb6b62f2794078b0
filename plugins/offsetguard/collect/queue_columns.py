"""The two big tables, `queue_snapshots` and `topic_queue_snapshots`, made column by column and broker by broker.

No dictionary per row, and no look at each queue of a pair that was not asked in detail: its columns are copied as they
are. Names are dictionary-encoded (`columns.NameColumn`): a million rows repeat a few thousand of them.
"""

from collections.abc import Collection, Iterable, Mapping

import pyarrow as pa

from offsetguard.collect.broker_reading import BrokerReading, PairReading
from offsetguard.collect.columns import MostlyAlike, NameColumn, NumberColumn, constant_text, microseconds
from offsetguard.collect.earlier_round import EarlierFigures
from offsetguard.collect.group_members import GroupMembers
from offsetguard.collect.queue_reading import known_pull_offset, pair_readings
from offsetguard.collect.round import Round
from offsetguard.collect.system_names import TopicKind, topic_kind
from offsetguard.model.offsets import MessageQueue, QueueOffsets
from offsetguard.sources.rocketmq.offsets import ConsumeOffsets
from offsetguard.tables import QUEUE_SNAPSHOTS, TOPIC_QUEUE_SNAPSHOTS, Column, ColumnType, Table
from offsetguard.tables.table import arrow_type

_US_PER_MS = 1_000
_LAST_MS = 253_402_300_799_999  # the last of the year 9999


def queue_table(
    one_round: Round,
    masters: Iterable[BrokerReading],
    members: Mapping[str, GroupMembers],
    pop_groups: Collection[str],
    origin: str,
) -> pa.Table:
    """Return `queue_snapshots` of all masters, one chunk each.

    `pop_groups`: nobody knows what they have pulled; a broker repeats their consumer offsets instead.
    """
    chunks, alike = [], MostlyAlike()
    for reading in masters:
        columns = _Columns(QUEUE_SNAPSHOTS, alike, one_round, reading.broker_name)
        columns.set_all("origin", origin)
        columns.set_all("consumer_offset_read_at", microseconds(reading.committed_at))
        rows = _QueueRows(columns, reading, one_round.earlier_figures, pop_groups)
        for pair in pair_readings(reading, members, one_round.own_names | reading.system_topics):
            rows.add(pair)
        chunks.append(columns.table())
    return _joined(QUEUE_SNAPSHOTS, chunks)


def topic_queue_table(one_round: Round, masters: Iterable[BrokerReading]) -> pa.Table:
    """Return `topic_queue_snapshots` of all masters; a queue that was not seen has no figures."""
    chunks, alike = [], MostlyAlike()
    for reading in masters:
        columns = _Columns(TOPIC_QUEUE_SNAPSHOTS, alike, one_round, reading.broker_name)
        system_names = one_round.own_names | reading.system_topics
        for topic, config in sorted((reading.topics or {}).items()):
            if topic_kind(topic, system_names) is not TopicKind.SYSTEM:
                _add_topic(columns, reading, topic, config.read_queue_nums)
        chunks.append(columns.table())
    return _joined(TOPIC_QUEUE_SNAPSHOTS, chunks)


class _Columns:
    """The columns of one table while they grow. Rows of some columns are mostly alike: those list the exceptions."""

    def __init__(self, table: Table, alike: MostlyAlike, one_round: Round, broker_name: str) -> None:
        self._table = table
        self._alike = alike
        self._same: dict[str, str | int | None] = {
            "cluster": one_round.cluster,
            "interval_start": microseconds(one_round.interval.start),
            "broker_name": broker_name,
        }
        self._other: dict[str, dict[int, int | None]] = {}  # column -> row -> value
        self.names = {column.name: NameColumn() for column in table.columns if column.type is ColumnType.STRING}
        self.numbers = {
            column.name: NumberColumn(column.type) for column in table.columns if column.type is not ColumnType.STRING
        }

    def set_all(self, name: str, value: str | int | None) -> None:
        """Give all rows that get no other value this one; a column that nobody fills is NULL."""
        self._same[name] = value

    def put(self, name: str, row: int, value: int | None) -> None:
        """Give one row a value of its own, in a column that is not filled row by row."""
        self._other.setdefault(name, {})[row] = value

    def table(self) -> pa.Table:
        """Return all rows; add nothing more."""
        count = len(self.numbers["queue_id"])
        constants = [name for name in self.names if name in self._same]
        arrays = [self._column(column, count) for column in self._table.columns]
        return pa.Table.from_arrays(arrays, schema=_schema(self._table, constants))

    def _column(self, column: Column, count: int) -> pa.Array | pa.ChunkedArray:
        same = self._same.get(column.name)
        if column.name in self.names:
            return constant_text(same, count) if isinstance(same, str) else self.names[column.name].to_arrow()
        if count and len(self.numbers[column.name]) == count:
            return self.numbers[column.name].to_arrow()
        value = None if isinstance(same, str) else same
        return self._alike.to_arrow(column.type, value, self._other.get(column.name, {}), count)


def _schema(table: Table, constants: Collection[str] = ()) -> pa.Schema:
    def kind(column: Column) -> pa.DataType:
        if column.type is not ColumnType.STRING:
            return arrow_type(column.type)
        return pa.dictionary(pa.int8() if column.name in constants else pa.int32(), pa.string())

    return pa.schema([pa.field(column.name, kind(column), nullable=column.nullable) for column in table.columns])


def _joined(table: Table, chunks: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(chunks) if chunks else _schema(table).empty_table()


class _QueueRows:
    """Rows of one master: of every pair its columns as they are, and what was asked about some groups beyond that."""

    def __init__(
        self, columns: _Columns, reading: BrokerReading, earlier: EarlierFigures, pop_groups: Collection[str]
    ) -> None:
        self._columns = columns
        self._reading = reading
        self._earlier = earlier
        self._pop_groups = pop_groups
        asked = (reading.second_readings, reading.waiting_ages)
        self._detailed = {*reading.consume_stats, *(group for known in asked for group, _ in known)}

    def add(self, pair: PairReading) -> None:
        group, topic, queue_ids, consumer, low, high, _, max_at = pair
        count = len(queue_ids)
        names, numbers = self._columns.names, self._columns.numbers
        first = len(numbers["queue_id"])
        names["consumer_group"].add(group, count)
        names["topic"].add(topic, count)
        numbers["queue_id"].extend(queue_ids)
        numbers["min_offset"].extend(low)
        numbers["max_offset"].extend(high)
        numbers["consumer_offset"].extend(consumer)
        numbers["max_offset_read_at"].add(microseconds(max_at), count)
        if pair.consumer_at is None and self._reading.committed is not None:
            for row in range(first, first + count):
                self._columns.put("consumer_offset_read_at", row, None)
        ages = self._earlier.ages
        if group in self._detailed or (ages and (self._reading.broker_name, topic, group) in ages):
            stats = self._reading.consume_stats.get(group)
            consumed = stats.body.of_topic(topic, self._reading.broker_name) if stats and stats.body else {}
            for row, (queue_id, offsets) in enumerate(pair.offsets(), first):
                queue = MessageQueue(topic, self._reading.broker_name, queue_id)
                self._put_details(row, group, queue, offsets, consumed.get(queue_id))

    def _put_details(
        self, row: int, group: str, queue: MessageQueue, offsets: QueueOffsets, consume: ConsumeOffsets | None
    ) -> None:
        """Fill in what was asked about one queue; `consume`: what GET_CONSUME_STATS says of it."""
        columns, reading = self._columns, self._reading
        if consume is not None and offsets.consumer_offset is not None:
            columns.put("last_timestamp", row, microseconds(consume.last_timestamp))
        second = reading.second_readings.get((group, queue))
        if second is not None:
            offsets, pull_offset, pull_at = second.offsets, second.offsets.pull_offset, second.pull_at
            for name in ("min_offset", "max_offset", "consumer_offset"):
                columns.numbers[name].put(row, getattr(offsets, name))
            columns.put("consumer_offset_read_at", row, microseconds(second.consumer_at))
            columns.numbers["max_offset_read_at"].put(row, microseconds(second.max_at))
        else:
            pull_offset = known_pull_offset(consume, offsets.consumer_offset)
            pull_at = reading.consume_stats[group].at if pull_offset is not None else None
        if pull_offset is not None and group not in self._pop_groups:
            columns.put("pull_offset", row, pull_offset)
            columns.put("pull_offset_read_at", row, microseconds(pull_at))
        oldest = self._oldest_unconsumed(group, queue, offsets)
        if oldest is not None:
            columns.put("oldest_unconsumed_at", row, oldest)

    def _oldest_unconsumed(self, group: str, queue: MessageQueue, offsets: QueueOffsets) -> int | None:
        """Return when the oldest message that waits was stored: as it was asked now, or in an earlier round."""
        ages = self._reading.waiting_ages.get((group, queue.topic))
        asked = ages.oldest_unconsumed(queue.queue_id, offsets) if ages else None
        return self._earlier.oldest_unconsumed(group, queue, offsets) if asked is None else asked


def _add_topic(columns: _Columns, reading: BrokerReading, topic: str, read_queue_nums: int) -> None:
    ends = reading.queue_ends.get(topic)
    names, numbers = columns.names, columns.numbers
    known = ends.queue_ids if ends else ()
    count = len(known)
    if ends is not None and count:
        names["topic"].add(topic, count)
        numbers["queue_id"].extend(ends.queue_ids)
        numbers["min_offset"].extend(ends.min_offsets)
        numbers["max_offset"].extend(ends.max_offsets)
        numbers["last_update_at"].extend(
            [ms * _US_PER_MS if 0 < ms <= _LAST_MS else None for ms in ends.last_update_ms]
        )
        numbers["read_at"].add(microseconds(ends.at), count)
    if count >= read_queue_nums:
        return
    unseen = sorted(set(range(read_queue_nums)) - set(known))
    names["topic"].add(topic, len(unseen))
    numbers["queue_id"].extend(unseen)
    for name in ("min_offset", "max_offset", "last_update_at", "read_at"):
        numbers[name].add(None, len(unseen))
