"""What changed: what somebody did is the first question of whoever is woken up.

Goal: each change of groups, topics and brokers within a span, from published facts; of an incident the newest few of
the hour before, about its group, its topic and its brokers. `cluster_changes.py` finds them of a whole cluster.
Plan: rows of one key are gone through in order of time; a column that is not what it was when it was last known is a
change, at the interval that first shows it, or at the moment that a column tells (a start, a switch of master). Rows
that repeat the one before change nothing and are left out while they are read; of groups, two digests of their rows say
between which intervals there is anything to read at all.
Not here: why. That a change came before a trouble does not make it the cause. What is not known changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa

from offsetguard.catalogue import Sentence
from offsetguard.lake.reading import FactReader, Source, python_rows
from offsetguard.model.errors import PublishError
from offsetguard.model.incident import Change
from offsetguard.model.intervals import INTERVAL_LENGTH
from offsetguard.tables import BROKER_FACTS, CLIENT_SNAPSHOTS, GROUP_FACTS, OFFSET_MOVE_FACTS, TOPIC_FACTS, Table

BEFORE = timedelta(hours=1)
MOST_CHANGES = 5
_NAMES_SHOWN = 2
ORDERED = ("reset", "snapshot")  # origins of offsets that somebody has set; others are a broker's corrections
# Columns and how their change reads; what has a name in RocketMQ is a setting, and keeps it.
_OF_GROUP = {
    "retry_max_times": "retryMaxTimes",
    "consume_enabled": "consumeEnable",
    "which_broker_when_consume_slowly": "whichBrokerWhenConsumeSlowly",
    "message_model": "messageModel",
    "max_reconsume_times": "maxReconsumeTimes",
}
OF_TOPIC = {"read_queue_count": "readQueueNums", "write_queue_count": "writeQueueNums", "perm": "perm"}
_OF_BROKER = {
    "version": "brokerVersion",
    "role": "brokerRole",
    "broker_permission": "brokerPermission",
    "slave_read_enable": "slaveReadEnable",
    "file_reserved_time_hours": "fileReservedTime",
    "delete_when": "deleteWhen",
    "disk_max_used_space_ratio": "diskMaxUsedSpaceRatio",
}
LISTS = ("client_versions", "subscription_expressions")
Row = Mapping[str, Any]


COMPARED = {
    GROUP_FACTS: ("client_versions", "subscription_expressions", *_OF_GROUP),
    OFFSET_MOVE_FACTS: ("origin", "first_moved_at"),
    TOPIC_FACTS: ("broker_count", *OF_TOPIC),
    BROKER_FACTS: ("boot_at", "master_changed_at", "address", *_OF_BROKER),
}
DIGESTS = ("seen_digest", "told_digest")  # of all that is compared of a group's rows and clients: see group_facts.sql
MEMBERS = ("consumer_group", "client_id", "broker_name", "broker_id", "interval_start", "consumer_start_at")


@dataclass(frozen=True, slots=True)
class About:
    """Whose changes are asked for."""

    consumer_group: str | None
    topics: frozenset[str]
    broker_names: frozenset[str]


def changes_before(
    reader: FactReader, cluster: str, asked: Sequence[About], until: datetime
) -> tuple[tuple[Change, ...], ...]:
    """Return the changes of each that is asked for, newest first, of the hour before `until`; of many in a few reads.

    What cannot be read is one entry that says so.
    """
    groups = sorted({one.consumer_group for one in asked if one.consumer_group is not None})
    topics = sorted(frozenset().union(*(one.topics for one in asked)))
    brokers = sorted(frozenset().union(*(one.broker_names for one in asked)))
    try:
        rows = ChangedRows(reader, cluster, until - BEFORE, until, groups=groups, topics=topics, brokers=brokers)
    except PublishError as error:
        return ((Change(until, not_read(error)),),) * len(asked)
    return tuple(tuple(_newest(rows.changes_of(one))) for one in asked)


def not_read(error: PublishError) -> Sentence:
    """Return what is said instead of changes that cannot be read."""
    return Sentence("changes_not_read", because=str(error))


class ChangedRows:
    """The rows of a span that any of those who are asked for is in; `brokers` None: of all.

    `figures`: columns of group_facts that are wanted of each row beside the changes, in `.figures`, oldest first: to
    open a day of its files once more costs 50 ms.
    """

    def __init__(
        self,
        reader: FactReader,
        cluster: str,
        since: datetime,
        until: datetime,
        *,
        groups: Sequence[str],
        topics: Sequence[str],
        brokers: Sequence[str] | None,
        figures: Sequence[str] = (),
    ) -> None:
        self._since = since

        def asked(sql: str, **sources: Source) -> pa.Table:
            return reader.query(sql, cluster, since, until, **sources)

        def of(table: Table, key: str, names: Sequence[str] | None) -> dict[Any, list[Row]]:
            if names is not None and not names:
                return defaultdict(list)
            rows = Source(table, _columns_of(table), {} if names is None else {key: names})
            return _by(python_rows(asked(_without_repeats(table), rows=rows)), key)

        self._moves = of(OFFSET_MOVE_FACTS, "consumer_group", groups)
        self._topics = of(TOPIC_FACTS, "topic", topics)
        self._brokers = of(BROKER_FACTS, "broker_name", brokers)
        self.figures = pa.table({})
        parts: dict[str, list[Row]] = {}
        if groups:
            where = {"consumer_group": groups}
            columns = tuple(dict.fromkeys((*GROUP_FACTS.key, *DIGESTS, *figures)))
            found = asked(_differing(figures), rows=Source(GROUP_FACTS, columns, where))
            self.figures = found.select(figures)
            if changing := _changing(found):
                of_groups = Source(GROUP_FACTS, (*_columns_of(GROUP_FACTS), "online_client_count"), where)
                of_clients = Source(CLIENT_SNAPSHOTS, MEMBERS, where)
                rows = reader.query(_OF_GROUPS, cluster, *changing, of_groups=of_groups, of_clients=of_clients)
                parts = _by(python_rows(rows), "part")
        self._groups, self._members, self._starts = (
            _by(parts.get(part, ()), "consumer_group") for part in ("settings", "members", "starts")
        )

    @property
    def broker_names(self) -> list[str]:
        """Those that are known."""
        return sorted(self._brokers)

    def changes_of(self, asked: About) -> Iterator[Change]:
        """Give them in any order."""
        if asked.consumer_group is not None:
            yield from self.of_group(asked.consumer_group, asked.topics)
        for topic in asked.topics:
            yield from self.of_topic(topic)
        for broker in asked.broker_names:
            yield from self.of_broker(broker)

    def of_group(self, group: str, topics: Collection[str] | None = None) -> Iterator[Change]:
        """Give a group's; what is of a topic only of these, None: of all."""
        yield from _of_members(self._members[group])
        for row in self._starts[group]:
            yield Change(row["interval_start"], Sentence("changed_restarted", clients=_shortened(row["client_ids"])))
        of_topics = _by(self._groups[group], "topic")
        for topic, rows in of_topics.items():
            if topics is None or topic in topics:
                for at, before, after in _differences(rows, "subscription_expressions"):
                    said = {"topic": topic, "before": _list(before), "after": _list(after)}
                    yield Change(at, Sentence("changed_subscription", **said))
        of_one = next(iter(of_topics.values()), [])  # what is the group's stands on each of its rows
        for at, before, after in _differences(of_one, "client_versions"):
            yield Change(at, Sentence("changed_versions", before=_list(before), after=_list(after)))
        yield from _of_columns(of_one, group, _OF_GROUP)
        yield from self._of_offsets(self._moves[group], topics)

    def of_topic(self, topic: str) -> Iterator[Change]:
        """Give a topic's; of a broker that was not seen its queues are missing in the sum."""
        return _of_columns(self._topics[topic], topic, OF_TOPIC, together="broker_count")

    def _of_offsets(self, rows: Iterable[Row], topics: Collection[str] | None) -> Iterator[Change]:
        """Queues whose offset was set at about one time are one change."""
        queues: defaultdict[tuple[str, datetime], set[tuple[str, int]]] = defaultdict(set)
        for row in rows:
            at = row["first_moved_at"]
            is_asked = topics is None or row["topic"] in topics
            if is_asked and row["origin"] in ORDERED and at is not None and at >= self._since:
                queues[row["topic"], at.replace(second=0, microsecond=0)].add((row["broker_name"], row["queue_id"]))
        for (topic, at), moved in queues.items():
            yield Change(at, Sentence("changed_offsets", topic=topic, count=len(moved)))

    def of_broker(self, broker_name: str) -> Iterator[Change]:
        """Give a broker's, with all its replicas'."""
        for rows in _by(self._brokers[broker_name], "broker_id").values():
            name = f"{broker_name}-{rows[0]['broker_id']}"
            for _, _, boot_at in _differences(rows, "boot_at"):
                yield Change(boot_at, Sentence("changed_start", broker=name))
            for at in {row["master_changed_at"] for row in rows} - {None}:
                if at >= self._since:
                    address = next(row["address"] for row in reversed(rows) if row["master_changed_at"] == at)
                    yield Change(at, Sentence("changed_master", broker=broker_name, address=address))
            yield from _of_columns(rows, name, _OF_BROKER)


def _columns_of(table: Table) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*(name for name in table.key if name != "cluster"), *COMPARED[table])))


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
) WHERE started_at <> before GROUP BY ALL
"""


_PARTS = {"settings": _without_repeats(GROUP_FACTS), "members": _MEMBERS_SQL, "starts": _STARTS_SQL}
_UNION = " UNION ALL BY NAME ".join(f"SELECT '{part}' AS part, * FROM ({sql})" for part, sql in _PARTS.items())
# everything about groups, oldest first; `part` says what a row is of, the rest of it is NULL
_OF_GROUPS = f"""FROM (
    WITH rows AS MATERIALIZED (FROM of_groups), clients AS MATERIALIZED (FROM of_clients) {_UNION}
) ORDER BY interval_start, consumer_group, topic"""


def _differing(figures: Sequence[str]) -> str:
    """Return SQL: of each row of a group whether it may differ from the one before, and when that was; and figures."""
    return f"""SELECT {"".join(f"{name}, " for name in figures if name != "interval_start")} interval_start,
    lag(interval_start) OVER w AS before,
    lag(interval_start) OVER w IS NOT NULL AND (
      seen_digest IS NULL OR seen_digest IS DISTINCT FROM lag(seen_digest) OVER w
      OR told_digest IS DISTINCT FROM lag(told_digest) OVER w
    ) AS differs
    FROM rows WINDOW w AS (PARTITION BY consumer_group, topic ORDER BY interval_start)
    ORDER BY interval_start, consumer_group, topic"""


def _changing(rows: pa.Table) -> tuple[datetime, datetime] | None:
    """Return the span in which rows of `_differing` do; None: nowhere."""
    found = python_rows(rows.filter(rows["differs"]).select(["before", "interval_start"]))
    if not found:
        return None
    return min(row["before"] for row in found), max(row["interval_start"] for row in found) + INTERVAL_LENGTH


def _of_members(rows: Iterable[Row]) -> Iterator[Change]:
    """Who joined and who left, by name where both sides were seen by name, else by count."""
    last: frozenset[str] | None = None
    last_count: int | None = None
    for row in rows:
        at, count, named = row["interval_start"], row["online"], row["client_ids"]
        members = frozenset() if count == 0 else None if named is None else frozenset(named)
        count = count if members is None else len(members)
        if members is not None and last is not None and members != last:
            yield Change(at, _exchanged(sorted(members - last), sorted(last - members), len(members)))
        elif members is None and None not in (count, last_count) and count != last_count:
            yield Change(at, Sentence("changed_count", before=last_count, after=count))
            last = None  # who they are is not known: the next names are compared with nothing
        last, last_count = last if members is None else members, last_count if count is None else count


def _exchanged(came: Sequence[str], left: Sequence[str], count: int) -> Sentence:
    if not left:
        return Sentence("changed_joined", came=_shortened(came), count=count)
    if not came:
        return Sentence("changed_left", left=_shortened(left), count=count)
    return Sentence("changed_members", came=_shortened(came), left=_shortened(left), count=count)


def _of_columns(
    rows: Sequence[Row], owner: str, settings: Mapping[str, str], *, together: str | None = None
) -> Iterator[Change]:
    """Give changes of settings; those of a row in which `together` differs, too, are none."""
    for column, setting in settings.items():
        for at, before, after in _differences(rows, column, together):
            said = {"owner": owner, "setting": setting, "before": _value(before), "after": _value(after)}
            yield Change(at, Sentence("changed_setting", **said))


def _differences(rows: Sequence[Row], column: str, together: str | None = None) -> Iterator[tuple[datetime, Any, Any]]:
    """Give (start of the interval, value before, value after); `rows` of one key, oldest first."""
    known = [row for row in rows if row[column] not in (None, [])]
    for one, other in pairwise(known):
        if one[column] != other[column] and (together is None or one[together] == other[together]):
            yield other["interval_start"], one[column], other[column]


def _by(rows: Iterable[Row], key: str) -> dict[Any, list[Row]]:
    found: defaultdict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[key]].append(row)
    return found


def _newest(changes: Iterable[Change]) -> list[Change]:
    return sorted(set(changes), key=lambda one: (one.at, one.what), reverse=True)[:MOST_CHANGES]


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _list(values: Sequence[str]) -> str:
    return ", ".join(values)


def _shortened(names: Sequence[str]) -> str:
    more = f" +{len(names) - _NAMES_SHOWN}" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more
