"""Since when nothing of a POP group was finished although messages are in flight: folded from round to round.

A POP group's committed offset moves when messages are handed out, and acknowledgements are counted together with mere
renewals. What was finished is left over: everything written, minus what is available and what is in flight.

The three figures are read one after the other. What is handed out between the readings is counted twice, so `finished`
may be too low by as much, never too high: it is taken to have grown only beyond its highest value so far.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Progress(NamedTuple):
    """The columns `pop_finished` and `pop_unfinished_since` of `group_snapshots`."""

    finished: int | None = None
    unfinished_since: datetime | None = None

    @classmethod
    def of(cls, row: Mapping[str, object]) -> Progress:
        """Take it from a row of the round before."""
        finished, since = row.get("pop_finished"), row.get("pop_unfinished_since")
        return cls(
            finished if isinstance(finished, int) else None,
            since if isinstance(since, datetime) else None,
        )


def progress(before: Progress, finished: int | None, inflight: int | None, at: datetime | None) -> Progress:
    """Return the progress after a round, read at `at`; a round that does not know the figures changes nothing."""
    if finished is None or inflight is None or at is None:
        return before
    if inflight == 0:
        return Progress(finished, None)
    highest = before.finished
    recreated = highest is not None and finished < highest - inflight
    if highest is None or finished > highest or recreated:
        return Progress(finished, at)
    return Progress(highest, before.unfinished_since or at)
