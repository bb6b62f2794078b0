"""Silences: those that hold, that will, and that ended lately; and whether they are about anything.

A silence that is about nothing for a week was forgotten, or never meant what it says: it will hide the next trouble.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from offsetguard.model.silence import Silence
from offsetguard.store.incidents import Seen
from offsetguard.views.incidents import SilenceLine, silence_lines

LATELY = timedelta(days=7)  # silences that ended, and incidents that they may have been about
SILENCES = 200  # on the page, and in JSON


class SilenceState(StrEnum):
    """Where a silence stands."""

    ACTIVE = "active"
    SCHEDULED = "scheduled"
    OVER = "over"


class WatchedSilence(SilenceLine):
    """One silence, and what it is about."""

    starts_at: datetime
    state: SilenceState
    ended_early: bool  # somebody ended it before its time
    open_count: int | None  # open incidents that its matchers match now; null: it is over
    last_matched_at: datetime | None  # end of the newest within a week; null: none, or one is open
    is_idle: bool  # it has held for a week or longer and matched nothing in it


def watched_silences(silences: Iterable[Silence], seen: Sequence[Seen], now: datetime) -> tuple[WatchedSilence, ...]:
    """Return silences as people look after them; `seen`: what incidents were about since LATELY before now."""
    given = sorted(silences, key=lambda one: (_PLACE[state_of(one, now)], one.over_at, one.id or 0))
    return tuple(_watched(line, one, seen, now) for line, one in zip(silence_lines(given), given, strict=True))


def state_of(silence: Silence, now: datetime) -> SilenceState:
    """Return where a silence stands."""
    if silence.active_at(now):
        return SilenceState.ACTIVE
    return SilenceState.SCHEDULED if now < silence.over_at else SilenceState.OVER


_PLACE = {state: place for place, state in enumerate(SilenceState)}


def _watched(line: SilenceLine, silence: Silence, seen: Sequence[Seen], now: datetime) -> WatchedSilence:
    state = state_of(silence, now)
    about = (
        [] if state is SilenceState.OVER else [one for one in seen if silence.matchers.fit(one.subject, one.severity)]
    )
    open_count = sum(one.open_count for one in about)
    ended = [one.ended_at for one in about if one.ended_at is not None and one.ended_at >= silence.starts_at]
    last = max(ended, default=None) if not open_count else None
    held_long = state is SilenceState.ACTIVE and silence.starts_at <= now - LATELY
    return WatchedSilence(
        **dict(line),
        starts_at=silence.starts_at,
        state=state,
        ended_early=silence.expired_at is not None and silence.expired_at < silence.ends_at,
        open_count=None if state is SilenceState.OVER else open_count,
        last_matched_at=last,
        is_idle=held_long and not open_count and last is None,
    )
