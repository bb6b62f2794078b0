"""Figures and words of state, each compared with what is so: None, or why it is not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from offsetguard_peers.trials.claims.reading import Bounds
from offsetguard_peers.trials.claims.truth import CLOCKS, GAP, NEVER, ROUND, SLACK, TAILS, Kind, Round, Truth

LOOKED_BACK = timedelta(minutes=29)  # `offset_move_window_ms`, less what a round takes


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence: where it stands, of which round, and whether it tells how it was."""

    where: str
    line: str
    round: Round
    past: bool = False

    @property
    def since(self) -> datetime:
        """From when on it may have been so."""
        return NEVER if self.past else self.round.since


_IN_HAND = ("still processes", "have pulled and not finished")
Check = Callable[[Truth, str, Any, Said], str | None]


def _fits(value: int | Bounds, least: int, most: int) -> bool:
    """Whether a number, or one that is said as "at least" or "at most", agrees with what is so."""
    if not isinstance(value, Bounds):
        return least <= value <= most
    return (value.least or 0) <= most and (value.most is None or value.most >= least)


def _counted(name: str) -> Check:
    """Compare a number of messages with what the broker said within a round."""

    def check(truth: Truth, group: str, value: int | Bounds, said: Said) -> str | None:
        looks = list(pairwise(truth.looks_around(group, said.since, said.round.ended)))
        bounds = [one for before, after in looks if (one := before.until(after, name)) is not None]
        gaps = [after.at - before.at for before, after in looks]
        if len(bounds) < len(looks) or max(gaps, default=GAP) >= GAP:  # a broker was away, or a group is new
            return None
        least, most = min(least for least, _ in bounds), max(most for _, most in bounds)
        slack = 0 if name == "lost" else SLACK
        if any(words in said.line for words in _IN_HAND):  # no look shows how many of them are finished
            least = 0
        return None if _fits(value, least - slack, most + slack) else f"{name} was between {least:,} and {most:,}"

    return check


def _clients(truth: Truth, group: str, value: int, said: Said) -> str | None:
    counts = truth.clients_within(group, said.since, said.round.ended)
    return None if value in counts else f"clients online: {sorted(counts)}"


def _silence(truth: Truth, group: str, value: int, said: Said) -> str | None:
    """Compare with the longest silence at any moment that the sentence may tell of."""
    moments = [one.at for one in truth.looks_within(group, said.since, said.round.ended)]
    last = {at: truth.advanced(group, at) for at in (*moments[::4], *moments[-1:])}
    longest = max((at - (one or NEVER) for at, one in last.items()), default=ROUND * 1e6)
    is_so = timedelta(milliseconds=value) <= longest + ROUND + CLOCKS
    return None if is_so or said.past else f"it committed at {max(filter(None, last.values())):%H:%M:%S}"


def _age(truth: Truth, group: str, value: int | Bounds, said: Said) -> str | None:
    moments = [one.at for one in truth.looks_within(group, said.since, said.round.ended)]
    written = {at: one for at in (*moments[::4], *moments[-1:]) if (one := truth.oldest(group, at)) is not None}
    if said.past or not written or any(by == NEVER for _, by in written.values()):
        return None
    bounds = value if isinstance(value, Bounds) else Bounds(value, value)
    youngest = min(at - by for at, (_, by) in written.items()) - ROUND
    oldest = max(at - after for at, (after, _) in written.items()) + ROUND + CLOCKS * 2
    least, most = (None if ms is None else timedelta(milliseconds=ms) for ms in bounds)
    is_so = (least is None or least <= oldest) and (most is None or most >= youngest)
    return None if is_so else f"the oldest that waits was written by {min(by for _, by in written.values()):%H:%M:%S}"


def _set(name: str) -> Check:
    """Compare how many are skipped or repeated with what a reset did."""

    def check(truth: Truth, group: str, value: int | Bounds, said: Said) -> str | None:
        resets = [one for one in truth.of(group) if one.kind is Kind.RESET and one.began <= said.round.ended]
        bounds = [
            one.figures.get(name, (0, 0)) for one in resets if one.lasts(said.since, said.round.ended, ROUND * 60)
        ]
        bounds = bounds or [(0, SLACK)]
        if any(_fits(value, low, high) for low, high in bounds):
            return None
        return f"{name} was {' or '.join(f'{low:,} to {high:,}' for low, high in bounds)}"

    return check


_skipped_by_reset = _set("skipped")


def _skipped(truth: Truth, group: str, value: Any, said: Said) -> str | None:
    """Compare what a setting beyond the end skips "at most" with what lay between its commit before and the end then.

    Not less than that; and not more than from two rounds before until two rounds after it, and more where nobody
    collected or no broker answered at either end.
    """
    if "meanwhile, at most" not in said.line:
        return _skipped_by_reset(truth, group, value, said)
    bounds = []
    for one in truth.of(group):
        if one.kind is Kind.BEYOND and one.began <= said.round.ended:
            until = min(one.ended or said.round.ended, said.round.ended)
            blind = [other for other in truth.of(group) if other.kind in {Kind.BROKER, Kind.COLLECTOR}]
            first = min([one.began, *(other.began for other in blind if other.lasts(one.began, one.began, ROUND * 5))])
            last = max([until, *(other.ended or said.round.ended for other in blind if other.lasts(until, until))])
            least = truth.waiting_from(group, one.began, until)
            moments = [first, *(look.at for look in truth.looks_within(group, first - ROUND * 2, one.began))]
            most = max(truth.waiting_from(group, moment, last + ROUND * 2) for moment in moments)
            bounds.append((max(0, least - SLACK), most + SLACK))
    if any(low <= value <= high for low, high in bounds):
        return None
    return f"skipped was {' or '.join(f'{low:,} to {high:,}' for low, high in bounds) or 'nothing'}"


def _hour_before(said: Said) -> datetime:
    return NEVER if said.past else said.round.began - ROUND * 60


def _overtaken(truth: Truth, group: str, value: int, said: Said) -> str | None:
    """Compare with the most that it had lost, whenever it went on behind a gap."""
    most = truth.lost_within(group, _hour_before(said), said.round.ended, standing=True)
    return None if value <= most + SLACK else f"lost was {most:,} at most"


def _overtaken_at_most(truth: Truth, group: str, value: int, said: Said) -> str | None:
    """Compare a bound: it holds, and is not larger than all that was deleted; what is over may be of the first loss."""
    since, until = _hour_before(said), said.round.ended
    lost, deleted = (of(group, since, until) for of in (truth.lost_within, truth.deleted_within))
    lately = said.round.since  # what just happened may be told in the next round
    known = 0 if said.past else truth.lost_within(group, lately - LOOKED_BACK, lately)
    if known - SLACK <= value <= max(lost, deleted) + SLACK:
        return None
    return f"lost was {known:,}, of {deleted:,} that were deleted"


def _departures(truth: Truth, group: str, value: int, said: Said) -> str | None:
    """Compare with how often its clients were ended or started for what was staged, in the time that is remembered."""
    since, until = said.round.began - ROUND * 46, said.round.ended
    moments = [moment for one in truth.of(group) if one.group for moment in (one.began, one.ended) if moment]
    changes = sum(since <= moment <= until for moment in moments)
    return None if value <= changes else f"its clients changed {changes} times"


FIGURES: Mapping[str | tuple[str, str], Check] = {  # by name, or by rule and name
    ("offset_moved_by_retention", "lost"): _overtaken,
    "lost_at_least": _overtaken,
    "departure_count": _departures,
    "lost_at_most": _overtaken_at_most,
    **{name: _counted(name) for name in ("effective_lag", "lost", "beyond")},
    "repeated": _set("repeated"),
    "skipped": _skipped,
    "online_client_count": _clients,
    "silence": _silence,
    "silence_ms": _silence,
    "lag_ms": _age,
}


def _no_client(truth: Truth, group: str, said: Said) -> str | None:
    counts = truth.clients_within(group, said.since, said.round.ended)
    return None if 0 in counts else f"clients online all the time: {sorted(counts)}"


def _staged(kind: Kind) -> Callable[[Truth, str, Said], str | None]:
    def check(truth: Truth, group: str, said: Said) -> str | None:
        mine = [one for one in truth.of(group) if one.kind is kind]
        is_so = any(one.lasts(said.since, said.round.ended, TAILS[kind]) for one in mine)
        return None if is_so else f"it was never {kind}"

    return check


def _no_loss(truth: Truth, group: str, said: Said) -> str | None:
    looks = truth.looks_within(group, said.since, said.round.ended)
    lost = [one.figure("lost") or 0 for one in looks]
    return f"it lost {min(lost):,}" if lost and min(lost) > 0 else None


def _exists(truth: Truth, group: str, said: Said) -> str | None:
    return None if truth.clients.get(group) else "no such group ever was"


def _goes_on(truth: Truth, group: str, said: Said) -> str | None:
    hangs = [one for one in truth.of(group) if one.kind is Kind.HANG and one.ended is None]
    return next((f"it hangs since {one.began:%H:%M:%S}" for one in hangs if one.began < said.since), None)


def _stands(truth: Truth, group: str, said: Said) -> str | None:
    return _silence(truth, group, 2 * ROUND // timedelta(milliseconds=1), said)


def to_come(moment: datetime, of: Round) -> str | None:
    """Nobody can have seen what was still to come when it was told."""
    return f"told by {of.ended:%H:%M:%S}, before that moment" if moment > of.ended + CLOCKS else None


STATES: Sequence[tuple[re.Pattern[str], Callable[[Truth, str, Said], str | None]]] = (
    (
        re.compile(
            r"\bis offline\b|\b[Nn]o client .*\bis online\b|has no client online|\bis away\b|consumers are offline"
        ),
        _no_client,
    ),
    (re.compile(r"is gone: the brokers keep no offsets"), _staged(Kind.GONE)),
    (re.compile(r"\bnot stopped\b"), _goes_on),
    (re.compile(r"\bstands still on\b"), _stands),
    (re.compile(r"No loss is in sight"), _no_loss),
    (re.compile(r"Nothing is open about this group"), _exists),
)
