"""What an interval's findings do to the incidents of before: opened, seen again, calm, unknown, resolved.

    (nothing) --found--> pending --found in `bad_cycles` intervals--> open --not found in `good_cycles`--> resolved
                            |                                          ^  |
                not found   |                                    found |  | evidence not seen
                            v                                          |  v
                        (nothing)                                  open, unknown

Each interval counts once, as bad (found), as good (looked at and not found) or not at all (its evidence was not seen):
what was not seen neither ends an incident nor opens one. With `bad_cycles` = 1 an incident is open at once. A severity
falls by what was seen only: not in an interval that could not have shown the end, nor by a finding that is unsure.
Where a rule wants calm (`calm_ms`), one good interval is enough, when nothing was found for so long.
Rules that show stages of one trouble (`Rule.stage`) give one incident: it goes on in the words of what is found.
What is found and explained by another finding goes on where it is open, in the words of now, and opens nothing where it
is not.
What is over by itself (`Finding.last_event_at`: a reset, a stall) is found for as long as rules look back; an interval
after the one that showed its end counts as good, unless it explains something that goes on. Once it has been resolved,
it opens nothing anew; what it might explain then speaks for itself.
What was shown only by facts that are not audited ends with the first published ones that do not show it.
What looks like the rest of a trouble that this interval is the first not to show (`after`) is pending for an interval.

Pure: incidents and facts in, incidents out. The caller sees to it that only newer intervals come here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from offsetguard.catalogue import Sentence
from offsetguard.decide.incidents.visibility import GroupRows, Unanswered, resolution, unseen_because
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.rule import Finding, Rule
from offsetguard.model.incident import Evidence, Incident, Subject, digest_of
from offsetguard.model.intervals import Interval
from offsetguard.model.verdicts import CannotTell, Figure

EVIDENCE_KEPT = 20  # queues, explained findings, ... kept with an incident, worst first; all of them are counted


class Fate(StrEnum):
    """What becomes of an incident in an interval; the names are the fields of `Changes`."""

    OPENED = "opened"
    SEEN_AGAIN = "seen_again"
    UNKNOWN = "unknown"
    CALM = "calm"
    RESOLVED = "resolved"
    PENDING = "pending"
    VANISHED = "vanished"


@dataclass(frozen=True, slots=True)
class Changes:
    """The incidents after the interval, each in exactly one place."""

    opened: tuple[Incident, ...] = ()
    seen_again: tuple[Incident, ...] = ()
    unknown: tuple[Incident, ...] = ()  # still open; their evidence could not be seen
    calm: tuple[Incident, ...] = ()  # still open: not found, but not for as long as their rules want
    resolved: tuple[Incident, ...] = ()
    pending: tuple[Incident, ...] = ()  # found, but not as often as their rules want: nobody hears of them
    vanished: tuple[Incident, ...] = ()  # were pending and are not found any more: nothing is kept of them

    @property
    def open(self) -> tuple[Incident, ...]:
        """Everything that fires after the interval."""
        return (*self.opened, *self.seen_again, *self.unknown, *self.calm)

    @property
    def all(self) -> tuple[Incident, ...]:
        """Everything that is to be written."""
        return (*self.open, *self.pending, *self.resolved)


def advance(
    incidents: Iterable[Incident],
    findings: Iterable[Finding],
    facts: IntervalFacts,
    rules: Mapping[str, Rule],
    *,
    cannot_tell: Iterable[CannotTell] = (),
    wider: Iterable[Finding] = (),
    lately_resolved: Iterable[Incident] = (),
) -> Changes:
    """Return what becomes of the incidents of the facts' cluster that are not over, and what the findings begin.

    `rules`: by id, those that looked; an incident of a rule that does not exist any more is resolved.
    `cannot_tell`: what they could not tell; an incident that this may hide stays open.
    `lately_resolved`: incidents that ended while rules still look back to what they were about.
    `wider`: findings that open nothing here and may explain open incidents: those outside of a pattern of groups.
    Judging again the interval that was counted last changes nothing.
    """
    incidents = tuple(incidents)
    shown_until = {_trouble_of(one.subject, rules): one.last_seen_at for one in (*lately_resolved, *incidents)}
    still_open = {_trouble_of(one.subject, rules) for one in incidents}
    found: dict[Subject, Finding] = {}
    for one in findings:
        if not one.ended_before(shown_until.get(_about(one)), is_open=_about(one) in still_open):
            found[_about(one)] = one
        else:  # what came after its end has another cause
            found = {**_explained([one]), **found}
    unanswered = Unanswered(cannot_tell, facts.unseen_broker_names)
    life = _Life(facts, rules, unanswered, GroupRows(facts), _explained((*found.values(), *wider)))
    fates: dict[Fate, list[Incident]] = {fate: [] for fate in Fate}
    just_gone = set()
    for incident in incidents:
        finding = found.pop(_trouble_of(incident.subject, rules), None)
        fate, after = life.not_found(incident) if finding is None else life.found(incident, finding)
        fates[fate].append(after)
        if fate in (Fate.CALM, Fate.RESOLVED) and incident.last_seen_at == incident.counted_until:
            just_gone.add(incident.shown_as)
    for finding in found.values():
        began = opened_by(finding, facts.interval, unanswered.beside(finding), read_at=facts.now)
        if any(replace(began.subject, rule_id=rule_id) in just_gone for rule_id in finding.rule.after):
            began = replace(began, is_pending=True)
        fates[Fate.PENDING if began.is_pending else Fate.OPENED].append(began)
    return Changes(**{fate.value: tuple(those) for fate, those in fates.items()})


@dataclass(frozen=True, slots=True)
class _Life:
    """One interval, and what of it decides on incidents that were there before."""

    facts: IntervalFacts
    rules: Mapping[str, Rule]
    unanswered: Unanswered
    rows: GroupRows
    explained: Mapping[Subject, Finding]

    def found(self, incident: Incident, finding: Finding) -> tuple[Fate, Incident]:
        """Say what becomes of an incident that the interval shows."""
        if self._is_counted(incident):
            return (Fate.PENDING if incident.is_pending else Fate.SEEN_AGAIN), incident
        before = incident.evidence.severity
        if before.rank > finding.severity.rank and (finding.unsure or self._hidden_by(incident) is not None):
            finding = replace(finding, severity=before)
        facts, beside = self.facts, self.unanswered.beside(finding)
        after = seen_again(incident, finding, facts.interval, beside, read_at=facts.now)
        if not incident.is_pending:
            return Fate.SEEN_AGAIN, after
        return (Fate.PENDING if after.is_pending else Fate.OPENED), after

    def not_found(self, incident: Incident) -> tuple[Fate, Incident]:
        """Say what becomes of an incident that no finding is about."""
        if self._is_counted(incident):
            return self._unchanged(incident), incident
        if incident.is_pending:
            is_hidden = not self._is_explained(incident) and self._hidden_by(incident) is not None
            return (Fate.PENDING if is_hidden else Fate.VANISHED), incident
        explained = self.explained.get(_trouble_of(incident.subject, self.rules))
        if explained is None:
            return self._good_or_unseen(incident)
        facts = self.facts
        if explained.rule.id != incident.shown_by:
            return Fate.SEEN_AGAIN, incident.explained(facts.interval)
        same = replace(explained, severity=incident.evidence.severity)  # how bad it is, is told by what explains it
        return Fate.SEEN_AGAIN, seen_again(incident, same, facts.interval, read_at=facts.now)

    def _good_or_unseen(self, incident: Incident) -> tuple[Fate, Incident]:
        interval, rule = self.facts.interval, self.rules.get(incident.shown_by)
        because = self._hidden_by(incident)
        is_early = rule is not None and interval.start - incident.last_seen_at < timedelta(milliseconds=rule.calm_ms)
        if because is not None and is_early:
            # a rule that wants calm may look at times only: that is no reason to call what it found unknown
            return Fate.CALM, replace(incident, end_read_at=incident.end_read_at or self.facts.now)
        if because is not None:
            return Fate.UNKNOWN, incident.unseen(interval, because)
        good = incident.not_seen(interval, self.facts.now)
        wanted = 1 if rule is None or rule.calm_ms else rule.good_cycles
        if self.facts.audited and not incident.evidence.audited:
            return Fate.RESOLVED, good.ended(interval, Sentence("not_confirmed"))
        if is_early or good.good_count < wanted:
            return Fate.CALM, good
        return Fate.RESOLVED, good.ended(interval, resolution(incident, rule, self.rows))

    def _hidden_by(self, incident: Incident) -> str | None:
        rule = self.rules.get(incident.shown_by)
        return unseen_because(incident, rule, self.facts, self.rows) or self.unanswered.hides(incident)

    def _is_explained(self, incident: Incident) -> bool:
        return _trouble_of(incident.subject, self.rules) in self.explained

    def _is_counted(self, incident: Incident) -> bool:
        return incident.counted_until >= self.facts.interval.start

    @staticmethod
    def _unchanged(incident: Incident) -> Fate:
        if incident.is_pending:
            return Fate.PENDING
        return Fate.UNKNOWN if incident.unknown_since is not None else Fate.CALM


def _explained(findings: Iterable[Finding]) -> Mapping[Subject, Finding]:
    """Return what others explain, by what it is about; of one trouble its last stage."""
    explained = [one for finding in findings for one in finding.explained]
    return {_about(one): one for one in sorted(explained, key=_stage_of)}


def _stage_of(finding: Finding) -> int:
    return 0 if finding.rule.stage is None else finding.rule.stage.place


def _about(finding: Finding) -> Subject:
    """Return what a finding is about, the same for all stages of a trouble."""
    return replace(subject_of(finding), rule_id=finding.rule.trouble)


def _trouble_of(subject: Subject, rules: Mapping[str, Rule]) -> Subject:
    rule = rules.get(subject.rule_id)
    return subject if rule is None else replace(subject, rule_id=rule.trouble)


def subject_of(finding: Finding) -> Subject:
    """Return what a finding is about."""
    return Subject(finding.cluster, finding.rule.id, finding.consumer_group, finding.topic)


def evidence_of(finding: Finding, cannot_tell: Sequence[CannotTell] = ()) -> Evidence:
    """Keep of a finding what readers and the next judgement need."""
    return Evidence(
        severity=finding.severity,
        state=finding.state,
        variant=finding.variant,
        summary=finding.summary,
        cause=finding.cause,
        do_next=finding.do_next,
        figures={name: finding.figures.get(name) for name in finding.rule.table},
        queues=finding.queues[:EVIDENCE_KEPT],
        queue_count=len(finding.queues),
        broker_names=finding.all_broker_names,
        explains=finding.explains[:EVIDENCE_KEPT],
        explained_count=len(finding.explains),
        cannot_tell=tuple(cannot_tell[:EVIDENCE_KEPT]),
        cannot_tell_count=len(cannot_tell),
        text_figures=finding.text_figures,
        commands=finding.commands,
        rule_id=finding.rule.id,
        stage=_stage_of(finding),
        stacks=finding.stacks,
        audited=finding.audited,
    )


def opened_by(
    finding: Finding, interval: Interval, cannot_tell: Sequence[CannotTell] = (), *, read_at: datetime | None = None
) -> Incident:
    """Begin an incident; the same finding in the same interval always gets the same id. `read_at`: of its round."""
    subject = subject_of(finding)
    return Incident(
        incident_id=digest_of(subject.key, interval.name)[:16],
        subject=subject,
        opened_at=interval.start,
        last_seen_at=interval.start,
        seen_count=1,
        evidence=evidence_of(finding, cannot_tell),
        peak_figure=finding.rule.peak,
        peak=_peak_of(finding),
        is_pending=finding.rule.bad_cycles > 1,
        counted_at=interval.start,
        first_read_at=read_at,
        newest_read_at=read_at,
    )


def seen_again(
    incident: Incident,
    finding: Finding,
    interval: Interval,
    cannot_tell: Sequence[CannotTell] = (),
    *,
    read_at: datetime | None = None,
) -> Incident:
    """Take over what a newer finding shows; a pending incident opens when its rule has seen enough.

    Rules look back for half an hour: the first moment of what goes on for longer is the one that was seen first.
    """
    finding = replace(finding, figures={**finding.figures, **_first_moments(incident, finding)})
    evidence = evidence_of(finding, cannot_tell)
    evidence = replace(evidence, stacks=evidence.stacks or incident.evidence.stacks)
    if evidence.stage > incident.evidence.stage:
        incident = replace(incident, peak_figure=finding.rule.peak, peak=None)
    peak = _peak_of(finding) if incident.peak_figure == finding.rule.peak else None
    return replace(
        incident,
        last_seen_at=interval.start,
        counted_at=interval.start,
        newest_read_at=read_at,
        end_read_at=None,
        seen_count=incident.seen_count + 1,
        good_count=0,
        is_pending=incident.is_pending and incident.seen_count + 1 < finding.rule.bad_cycles,
        evidence=evidence,
        peak=peak if incident.peak is None else max(incident.peak, incident.peak if peak is None else peak),
        unknown_since=None,
        unknown_because=None,
    )


def _first_moments(incident: Incident, finding: Finding) -> dict[str, Figure]:
    known = {**incident.evidence.figures, **incident.evidence.text_figures}
    return {
        name: min(before, figure)
        for name, figure in finding.figures.items()
        if name.startswith("first_")
        and isinstance(figure, datetime)
        and isinstance(before := known.get(name), datetime)
    }


def _peak_of(finding: Finding) -> int | None:
    """Return the figure by which an incident's worst moment is known; of "at least" so many, these."""
    figure = finding.figures.get(finding.rule.peak) if finding.rule.peak else None
    if isinstance(figure, Sentence):
        figure = figure.figures.get("count")
    return figure if isinstance(figure, int) else None
