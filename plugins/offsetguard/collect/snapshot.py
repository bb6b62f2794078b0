"""The snapshot of one round: tables of what was seen, and the manifest that says what was not."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
from pyarrow import compute as pc

from offsetguard.collect.broker_reading import BrokerReading
from offsetguard.collect.broker_rows import broker_rows, broker_stats_rows, kinds_since, silent_slaves, unseen_masters
from offsetguard.collect.earlier_round import EarlierRound
from offsetguard.collect.group_members import known_groups
from offsetguard.collect.group_rows import GroupRows, offsets_out_of_sight
from offsetguard.collect.landing import Row
from offsetguard.collect.manifest import EventCursor, Gap, Manifest
from offsetguard.collect.offset_events import EventStart
from offsetguard.collect.pop_figures import consumption_of
from offsetguard.collect.queue_columns import queue_table, topic_queue_table
from offsetguard.collect.resets import reset_moves
from offsetguard.collect.round import Round
from offsetguard.collect.snapshot_moves import jumps
from offsetguard.collect.snapshot_rows import SnapshotRows, client_queue_rows, unreadable_lines
from offsetguard.collect.system_names import is_system_group
from offsetguard.collect.vanished import deletions_in, known_before, remembering, to_remember, vanished
from offsetguard.sources.logs.events import event_row, moves_from
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


def snapshot_of(one_round: Round, origin: str, *, started_at: datetime, finished_at: datetime) -> Snapshot:
    """Make tables of what a round has read, and the manifest that says what was not; the readings are let go.

    `origin`: of the offsets.
    """
    earlier, ledger = one_round.earlier, one_round.ledger
    masters = [one for one in one_round.readings if one.replica.is_master]
    names = {one.broker_name for one in masters}
    unseen = names - {one.broker_name for one in masters if one.gave_offsets}
    slaves = [one for one in one_round.readings if not one.replica.is_master]
    silent = [(one.broker_name, one.replica.broker_id) for one in slaves if one.answered_at is None]
    for master in masters:
        if gap := offsets_out_of_sight(master, lambda name: _committed_count(earlier, name)):
            ledger.add_gap(gap)
    before = known_before(earlier)
    told_before = earlier.manifest.deletions if earlier.manifest else ()
    told = deletions_in(one_round.log_reading.events)
    gone = vanished(
        earlier,
        before,
        masters,
        members=one_round.merged_members(masters),
        deletions=(*told_before, *told),
        now=started_at,
    )
    unseen_brokers = (
        *remembering(unseen_masters(unseen, earlier, started_at), before, ledger),
        *silent_slaves(silent, earlier, started_at),
    )
    tables = _tables(one_round, origin)
    manifest = Manifest(
        cluster=one_round.cluster,
        interval_start=one_round.interval.start,
        started_at=started_at,
        finished_at=finished_at,
        requests=ledger.counts,
        gaps=tuple(ledger.gaps),
        gap_count=ledger.gap_count,
        gap_kinds=dict(sorted(ledger.kinds.items())),
        row_counts={name: table.num_rows for name, table in tables.items()},
        event_cursors=_cursors(earlier, masters),
        log_cursors=one_round.log_reading.cursors,
        not_asked=ledger.not_asked,
        master_broker_names=tuple(sorted(names)),
        unseen_broker_names=tuple(sorted(unseen)),
        unseen_brokers=unseen_brokers,
        gap_kinds_since=kinds_since(ledger.kinds, earlier, started_at),
        missing_masters=one_round.missing,
        vanished=gone,
        deletions=to_remember(told_before, told, masters),
        cluster_unseen=one_round.members is None,
    )
    return Snapshot(manifest, tables, ledger.everything_missing)


def _tables(one_round: Round, origin: str) -> dict[str, pa.Table]:
    """Make all tables of LANDED, the big ones last: each master is let go when its queues are rows."""
    cluster, interval, figures = one_round.cluster, one_round.interval, one_round.earlier_figures
    readings = sorted(one_round.readings, key=lambda reading: reading.replica)
    masters = [reading for reading in readings if reading.replica.is_master]
    members = one_round.merged_members(masters)
    consumption = consumption_of(
        readings,
        [group for group in known_groups(masters, members) if not is_system_group(group)],
        groups_before=figures.groups,
        metrics=one_round.metrics,
        proxy_members=one_round.proxy_members,
        waiting_groups=one_round.choice.suspects,  # of which nobody may be called offline on a mere guess
    )
    pop_groups = {group for group, one in consumption.items() if one.is_pop}
    logs = one_round.log_reading
    rows = SnapshotRows(cluster, interval, one_round.own_names)
    records = [record for reading in readings for record in reading.undecodable]
    undecodable = list(rows.undecodable((*records, *unreadable_lines(logs))))
    small: dict[Table, Iterable[Row]] = {
        TOPIC_SETTINGS: rows.topic_settings(masters),
        GROUP_SNAPSHOTS: GroupRows(one_round, masters, members, consumption),
        CLIENT_SNAPSHOTS: rows.clients(readings),
        CLIENT_QUEUE_SNAPSHOTS: client_queue_rows(cluster, interval, readings),
        BROKER_SNAPSHOTS: broker_rows(cluster, interval, readings, figures),
        BROKER_STATS: broker_stats_rows(cluster, interval, readings, figures),
        LOG_EVENTS: (event_row(event, cluster, interval.start) for event in logs.events),
    }
    tables = {table.name: rows.table(table, made, undecodable) for table, made in small.items()}
    moves = [*rows.moves(masters), *moves_from(logs.events, cluster, interval.start)]
    tables[TOPIC_QUEUE_SNAPSHOTS.name] = topic_queue_table(one_round, masters)
    tables[QUEUE_SNAPSHOTS.name] = queue_table(one_round, _letting_go(masters), members, pop_groups, origin)
    moves += reset_moves(one_round.resets, one_round.earlier, tables, members, interval)
    if one_round.events is not EventStart.LEAVE:  # a newer snapshot was compared with an older one than ours
        moves += jumps(one_round.earlier, tables, cluster, interval, pop_groups)
    for table, made in ((OFFSET_MOVES, moves), (UNDECODABLE_RECORDS, undecodable)):
        tables[table.name] = rows.table(table, made, undecodable)
    return tables


def _letting_go(masters: Iterable[BrokerReading]) -> Iterator[BrokerReading]:
    """Yield the readings; each is dropped, but for a few facts, when the next one is wanted."""
    for reading in masters:
        yield reading
        reading.let_go()


def _committed_count(earlier: EarlierRound, broker_name: str) -> int:
    """Count the committed offsets that the earlier round saw on a broker."""
    before = earlier.columns(QUEUE_SNAPSHOTS, ("broker_name", "consumer_offset"))
    of_broker = before.filter(pc.equal(before["broker_name"], broker_name)) if before is not None else None
    return of_broker.num_rows - of_broker["consumer_offset"].null_count if of_broker is not None else 0


def _cursors(earlier: EarlierRound, masters: Sequence[BrokerReading]) -> tuple[EventCursor, ...]:
    """Return cursors of every broker ever read: one that was not reached now keeps its old one."""
    kept = {
        name: EventCursor(broker_name=name, from_offset=cursor.next_offset, next_offset=cursor.next_offset)
        for name, cursor in earlier.cursors.items()
    }
    read = {one.broker_name: one.event_cursor for one in masters if one.event_cursor is not None}
    return tuple(cursor for _, cursor in sorted({**kept, **read}.items()))
