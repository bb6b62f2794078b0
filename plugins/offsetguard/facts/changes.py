"""What changed before an incident: what somebody did is the first question of whoever is woken up by it.

Goal: the newest few changes of the hour before, about the group, its topic and its brokers, from published facts.
Plan: rows of one key are gone through in order of time; a column that is not what it was when it was last known is a
change, at the interval that first shows it, or at the moment that a column tells (a start, a switch of master).
Not here: why. That a change came before a trouble does not make it the cause. What is not known changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from offsetguard.catalogue import Sentence
from offsetguard.lake.reading import FactReader
from offsetguard.model.errors import PublishError
from offsetguard.model.incident import Change
from offsetguard.tables import BROKER_FACTS, CLIENT_SNAPSHOTS, GROUP_FACTS, OFFSET_MOVE_FACTS, TOPIC_FACTS, Table

BEFORE = timedelta(hours=1)
MOST_CHANGES = 5
_NAMES_SHOWN = 2
_ORDERED = ("reset", "snapshot")  # origins of offsets that somebody has set; others are a broker's corrections
# Columns and how their change reads; what has a name in RocketMQ is a setting, and keeps it.
_OF_GROUP = {
    "retry_max_times": "retryMaxTimes",
    "consume_enabled": "consumeEnable",
    "which_broker_when_consume_slowly": "whichBrokerWhenConsumeSlowly",
    "message_model": "messageModel",
    "max_reconsume_times": "maxReconsumeTimes",
}
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
Row = Mapping[str, Any]


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
    try:
        rows = _Rows(reader, cluster, asked, until)
    except PublishError as error:
        return ((Change(until, Sentence("changes_not_read", because=str(error))),),) * len(asked)
    return tuple(tuple(_newest(rows.changes_of(one))) for one in asked)


class _Rows:
    """The rows of an hour that any of those who are asked for is in, each table read once."""

    def __init__(self, reader: FactReader, cluster: str, asked: Sequence[About], until: datetime) -> None:
        groups = sorted({one.consumer_group for one in asked if one.consumer_group is not None})
        topics = sorted(frozenset().union(*(one.topics for one in asked)))
        brokers = sorted(frozenset().union(*(one.broker_names for one in asked)))
        self._since = until - BEFORE

        def of(table: Table, key: str, names: list[str], columns: Iterable[str]) -> dict[Any, list[Row]]:
            found: defaultdict[Any, list[Row]] = defaultdict(list)
            if names:
                wanted = ("interval_start", *table.key, *columns)
                history = reader.history(table, cluster, self._since, until, columns=wanted, where={key: names})
                for row in history.to_pylist():
                    found[row[key]].append(row)
            return found

        compared = ("online_client_count", "client_versions", "subscription_expressions", *_OF_GROUP)
        self._groups = of(GROUP_FACTS, "consumer_group", groups, compared)
        self._clients = of(CLIENT_SNAPSHOTS, "consumer_group", groups, ())
        self._moves = of(OFFSET_MOVE_FACTS, "consumer_group", groups, ("origin", "first_moved_at"))
        self._topics = of(TOPIC_FACTS, "topic", topics, ("broker_count", *_OF_TOPIC))
        self._brokers = of(
            BROKER_FACTS, "broker_name", brokers, ("boot_at", "master_changed_at", "address", *_OF_BROKER)
        )

    def changes_of(self, asked: About) -> Iterator[Change]:
        """Give them in any order."""
        group = asked.consumer_group
        if group is not None:
            yield from _of_members(self._groups[group], self._clients[group])
            yield from self._of_group(group, asked.topics)
            yield from self._of_offsets(self._moves[group], asked.topics)
        for topic in asked.topics:
            # of a broker that was not seen the topic's queues are missing in the sum
            yield from _of_columns(self._topics[topic], topic, _OF_TOPIC, together="broker_count")
        for broker in asked.broker_names:
            yield from self._of_broker(broker)

    def _of_group(self, group: str, topics: Collection[str]) -> Iterator[Change]:
        of_topics = _by(self._groups[group], "topic")
        for row_topic, rows in of_topics.items():
            if row_topic in topics:
                for at, before, after in _differences(rows, "subscription_expressions"):
                    said = {"topic": row_topic, "before": _list(before), "after": _list(after)}
                    yield Change(at, Sentence("changed_subscription", **said))
        of_one = next(iter(of_topics.values()), [])  # what is the group's stands on each of its rows
        for at, before, after in _differences(of_one, "client_versions"):
            yield Change(at, Sentence("changed_versions", before=_list(before), after=_list(after)))
        yield from _of_columns(of_one, group, _OF_GROUP)

    def _of_offsets(self, rows: Iterable[Row], topics: Collection[str]) -> Iterator[Change]:
        """Queues whose offset was set at about one time are one change."""
        queues: defaultdict[tuple[str, datetime], set[tuple[str, int]]] = defaultdict(set)
        for row in rows:
            at = row["first_moved_at"]
            if row["topic"] in topics and row["origin"] in _ORDERED and at is not None and at >= self._since:
                queues[row["topic"], at.replace(second=0, microsecond=0)].add((row["broker_name"], row["queue_id"]))
        for (topic, at), moved in queues.items():
            yield Change(at, Sentence("changed_offsets", topic=topic, count=len(moved)))

    def _of_broker(self, broker_name: str) -> Iterator[Change]:
        for rows in _by(self._brokers[broker_name], "broker_id").values():
            name = f"{broker_name}-{rows[0]['broker_id']}"
            for _, _, boot_at in _differences(rows, "boot_at"):
                yield Change(boot_at, Sentence("changed_start", broker=name))
            for at in {row["master_changed_at"] for row in rows} - {None}:
                if at >= self._since:
                    address = next(row["address"] for row in reversed(rows) if row["master_changed_at"] == at)
                    yield Change(at, Sentence("changed_master", broker=broker_name, address=address))
            yield from _of_columns(rows, name, _OF_BROKER)


def _of_members(groups: Iterable[Row], clients: Iterable[Row]) -> Iterator[Change]:
    """Who joined and who left, by name where both sides were seen by name, else by count."""
    counts = {row["interval_start"]: row["online_client_count"] for row in groups}
    names: defaultdict[datetime, set[str]] = defaultdict(set)
    for row in clients:
        names[row["interval_start"]].add(row["client_id"])
    known = {at: frozenset(names[at]) for at in names} | {at: frozenset() for at, count in counts.items() if count == 0}
    last: frozenset[str] | None = None
    last_count: int | None = None
    for at in sorted({*counts, *known}):
        members, count = known.get(at), counts.get(at)
        count = len(members) if members is not None else count
        if members is not None and last is not None and members != last:
            yield Change(at, _exchanged(sorted(members - last), sorted(last - members), len(members)))
        elif members is None and None not in (count, last_count) and count != last_count:
            yield Change(at, Sentence("changed_count", before=last_count, after=count))
            last = None  # who they are is not known: the next names are compared with nothing
        last, last_count = members if members is not None else last, last_count if count is None else count


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
