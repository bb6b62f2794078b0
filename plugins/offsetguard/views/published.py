"""What was published last of each cluster, as views need it; read again only when something newer is there."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import starmap
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from offsetguard.collect.manifest import Manifest
from offsetguard.config.workspace import Workspace
from offsetguard.lake.reading import FactReader, Source, python_rows
from offsetguard.model.incident import Subject
from offsetguard.model.intervals import INTERVAL_LENGTH
from offsetguard.model.views import Record
from offsetguard.store import changes, cycles, published_intervals
from offsetguard.store.published_intervals import PublishedInterval
from offsetguard.tables import (
    BROKER_FACTS,
    CLIENT_SNAPSHOTS,
    CLUSTER_FACTS,
    GROUP_FACTS,
    QUEUE_FACTS,
    QUEUE_STATE,
    TOPIC_FACTS,
    TOPIC_QUEUE_SNAPSHOTS,
    Table,
)
from offsetguard.views.changes import AskedChanges, ReadChanges
from offsetguard.views.course import USUAL_SPAN, AskedSpan
from offsetguard.views.fleet import GROUP_COLUMNS, GROUP_LINES, GroupFigures, NewestFacts
from offsetguard.views.group import COURSES, HELD, READ, AskedGroup, GroupRows, MemberLine, QueueLine, TopicLine
from offsetguard.views.incident import CLUSTER_COURSES
from offsetguard.views.last_hour import Hour, Lags, LastHours
from offsetguard.views.listing import ROWS, page_count
from offsetguard.views.queues import BROKERS, LAGS, PAIRS, SEEN, STEPS, AskedQueues, QueueRows, step_of
from offsetguard.views.search import NamesOf
from offsetguard.views.topic import COURSES as TOPIC_COURSES
from offsetguard.views.topic import USUAL, AskedTopic, ReaderLine, TopicRows

Kept = TypeVar("Kept")
_NAMED_IN = {"consumer_group": GROUP_FACTS, "topic": TOPIC_FACTS}
_STATES_KEPT = timedelta(days=7)  # of queues on brokers that are not seen
_ON_BROKERS = "SELECT consumer_group, list_sort(list(DISTINCT broker_name)) AS brokers FROM states GROUP BY ALL"
_NAMES = "SELECT topic, NULL, NULL FROM topics UNION SELECT NULL, client_id, consumer_group FROM clients"


class Run(NamedTuple):
    """A published run, and when its facts were collected."""

    run_id: str
    facts_of: datetime


class _OfNewest(Generic[Kept]):
    """What was read of each cluster's newest interval, kept until another run is the newest; 5,000 groups: 10 MiB."""

    def __init__(self, read: Callable[[PublishedInterval], Kept]) -> None:
        self._read = read
        self._kept: dict[str, tuple[str, Kept]] = {}

    def __call__(self, newest: PublishedInterval) -> Kept:
        """Return it; `newest`: of a cluster."""
        found = self._kept.get(newest.cluster)
        if found is None or found[0] != newest.run_id:
            found = self._kept[newest.cluster] = newest.run_id, self._read(newest)
        return found[1]


class PublishedFacts:
    """Reads of one workspace, from any number of threads. Raises PublishError as FactReader does."""

    def __init__(self, workspace: Workspace, engine: Engine) -> None:
        self._engine = engine
        self._reader = FactReader(workspace, engine)
        self._read = _OfNewest(self._read_run)
        self._hours = LastHours(self._reader, engine)
        self._brokers = _OfNewest(self._read_brokers)
        self._names = _OfNewest(self._read_names)

    def newest(self, configured: Iterable[str]) -> dict[str, NewestFacts | None]:
        """Return the newest facts of each cluster that is configured or was ever published; None: nothing yet."""
        found = {cluster: published_intervals.newest(self._engine, cluster) for cluster in self.clusters(configured)}
        return {cluster: self._read(one) if one else None for cluster, one in found.items()}

    def last_hour(self, cluster: str) -> Callable[[str], Lags]:
        """Return what gives by group what waited in the hour before the newest facts of a cluster."""
        newest = published_intervals.newest(self._engine, cluster)
        return (Hour() if newest is None else self._hours(newest)).steps

    def newest_run(self, cluster: str) -> Run | None:
        """Return the run of a cluster that was published last."""
        found = published_intervals.newest(self._engine, cluster)
        return None if found is None else Run(found.run_id, Manifest.from_json(found.manifest_json).finished_at)

    def clusters(self, configured: Iterable[str]) -> list[str]:
        """Return the clusters that are configured or were ever published."""
        return sorted({*configured, *published_intervals.clusters(self._engine)})

    def oldest_shown(self, cluster: str, now: datetime) -> datetime | None:
        """Return the start of the first interval within the usual span before the newest one; None: there is none."""
        newest = published_intervals.newest(self._engine, cluster)
        if newest is None:
            return None
        start = newest.interval.start
        return published_intervals.starts(self._engine, cluster, start - USUAL_SPAN.length, start + INTERVAL_LENGTH)[0]

    def searched(self, configured: Iterable[str]) -> list[NamesOf]:
        """Return the newest names of each cluster."""
        found = (published_intervals.newest(self._engine, cluster) for cluster in self.clusters(configured))
        return [self._names(one) for one in found if one is not None]

    def names(self, cluster: str, kind: str) -> frozenset[str] | None:
        """Return the newest names of a kind, `consumer_group` or `topic`; None: nothing was published yet."""
        newest = published_intervals.newest(self._engine, cluster)
        if newest is None:
            return None
        return frozenset(self._reader.published(_NAMED_IN[kind], newest, columns=(kind,))[kind].to_pylist())

    def was_there(self, cluster: str, kind: str, name: str, since: datetime, now: datetime) -> bool:
        """Whether a name of a kind is in what was published of a span."""
        where = {kind: [name]}
        return bool(self._reader.history(_NAMED_IN[kind], cluster, since, now, columns=(kind,), where=where).num_rows)

    def changes(self, session: Session, asked: AskedChanges) -> ReadChanges:
        """Return a page of what changed within the span that ends with the newest interval."""
        newest = published_intervals.newest(self._engine, asked.cluster)
        if newest is None:
            return ReadChanges(asked=asked)
        within = asked.within(newest.interval.end)
        count = changes.count(session, within)
        asked = asked.model_copy(update={"page": min(asked.page, page_count(count))})
        return ReadChanges(
            asked=asked,
            facts_of=_collected_at(newest),
            within=within,
            found=changes.listed(session, within, limit=ROWS, offset=(asked.page - 1) * ROWS),
            change_count=count,
            unknown_count=changes.unknown_count(session, within.cluster, within.since, within.until),
        )

    def of_group(self, asked: AskedGroup, now: datetime) -> GroupRows:
        """Return what was published of a group: newest, and within the span that ends now."""
        cluster, group = asked.cluster, asked.consumer_group
        columns, until = (*READ, *HELD, *COURSES), asked.until or now
        newest = published_intervals.newest(self._engine, cluster)
        rows = self._rows_of(newest, {"consumer_group": [group]})
        return GroupRows(
            facts_of=_collected_at(newest),
            history=self._reader.group_history(cluster, group, until - asked.length, until, columns=columns),
            topics=rows(GROUP_FACTS, TopicLine),
            queues=rows(QUEUE_FACTS, QueueLine),
            clients=rows(CLIENT_SNAPSHOTS, MemberLine, "broker_name"),
            brokers=self._brokers(newest) if newest else (),
        )

    def of_topic(self, asked: AskedTopic, now: datetime) -> TopicRows:
        """Return what was published of a topic: newest, and within the span that ends now."""
        cluster, topic = asked.cluster, asked.topic
        columns, where = ("interval_start", *TOPIC_COURSES, *USUAL), {"topic": [topic]}
        until = asked.until or now
        newest = published_intervals.newest(self._engine, cluster)
        rows = self._rows_of(newest, where)
        return TopicRows(
            facts_of=_collected_at(newest),
            history=self._reader.history(
                TOPIC_FACTS, cluster, until - asked.length, until, columns=columns, where=where
            ),
            topics=rows(TOPIC_FACTS),
            groups=rows(GROUP_FACTS, ReaderLine),
            queues=rows(TOPIC_QUEUE_SNAPSHOTS),
            brokers=self._brokers(newest) if newest else (),
        )

    def of_subject(self, subject: Subject, since: datetime, until: datetime) -> pa.Table:
        """Return the course of an incident's group, in its topic if it has one; of its topic; else of its cluster.

        READ, COURSES and `lost` of group_facts, or `interval_start`, `topic` if it has one, and COURSES of the other
        tables.
        """
        named = {"consumer_group": subject.consumer_group, "topic": subject.topic}
        where = {name: [value] for name, value in named.items() if value is not None}
        table = GROUP_FACTS if subject.consumer_group else TOPIC_FACTS if subject.topic else CLUSTER_FACTS
        figures = {
            GROUP_FACTS: (*READ, *COURSES, "lost"),
            TOPIC_FACTS: TOPIC_COURSES,
            CLUSTER_FACTS: CLUSTER_COURSES,
        }
        columns = ("interval_start", "topic", *figures[table])
        return self._reader.history(table, subject.cluster, since, until, columns=columns, where=where)

    def known_until(self, cluster: str, now: datetime) -> datetime:
        """Return how far facts reach while they are fresh, else `now`: what is not due yet is no gap."""
        newest = published_intervals.newest(self._engine, cluster)
        return AskedSpan(cluster=cluster).shown(_collected_at(newest), now)[2]

    def of_queues(self, asked: AskedQueues, now: datetime) -> QueueRows:
        """Return what was published of a group's queues: newest, and within the span."""
        cluster, where = asked.cluster, asked.where
        newest = published_intervals.newest(self._engine, cluster)
        manifest = Manifest.from_json(newest.manifest_json) if newest else None
        facts_of, rows = manifest.finished_at if manifest else None, self._rows_of(newest, where)
        until = asked.ends(newest.interval if newest else None, facts_of, now)
        span, step = (until - asked.length, until), {"step_us": step_of(asked) // timedelta(microseconds=1)}
        return QueueRows(
            facts_of=facts_of,
            until=until,
            steps=self._reader.query(STEPS, cluster, *span, step, queues=Source(QUEUE_FACTS, LAGS, where)),
            seen=self._reader.query(
                SEEN,
                cluster,
                *span,
                step,
                pairs=Source(GROUP_FACTS, PAIRS, where),
                brokers=Source(BROKER_FACTS, BROKERS),
            ),
            topics=rows(GROUP_FACTS, TopicLine),
            queues=rows(QUEUE_FACTS, QueueLine),
            unseen_broker_names=manifest.unseen_broker_names if manifest else (),
        )

    def _rows_of(
        self, newest: PublishedInterval | None, where: Mapping[str, Sequence[str]]
    ) -> Callable[..., list[dict[str, Any]]]:
        """Return what gives a table's rows of a published interval.

        Of a line's fields, and more, where one is named: all columns of a wide table take up to three times as long.
        """

        def rows(table: Table, line: type[Record] | None = None, *more: str) -> list[dict[str, Any]]:
            if newest is None:
                return []
            start, end = newest.interval.start, newest.interval.end
            columns = (*line.model_fields, *more) if line else ()
            found = self._reader.history(table, newest.cluster, start, end, columns=columns, where=where)
            return python_rows(found)

        return rows

    def _read_brokers(self, published: PublishedInterval) -> list[dict[str, Any]]:
        columns = ("broker_name", "broker_id", "earliest_message_at")
        return python_rows(self._reader.published(BROKER_FACTS, published, columns=columns))

    def _read_names(self, published: PublishedInterval) -> NamesOf:
        cluster, interval = published.cluster, published.interval
        clients, topics = Source(CLIENT_SNAPSHOTS, ("client_id", "consumer_group")), Source(TOPIC_FACTS, ("topic",))
        found = self._reader.query(_NAMES, cluster, interval.start, interval.end, topics=topics, clients=clients)
        names = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
        return NamesOf(
            cluster=cluster,
            groups=tuple(one.consumer_group for one in self._read(published).groups),
            topics=tuple(topic for topic, _, _ in names if topic is not None),
            brokers=Manifest.from_json(published.manifest_json).master_broker_names,
            clients=tuple((client_id, group) for _, client_id, group in names if client_id is not None),
        )

    def _groups_on(self, published: PublishedInterval, broker_names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return by group which of some brokers have queues of it, as was seen when they were seen last."""
        if not broker_names:
            return {}
        end = published.interval.end
        states = Source(QUEUE_STATE, ("consumer_group", "broker_name"), {"broker_name": broker_names})
        found = self._reader.query(_ON_BROKERS, published.cluster, end - _STATES_KEPT, end, states=states)
        return {row["consumer_group"]: tuple(row["brokers"]) for row in found.to_pylist()}

    def _read_run(self, published: PublishedInterval) -> NewestFacts:
        cluster, interval = published.cluster, published.interval
        manifest = Manifest.from_json(published.manifest_json)
        figures = python_rows(self._reader.published(CLUSTER_FACTS, published))
        of_groups = Source(GROUP_FACTS, GROUP_COLUMNS)
        groups = self._reader.query(GROUP_LINES, cluster, interval.start, interval.end, groups=of_groups)
        cycle = cycles.newest(self._engine, cluster=cluster, interval=interval, limit=1)
        return NewestFacts(
            facts_of=manifest.finished_at,
            unseen_broker_names=manifest.unseen_broker_names,
            cluster_unseen=manifest.cluster_unseen,
            gap_count=manifest.gap_count,
            figures=figures[0] if figures else {},
            groups=tuple(starmap(GroupFigures, zip(*(column.to_pylist() for column in groups), strict=True))),
            violated_invariants=tuple(sorted(cycle[0].violations or ())) if cycle else (),
            unseen_of=self._groups_on(published, manifest.unseen_broker_names),
            until=interval.end,
        )


def _collected_at(published: PublishedInterval | None) -> datetime | None:
    return Manifest.from_json(published.manifest_json).finished_at if published else None
