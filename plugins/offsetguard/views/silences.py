"""Silences: those that hold, that will, and that ended lately; what each is about, and what one would be about.

A silence that is about nothing for a week was forgotten, or never meant what it says: it will hide the next trouble.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict

from offsetguard.model.notification import Matchers, Silence
from offsetguard.model.verdicts import Severity
from offsetguard.model.views import Record
from offsetguard.store.incidents import OpenIncident, Seen
from offsetguard.views.fleet import Said
from offsetguard.views.incidents import SilenceLine, silence_lines
from offsetguard.views.listing import EMPTY_IS_NONE, Asked

LATELY = timedelta(days=7)  # silences that ended, and incidents that they may have been about
SILENCES = 200  # on the page, and in JSON
NAMED = 3  # incidents that a silence matches


class SilenceState(StrEnum):
    """Where a silence stands."""

    ACTIVE = "active"
    SCHEDULED = "scheduled"
    OVER = "over"


class AskedSilences(BaseModel):
    """Matchers of a silence that may be made; it stands in the address."""

    model_config = ConfigDict(frozen=True)

    cluster: Asked = ""  # globs; empty: any, even none at all
    consumer_group: Asked = ""
    topic: Asked = ""
    rule: Asked = ""
    severity: Annotated[Severity | None, EMPTY_IS_NONE] = None  # up to this one

    @property
    def matchers(self) -> Matchers | None:
        """What they match; None: nothing is asked for."""
        found = Matchers(
            self.cluster or None, self.consumer_group or None, self.topic or None, self.rule or None, self.severity
        )
        return found if found.named else None


class MatchedIncident(Record):
    """An open incident that matchers match."""

    incident_id: str
    severity: Severity
    summary: str


class WatchedSilence(SilenceLine):
    """One silence, and what it is about."""

    starts_at: datetime
    state: SilenceState
    ended_early: bool  # somebody ended it before its time
    open_count: int | None  # open incidents that its matchers match now; null: it is over
    matched: tuple[MatchedIncident, ...]  # the worst of them
    last_matched_at: datetime | None  # end of the newest within a week; null: none, or one is open
    is_idle: bool  # it has held for a week or longer and matched nothing in it


class SilencesView(Record):
    """The whole view."""

    at: datetime
    asked: AskedSilences
    would_match_count: int | None  # open incidents that what is asked for matches now; null: nothing is asked for
    would_match: tuple[MatchedIncident, ...]  # the worst of them
    silences: tuple[WatchedSilence, ...]  # that hold, the next to end first; then those that will, then those that did
    silence_count: int  # of all of them


def silences_view(
    asked: AskedSilences,
    silences: Iterable[Silence],
    seen: Sequence[Seen],
    incidents: Iterable[OpenIncident],
    now: datetime,
    *,
    words_of: Callable[[Collection[str]], Mapping[str, Said]],
) -> SilencesView:
    """Return the view; `seen`: what incidents were about since LATELY before now; `incidents`: that are open.

    `words_of`: what incidents say, by their ids, asked for those that are named.
    """
    in_order = sorted(silences, key=lambda one: (_PLACE[state_of(one, now)], one.over_at, one.id or 0))
    worst_first = sorted(incidents, key=lambda one: -one.severity.rank)
    shown = in_order[:SILENCES]
    matched = [
        [] if state_of(one, now) is SilenceState.OVER else matched_by(one.matchers, worst_first) for one in shown
    ]
    would_match = matched_by(asked.matchers, worst_first) if asked.matchers else []
    named = [one for some in matched for one in some[:NAMED]] + would_match[:SILENCES]
    words = words_of({one.incident_id for one in named})
    lines = zip(silence_lines(shown), shown, matched, strict=True)
    return SilencesView(
        at=now,
        asked=asked,
        would_match_count=len(would_match) if asked.matchers else None,
        would_match=_named(would_match[:SILENCES], words),
        silences=tuple(_watched(line, one, seen, about, words, now=now) for line, one, about in lines),
        silence_count=len(in_order),
    )


def matched_by(matchers: Matchers, incidents: Iterable[OpenIncident]) -> list[OpenIncident]:
    """Return the incidents that matchers match."""
    return [one for one in incidents if matchers.fit(one.subject, one.severity)]


def state_of(silence: Silence, now: datetime) -> SilenceState:
    """Return where a silence stands."""
    if silence.active_at(now):
        return SilenceState.ACTIVE
    return SilenceState.SCHEDULED if now < silence.over_at else SilenceState.OVER


_PLACE = {state: place for place, state in enumerate(SilenceState)}


def _watched(
    line: SilenceLine,
    silence: Silence,
    seen: Sequence[Seen],
    matched: Sequence[OpenIncident],
    words: Mapping[str, Said],
    *,
    now: datetime,
) -> WatchedSilence:
    state = state_of(silence, now)
    is_over = state is SilenceState.OVER
    about = [] if is_over or matched else [one for one in seen if silence.matchers.fit(one.subject, one.severity)]
    ended = [one.ended_at for one in about if one.ended_at is not None and one.ended_at >= silence.starts_at]
    last = max(ended, default=None)
    held_long = state is SilenceState.ACTIVE and silence.starts_at <= now - LATELY
    return WatchedSilence(
        **dict(line),
        starts_at=silence.starts_at,
        state=state,
        ended_early=silence.expired_at is not None and silence.expired_at < silence.ends_at,
        open_count=None if is_over else len(matched),
        matched=_named(matched[:NAMED], words),
        last_matched_at=last,
        is_idle=held_long and not matched and last is None,
    )


def _named(incidents: Iterable[OpenIncident], words: Mapping[str, Said]) -> tuple[MatchedIncident, ...]:
    return tuple(
        MatchedIncident(
            incident_id=one.incident_id,
            severity=one.severity,
            summary=words[one.incident_id].summary if one.incident_id in words else one.incident_id,
        )
        for one in incidents
    )
