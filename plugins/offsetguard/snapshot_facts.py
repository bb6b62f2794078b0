"""Facts of one snapshot in pure Python, for `offsetguard check`: no Spark, no tables, nothing kept.

The Spark job makes the same facts of landed files; both follow the column meanings in `tables/`. Growth of counters and
baselines are None.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from offsetguard import client_facts, queue_state, rate_facts
from offsetguard.broker_facts import BrokerSources, broker_facts, cluster_facts
from offsetguard.fact_queries import FactQueries
from offsetguard.fact_rows import online_groups_of
from offsetguard.facts import (
    GroupFacts,
    IntervalFacts,
    LockWaitFacts,
    LogLineFacts,
    OffsetMoveFacts,
    QueueFacts,
    SubscriptionFacts,
)
from offsetguard.facts.parameters import parameters_of
from offsetguard.known_figures import epoch_ms, sum_if_all_known
from offsetguard.offsets import MessageQueue
from offsetguard.queue_sums import figures_of, is_never_committed, sums_over
from offsetguard.round_windows import fold_rounds, queue_of
from offsetguard.tables import (
    BROKER_SNAPSHOTS,
    BROKER_STATS,
    CLIENT_QUEUE_SNAPSHOTS,
    CLIENT_SNAPSHOTS,
    GROUP_SNAPSHOTS,
    LOCK_WAIT_FACTS,
    LOG_EVENTS,
    LOG_LINE_FACTS,
    OFFSET_MOVE_FACTS,
    OFFSET_MOVES,
    QUEUE_SNAPSHOTS,
    SUBSCRIPTION_FACTS,
    TOPIC_QUEUE_SNAPSHOTS,
    TOPIC_SETTINGS,
)
from offsetguard.topic_facts import topic_facts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    import pyarrow as pa

    from offsetguard.client_facts import GroupClient, QueueHolder, QueueOfGroup
    from offsetguard.collect.landing import Row
    from offsetguard.collect.manifest import Manifest
    from offsetguard.config import Config
    from offsetguard.intervals import Interval
    from offsetguard.queue_state import QueueState
    from offsetguard.queue_sums import QueueFigures

LOCK_OUTLIVES_RENEWALS = "OG-L01"  # defined in expectations/offsetguard_expectations/group_snapshots.py
RENEWALS_PER_LOCK_LIFE = 3
_TABLES_READ = (
    QUEUE_SNAPSHOTS,
    TOPIC_QUEUE_SNAPSHOTS,
    TOPIC_SETTINGS,
    GROUP_SNAPSHOTS,
    CLIENT_SNAPSHOTS,
    CLIENT_QUEUE_SNAPSHOTS,
    BROKER_SNAPSHOTS,
    BROKER_STATS,
)
_OF_GROUP = {column.name for column in GROUP_SNAPSHOTS.columns} & {one.name for one in fields(GroupFacts)}


def facts_from_snapshot(
    manifest: Manifest,
    tables: Mapping[str, pa.Table | Sequence[Row]],
    config: Config,
    interval: Interval,
    *,
    now: datetime | None = None,
    earlier: Sequence[Mapping[str, pa.Table | Sequence[Row]]] = (),
) -> IntervalFacts:
    """Return what the rules read, made of one snapshot's tables (pyarrow, or the dictionaries of `collect.landing`).

    `now`: by default the interval's end, as for published facts; ages count up to it, and what was said is looked back
    for from it. `earlier`: the tables of earlier snapshots, oldest first; their queues are folded into the windows, and
    what they tell of offset moves and log lines counts.
    """
    now = now or interval.end
    rows = {table.name: rows_of(tables.get(table.name, ())) for table in _TABLES_READ}
    rounds = [*(one.get(QUEUE_SNAPSHOTS.name, ()) for one in earlier), rows[QUEUE_SNAPSHOTS.name]]
    windowed = _windowed_queues(rounds, now)
    queues = [queue for queue, _ in windowed]
    topics, groups = rows[TOPIC_QUEUE_SNAPSHOTS.name], rows[GROUP_SNAPSHOTS.name]
    clients = _Clients.of(rows[CLIENT_SNAPSHOTS.name], rows[CLIENT_QUEUE_SNAPSHOTS.name])
    differing = clients.differing_groups
    brokers = broker_facts(BrokerSources(rows[BROKER_SNAPSHOTS.name], queues, topics, before={}))
    queries = FactQueries([*earlier, tables], parameters_of(config.judgement, interval, now))
    have_lines = queries.have(LOG_EVENTS)
    return IntervalFacts(
        cluster=manifest.cluster,
        interval=interval,
        now=now,
        queues=tuple(
            _queue_facts(queue, window, clients.holders)
            for queue, window in windowed
            if queue.suspect or queue.row["consumer_group"] in differing
        ),
        groups=tuple(_Groups(queues, rows, clients)),
        topics=tuple(topic_facts(queues, topics, rows[TOPIC_SETTINGS.name], rows[BROKER_STATS.name])),
        brokers=tuple(brokers),
        cluster_facts=cluster_facts(brokers, len({row["topic"] for row in topics}), groups),
        offset_moves=queries.records(OFFSET_MOVE_FACTS.name, OffsetMoveFacts) if queries.have(OFFSET_MOVES) else (),
        lock_waits=queries.records(LOCK_WAIT_FACTS.name, LockWaitFacts) if have_lines else (),
        subscriptions=(
            queries.records(SUBSCRIPTION_FACTS.name, SubscriptionFacts)
            if have_lines or len(rows[CLIENT_SNAPSHOTS.name]) > 1
            else ()
        ),
        log_lines=queries.records(LOG_LINE_FACTS.name, LogLineFacts) if have_lines else (),
        online_groups=tuple(online_groups_of(groups)),
        gaps=manifest.gap_facts(),
        unseen_brokers=tuple(one.as_fact() for one in manifest.unseen_brokers),
        unseen_broker_names=frozenset(manifest.unseen_broker_names),
        cluster_unseen=manifest.cluster_unseen,
        logs_read=bool(manifest.log_cursors),
    )


def rows_of(table: pa.Table | Sequence[Row]) -> Sequence[Row]:
    """Return a table as dictionaries, if it is not that already."""
    if isinstance(table, Sequence):
        return table
    rows: list[Row] = table.to_pylist()
    return rows


def is_unknown_queue(row: Row) -> bool:
    """Tell whether the row is a committed offset of a queue that its broker does not have: asked, and no max offset.

    The corrupt invariant "unknown queue" quarantines such rows, so no fact contains them. A queue whose broker was not
    asked or did not answer has neither, and stays as an unknown one.
    """
    return row["max_offset"] is None and row["max_offset_read_at"] is not None


def _windowed_queues(
    rounds: Sequence[pa.Table | Sequence[Row]], now: datetime
) -> list[tuple[QueueFigures, QueueState]]:
    """Return the queues of the last round with their figures, and their windows over all rounds."""
    windows = fold_rounds([[row for row in rows_of(one) if not is_unknown_queue(row)] for one in rounds])
    found = []
    for row in rows_of(rounds[-1]):
        if not is_unknown_queue(row):
            window = windows[queue_of(row)]
            curve = [(offset, epoch_ms(at) or 0) for offset, at in queue_state.curve(window)]
            queue = figures_of(row, now, curve)
            suspect = queue.suspect or (len(rounds) > 1 and queue_state.is_suspect(window, now))
            found.append((replace(queue, suspect=suspect), window))
    return found


@dataclass(frozen=True, slots=True)
class _Clients:
    """What clients say, by group, by (group, topic) and by queue."""

    of_group: Mapping[str, client_facts.GroupClients]
    of_topic: Mapping[tuple[str, str], client_facts.TopicClients]
    holders: Mapping[QueueOfGroup, QueueHolder]
    filtered: Mapping[tuple[str, str], bool]
    expressions: Mapping[tuple[str, str], set[str]]
    told_groups: set[str]

    @classmethod
    def of(cls, clients: Sequence[Row], held: Sequence[Row]) -> _Clients:
        by_group: dict[str, list[Row]] = defaultdict(list)
        by_client: dict[GroupClient, Row] = {}
        for row in clients:
            by_group[row["consumer_group"]].append(row)
            by_client[row["consumer_group"], row["client_id"]] = row
        expressions, told = client_facts.subscribed_expressions(clients)
        return cls(
            of_group={group: client_facts.group_clients(rows) for group, rows in by_group.items()},
            of_topic=client_facts.topic_clients(held, by_client),
            holders=client_facts.queue_holders(held, by_client),
            filtered=client_facts.filtered_topics(clients),
            expressions=expressions,
            told_groups=told,
        )

    @property
    def differing_groups(self) -> frozenset[str]:
        """Groups whose clients subscribe differently: of these every queue is looked at."""
        return frozenset(group for group, one in self.of_group.items() if one.subscriptions_differ)

    def columns(self, group: str, topic: str) -> dict[str, Any]:
        """Return the columns of `group_facts` that are about clients, but for `parallelism`."""
        found = self.of_group.get(group, client_facts.GroupClients())
        columns = asdict(found) | {"filtered": self.filtered.get((group, topic))}
        if group in self.told_groups:
            columns["subscription_expressions"] = tuple(sorted(self.expressions.get((group, topic), ())))
        if found.told_client_count is not None:
            holding = self.of_topic.get((group, topic), client_facts.TopicClients())
            columns |= asdict(holding)
            columns["idle_client_count"] = max(0, found.told_client_count - holding.holding_client_count)
        return columns


class _Groups:
    """The facts of every (consumer group, topic), in order of their names."""

    def __init__(self, queues: Sequence[QueueFigures], rows: Mapping[str, Sequence[Row]], clients: _Clients) -> None:
        self._clients = clients
        self._topic_kinds = {row["topic"]: row["topic_kind"] for row in rows[TOPIC_SETTINGS.name]}
        self._settings = {row["consumer_group"]: row for row in rows[GROUP_SNAPSHOTS.name]}
        self._queues: dict[tuple[str, str], list[QueueFigures]] = defaultdict(list)
        for queue in queues:
            self._queues[queue.row["consumer_group"], queue.row["topic"]].append(queue)
        slaves = Counter(row["broker_name"] for row in rows[BROKER_SNAPSHOTS.name] if row["broker_id"] != 0)
        places = {pair: {one.row["broker_name"] for one in some} for pair, some in self._queues.items()}
        self._places = places
        self._rates = rate_facts.group_rates(rows[BROKER_STATS.name], slaves, places)

    def __iter__(self) -> Iterator[GroupFacts]:
        return (self._one(*pair) for pair in sorted(self._queues))

    def _one(self, group: str, topic: str) -> GroupFacts:
        queues, rates = self._queues[group, topic], self._rates[group, topic]
        settings = self._settings.get(group, {})
        columns: dict[str, Any] = {name: _frozen(settings.get(name)) for name in _OF_GROUP}
        columns |= self._clients.columns(group, topic)
        threads = columns.pop("holding_thread_count", None)
        columns |= asdict(sums_over(queues)) | asdict(rates)
        columns |= {
            "consumer_group": group,
            "topic": topic,
            "topic_kind": self._topic_kinds.get(topic),
            "queue_count": len(queues),
            "unknown_queue_count": sum(one.offsets.max_offset is None for one in queues),
            "never_committed_queue_count": sum(is_never_committed(one.row) for one in queues),
            "broker_count": len(self._places[group, topic]),
            "violated_invariants": _violated_group_invariants(settings),
            "consumer_offset_total": sum_if_all_known(one.offsets.consumer_offset for one in queues),
            "counted_at": _oldest(one.row["consumer_offset_read_at"] for one in queues),
            "parallelism": client_facts.parallelism(
                orderly=columns.get("orderly"),
                queue_count=len(queues),
                online_client_count=settings.get("online_client_count"),
                told_client_count=columns.get("told_client_count"),
                holding_thread_count=threads,
            ),
        }
        return GroupFacts(**columns)


def _queue_facts(queue: QueueFigures, window: QueueState, holders: Mapping[QueueOfGroup, QueueHolder]) -> QueueFacts:
    row, newest_seen = queue.row, window.unknown_count == 0
    holder = holders.get((row["consumer_group"], row["topic"], row["broker_name"], row["queue_id"]))
    return QueueFacts(
        consumer_group=row["consumer_group"],
        message_queue=MessageQueue(row["topic"], row["broker_name"], row["queue_id"]),
        offsets=queue.offsets,
        last_timestamp=row["last_timestamp"],
        violated_invariants=tuple(violation.value for violation in queue.offsets.order_violations()),
        produce_tps=queue_state.produce_tps(window) if newest_seen else None,
        consume_tps=queue_state.consume_tps(window) if newest_seen else None,
        window=window,
        **asdict(queue.in_time),
        **(asdict(holder) if holder else {}),
    )


def _violated_group_invariants(settings: Mapping[str, Any]) -> tuple[str, ...]:
    interval_ms, live_ms = settings.get("lock_interval_ms"), settings.get("lock_max_live_time_ms")
    if not settings.get("declared_orderly") or interval_ms is None or live_ms is None:
        return ()
    return () if live_ms >= RENEWALS_PER_LOCK_LIFE * interval_ms else (LOCK_OUTLIVES_RENEWALS,)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _oldest(moments: Iterable[datetime | None]) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)
