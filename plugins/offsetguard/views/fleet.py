"""The fleet: which groups are in trouble, worst first, and whether the figures can be trusted.

Of each cluster the newest published interval is shown, and its age beside it. Unknown is never zero: a lag is the sum
of what is known, and says of how many queues nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from offsetguard.model.intervals import INTERVAL_LENGTH
from offsetguard.model.verdicts import Severity
from offsetguard.model.views import Record
from offsetguard.store.incidents import OpenIncident

LATE_AFTER, OLD_AFTER = 2, 5  # missed minutes
ROWS = 100  # of a list on one page: groups, incidents, changes
GROUP_COLUMNS = (
    *("consumer_group", "system_group", "effective_lag", "beyond_end", "lag_ms", "produce_tps", "consume_tps"),
    *("online_client_count", "unknown_queue_count"),
)
# A line for each group of group_facts, RocketMQ's own left out; a sum that no column holds is not known.
GROUP_LINES = """
SELECT consumer_group, count(*) AS topic_count, TRY_CAST(sum(effective_lag) AS BIGINT) AS lag,
  TRY_CAST(sum(beyond_end) AS BIGINT) AS beyond_end, max(lag_ms) AS lag_ms,
  sum(unknown_queue_count)::BIGINT AS unknown_queue_count, sum(produce_tps) AS produce_tps,
  sum(consume_tps) AS consume_tps, max(online_client_count) AS online_client_count
FROM groups WHERE system_group IS NOT TRUE GROUP BY consumer_group
"""


class Trust(StrEnum):
    """Whether a cluster's figures are of now."""

    FRESH = "fresh"
    LATE = "late"  # LATE_AFTER minutes were missed
    OLD = "old"  # OLD_AFTER minutes were missed
    NONE = "none"  # nothing was ever published


class Order(StrEnum):
    """What groups are sorted by; figures the greatest first, unknown ones last."""

    WORST = "worst"
    GROUP = "group"
    LAG = "lag"
    LAG_MS = "lag_ms"
    PRODUCE_TPS = "produce_tps"
    CONSUME_TPS = "consume_tps"


class ClusterLine(Record):
    """One cluster: figures of its newest published interval, and how old they are."""

    cluster: str
    trust: Trust
    facts_of: datetime | None = None  # when the brokers had been asked
    age_ms: int | None = None
    next_at: datetime | None = None  # when the facts of the next interval are due
    unseen_broker_names: tuple[str, ...] = ()
    cluster_unseen: bool = False  # no name server answered
    gap_count: int = 0
    group_count: int | None = None
    lag: int | None = None  # effective, messages
    beyond_end: int | None = None
    unknown_queue_count: int | None = None  # queues of which nothing is known
    put_tps: float | None = None  # messages per second, in
    get_tps: float | None = None  # out
    open_incident_count: int = 0
    violated_invariants: tuple[str, ...] = ()


class GroupLine(Record):
    """One consumer group over all its topics."""

    cluster: str
    consumer_group: str
    severity: Severity | None = None  # of its worst open incident
    incident_id: str | None = None
    incident_count: int = 0
    because: str | None = None  # what that incident says
    topic_count: int | None = None  # None: the newest facts do not have the group
    lag: int | None = None  # effective, messages: what is known
    beyond_end: int | None = None
    unknown_queue_count: int | None = None
    lag_ms: int | None = None  # of the oldest message that waits
    produce_tps: float | None = None
    consume_tps: float | None = None
    online_client_count: int | None = None


class Wanted(BaseModel):
    """What a reader asked for; it stands in the address."""

    model_config = ConfigDict(frozen=True)

    cluster: Annotated[str, Field(max_length=255)] = ""  # empty: all
    search: Annotated[str, Field(max_length=255)] = ""  # part of a group's name, in any case
    in_trouble: bool = False  # only groups with an open incident
    order: Order = Order.WORST
    page: Annotated[int, Field(ge=1, le=1_000_000)] = 1


class Fleet(Record):
    """The whole view."""

    at: datetime
    wanted: Wanted
    clusters: tuple[ClusterLine, ...]
    groups: tuple[GroupLine, ...]  # one page of them
    group_count: int  # on all pages
    page_count: int
    open_incident_count: int
    cluster_names: tuple[str, ...]  # of all there are


@dataclass(frozen=True, slots=True)
class NewestFacts:
    """What the fleet needs of a cluster's newest published interval."""

    facts_of: datetime  # when the brokers had been asked
    unseen_broker_names: tuple[str, ...]
    cluster_unseen: bool
    gap_count: int
    figures: Mapping[str, float | int | None]  # the row of cluster_facts; empty where there is none
    groups: tuple[GroupLine, ...]
    violated_invariants: tuple[str, ...]


def page_count(count: int) -> int:
    """Return on how many pages so many rows are; there is always one."""
    return max(1, -(-count // ROWS))


def fleet(
    newest: Mapping[str, NewestFacts | None],
    incidents: Sequence[OpenIncident],
    wanted: Wanted,
    now: datetime,
    *,
    words_of: Callable[[Collection[str]], Mapping[str, str]],
) -> Fleet:
    """Return the view; `newest`: by cluster. `words_of`: what incidents say, by their ids, asked for those shown."""
    shown = {name: facts for name, facts in newest.items() if wanted.cluster in {"", name}}
    about_them = [one for one in incidents if wanted.cluster in {"", one.cluster}]
    lines = sorted(_wanted_lines(shown.values(), about_them, wanted), key=_key_of(wanted.order))
    page = min(wanted.page, page_count(len(lines)))
    on_page = lines[(page - 1) * ROWS : page * ROWS]
    words = words_of([one.incident_id for one in on_page if one.incident_id is not None])
    return Fleet(
        at=now,
        wanted=wanted.model_copy(update={"page": page}),
        clusters=tuple(
            _cluster_line(name, facts, sum(one.cluster == name for one in about_them), now)
            for name, facts in sorted(shown.items())
        ),
        groups=tuple(one.model_copy(update={"because": words.get(one.incident_id or "")}) for one in on_page),
        group_count=len(lines),
        page_count=page_count(len(lines)),
        open_incident_count=len(about_them),
        cluster_names=tuple(sorted(newest)),
    )


def trust_in(facts_of: datetime | None, now: datetime) -> Trust:
    """Return how much facts of a moment are worth now."""
    if facts_of is None:
        return Trust.NONE
    missed = (now - facts_of) // INTERVAL_LENGTH - 1  # the minute that runs is not missed yet
    return Trust.OLD if missed >= OLD_AFTER else Trust.LATE if missed >= LATE_AFTER else Trust.FRESH


def _wanted_lines(
    newest: Iterable[NewestFacts | None], incidents: Sequence[OpenIncident], wanted: Wanted
) -> list[GroupLine]:
    worst: dict[tuple[str, str], tuple[OpenIncident, int]] = {}
    for one in incidents:
        if one.consumer_group is not None:
            found, count = worst.get((one.cluster, one.consumer_group), (one, 0))
            worst[one.cluster, one.consumer_group] = max(found, one, key=lambda each: each.severity.rank), count + 1
    known = {(line.cluster, line.consumer_group): line for facts in newest if facts for line in facts.groups}
    search = wanted.search.casefold()
    lines = []
    for key in known.keys() | worst.keys():
        if search not in key[1].casefold() or (wanted.in_trouble and key not in worst):
            continue
        line = known.get(key) or GroupLine(cluster=key[0], consumer_group=key[1])
        if key in worst:
            incident, count = worst[key]
            of_it = {"severity": incident.severity, "incident_id": incident.incident_id, "incident_count": count}
            line = line.model_copy(update=of_it)
        lines.append(line)
    return lines


def _key_of(order: Order) -> Callable[[GroupLine], tuple[float | str, ...]]:
    def key(line: GroupLine) -> tuple[float | str, ...]:
        name = (line.consumer_group, line.cluster)
        if order is Order.GROUP:
            return name
        if order is Order.WORST:
            rank = -line.severity.rank if line.severity else 0
            return (rank, *_greatest_first(line.lag_ms), *_greatest_first(line.lag), *name)
        return (*_greatest_first(getattr(line, order.value)), *name)

    return key


def _greatest_first(figure: float | None) -> tuple[float, float]:
    return (1, 0) if figure is None else (0, -figure)


def _cluster_line(name: str, facts: NewestFacts | None, incident_count: int, now: datetime) -> ClusterLine:
    if facts is None:
        return ClusterLine(cluster=name, trust=Trust.NONE, open_incident_count=incident_count)
    return ClusterLine(
        cluster=name,
        trust=trust_in(facts.facts_of, now),
        facts_of=facts.facts_of,
        age_ms=max(0, (now - facts.facts_of) // timedelta(milliseconds=1)),
        next_at=facts.facts_of + INTERVAL_LENGTH,
        unseen_broker_names=facts.unseen_broker_names,
        cluster_unseen=facts.cluster_unseen,
        gap_count=facts.gap_count,
        group_count=len(facts.groups),
        lag=facts.figures.get("effective_lag"),
        beyond_end=facts.figures.get("beyond_end"),
        unknown_queue_count=facts.figures.get("unknown_queue_count"),
        put_tps=facts.figures.get("put_tps"),
        get_tps=facts.figures.get("get_tps"),
        open_incident_count=incident_count,
        violated_invariants=facts.violated_invariants,
    )
