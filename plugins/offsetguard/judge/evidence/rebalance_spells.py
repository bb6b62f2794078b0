"""Log lines that every rebalance may print, told apart: noise that ends by itself, and a disagreement that lasts.

At a join or a leave, and for 15 s after a broker's restart, clients miss themselves in the member list and brokers
refuse pulls with code 25; where a heartbeat collides with the timed one, for 20 to 30 s. Two rebalance rounds (40 s)
after the last change all of that is over. A client that rebalances every 20 s for a reason of its own (offset store not
persisting) prints a line or two each time: so code 25 lasts only where pulls are refused all the time.
Source: incident I1; RebalanceImpl, PullMessageProcessor (4.9.8, 5.3.3).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.evidence.lookups import master_boots
from offsetguard.judge.evidence.move_causes import membership_changes
from offsetguard.model.rocketmq import NOT_IN_MEMBERS, REBALANCE_NOISE, SILENCE
from offsetguard.tables.log_facts import LogLineFacts

REBALANCE_ROUNDS = timedelta(seconds=40)
"""Two rounds of rocketmq.client.rebalance.waitInterval."""

LISTS_SETTLE = timedelta(seconds=90)
"""A client learns of a broker with its next route refresh (30 s), and tells it of itself with its next heartbeat; and a
late one: 4.9.7, seen live, 74 s after a master had come back."""

_HEARTBEAT = timedelta(seconds=30)
_LEAST_LINES = 3
_LINES_APART = {NOT_IN_MEMBERS: timedelta(seconds=25)}  # one line per rebalance
_REFUSALS_APART = timedelta(seconds=5)  # a refused pull is repeated after 1 s (5.x) or 3 s (4.x)
_LASTING_KINDS = tuple(kind for kind in REBALANCE_NOISE if kind != "member_list_failed")  # a broker that is down


@dataclass(frozen=True, slots=True)
class GroupNoise:
    """The lines of one group."""

    lines: tuple[LogLineFacts, ...]
    lasting: tuple[LogLineFacts, ...]  # those of them that go on although the membership is stable
    changed_at: datetime | None  # last time that a client came or went, or a broker booted; None = not seen


def group_noise(facts: IntervalFacts) -> Iterator[tuple[str, GroupNoise]]:
    """Yield each group with such lines within the window, in the order of their names."""
    by_group: dict[str, list[LogLineFacts]] = {}
    for line in facts.log_lines:
        if line.kind in REBALANCE_NOISE:
            by_group.setdefault(line.consumer_group, []).append(line)
    changes = last_changes(facts)
    boots = last_boot(facts)
    for group, lines in sorted(by_group.items()):
        changed_at = max((min(at, facts.now) for at in (changes.get(group), boots) if at), default=None)
        lasting = tuple(line for line in lines if lasted(line, changed_at) and goes_on(line, facts.now))
        yield group, GroupNoise(tuple(lines), lasting, changed_at)


def lasted(line: LogLineFacts, changed_at: datetime | None) -> timedelta | None:
    """Return how long the newest run of lines went on with stable membership; None = not longer than it may."""
    span = line.last_at - max(line.spell_first_at, changed_at or line.spell_first_at)
    if line.kind not in _LASTING_KINDS or span <= REBALANCE_ROUNDS or line.spell_line_count < _LEAST_LINES:
        return None
    whole = line.last_at - line.spell_first_at
    dense = line.spell_line_count * _LINES_APART.get(line.kind, _REFUSALS_APART) >= whole
    return span if dense else None


def last_changes(facts: IntervalFacts) -> Mapping[str, datetime]:
    """Return by group when its last client came or went, as far as that was seen."""
    return {group: max(moments) for group, moments in membership_changes(facts).items()}


def last_boot(facts: IntervalFacts) -> datetime | None:
    """Return when the master that booted last had heartbeats of all clients again."""
    return max((at + _HEARTBEAT for at in master_boots(facts).values()), default=None)


def lasting_lines(facts: IntervalFacts, kind: str) -> Iterator[tuple[str, list[LogLineFacts], timedelta]]:
    """Yield groups with lines of a kind that still come, these, and how long they have, if longer than they may.

    What a broker's start explains does not count.
    """
    boot_at = last_boot(facts)
    by_group: dict[str, list[LogLineFacts]] = {}
    for line in facts.log_lines:
        if line.kind == kind and goes_on(line, facts.now):
            by_group.setdefault(line.consumer_group, []).append(line)
    for group, lines in sorted(by_group.items()):
        span = max(line.last_at - max(line.spell_first_at, boot_at or line.spell_first_at) for line in lines)
        if span > LISTS_SETTLE and line_figures(lines)[0] >= _LEAST_LINES:
            yield group, lines, span


def line_figures(lines: Sequence[LogLineFacts]) -> tuple[int, str]:
    """Return how many lines the log with the most of each kind has, and who they are about."""
    most: dict[str, int] = {}
    for line in lines:
        most[line.kind] = max(most.get(line.kind, 0), line.line_count)
    names = sorted({name for line in lines for name in line.client_ids})
    return sum(most.values()), ", ".join(names[:5])


def goes_on(line: LogLineFacts, now: datetime) -> bool:
    """Whether such lines still come."""
    return now - line.last_at <= SILENCE + timedelta(seconds=60)  # logs are read once an interval
