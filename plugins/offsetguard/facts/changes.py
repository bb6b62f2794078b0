"""What changed: what somebody did is the first question of whoever is woken up.

Goal: what a published interval shows to be other than before, of groups, topics and brokers; written down once, so that
a page or a mail about any span reads no facts for it.
Plan: of which groups, topics and brokers rows differ from those of the interval before; of these the rows of some hours
are gone through in order of time: a column that is not what it was when it was last known is a change, at the look
that first shows it, or at the moment that a column tells (a start, a switch of master). Of groups, two digests of their
rows and clients say whether there is anything to go through.
Not here: why. That a change came before a trouble does not make it the cause. What is not known changes nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from sqlalchemy import Engine

from offsetguard.catalogue import Sentence
from offsetguard.collect.manifest import Manifest
from offsetguard.lake.reading import FactReader, Source, python_rows
from offsetguard.model.errors import PublishError
from offsetguard.model.incident import Kind, NamedChange
from offsetguard.model.intervals import INTERVAL_LENGTH, Interval
from offsetguard.model.rocketmq import OPERATORS_THREAD, as_written
from offsetguard.store import changes, published_intervals
from offsetguard.store.database import serialize, writing
from offsetguard.tables import (
    BROKER_FACTS,
    CLIENT_SNAPSHOTS,
    GROUP_FACTS,
    GROUP_SNAPSHOTS,
    OFFSET_MOVE_FACTS,
    TOPIC_FACTS,
    Table,
)

LOOK_BACK = timedelta(hours=6)  # a value that was not known for longer is compared with nothing
FEW = 300  # groups; of more that differ at once
LOOK_BACK_OF_MANY = timedelta(minutes=5)
MOST = 500  # changes of an interval that are written down; the others are counted
CATCH_UP = timedelta(days=1)  # what was published longer ago, and not gone through, stays unknown
CAUGHT_UP = 30  # intervals at a time
_NAMES_SHOWN = 2
_SEEN = ("reset", "snapshot")  # origins that tell of a queue's own offset; others are what clients asked for
# Columns and how their change reads; what has a name in RocketMQ is a setting, and keeps it.
_OF_GROUP = {
    "retry_max_times": "retryMaxTimes",
    "consume_enabled": "consumeEnable",
    "consume_broadcast_enabled": "consumeBroadcastEnable",
    "consume_message_orderly": "consumeMessageOrderly",
    "which_broker_when_consume_slowly": "whichBrokerWhenConsumeSlowly",
    "message_model": "messageModel",
}
_TOLD_BY_CLIENTS = {"max_reconsume_times": "maxReconsumeTimes"}
_OF_TOPIC = {"read_queue_count": "readQueueNums", "write_queue_count": "writeQueueNums", "perm": "perm"}
_OF_BROKER = {
    "version": "brokerVersion",
    "role": "brokerRole",
    "broker_permission": "brokerPermission",
    "slave_read_enable": "slaveReadEnable",
    "file_reserved_time_hours": "fileReservedTime",
    "delete_when": "deleteWhen",
    "disk_max_used_space_ratio": "diskMaxUsedSpaceRatio",
}
_KINDS_OF_SETTINGS = {"brokerVersion": Kind.VERSIONS, "readQueueNums": Kind.QUEUES, "writeQueueNums": Kind.QUEUES}
COMPARED = {
    GROUP_FACTS: ("client_versions", "subscription_expressions", *_OF_GROUP, *_TOLD_BY_CLIENTS),
    GROUP_SNAPSHOTS: tuple(_OF_GROUP),
    TOPIC_FACTS: ("broker_count", *_OF_TOPIC),
    BROKER_FACTS: ("boot_at", "master_changed_at", "address", *_OF_BROKER),
}
_DIGESTS = ("seen_digest", "told_digest")  # of all that is compared of a group's rows and clients: see group_facts.sql
_MEMBERS = ("consumer_group", "client_id", "broker_name", "broker_id", "interval_start", "consumer_start_at")
Row = Mapping[str, Any]
Change = tuple[datetime | None, Kind, Sentence]  # None: nothing tells when it was; it was first seen at this look


def record_changes(reader: FactReader, engine: Engine, cluster: str, *starts: datetime) -> None:
    """Write down what the published intervals that start then show to have changed, and each that follows one.

    What cannot be read is written down as such, and tried again by `catch_up`.
    """
    concerned = (published_intervals.starts(engine, cluster, one, one + LOOK_BACK)[:2] for one in starts)
    for start in sorted(set(chain.from_iterable(concerned))):
        _record(reader, engine, cluster, start)


def catch_up(reader: FactReader, engine: Engine, cluster: str, now: datetime) -> int:
    """Write down the changes of intervals that were published lately, and not gone through; returns how many."""
    missed = changes.unrecorded(engine, cluster, now - CATCH_UP, limit=CAUGHT_UP)
    record_changes(reader, engine, cluster, *missed)
    return len(missed)


def _record(reader: FactReader, engine: Engine, cluster: str, start: datetime) -> None:
    interval = Interval(start)
    published = published_intervals.get(engine, cluster, interval)
    earlier = published_intervals.starts(engine, cluster, start - LOOK_BACK, start)
    run_id = published.run_id if published else None  # read first: what is published meanwhile is gone through again
    manifest = Manifest.from_json(published.manifest_json) if published else None
    seen_at = min(manifest.finished_at, interval.end) if manifest else start
    try:
        found = changes_at(reader, cluster, start, earlier[-1], seen_at) if earlier else ()
        found += tuple(_removed(manifest)) if manifest else ()
    except PublishError as error:
        found, run_id = (NamedChange(seen_at, Sentence("changes_not_read", because=str(error)), None),), None
    if len(found) > MOST:
        more = Sentence("changes_left_out", count=len(found) - MOST)
        found = (*found[:MOST], NamedChange(seen_at, more, None))
    with writing(engine) as session:
        serialize(session, f"changes {cluster}")
        changes.replace(session, cluster, start, found, run_id)


def changes_at(
    reader: FactReader, cluster: str, start: datetime, before: datetime, seen_at: datetime
) -> tuple[NamedChange, ...]:
    """Return what the published interval that starts then shows to be other than it was, by name.

    `before`: the start of the published interval before it. `seen_at`: the look, at which a change is first seen where
    nothing tells when it was. Raises PublishError as the reader does.
    """
    rows = _Rows(reader, cluster, start)
    found: set[NamedChange] = set()

    def add(some: Iterable[Change], **owner: str) -> None:
        for at, kind, what in some:
            names = {"topic": what.figures["topic"], **owner} if "topic" in what.figures else owner
            found.add(NamedChange(at or seen_at, what, kind, **names))

    for group, parts in rows.of_groups(before).items():
        add(_of_group(group, parts, start), consumer_group=group)
    for group, of_group in rows.of_others(GROUP_SNAPSHOTS, "consumer_group", before, other_than=GROUP_FACTS).items():
        add(_of_columns(of_group, start, group, _OF_GROUP), consumer_group=group)
    for group, at, topic, count in rows.moves(before):
        add([(at, Kind.OFFSETS, Sentence("changed_offsets", topic=topic, count=count))], consumer_group=group)
    for topic, of_topic in rows.of_others(TOPIC_FACTS, "topic", before).items():
        add(_of_columns(of_topic, start, topic, _OF_TOPIC, together="broker_count"), topic=topic)
    for broker_name, of_broker in rows.of_others(BROKER_FACTS, "broker_name", before).items():
        for replica in _by(of_broker, "broker_id").values():
            add(_of_broker(replica, start, broker_name), broker_name=broker_name)
    return tuple(sorted(found, key=_names_of))


def _removed(manifest: Manifest) -> Iterator[NamedChange]:
    """Give the topics and groups that a master had in the round before, and no longer in this one."""
    for one in manifest.vanished:
        if one.gone_at >= manifest.started_at:
            by_hand = (one.deleted_by or "").startswith(OPERATORS_THREAD)
            what = Sentence("changed_deleted" if by_hand else "changed_gone", name=one.name, broker=one.broker_name)
            whose = {"consumer_group" if one.is_group else "topic": one.name}
            yield NamedChange(one.deleted_at or one.gone_at, what, Kind.SETTINGS, **whose)


def _names_of(change: NamedChange) -> tuple[str, ...]:
    return change.consumer_group or "", change.topic or "", change.broker_name or "", change.what


class _Rows:
    """Rows of those of whom anything may have changed at an interval."""

    def __init__(self, reader: FactReader, cluster: str, start: datetime) -> None:
        self._reader, self._cluster, self._start = reader, cluster, start

    def of_groups(self, before: datetime) -> dict[str, dict[str, list[Row]]]:
        """Return by group `settings` (its rows), `members` (who was there) and `starts` (restarts), oldest first."""
        columns = (*GROUP_FACTS.key, *_DIGESTS)
        sql = f"""SELECT DISTINCT consumer_group FROM rows GROUP BY consumer_group, topic HAVING {_differing(_DIGESTS)}
        EXCEPT SELECT consumer_group FROM rows WHERE system_group"""
        names = self._names(sql, before, Source(GROUP_FACTS, (*columns, "system_group")))
        if not names:
            return {}
        since, where = self._span(names), _where("consumer_group", names)
        changed = self._names(_CHANGED_GROUPS, since, Source(GROUP_FACTS, columns, where))
        if not (names := sorted({*names} & {*changed})):
            return {}
        where = _where("consumer_group", names)
        of_groups = Source(GROUP_FACTS, (*_columns_of(GROUP_FACTS), "online_client_count"), where)
        of_clients = Source(CLIENT_SNAPSHOTS, _MEMBERS, where)
        rows = self._query(_OF_GROUPS, since, of_groups=of_groups, of_clients=of_clients)
        by_group = {name: _by(found, "part") for name, found in _by(rows, "consumer_group").items()}
        return {name: by_group[name] for name in names if name in by_group}

    def moves(self, before: datetime) -> Iterator[tuple[str, datetime, str, int]]:
        """Give (group, moment, topic, queues) of offsets that were moved; queues of one minute are one change."""
        key = ("consumer_group", "topic", "broker_name", "queue_id", "interval_start", "origin", "first_moved_at")
        groups = Source(GROUP_FACTS, ("consumer_group", "interval_start", "system_group"))
        moves = Source(OFFSET_MOVE_FACTS, key, {"origin": _SEEN})
        for row in self._query(_MOVES, before, moves=moves, groups=groups):
            yield row["consumer_group"], row["at"], row["topic"], row["queues"]

    def of_others(
        self, table: Table, key: str, before: datetime, *, other_than: Table | None = None
    ) -> dict[str, list[Row]]:
        """Return by name the rows of topics, brokers, or groups that only broadcast, oldest first.

        `other_than`: a table whose names are left out: in `group_facts` are those that commit offsets.
        """
        whose = ", ".join(name for name in table.key if name not in {"cluster", "interval_start"})
        sql = f"SELECT DISTINCT {key} FROM rows GROUP BY {whose} HAVING {_differing(COMPARED[table])}"
        names = self._names(sql, before, Source(table, _columns_of(table)))
        if names and other_than is not None:
            known = Source(other_than, (key, "interval_start"), _where(key, names))
            names = sorted({*names} - {*self._names(f"SELECT DISTINCT {key} FROM rows", before, known)})
        if not names:
            return {}
        source = Source(table, _columns_of(table), _where(key, names))
        found = _by(self._query(_without_repeats(table), self._span(names), rows=source), key)
        return {name: found[name] for name in names}

    def _names(self, sql: str, since: datetime, rows: Source) -> list[str]:
        return sorted(name for row in self._query(sql, since, rows=rows) for name in row.values())

    def _query(self, sql: str, since: datetime, **sources: Source) -> list[dict[str, Any]]:
        until, given = self._start + INTERVAL_LENGTH, {"at": self._start}
        return python_rows(self._reader.query(sql, self._cluster, since, until, given, **sources))

    def _span(self, names: Sequence[str]) -> datetime:
        return self._start - (LOOK_BACK if len(names) <= FEW else LOOK_BACK_OF_MANY)


def _where(key: str, names: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the condition that rows are of these; of many, none: it would take longer than it saves."""
    return {key: names} if len(names) <= FEW else {}


def _columns_of(table: Table) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*(name for name in table.key if name != "cluster"), *COMPARED[table])))


def _differing(columns: Sequence[str]) -> str:
    """Return SQL: whether one who was seen in the interval was not seen before, or otherwise."""
    return f"bool_or(interval_start = $at) AND (count(*) = 1 OR count(DISTINCT row({', '.join(columns)})) > 1)"


# groups of which something is known that is not what it was when anything was last known of it
_CHANGED_GROUPS = """SELECT DISTINCT consumer_group FROM (
    SELECT consumer_group,
      max(seen_digest) FILTER (interval_start = $at) AS seen,
      max(told_digest) FILTER (interval_start = $at) AS told,
      arg_max(seen_digest, interval_start) FILTER (interval_start < $at) AS seen_before,
      arg_max(told_digest, interval_start) FILTER (interval_start < $at) AS told_before
    FROM rows GROUP BY consumer_group, topic
) WHERE seen <> seen_before OR told <> told_before"""
_MOVES = """SELECT consumer_group, topic, min(first_moved_at) AS at,
  count(DISTINCT (broker_name, queue_id)) FILTER (interval_start = $at) AS queues
FROM moves
WHERE first_moved_at IS NOT NULL AND consumer_group NOT IN (SELECT consumer_group FROM groups WHERE system_group)
GROUP BY consumer_group, topic, date_trunc('minute', first_moved_at)
HAVING queues > count(DISTINCT (broker_name, queue_id)) FILTER (interval_start < $at)"""


def _without_repeats(table: Table) -> str:
    """Return SQL that leaves out rows equal to the one before of the same key: they change nothing."""
    key = ", ".join(name for name in table.key if name not in {"cluster", "interval_start"})
    row = f"row({', '.join(COMPARED[table])})"
    return f"""SELECT {", ".join(_columns_of(table))} FROM rows WINDOW w AS (PARTITION BY {key} ORDER BY interval_start)
    QUALIFY lag(interval_start) OVER w IS NULL OR {row} IS DISTINCT FROM lag({row}) OVER w
    ORDER BY interval_start, {key}"""


# by group and interval how many are online and who is named; one that repeats the one before is left out
_MEMBERS_SQL = """
SELECT consumer_group, interval_start, online, client_ids
FROM (
    SELECT consumer_group, interval_start, max(online_client_count) AS online FROM rows GROUP BY ALL
) FULL JOIN (
    SELECT consumer_group, interval_start, list_sort(list(DISTINCT client_id)) AS client_ids FROM clients GROUP BY ALL
) USING (consumer_group, interval_start)
WINDOW w AS (PARTITION BY consumer_group ORDER BY interval_start)
QUALIFY lag(interval_start) OVER w IS NULL
OR online IS DISTINCT FROM lag(online) OVER w OR client_ids IS DISTINCT FROM lag(client_ids) OVER w
"""
# clients of one id that tell another start than before
_STARTS_SQL = """
SELECT consumer_group, interval_start, list_sort(list(client_id)) AS client_ids FROM (
    SELECT *, lag(started_at) OVER (PARTITION BY consumer_group, client_id ORDER BY interval_start) AS before FROM (
        SELECT consumer_group, client_id, interval_start, max(consumer_start_at) AS started_at FROM clients
        WHERE consumer_start_at IS NOT NULL GROUP BY ALL
    )
) WHERE started_at <> before AND interval_start = $at GROUP BY ALL
"""
_PARTS = {"settings": _without_repeats(GROUP_FACTS), "members": _MEMBERS_SQL, "starts": _STARTS_SQL}
_UNION = " UNION ALL BY NAME ".join(f"SELECT '{part}' AS part, * FROM ({sql})" for part, sql in _PARTS.items())
# everything about groups, oldest first; `part` says what a row is of, the rest of it is NULL
_OF_GROUPS = f"""FROM (
    WITH rows AS MATERIALIZED (FROM of_groups), clients AS MATERIALIZED (FROM of_clients) {_UNION}
) ORDER BY interval_start, consumer_group, topic"""


def _of_group(group: str, parts: Mapping[str, Sequence[Row]], at: datetime) -> Iterator[Change]:
    yield from _of_members(parts.get("members", ()), at)
    for row in parts.get("starts", ()):
        yield None, Kind.RESTARTS, Sentence("changed_restarted", clients=_shortened(row["client_ids"]))
    of_topics = _by(parts.get("settings", ()), "topic")
    for topic, rows in of_topics.items():
        for before, after in _difference(rows, "subscription_expressions", at):
            said = {"topic": topic, "before": _list(before), "after": _list(after)}
            yield None, Kind.SUBSCRIPTIONS, Sentence("changed_subscription", **said)
    of_one = next(iter(of_topics.values()), [])  # what is the group's stands on each of its rows
    for before, after in _difference(of_one, "client_versions", at):
        yield None, Kind.VERSIONS, Sentence("changed_versions", before=_list(before), after=_list(after))
    yield from _of_columns(of_one, at, group, _OF_GROUP | _TOLD_BY_CLIENTS)


def _of_broker(rows: Sequence[Row], at: datetime, broker_name: str) -> Iterator[Change]:
    """Give those of one replica."""
    name = f"{broker_name}-{rows[0]['broker_id']}"
    for _, boot_at in _difference(rows, "boot_at", at):
        yield boot_at, Kind.RESTARTS, Sentence("changed_start", broker=name)
    *earlier, newest = rows
    switched_at = newest["master_changed_at"]
    is_new = all(row["master_changed_at"] != switched_at for row in earlier) and newest["interval_start"] == at
    if switched_at is not None and is_new and switched_at >= at - LOOK_BACK:
        said = Sentence("changed_master", broker=broker_name, address=newest["address"])
        yield switched_at, Kind.MASTERS, said
    yield from _of_columns(rows, at, name, _OF_BROKER)


def _of_members(rows: Iterable[Row], moment: datetime) -> Iterator[Change]:
    """Who joined and who left, by name where both sides were seen by name, else by count."""
    last: frozenset[str] | None = None
    last_count: int | None = None
    for row in rows:
        at, count, named = row["interval_start"], row["online"], row["client_ids"]
        members = frozenset() if count == 0 else None if named is None else frozenset(named)
        count = count if members is None else len(members)
        said = None
        if members is not None and last is not None and members != last:
            said = _exchanged(sorted(members - last), sorted(last - members), len(members))
        elif members is None and None not in (count, last_count) and count != last_count:
            said = Sentence("changed_count", before=last_count, after=count)
            last = None  # who they are is not known: the next names are compared with nothing
        if said is not None and at == moment:
            yield None, Kind.MEMBERS, said
        last, last_count = last if members is None else members, last_count if count is None else count


def _exchanged(came: Sequence[str], left: Sequence[str], count: int) -> Sentence:
    if not left:
        return Sentence("changed_joined", came=_shortened(came), count=count)
    if not came:
        return Sentence("changed_left", left=_shortened(left), count=count)
    return Sentence("changed_members", came=_shortened(came), left=_shortened(left), count=count)


def _of_columns(
    rows: Sequence[Row], at: datetime, owner: str, settings: Mapping[str, str], *, together: str | None = None
) -> Iterator[Change]:
    """Give changes of settings; those of a row in which `together` differs, too, are none."""
    for column, setting in settings.items():
        for before, after in _difference(rows, column, at, together):
            said = {"owner": owner, "setting": setting, "before": as_written(before), "after": as_written(after)}
            yield None, _KINDS_OF_SETTINGS.get(setting, Kind.SETTINGS), Sentence("changed_setting", **said)


def _difference(
    rows: Sequence[Row], column: str, at: datetime, together: str | None = None
) -> Iterator[tuple[Any, Any]]:
    """Give (value before, value at the moment) where they are two; `rows` of one key, oldest first."""
    known = [row for row in rows if row[column] not in (None, [])]
    if len(known) > 1 and known[-1]["interval_start"] == at:
        one, other = known[-2:]
        if one[column] != other[column] and (together is None or one[together] == other[together]):
            yield one[column], other[column]


def _by(rows: Iterable[Row], key: str) -> dict[str, list[Row]]:
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[key]].append(row)
    return found


def _list(values: Sequence[str]) -> str:
    return ", ".join(values)


def _shortened(names: Sequence[str]) -> str:
    more = f" +{len(names) - _NAMES_SHOWN}" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more
