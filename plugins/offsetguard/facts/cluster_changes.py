"""What changed in a whole cluster, or of one group or topic of it, over a span: bounded however much did.

Plan: first it is asked of which groups and topics anything differs at all; of too many, only in the newest part of the
span. The rows of those that are found are gone through as `changes.py` says.
Of groups two digests tell, which differ too where a broker was not seen for a while, or a client did not answer; when
they name too many, all that is compared is read: the clients are most of it (figures in benchmarks/README).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

import pyarrow as pa

from offsetguard.catalogue import Sentence
from offsetguard.facts.changes import COMPARED, DIGESTS, LISTS, MEMBERS, OF_TOPIC, ORDERED, ChangedRows
from offsetguard.lake.reading import FactReader, Source
from offsetguard.model.incident import Change
from offsetguard.tables import CLIENT_SNAPSHOTS, GROUP_FACTS, OFFSET_MOVE_FACTS, TOPIC_FACTS

MOST_NAMES = 300  # groups, and as many topics, of which a whole cluster's changes are gone through
PARTS = (timedelta(hours=2), timedelta(minutes=30))  # that are left of a span in which too many changed


class Kind(StrEnum):
    """What a change is of."""

    SETTINGS = "settings"
    QUEUES = "queues"
    VERSIONS = "versions"
    SUBSCRIPTIONS = "subscriptions"
    MEMBERS = "members"
    OFFSETS = "offsets"
    RESTARTS = "restarts"
    MASTERS = "masters"


_KINDS = {
    "changed_versions": Kind.VERSIONS,
    "changed_subscription": Kind.SUBSCRIPTIONS,
    "changed_offsets": Kind.OFFSETS,
    "changed_start": Kind.RESTARTS,
    "changed_restarted": Kind.RESTARTS,
    "changed_master": Kind.MASTERS,
}
_KINDS_OF_SETTINGS = {"brokerVersion": Kind.VERSIONS, "readQueueNums": Kind.QUEUES, "writeQueueNums": Kind.QUEUES}


@dataclass(frozen=True, slots=True)
class NamedChange:
    """A change, and whose it is."""

    at: datetime
    what: str  # a sentence of the catalogue
    kind: Kind
    consumer_group: str | None = None
    topic: str | None = None
    broker_name: str | None = None


@dataclass(frozen=True, slots=True)
class Within:
    """Which changes of a cluster's intervals in [since, until); empty: of any. A group's alone may be of many days."""

    cluster: str
    since: datetime
    until: datetime
    consumer_group: str = ""
    topic: str = ""
    search: str = ""  # part of the group's, topic's or broker's name, in any case
    most_names: int = MOST_NAMES
    parts: tuple[timedelta, ...] = PARTS


@dataclass(frozen=True, slots=True)
class Changes:
    """What was found."""

    changes: tuple[NamedChange, ...]  # newest first
    since: datetime  # later than asked for where so much changed that older changes were not gone through
    is_whole: bool = True  # False: even since then some names are left out


def changes_of_group(
    reader: FactReader, asked: Within, topics: Sequence[str] = (), figures: Sequence[str] = ()
) -> tuple[tuple[NamedChange, ...], pa.Table]:
    """Return what changed of a group and these topics, newest first, and `figures` of its rows of group_facts."""
    groups = [asked.consumer_group]
    since, until = asked.since, asked.until
    rows = ChangedRows(reader, asked.cluster, since, until, groups=groups, topics=topics, brokers=(), figures=figures)
    return _named_changes(rows, asked, groups, topics), rows.figures


def changes_of_brokers(reader: FactReader, asked: Within) -> tuple[NamedChange, ...]:
    """Return what changed of all brokers of the cluster, newest first."""
    rows = ChangedRows(reader, asked.cluster, asked.since, asked.until, groups=(), topics=(), brokers=None)
    return _named_changes(rows, asked, (), ())


def changes_within(reader: FactReader, asked: Within) -> Changes:
    """Return what changed. Raises PublishError as the reader does."""
    if asked.consumer_group:
        return Changes(changes_of_group(reader, asked)[0], asked.since)
    later = (asked.until - part for part in asked.parts)
    for since in (asked.since, *(one for one in later if one > asked.since)):
        part = replace(asked, since=since)
        names = _changed_names(reader, part)
        if is_whole := all(len(some) <= asked.most_names for some in names):
            break
    groups, topics = (some[: asked.most_names] for some in names)
    brokers = () if asked.topic else None
    rows = ChangedRows(reader, asked.cluster, since, asked.until, groups=groups, topics=topics, brokers=brokers)
    return Changes(_named_changes(rows, part, groups, topics), since, is_whole)


def _changed_names(reader: FactReader, asked: Within) -> tuple[list[str], list[str]]:
    """Return groups and topics of which anything may have changed, at most one more than `most_names` of each."""
    where = {"topic": [asked.topic]} if asked.topic else {}
    given = {"search": asked.search.casefold(), "origins": list(ORDERED)}

    def found(sql: str, **sources: Source) -> list[str]:
        limited = f"SELECT DISTINCT name FROM ({sql}) ORDER BY name LIMIT {asked.most_names + 1}"
        rows = reader.query(limited, asked.cluster, asked.since, asked.until, given, **sources)
        return [str(name) for name in rows["name"].to_pylist()]

    def fits(*names: str) -> str:
        return " OR ".join(f"contains(lower({name}), $search)" for name in names)

    def changed_groups(varies: str, columns: Sequence[str], more: str = "", **sources: Source) -> list[str]:
        return found(
            f"""SELECT consumer_group AS name FROM groups WHERE {fits("consumer_group", "topic")}
            GROUP BY consumer_group, topic HAVING {varies}
            UNION ALL SELECT consumer_group FROM moves WHERE ({fits("consumer_group", "topic")})
            AND list_contains($origins, origin) AND first_moved_at >= $since
            {more} EXCEPT SELECT consumer_group FROM groups WHERE system_group""",
            groups=Source(GROUP_FACTS, ("consumer_group", "topic", "system_group", *columns), where),
            moves=Source(OFFSET_MOVE_FACTS, ("consumer_group", "topic", *COMPARED[OFFSET_MOVE_FACTS]), where),
            **sources,
        )

    groups = changed_groups(f"count(seen_digest) < count(*) OR {_varies(DIGESTS)}", DIGESTS)
    if len(groups) > asked.most_names:
        compared = ("online_client_count", "newest_client_start_at", *COMPARED[GROUP_FACTS])
        seen = ("first_at", "last_at", "seen_count")
        groups = changed_groups(
            _varies(compared),
            compared,
            f"""UNION ALL SELECT consumer_group FROM (  -- a broker that was not seen has no rows: each's are compared
                SELECT consumer_group, broker_name, broker_id, min(interval_start) AS first_at,
                max(interval_start) AS last_at, count(*) AS seen_count FROM clients WHERE {fits("consumer_group")}
                GROUP BY consumer_group, client_id, broker_name, broker_id
            ) GROUP BY consumer_group, broker_name, broker_id HAVING {_varies(seen)}""",
            # no topic is theirs
            clients=Source(CLIENT_SNAPSHOTS, MEMBERS, {"consumer_group": []} if asked.topic else {}),
        )
    topics = found(
        f"""SELECT topic AS name FROM topics WHERE {fits("topic")}
        GROUP BY topic, broker_count HAVING {_varies(OF_TOPIC)}""",
        topics=Source(TOPIC_FACTS, ("topic", *COMPARED[TOPIC_FACTS]), where),
    )
    return groups, topics


def _varies(columns: Iterable[str]) -> str:
    """Return SQL: whether any column has two values that are known."""

    def known(column: str) -> str:
        is_list = column in LISTS
        return f"({f'hash({column})' if is_list else column}){f' FILTER (len({column}) > 0)' if is_list else ''}"

    return " OR ".join(f"min{known(column)} <> max{known(column)}" for column in columns)


def _named_changes(
    rows: ChangedRows, asked: Within, groups: Sequence[str], topics: Sequence[str]
) -> tuple[NamedChange, ...]:
    """Return the changes of groups, topics and the brokers that were read, newest first."""
    owned = [
        *((change, {"consumer_group": group}) for group in groups for change in rows.of_group(group)),
        *((change, {"topic": topic}) for topic in topics for change in rows.of_topic(topic)),
        *((change, {"broker_name": broker}) for broker in rows.broker_names for change in rows.of_broker(broker)),
    ]
    return newest_first(fitting({_named(change, owner) for change, owner in owned}, asked))


def newest_first(changes: Iterable[NamedChange]) -> tuple[NamedChange, ...]:
    """Put them in order: of one moment by name."""
    by_name = sorted(
        changes, key=lambda one: (one.consumer_group or "", one.topic or "", one.broker_name or "", one.what)
    )
    return tuple(sorted(by_name, key=lambda one: one.at, reverse=True))


def fitting(changes: Iterable[NamedChange], asked: Within) -> tuple[NamedChange, ...]:
    """Return the changes that are of the topic, and of a name with the part, that are asked for."""
    search = asked.search.casefold()
    return tuple(
        one
        for one in changes
        if asked.topic in ("", one.topic)
        and any(search in (name or "").casefold() for name in (one.consumer_group, one.topic, one.broker_name))
    )


def _named(change: Change, owner: Mapping[str, str]) -> NamedChange:
    what = change.what
    assert isinstance(what, Sentence)  # noqa: S101 - all of them are made here
    by_setting = _KINDS_OF_SETTINGS.get(what.figures["setting"], Kind.SETTINGS) if "setting" in what.figures else None
    kind = by_setting or _KINDS.get(what.key, Kind.MEMBERS)
    names = {"topic": what.figures["topic"], **owner} if "topic" in what.figures else owner
    return NamedChange(change.at, what, kind, **names)
