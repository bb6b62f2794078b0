"""The snapshot of one round: tables of what was seen, and the manifest that says what was not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa

from offsetguard.collect.broker_reading import BrokerReading
from offsetguard.collect.broker_rows import broker_rows, broker_stats_rows, kinds_since, silent_slaves, unseen_masters
from offsetguard.collect.earlier_round import EarlierFigures, EarlierRound
from offsetguard.collect.group_members import GroupMembers
from offsetguard.collect.group_rows import GroupRows, known_groups, offsets_out_of_sight
from offsetguard.collect.landing import Row
from offsetguard.collect.manifest import EventCursor, Gap, Manifest
from offsetguard.collect.offset_events import EventStart
from offsetguard.collect.pop_figures import GroupConsumption, consumption_of, pop_sources
from offsetguard.collect.queue_columns import queue_table, topic_queue_table
from offsetguard.collect.resets import reset_moves
from offsetguard.collect.round import Round
from offsetguard.collect.snapshot_moves import jumps
from offsetguard.collect.snapshot_rows import SnapshotRows, client_queue_rows, unreadable_lines
from offsetguard.collect.system_names import is_system_group
from offsetguard.config import Config
from offsetguard.model.intervals import Interval
from offsetguard.sources.logs.events import event_row, moves_from
from offsetguard.sources.logs.tailing import LogReading
from offsetguard.tables import (
    BROKER_SNAPSHOTS,
    BROKER_STATS,
    CLIENT_QUEUE_SNAPSHOTS,
    CLIENT_SNAPSHOTS,
    GROUP_SNAPSHOTS,
    LOG_EVENTS,
    OFFSET_MOVES,
    QUEUE_SNAPSHOTS,
    TOPIC_QUEUE_SNAPSHOTS,
    TOPIC_SETTINGS,
    UNDECODABLE_RECORDS,
    Table,
)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one round brought. Text columns of the tables may be dictionary-encoded."""

    manifest: Manifest
    tables: dict[str, pa.Table]  # by name, all of LANDED
    everything_missing: Sequence[Gap] = field(default=())  # one by one, where the manifest sums up


@dataclass(frozen=True, slots=True)
class SnapshotMaker:
    """Makes a snapshot of what one round has read; the readings are let go on the way."""

    cluster: str
    config: Config
    interval: Interval
    earlier: EarlierRound
    events: EventStart
    origin: str  # of the offsets

    def snapshot_of(self, one_round: Round, *, started_at: datetime, finished_at: datetime) -> Snapshot:
        """Make tables of what was seen, and the manifest that says what was not."""
        masters = [one for one in one_round.readings if one.replica.is_master]
        gave_offsets = {one.broker_name for one in masters if one.gave_offsets}
        for master in masters:
            if gap := offsets_out_of_sight(master, lambda name: _committed_count(self.earlier, name)):
                one_round.ledger.add_gap(gap)
        tables = self._tables(one_round)
        ledger = one_round.ledger
        manifest = Manifest(
            cluster=self.cluster,
            interval_start=self.interval.start,
            started_at=started_at,
            finished_at=finished_at,
            requests=ledger.counts,
            gaps=tuple(ledger.gaps),
            gap_count=ledger.gap_count,
            gap_kinds=dict(sorted(ledger.kinds.items())),
            row_counts={name: table.num_rows for name, table in tables.items()},
            event_cursors=_cursors(self.earlier, masters),
            log_cursors=one_round.log_reading.cursors,
            not_asked=ledger.not_asked,
            master_broker_names=tuple(sorted({reading.broker_name for reading in masters})),
            unseen_broker_names=tuple(sorted({one.broker_name for one in masters} - gave_offsets)),
            unseen_brokers=(
                *unseen_masters({one.broker_name for one in masters} - gave_offsets, self.earlier, started_at),
                *silent_slaves(_silent_slaves_of(one_round.readings), self.earlier, started_at),
            ),
            gap_kinds_since=kinds_since(ledger.kinds, self.earlier, started_at),
            missing_masters=one_round.missing,
            cluster_unseen=one_round.members is None,
        )
        return Snapshot(manifest, tables, ledger.everything_missing)

    def _tables(self, one_round: Round) -> dict[str, pa.Table]:
        """Make all tables of LANDED, the big ones last: each master is let go when its queues are rows."""
        readings = sorted(one_round.readings, key=lambda reading: reading.replica)
        masters = [reading for reading in readings if reading.replica.is_master]
        members = one_round.merged_members(masters)
        own_names = one_round.members.own_names if one_round.members else frozenset[str]()
        consumption = _consumption(one_round, readings, known_groups(masters, members))
        pop_groups = {group for group, one in consumption.items() if one.recognition.is_pop}
        rows = SnapshotRows(self.cluster, self.interval, own_names)
        logs = one_round.log_reading
        records = [record for reading in readings for record in reading.undecodable]
        undecodable = list(rows.undecodable((*records, *unreadable_lines(logs))))
        groups = self._group_rows(one_round, masters, members, consumption)
        tables = {
            table.name: rows.table(table, made, undecodable)
            for table, made in self._small_tables(rows, readings, logs, groups, one_round.earlier_figures)
        }
        moves = [*rows.moves(masters), *moves_from(logs.events, self.cluster, self.interval.start)]
        tables[TOPIC_QUEUE_SNAPSHOTS.name] = topic_queue_table(self.cluster, self.interval, masters, own_names)
        tables[QUEUE_SNAPSHOTS.name] = queue_table(
            self.cluster,
            self.interval,
            _letting_go(masters),
            members=members,
            own_names=own_names,
            earlier=one_round.earlier_figures,
            pop_groups=pop_groups,
            origin=self.origin,
        )
        moves += reset_moves(one_round.resets, self.earlier, tables[QUEUE_SNAPSHOTS.name], members, self.interval)
        if self.events is not EventStart.LEAVE:  # a newer snapshot was compared with an older one than ours
            moves += jumps(self.earlier, tables, self.cluster, self.interval, pop_groups)
        for table, made in ((OFFSET_MOVES, moves), (UNDECODABLE_RECORDS, undecodable)):
            tables[table.name] = rows.table(table, made, undecodable)
        return tables

    def _small_tables(
        self,
        rows: SnapshotRows,
        readings: Sequence[BrokerReading],
        logs: LogReading,
        groups: Iterable[Row],
        earlier: EarlierFigures,
    ) -> Iterator[tuple[Table, Iterable[Row]]]:
        masters = [reading for reading in readings if reading.replica.is_master]
        yield TOPIC_SETTINGS, rows.topic_settings(masters)
        yield GROUP_SNAPSHOTS, groups
        yield CLIENT_SNAPSHOTS, rows.clients(readings)
        yield CLIENT_QUEUE_SNAPSHOTS, client_queue_rows(self.cluster, self.interval, readings)
        yield BROKER_SNAPSHOTS, broker_rows(self.cluster, self.interval, readings, earlier)
        yield BROKER_STATS, broker_stats_rows(self.cluster, self.interval, readings, earlier)
        yield LOG_EVENTS, (event_row(event, self.cluster, self.interval.start) for event in logs.events)

    def _group_rows(
        self,
        one_round: Round,
        masters: Sequence[BrokerReading],
        members: Mapping[str, GroupMembers],
        consumption: Mapping[str, GroupConsumption],
    ) -> GroupRows:
        return GroupRows(
            self.cluster,
            self.interval,
            self.config,
            masters,
            members,
            one_round.choice,
            earlier=one_round.earlier_figures,
            consumption=consumption,
        )


def _silent_slaves_of(readings: Iterable[BrokerReading]) -> Iterator[tuple[str, int]]:
    for one in readings:
        if not one.replica.is_master and one.answered_at is None:
            yield one.broker_name, one.replica.broker_id


def _letting_go(masters: Iterable[BrokerReading]) -> Iterator[BrokerReading]:
    """Yield the readings; each is dropped, but for a few facts, when the next one is wanted."""
    for reading in masters:
        yield reading
        reading.let_go()


def _committed_count(earlier: EarlierRound, broker_name: str) -> int:
    """Count the committed offsets that the earlier round saw on a broker."""
    before = earlier.columns(QUEUE_SNAPSHOTS, ("broker_name", "consumer_offset"))
    columns = (column.to_pylist() for column in before.columns) if before else ((), ())
    return sum(name == broker_name and offset is not None for name, offset in zip(*columns, strict=True))


def _consumption(one_round: Round, readings: Sequence[BrokerReading], groups: set[str]) -> dict[str, GroupConsumption]:
    """Tell POP groups from others; a group of which a suspect's queue waits is not called offline on a mere guess."""
    sources = pop_sources(
        readings,
        one_round.earlier_figures.groups,
        metrics=one_round.metrics,
        proxy_members=one_round.proxy_members,
        waiting_groups=one_round.choice.suspects,
    )
    masters = [reading for reading in readings if reading.replica.is_master]
    return consumption_of(masters, sources, [group for group in groups if not is_system_group(group)])


def _cursors(earlier: EarlierRound, masters: Sequence[BrokerReading]) -> tuple[EventCursor, ...]:
    """Return cursors of every broker ever read: one that was not reached now keeps its old one."""
    kept = {
        name: EventCursor(broker_name=name, from_offset=cursor.next_offset, next_offset=cursor.next_offset)
        for name, cursor in earlier.cursors.items()
    }
    read = {one.broker_name: one.event_cursor for one in masters if one.event_cursor is not None}
    return tuple(cursor for _, cursor in sorted({**kept, **read}.items()))
