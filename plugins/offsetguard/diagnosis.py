"""What a support bundle shows: the findings of its end, and those that were true on the way and are over.

Goal: the product's judgement, offline. Whoever sends a bundle asks what went wrong while it was recorded; often that is
over before the recording is.
Plan: judge at the end of every interval with what was known then, as the pipeline would have, and at the bundle's own
end. A finding of the end is given as it is; one that is over, as it was when it was seen last.
Not here: trouble of the bundle. What another recorder did not ask for is no gap of the cluster's: a rule that needs it
cannot tell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from offsetguard.collect.manifest import Outcome
from offsetguard.intervals import Interval
from offsetguard.rules.registry import judge, worst_first
from offsetguard.sampled_rounds import facts_of_rounds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from offsetguard.collect.snapshot import Snapshot
    from offsetguard.config import Config
    from offsetguard.facts import IntervalFacts
    from offsetguard.rules.rule import CannotTell, Finding

_Subject = tuple[str, str | None, str | None]


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """A finding, and at which of the judged moments it was true."""

    finding: Finding  # as it was at the last of them
    first_found_at: datetime
    last_found_at: datetime
    over: bool  # it was not true any more at the end


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a bundle shows, worst first; what rules could not tell at its end."""

    diagnosed: tuple[Diagnosed, ...]
    cannot_tell: tuple[CannotTell, ...]


def diagnose_rounds(rounds: Sequence[Snapshot], config: Config, *, end: datetime) -> Diagnosis:
    """Judge the rounds of one bundle, oldest first, at least one. `end`: the bundle's own end, the last moment."""
    found: dict[_Subject, Diagnosed] = {}
    moments = list(_judged_moments(rounds, end))
    for count, now in moments:
        judgement = judge(facts_of_bundle(rounds[:count], config, now=now), config)
        for finding in judgement.findings:
            subject = finding.rule.id, finding.consumer_group, finding.topic
            first = found[subject].first_found_at if subject in found else now
            found[subject] = Diagnosed(finding, first, now, over=now != moments[-1][1])
    order = {id(finding): place for place, finding in enumerate(worst_first(one.finding for one in found.values()))}
    diagnosed = sorted(found.values(), key=lambda one: order[id(one.finding)])
    return Diagnosis(tuple(_without_explained(diagnosed)), judgement.cannot_tell)


def facts_of_bundle(rounds: Sequence[Snapshot], config: Config, *, now: datetime | None = None) -> IntervalFacts:
    """Return the facts of recorded rounds without the gaps that only the recording has.

    A master is unseen only if it was asked and did not answer, not if nobody asked it.
    """
    facts = facts_of_rounds(rounds, config, now=now)
    gaps = tuple(gap for gap in facts.gaps if gap.outcome != Outcome.NOT_RECORDED)
    silent = {gap.broker_name for gap in gaps}
    asked_in_vain = frozenset(name for name in facts.unseen_broker_names if name in silent)
    return replace(facts, gaps=gaps, unseen_broker_names=asked_in_vain)


def _judged_moments(rounds: Sequence[Snapshot], end: datetime) -> Iterator[tuple[int, datetime]]:
    """Yield (rounds that were over, moment) for the last round of each interval, and the bundle's end."""
    for count, (one, following) in enumerate(pairwise(rounds), start=1):
        if Interval(one.manifest.interval_start) != Interval(following.manifest.interval_start):
            yield count, one.manifest.finished_at
    yield len(rounds), max(end, rounds[-1].manifest.finished_at)


def _without_explained(diagnosed: Sequence[Diagnosed]) -> Iterator[Diagnosed]:
    """Leave out what a later judgement names under another finding: its cause was seen only then."""
    explained = {
        (explained.rule_id, explained.consumer_group, explained.topic): one.last_found_at
        for one in diagnosed
        for explained in one.finding.explains
    }
    for one in diagnosed:
        known_at = explained.get((one.finding.rule.id, one.finding.consumer_group, one.finding.topic))
        if known_at is None or one.last_found_at > known_at:
            yield one
