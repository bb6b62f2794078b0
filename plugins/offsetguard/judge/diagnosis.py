"""What a support bundle shows: the findings of its end, and those that were true on the way and are over.

Goal: the product's judgement, offline. Whoever sends a bundle asks what went wrong while it was recorded; often that is
over before the recording is.
Plan: judge after every round with what was known then, as the pipeline would have, and at the bundle's own end. A
finding of the end is given as it is; one that is over, as it was when it was seen last, unless it was seen only for a
moment: what comes and goes within seconds is no trouble.
Not here: trouble of the bundle. What another recorder did not ask for is no gap of the cluster's: a rule that needs it
cannot tell.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from offsetguard.collect.manifest import Outcome
from offsetguard.collect.snapshot import Snapshot
from offsetguard.config import Config
from offsetguard.facts.interval import IntervalFacts
from offsetguard.facts.rounds import facts_of_moments
from offsetguard.judge.registry import RULES, judge, urgency
from offsetguard.judge.rule import Finding
from offsetguard.model.fact_records import CollectionGap
from offsetguard.model.intervals import INTERVAL_LENGTH
from offsetguard.model.verdicts import CannotTell
from offsetguard.sources.bundle.layout import INDEX

MOST_MOMENTS = 60  # of an hour every minute, of five minutes every round
_Subject = tuple[str, str | None, str | None]  # trouble (`Rule.trouble`), group, topic


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """A finding, and at which of the judged moments it was true."""

    finding: Finding  # as it was at the last of them
    first_found_at: datetime
    last_found_at: datetime  # of what ended by itself: the first that showed it
    times_found: int  # of the judged moments
    over: bool  # it was not true any more at the end, or had ended by itself before a moment that showed it


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a bundle shows, worst first; what rules could not tell at its end."""

    diagnosed: tuple[Diagnosed, ...]
    cannot_tell: tuple[CannotTell, ...]


def diagnose_rounds(rounds: Sequence[Snapshot], config: Config, *, end: datetime) -> Diagnosis:
    """Judge the rounds of one bundle, oldest first, at least one. `end`: the bundle's own end, the last moment."""
    moments = _judged_moments(rounds, end)
    judgements = [judge(without_own_gaps(facts), config) for facts in facts_of_moments(rounds, moments, config)]
    looks = [(now, one.findings) for (_, now), one in zip(moments, judgements, strict=True)]
    diagnosed = sorted(followed(looks), key=lambda one: urgency(one.finding))
    return Diagnosis(tuple(diagnosed), judgements[-1].cannot_tell)


def followed(looks: Sequence[tuple[datetime, Sequence[Finding]]]) -> list[Diagnosed]:
    """Return what lasted, each trouble once; `looks`: moments in order of time, and what was found at each."""
    found: dict[_Subject, Diagnosed] = {}
    ended = set[_Subject]()
    for now, findings in looks:
        own = list(findings)
        for finding in own:
            subject = finding.rule.trouble, finding.consumer_group, finding.topic
            before = found.get(subject)
            times = before.times_found + 1 if before else 1
            worst = before.finding if before is not None and _has_come_further(before.finding, finding) else finding
            is_open = subject not in ended
            if before is not None and finding.ended_before(before.last_found_at, is_open=is_open):  # rules look back
                found[subject] = replace(before, finding=worst, times_found=times, over=True)
                ended.add(subject)
                own += finding.explained  # what came after its end has another cause
            else:
                ended.discard(subject)
                first = before.first_found_at if before else now
                found[subject] = Diagnosed(worst, first, now, times, over=now != looks[-1][0])
    return [one for one in _without_explained(found) if not _was_momentary(one, [now for now, _ in looks])]


def without_own_gaps(facts: IntervalFacts) -> IntervalFacts:
    """Return the facts of recorded rounds without the gaps that only the recording has.

    A master is unseen only if it was asked and did not answer, not if nobody asked it.
    """
    gaps = tuple(gap for gap in facts.gaps if not _is_of_the_bundle(gap))
    not_listed = facts.cluster_unseen and any(gap.broker_name is None for gap in gaps)
    silent = {(gap.broker_name, gap.broker_id) for gap in gaps}
    unseen = frozenset(name for name in facts.unseen_broker_names if name in {broker for broker, _ in silent})
    brokers = tuple(
        replace(one, answered=None) if one.answered is False and (one.broker_name, one.broker_id) not in silent else one
        for one in facts.brokers
    )
    return replace(facts, gaps=gaps, unseen_broker_names=unseen, brokers=brokers, cluster_unseen=not_listed)


def _is_of_the_bundle(gap: CollectionGap) -> bool:
    """Whether nobody asked, or the recorded body is gone: a reason that names a line of the index."""
    return gap.outcome == Outcome.NOT_RECORDED or (gap.outcome == Outcome.UNDECODABLE and INDEX in gap.reason)


def _judged_moments(rounds: Sequence[Snapshot], end: datetime) -> list[tuple[int, datetime]]:
    """Return (rounds that were over, moment): after each round, at most MOST_MOMENTS of them, and the bundle's end."""
    last = max(end, rounds[-1].manifest.finished_at)
    step = (last - rounds[0].manifest.started_at) / MOST_MOMENTS
    moments: list[tuple[int, datetime]] = []
    for count, one in enumerate(rounds[:-1], start=1):
        now = one.manifest.finished_at
        if not moments or now - moments[-1][1] >= step:
            moments.append((count, now))
    return [*moments, (len(rounds), last)]


def _has_come_further(before: Finding, finding: Finding) -> bool:
    """Whether a trouble was at a later stage: a loss is not undone where its group is only offline afterwards."""
    stages = [one.rule.stage.place for one in (before, finding) if one.rule.stage is not None]
    return len(stages) > 1 and stages[0] > stages[1]


def _was_momentary(one: Diagnosed, moments: Sequence[datetime]) -> bool:
    """Whether it was found once only, and was over at the next look, within less than an interval."""
    if not one.over or one.times_found > 1:
        return False
    return next(now for now in moments if now > one.last_found_at) - one.last_found_at < INTERVAL_LENGTH


def _without_explained(found: Mapping[_Subject, Diagnosed]) -> Iterator[Diagnosed]:
    """Leave out what a later judgement names under another finding: its cause was seen only then."""
    known_at = {
        (RULES[explained.rule_id].trouble, explained.consumer_group, explained.topic): one.last_found_at
        for one in sorted(found.values(), key=lambda one: one.last_found_at)
        for explained in one.finding.explains
    }
    for subject, one in found.items():
        if subject not in known_at or one.last_found_at > known_at[subject]:
            yield one
