"""The fleet: what is wrong with clusters, which groups are in trouble, worst first, and whether figures can be trusted.

Of each cluster the newest published interval is shown, and its age beside it. Unknown is never zero, nor well: a lag is
the sum of what is known, and says of how many queues nothing is; a group is well where all of it was seen, lately, and
somebody consumes what waits, or a rule has said why nobody does.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, NamedTuple, Self

from pydantic import Field

from offsetguard.model.intervals import INTERVAL_LENGTH
from offsetguard.model.verdicts import Severity
from offsetguard.model.views import Record
from offsetguard.store.incidents import OpenIncident
from offsetguard.views.last_hour import Lags, Trend, trend_of
from offsetguard.views.listing import EMPTY_IS_NONE, Asked, AskedPage, page_of

LATE_AFTER, OLD_AFTER = 2, 5  # missed minutes
CLUSTERS = 10  # on one page: what is in trouble stands below them
TROUBLES = 10  # of clusters, on the page
NAMED = 5  # groups of which something is unknown because of one trouble
GROUP_COLUMNS = (
    *("cluster", "consumer_group", "system_group", "effective_lag", "beyond_end", "lag_ms"),
    *("produce_tps", "consume_tps", "online_client_count", "unknown_queue_count"),
)
# A line for each group of group_facts, RocketMQ's own left out; a sum that no column holds is not known.
GROUP_LINES = """
SELECT cluster, consumer_group, count(*) AS topic_count, TRY_CAST(sum(effective_lag) AS BIGINT) AS lag,
  TRY_CAST(sum(beyond_end) AS BIGINT) AS beyond_end, max(lag_ms) AS lag_ms,
  sum(unknown_queue_count)::BIGINT AS unknown_queue_count, sum(produce_tps) AS produce_tps,
  sum(consume_tps) AS consume_tps, max(online_client_count) AS online_client_count
FROM groups WHERE system_group IS NOT TRUE GROUP BY cluster, consumer_group
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
    TEAM = "team"
    LAG = "lag"
    LAG_MS = "lag_ms"
    PRODUCE_TPS = "produce_tps"
    CONSUME_TPS = "consume_tps"
    CLIENTS = "online_client_count"


class GroupState(StrEnum):
    """How a group is."""

    TROUBLE = "trouble"  # an incident about it is open of which people get messages
    UNKNOWN = "unknown"  # the newest facts are old, do not have all of it, or have nobody who consumes what waits
    OK = "ok"  # all of it was seen lately, and nothing worse than INFO is open


class ClusterLine(Record):
    """One cluster: figures of its newest published interval, and how old they are."""

    cluster: str
    trust: Trust
    facts_of: datetime | None = None  # when the brokers had been asked
    age_ms: int | None = None
    next_at: datetime | None = None  # when the facts of the next interval are due
    judged_until: datetime | None = None  # where the judge is ahead of the facts, by what has landed; null: it is not
    late_because: str | None = None  # why the newest publication failed, where facts are not fresh; null: none failed
    unseen_broker_names: tuple[str, ...] = ()
    cluster_unseen: bool = False  # no name server answered
    gap_count: int = 0
    severity: Severity | None = None  # of its worst open incident
    group_count: int | None = None
    trouble_group_count: int = 0  # groups with an open incident of which people get messages
    unknown_group_count: int = 0  # of the others, those that cannot be called well
    lag: int | None = None  # effective, messages
    beyond_end: int | None = None
    unknown_queue_count: int | None = None  # queues of which nothing is known
    put_tps: float | None = None  # messages per second, in
    get_tps: float | None = None  # out
    open_incident_count: int = 0
    violated_invariants: tuple[str, ...] = ()


class ClusterTrouble(Record):
    """An open incident about a cluster itself, its brokers or topics, and about no group."""

    incident_id: str
    cluster: str
    severity: Severity
    because: str | None  # what it says
    opened_at: datetime | None  # when it was first seen
    audited: bool = True  # false: by what has landed, and is not published yet
    unknown_groups: tuple[str, ...] = ()  # groups with queues on its brokers that were not seen, the first by name
    unknown_group_count: int = 0  # all of them


class GroupLine(Record):
    """One consumer group over all its topics."""

    cluster: str
    consumer_group: str
    state: GroupState = GroupState.UNKNOWN
    team: str | None = None  # None: the configuration cannot be read
    severity: Severity | None = None  # of its worst open incident
    incident_id: str | None = None
    incident_count: int = 0
    because: str | None = None  # what that incident says
    audited: bool = True  # false: by what has landed, and is not published yet
    lags: Lags = ()  # of the hour before the newest facts: messages, of each two minutes the greatest
    trend: Trend | None = None  # of these; null: not known
    unseen_broker_names: tuple[str, ...] = ()  # that have queues of it
    topic_count: int | None = None  # None: the newest facts do not have the group
    lag: int | None = None  # effective, messages: what is known
    beyond_end: int | None = None
    unknown_queue_count: int | None = None
    lag_ms: int | None = None  # of the oldest message that waits
    produce_tps: float | None = None
    consume_tps: float | None = None
    online_client_count: int | None = None
    waits_for_nobody: bool = False  # messages wait, and no client is online


class Wanted(AskedPage):
    """What a reader asked for; it stands in the address."""

    cluster: Asked = ""  # empty: all
    search: Asked = ""  # part of a group's name, in any case
    team: Asked = ""  # that owns the group, as the configuration says now
    state: Annotated[GroupState | None, EMPTY_IS_NONE] = None
    severity: Annotated[Severity | None, EMPTY_IS_NONE] = None  # of one of its open incidents
    rule: Asked = ""  # the id of one of theirs
    order: Order = Order.WORST
    reverse: bool = False  # the other way round; what is unknown stays last
    clusters_page: Annotated[int, Field(ge=1, le=1_000_000)] = 1  # of ten clusters each, worst first


class Fleet(Record):
    """The whole view."""

    at: datetime
    asked: Wanted
    troubles: tuple[ClusterTrouble, ...]  # of clusters, worst first
    trouble_count: int  # all of them
    clusters: tuple[ClusterLine, ...]  # one page of them, worst first
    cluster_count: int
    cluster_page_count: int
    groups: tuple[GroupLine, ...]  # one page of them
    group_count: int  # on all pages
    page_count: int
    open_incident_count: int
    cluster_names: tuple[str, ...]  # of all there are, as the next two
    teams: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()


class GroupFigures(NamedTuple):
    """What the newest facts have of a group, as GROUP_LINES gives it: of thousands of them a page shows a hundred."""

    cluster: str
    consumer_group: str
    topic_count: int | None = None
    lag: int | None = None
    beyond_end: int | None = None
    lag_ms: int | None = None
    unknown_queue_count: int | None = None
    produce_tps: float | None = None
    consume_tps: float | None = None
    online_client_count: int | None = None

    @property
    def waits_for_nobody(self) -> bool:
        """Whether messages wait while no client is online."""
        return bool(self.lag) and self.online_client_count == 0


@dataclass(frozen=True, slots=True)
class NewestFacts:
    """What the fleet needs of a cluster's newest published interval."""

    facts_of: datetime  # when the brokers had been asked
    unseen_broker_names: tuple[str, ...]
    cluster_unseen: bool
    gap_count: int
    figures: Mapping[str, float | int | None]  # the row of cluster_facts; empty where there is none
    groups: tuple[GroupFigures, ...]
    violated_invariants: tuple[str, ...]
    unseen_of: Mapping[str, tuple[str, ...]]  # by group: brokers that have queues of it and were not seen
    until: datetime | None = None  # the end of its interval


@dataclass(frozen=True, slots=True)
class Said:
    """What an incident says."""

    summary: str
    opened_at: datetime  # when it was first seen
    broker_names: Collection[str] = ()
    audited: bool = True


@dataclass(frozen=True, slots=True)
class AboutFleet:
    """What the database and the configuration say of what is shown; each is asked for what is on the page."""

    words_of: Callable[[Collection[str]], Mapping[str, Said]]  # by ids of incidents
    why_late: Callable[[str, datetime], str | None]  # of a cluster, since its facts: what a failed publication said
    lags_of: Callable[[str], Callable[[str], Lags]]  # of a cluster by group, as GroupLine has them
    judged_until: Callable[[str], datetime | None]  # the end of a cluster's newest judged interval
    team_of: Callable[[str, str], str] | None = None  # of a cluster's group; None: the configuration cannot be read
    teams: tuple[str, ...] = ()  # all of them


@dataclass(frozen=True, slots=True)
class _Group:
    """A group with what is open about it, before it is known whether it is on the page."""

    line: GroupFigures
    open: Sequence[OpenIncident]
    state: GroupState

    @classmethod
    def of(cls, line: GroupFigures, told: Sequence[OpenIncident], *, is_well: bool) -> Self:
        """Return it with its state; `is_well`: but for what is open."""
        if any(one.severity.is_sent for one in told):
            return cls(line, told, GroupState.TROUBLE)
        return cls(line, told, GroupState.OK if is_well else GroupState.UNKNOWN)

    @property
    def key(self) -> tuple[str, str]:
        return self.line.cluster, self.line.consumer_group

    @property
    def worst(self) -> OpenIncident | None:
        return max(self.open, key=lambda one: one.severity.rank, default=None)


def fleet(
    newest: Mapping[str, NewestFacts | None],
    incidents: Sequence[OpenIncident],
    asked: Wanted,
    now: datetime,
    about: AboutFleet,
) -> Fleet:
    """Return the view; `newest`: by cluster; `incidents`: open ones, the longest open first."""
    shown = {name: facts for name, facts in newest.items() if asked.cluster in {"", name}}
    about_them = [one for one in incidents if asked.cluster in {"", one.cluster}]
    groups = _groups(shown, about_them, now)
    teams = about.team_of if asked.team or asked.order is Order.TEAM else None
    team_of = {one.key: teams(*one.key) for one in groups} if teams else {}
    wanted = [one for one in groups if _is_wanted(one, asked) and asked.team in {"", team_of.get(one.key)}]
    page = page_of(sorted(wanted, key=_key_of(asked, team_of)), asked.page)
    lines = sorted(_cluster_lines(shown, groups, about_them, now), key=_cluster_key)
    clusters = page_of(lines, asked.clusters_page, CLUSTERS)
    troubles = sorted((one for one in about_them if one.consumer_group is None), key=lambda one: -one.severity.rank)
    worst = [one.worst for one in page.rows]
    words = about.words_of([one.incident_id for one in (*worst, *troubles[:TROUBLES]) if one is not None])
    return Fleet(
        at=now,
        asked=asked.model_copy(update={"page": page.number, "clusters_page": clusters.number}),
        troubles=tuple(_trouble(one, words.get(one.incident_id), shown) for one in troubles[:TROUBLES]),
        trouble_count=len(troubles),
        clusters=tuple(_explained(one, shown[one.cluster], about) for one in clusters.rows),
        cluster_count=len(lines),
        cluster_page_count=clusters.pages,
        groups=_group_lines(page.rows, words, shown, about),
        group_count=len(wanted),
        page_count=page.pages,
        open_incident_count=len(about_them),
        cluster_names=tuple(sorted(newest)),
        teams=about.teams,
        rules=tuple(sorted({asked.rule, *(one.rule_id for one in about_them if one.consumer_group)} - {""})),
    )


def trust_in(facts_of: datetime | None, now: datetime) -> Trust:
    """Return how much facts of a moment are worth now."""
    if facts_of is None:
        return Trust.NONE
    missed = (now - facts_of) // INTERVAL_LENGTH - 1  # the minute that runs is not missed yet
    return Trust.OLD if missed >= OLD_AFTER else Trust.LATE if missed >= LATE_AFTER else Trust.FRESH


def _groups(shown: Mapping[str, NewestFacts | None], incidents: Sequence[OpenIncident], now: datetime) -> list[_Group]:
    about: dict[tuple[str, str], list[OpenIncident]] = defaultdict(list)
    for one in incidents:
        if one.consumer_group is not None:
            about[one.cluster, one.consumer_group].append(one)
    found = []
    for cluster, facts in shown.items():
        is_old = facts is None or trust_in(facts.facts_of, now) is Trust.OLD
        for line in facts.groups if facts else ():
            told = about.pop((cluster, line.consumer_group), ())
            is_known = line.lag is not None and line.unknown_queue_count == 0
            is_seen = is_known and not is_old and facts is not None and line.consumer_group not in facts.unseen_of
            is_well = is_seen and (bool(told) or not line.waits_for_nobody)
            found.append(_Group.of(line, told, is_well=is_well))
    left = ((GroupFigures(cluster, group), told) for (cluster, group), told in about.items())
    return [*found, *(_Group.of(line, told, is_well=False) for line, told in left)]


def _is_wanted(group: _Group, asked: Wanted) -> bool:
    return (
        (not asked.search or asked.search.casefold() in group.line.consumer_group.casefold())
        and (asked.state is None or asked.state is group.state)
        and (asked.severity is None or any(one.severity is asked.severity for one in group.open))
        and (not asked.rule or any(one.rule_id == asked.rule for one in group.open))
    )


def _key_of(asked: Wanted, team_of: Mapping[tuple[str, str], str]) -> Callable[[_Group], tuple[float | str, ...]]:
    def key(group: _Group) -> tuple[float | str, ...]:
        line, worst = group.line, group.worst
        name = (line.consumer_group, line.cluster)
        match asked.order:
            case Order.WORST:
                rank = (-worst.severity.rank if worst else 0) * sign
                state = sign * (group.state is GroupState.OK)
                return (rank, state, *_sorted(line.lag_ms, -sign), *_sorted(line.lag, -sign), *name)
            case Order.GROUP | Order.TEAM:
                first = team_of.get(group.key, "") if asked.order is Order.TEAM else line.consumer_group
                return (_Reversed(first) if asked.reverse else first, *name)
        return (*_sorted(getattr(line, asked.order.value), -sign), *name)

    sign = -1 if asked.reverse else 1
    return key


class _Reversed(str):
    """A text that is sorted the other way round."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)


def _sorted(figure: float | None, sign: int) -> tuple[float, float]:
    """Return the place of a figure, unknown ones last; `sign`: -1 for the greatest first."""
    return (1, 0) if figure is None else (0, sign * figure)


def _group_lines(
    groups: Sequence[_Group], words: Mapping[str, Said], shown: Mapping[str, NewestFacts | None], about: AboutFleet
) -> tuple[GroupLine, ...]:
    lags_of = {one: about.lags_of(one) for one in {group.line.cluster for group in groups}}
    return tuple(
        _group_line(one, words, shown, about, lags_of[one.line.cluster](one.line.consumer_group)) for one in groups
    )


def _group_line(
    group: _Group,
    words: Mapping[str, Said],
    shown: Mapping[str, NewestFacts | None],
    about: AboutFleet,
    lags: Lags,
) -> GroupLine:
    line, worst, facts = group.line, group.worst, shown.get(group.line.cluster)
    said = words.get(worst.incident_id) if worst else None
    return GroupLine(
        **line._asdict(),
        state=group.state,
        team=about.team_of(*group.key) if about.team_of else None,
        severity=worst and worst.severity,
        incident_id=worst and worst.incident_id,
        incident_count=len(group.open),
        because=said and said.summary,
        audited=said is None or said.audited,
        lags=lags,
        trend=trend_of(lags),
        unseen_broker_names=facts.unseen_of.get(line.consumer_group, ()) if facts else (),
        waits_for_nobody=line.waits_for_nobody,
    )


def _trouble(one: OpenIncident, said: Said | None, shown: Mapping[str, NewestFacts | None]) -> ClusterTrouble:
    facts, brokers = shown.get(one.cluster), set(said.broker_names if said else ())
    unknown = sorted(group for group, unseen in facts.unseen_of.items() if brokers & set(unseen)) if facts else []
    return ClusterTrouble(
        incident_id=one.incident_id,
        cluster=one.cluster,
        severity=one.severity,
        because=said and said.summary,
        opened_at=said and said.opened_at,
        audited=said is None or said.audited,
        unknown_groups=tuple(unknown[:NAMED]),
        unknown_group_count=len(unknown),
    )


def _cluster_lines(
    shown: Mapping[str, NewestFacts | None], groups: Sequence[_Group], incidents: Sequence[OpenIncident], now: datetime
) -> list[ClusterLine]:
    counts: dict[tuple[str, GroupState], int] = defaultdict(int)
    for group in groups:
        counts[group.line.cluster, group.state] += 1
    told: dict[str, list[OpenIncident]] = defaultdict(list)
    for one in incidents:
        told[one.cluster].append(one)
    lines = []
    for name, facts in shown.items():
        line = ClusterLine(cluster=name, trust=Trust.NONE) if facts is None else _seen_line(name, facts, now)
        of_it = {
            "open_incident_count": len(told[name]),
            "severity": max((one.severity for one in told[name]), key=lambda one: one.rank, default=None),
            "trouble_group_count": counts[name, GroupState.TROUBLE],
            "unknown_group_count": counts[name, GroupState.UNKNOWN],
        }
        lines.append(line.model_copy(update=of_it))
    return lines


_BLIND = {Trust.FRESH: 0, Trust.LATE: Severity.WARNING.rank, Trust.OLD: Severity.CRITICAL.rank}


def _cluster_key(line: ClusterLine) -> tuple[float | str, ...]:
    """Return the place of a cluster, the worst first: who sees nothing of one is as badly off as with its trouble."""
    rank = line.severity.rank if line.severity else 0
    worst = max(rank, _BLIND.get(line.trust, Severity.CRITICAL.rank), Severity.WARNING.rank * line.cluster_unseen)
    return (-worst, -rank, -line.open_incident_count, -line.unknown_group_count, line.cluster)


def _explained(line: ClusterLine, facts: NewestFacts | None, about: AboutFleet) -> ClusterLine:
    known_until = facts.until if facts else None
    judged_until = about.judged_until(line.cluster)
    is_ahead = judged_until is not None and known_until is not None and judged_until > known_until
    is_late = line.facts_of is not None and line.trust is not Trust.FRESH
    return line.model_copy(
        update={
            "judged_until": judged_until if is_ahead else None,
            "late_because": about.why_late(line.cluster, line.facts_of) if line.facts_of and is_late else None,
        }
    )


def _seen_line(name: str, facts: NewestFacts, now: datetime) -> ClusterLine:
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
        violated_invariants=facts.violated_invariants,
        **{
            name: facts.figures.get(column)
            for name, column in (
                ("lag", "effective_lag"),
                *((one, one) for one in ("beyond_end", "unknown_queue_count", "put_tps", "get_tps")),
            )
        },
    )
