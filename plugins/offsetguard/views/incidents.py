"""Incidents, open and past, as a list that can be asked."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from offsetguard.catalogue import Catalogue
from offsetguard.config import Config
from offsetguard.judge.incident_words import IncidentWords
from offsetguard.model.incident import Incident
from offsetguard.model.notification import Acknowledgement, Silence
from offsetguard.model.verdicts import Severity
from offsetguard.model.views import Record
from offsetguard.store.incidents import Which
from offsetguard.views.course import AskedMoment
from offsetguard.views.listing import EMPTY_IS_NONE, ROWS, Asked, AskedPage, page_count


class State(StrEnum):
    """Which incidents are listed."""

    OPEN = "open"
    PAST = "past"


class WantedIncidents(AskedPage):
    """What a reader asked for; it stands in the address."""

    state: Annotated[State | None, EMPTY_IS_NONE] = None  # without it both, open ones first
    team: Asked = ""  # that owns the group, as the configuration says now
    severity: Annotated[Severity | None, EMPTY_IS_NONE] = None
    rule: Asked = ""  # its id
    cluster: Asked = ""  # as the configuration calls it
    search: Asked = ""  # part of a group's or topic's name in any case, or the beginning of an id
    open_at: Annotated[AskedMoment | None, EMPTY_IS_NONE] = None  # only what was open at this moment


class IncidentSummary(Record):
    """One line of the list."""

    incident_id: str
    cluster: str
    consumer_group: str | None
    topic: str | None
    rule_id: str
    team: str | None  # None: the configuration cannot be read
    severity: Severity
    state: str  # UNKNOWN: its evidence cannot be seen
    summary: str
    began_at: datetime | None  # the event's own moment; null: only when it was seen is known
    opened_at: datetime  # when it was first seen: the end of the interval that showed it
    last_seen_at: datetime  # when it was seen last, likewise
    lasted_ms: int  # until its end, or until now
    resolved_at: datetime | None  # when its end was seen; null: it is open
    resolution: str | None  # how it ended
    acknowledged_by: str | None
    is_silenced: bool  # now


class SilenceLine(Record):
    """One silence."""

    number: int
    matchers: dict[str, str]  # globs by what they match
    author: str
    comment: str
    ends_at: datetime


class IncidentList(Record):
    """The whole list, one page of it."""

    at: datetime
    asked: WantedIncidents
    incidents: tuple[IncidentSummary, ...]  # open ones worst first, then those that are over, what ended last first
    open_count: int  # on all pages
    past_count: int
    page_count: int
    silences: tuple[SilenceLine, ...]  # that hold now, the oldest hundred
    silence_count: int  # all of them
    teams: tuple[str, ...]  # that there are, as the next three
    severities: tuple[Severity, ...]
    rules: tuple[str, ...]
    clusters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AboutIncidents:
    """What people and the configuration say about incidents now."""

    now: datetime
    words: Catalogue
    config: Config | None  # None: it cannot be read
    silences: Sequence[Silence]  # that hold now

    def muting(self, incident: Incident) -> list[Silence]:
        """Return the silences that are about an incident; one that is over has none."""
        return [one for one in self.silences if not incident.is_over and one.matches(incident)]


def which(wanted: WantedIncidents, known: Iterable[tuple[str, str | None]], config: Config | None) -> Which:
    """Return what is asked of the database; `known`: by cluster the groups of incidents, of which a team owns some."""
    groups: dict[str, set[str | None]] | None = None
    if wanted.team:
        groups = {}
        for cluster, group in known:
            if config is not None and config.team_of(cluster, group) == wanted.team:
                groups.setdefault(cluster, set()).add(group)
    return Which(wanted.cluster, wanted.rule, wanted.severity or "", wanted.search, groups, wanted.open_at)


def incident_list(
    wanted: WantedIncidents,
    found: Sequence[Incident],
    about: AboutIncidents,
    acknowledged: Mapping[str, Acknowledgement],
    *,
    counts: tuple[int, int],
    rules: Collection[tuple[str, str]],
) -> IncidentList:
    """Return the list; `found`: one page; `counts`: open ones and past ones on all pages; `rules`: of each cluster."""
    config = about.config
    return IncidentList(
        at=about.now,
        asked=wanted,
        incidents=tuple(IncidentSummary(**summary_of(one, about, acknowledged.get(one.incident_id))) for one in found),
        open_count=counts[0],
        past_count=counts[1],
        page_count=page_count(sum(counts)),
        silences=silence_lines(about.silences[:ROWS]),
        silence_count=len(about.silences),
        teams=_names(wanted.team, {*config.teams, config.default_team} if config else ()),
        severities=tuple(sorted(Severity, key=lambda one: -one.rank)),
        rules=_names(wanted.rule, (rule_id for _, rule_id in rules)),
        clusters=_names(wanted.cluster, (cluster for cluster, _ in rules)),
    )


def silence_lines(silences: Iterable[Silence]) -> tuple[SilenceLine, ...]:
    """Return silences as records."""
    return tuple(
        SilenceLine(
            number=one.id or 0,
            matchers=one.matchers.named,
            author=one.author,
            comment=one.comment,
            ends_at=one.over_at,
        )
        for one in silences
    )


def summary_of(incident: Incident, about: AboutIncidents, given: Acknowledgement | None) -> dict[str, Any]:
    """Return the fields of an IncidentSummary; `given`: its newest acknowledgement."""
    subject, said = incident.subject, IncidentWords(incident, about.words.locale)
    return {
        "incident_id": incident.incident_id,
        "cluster": subject.cluster,
        "consumer_group": subject.consumer_group,
        "topic": subject.topic,
        "rule_id": incident.shown_by,
        "team": about.config.team_of(subject.cluster, subject.consumer_group) if about.config else None,
        "severity": incident.evidence.severity,
        "state": incident.state,
        "summary": said.summary,
        "began_at": said.began_at,
        "opened_at": incident.first_seen_at,
        "last_seen_at": incident.newest_seen_at,
        "lasted_ms": incident.lasted_ms(about.now),
        "resolved_at": incident.ended_at,
        "resolution": said.resolution,
        "acknowledged_by": given.author if given else None,
        "is_silenced": bool(about.muting(incident)),
    }


def _names(wanted: str, there: Iterable[str]) -> tuple[str, ...]:
    """Return what may be asked for; what was asked for stays, whether it is there or not."""
    return tuple(sorted({wanted, *there} - {""}))
