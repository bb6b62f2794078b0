"""A cause explains the queues that it accounts for, no more: the rest of the group is judged by itself.

Where a cause holds some of a group's waiting queues (`OF_QUEUES`: a poison message, a lock, queues that nobody can
read), what the rules about load say of the whole group is taken back, and they are asked twice: about these queues,
which the cause explains (`subsumption.py`, scope QUEUES), and about all others, where what is found stands beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts, QueueFacts
from offsetguard.judge.evidence.lookups import queues_by_group
from offsetguard.judge.rule import Finding
from offsetguard.judge.rules import accumulation, flow_control, queue_parallelism_cap, slow_consumption
from offsetguard.judge.subsumption import explains
from offsetguard.tables.group_facts import GroupFacts

_Halves = tuple[Sequence[QueueFacts], Sequence[QueueFacts]]  # held by a cause, and all others


OF_QUEUES = frozenset(
    {
        *("poison_message", "lock_not_released", "lock_contention", "client_stands_still"),
        "read_write_queues_differ",
    }
)
_LOAD = (accumulation, slow_consumption, flow_control, queue_parallelism_cap)
_LOAD_IDS = frozenset(file.RULE.id for file in _LOAD)
_COUNTS = ("lag", "effective_lag", "inflight", "available", "lost")
_RATES = ("cached_message_count", "produce_tps", "consume_tps")
_Subject = tuple[str, str]  # consumer group, topic


def by_shares(findings: Sequence[Finding], facts: IntervalFacts, config: Config) -> list[Finding]:
    """Return the findings, those about load in two parts where a cause accounts for some of a group's queues."""
    of_load = {(one.consumer_group, one.topic) for one in findings if one.rule.id in _LOAD_IDS}
    causes = [one for one in findings if one.rule.id in OF_QUEUES and one.queues]
    shares = {}
    for subject, queues in (queues_by_group(facts) if causes else {}).items():
        held, others = _halves(subject, queues, causes)
        if subject in of_load and any(map(_waits, held)) and any(map(_waits, others)):
            shares[subject] = held, others
    if not shares:
        return list(findings)
    kept = [one for one in findings if one.rule.id not in _LOAD_IDS or (one.consumer_group, one.topic) not in shares]
    of_held, of_others = (_about_load(_part(facts, shares, inside=inside), shares, config) for inside in (True, False))
    told = {_subject(one) for one in of_others}
    explained = [one for one in of_held if _subject(one) not in told or any(explains(cause, one) for cause in causes)]
    return [*kept, *explained, *of_others]


def _about_load(part: IntervalFacts, shares: Collection[_Subject], config: Config) -> list[Finding]:
    asked = (one for file in _LOAD for one in file.find(part, config))
    return [one for one in asked if (one.consumer_group, one.topic) in shares]


def _subject(finding: Finding) -> tuple[str, str | None, str | None]:
    return finding.rule.id, finding.consumer_group, finding.topic


def _halves(
    subject: _Subject, queues: Iterable[QueueFacts], causes: Iterable[Finding]
) -> tuple[list[QueueFacts], list[QueueFacts]]:
    """Part a group's queues into those that a cause names, of the group or of all groups of the topic, and others."""
    group, topic = subject
    concerning = [one for one in causes if one.topic == topic and one.consumer_group in (None, group)]
    named = {evidence.message_queue for one in concerning for evidence in one.queues}
    held: list[QueueFacts] = []
    others: list[QueueFacts] = []
    for queue in queues:
        (held if queue.message_queue in named else others).append(queue)
    return held, others


def _part(facts: IntervalFacts, shares: Mapping[_Subject, _Halves], *, inside: bool) -> IntervalFacts:
    """Return the facts in which these groups have only the queues that are held, or only all others."""
    left_out = {
        (queue.consumer_group, queue.message_queue)
        for held, others in shares.values()
        for queue in (others if inside else held)
    }
    return replace(
        facts,
        queues=tuple(one for one in facts.queues if (one.consumer_group, one.message_queue) not in left_out),
        groups=tuple(
            _group(one, *shares[one.consumer_group, one.topic], inside=inside)
            if (one.consumer_group, one.topic) in shares
            else one
            for one in facts.groups
        ),
    )


def _group(group: GroupFacts, held: Sequence[QueueFacts], others: Sequence[QueueFacts], *, inside: bool) -> GroupFacts:
    """Return a group's row with the figures of the held queues, or without them. How many queues it has stays."""

    def share(total: float | None, figures: Iterable[float | None]) -> float | None:
        of_held = sum(figure or 0 for figure in figures)
        return None if total is None else of_held if inside else max(0, total - of_held)

    ages = [one.lag_ms for one in (held if inside else others) if one.lag_ms is not None]
    counts = {name: share(getattr(group, name), [getattr(one.offsets, name) for one in held]) for name in _COUNTS}
    rates = {name: share(getattr(group, name), [getattr(one, name) for one in held]) for name in _RATES}
    return replace(group, lag_ms=max(ages, default=None), **counts, **rates)  # type: ignore[arg-type]


def _waits(queue: QueueFacts) -> bool:
    return (queue.offsets.effective_lag or 0) > 0
