"""JUDGE and DECIDE: facts -> findings -> incidents -> messages in the outbox, in one transaction of our database.

Judging an interval again changes nothing and sends nothing: its row in `judged_intervals` is written in the same
transaction, and judges of one cluster wait for each other. An interval older than the newest judged one is history: it
cannot change what is known since. An interval that lies ahead of the present does not make it history: the clock that
judged it was wrong (`own_health.py` tells). One that comes late (`notify_within_ms`) changes incidents and sends
nothing. A replay (a backfill) is history whatever its interval, and never takes the place of a judgement that is still
to come. With `notify_late` both tell what they find, marked as late, as long as no newer interval was judged.
"""

import fnmatch
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from offsetguard.config import Config
from offsetguard.decide.incidents.history import history_of
from offsetguard.decide.incidents.lifecycle import Changes, advance
from offsetguard.decide.outlooks import Outlooks, keep_score
from offsetguard.decide.planning import GroupDecision, Plan, PlannedMessage, plan
from offsetguard.facts.interval import IntervalFacts
from offsetguard.judge.evidence.judged_groups import clients_known
from offsetguard.judge.registry import RULES, Judgement
from offsetguard.judge.registry import judge as judge_facts
from offsetguard.judge.rule import Finding
from offsetguard.judge.windows.windows import judge_queues
from offsetguard.model.incident import BEFORE, MOST_CHANGES, Change, Incident, IncidentEvent, worst_first
from offsetguard.model.intervals import Interval
from offsetguard.model.verdicts import CannotTell
from offsetguard.store import changes as change_store
from offsetguard.store import incidents as incident_store
from offsetguard.store import judge_memory, judged_intervals, notifications, outbox
from offsetguard.store.database import reading, serialize, writing
from offsetguard.store.models import JudgedIntervalRow, Mode

EVERY_GROUP = "*"
MOST_ASKED = 100  # incidents that one interval opens: what changed is read for the worst of them
LOOK_BACK = timedelta(hours=2)
"""Longer than rules look back by default (30 min), and than an end takes: what ended is not opened anew."""


@dataclass(frozen=True, slots=True)
class JudgeReport:
    """What judging an interval found, changed and decided; with `dry_run`, what it would have."""

    cluster: str
    interval: Interval
    dry_run: bool
    mode: Mode
    already_judged: bool  # nothing was changed or sent
    findings: tuple[Finding, ...]  # worst first
    cannot_tell: tuple[CannotTell, ...] = ()  # questions that rules could not answer
    changes: Changes = field(default_factory=Changes)
    history: tuple[IncidentEvent, ...] = ()
    planned: Plan = field(default_factory=Plan)

    @property
    def opened(self) -> tuple[Incident, ...]:
        """Incidents that this interval opened."""
        return self.changes.opened

    @property
    def resolved(self) -> tuple[Incident, ...]:
        """Incidents that this interval ended."""
        return self.changes.resolved

    @property
    def decisions(self) -> tuple[GroupDecision, ...]:
        """What was decided for every receiver that might have been notified, and why."""
        return self.planned.decisions

    @property
    def messages(self) -> tuple[PlannedMessage, ...]:
        """Messages, one per receiver, that this interval put into the outbox."""
        return self.planned.messages


def judge_interval(
    engine: Engine,
    facts: IntervalFacts,
    config: Config,
    *,
    now: datetime,
    dry_run: bool = False,
    replay: bool = False,
    notify_late: bool = False,
    group_pattern: str | None = None,
) -> JudgeReport:
    """Judge one interval of one cluster.

    `group_pattern`: a glob; findings about other groups, or about the whole cluster, are left alone, and the interval
    stays open for a judgement of all groups. `dry_run`: reads only. `replay`: changes no incident and sends nothing.
    `notify_late`: an interval that comes late, or is replayed, and is newer than all that were judged is sent all the
    same, in messages that say so.
    """
    pattern = None if group_pattern in (None, "", EVERY_GROUP) else group_pattern
    with reading(engine) as session:
        facts = replace(
            facts,
            broker_marks=judge_memory.marks_before(session, facts.cluster, facts.now),
            absences=judge_memory.absences_before(session, facts.cluster, facts.now),
            unreached=outbox.unreached(
                session, facts.cluster, facts.now - timedelta(milliseconds=config.delivery.undelivered_after_ms)
            ),
        )
    facts = judge_queues(facts, config)
    judgement = judge_facts(facts, config)
    with reading(engine) if dry_run else writing(engine) as session:
        if not dry_run:
            serialize(session, f"judge {facts.cluster}")
            if judged_intervals.mark_ahead(session, facts.cluster, now):
                notifications.not_after(session, facts.cluster, facts.interval.start)
        mode = _mode(session, facts, config, now, replay=replay, notify_late=notify_late)
        report = JudgeReport(
            facts.cluster,
            facts.interval,
            dry_run,
            mode,
            judged_intervals.is_judged(session, facts.cluster, facts.interval),
            findings=tuple(one for one in judgement.findings if _matches(one.consumer_group, pattern)),
            cannot_tell=tuple(one for one in judgement.cannot_tell if _matches(one.consumer_group, pattern)),
        )
        if not report.already_judged and mode is not Mode.HISTORY:
            ahead = judged_intervals.newest_ahead(session, facts.cluster, now) is not None
            report = _advanced(session, report, facts, judgement=judgement, pattern=pattern, ahead=ahead)
            report = _with_changes(session, report, facts)
            if mode is Mode.LIVE or notify_late:
                report = _planned(session, report, facts, config, pattern=pattern, now=now)
        if not dry_run and not report.already_judged and not _is_still_to_come(session, report, now):
            _write(session, report, complete=pattern is None, now=now)
            if pattern is None and report.mode is not Mode.HISTORY:
                keep_score(session, facts)
                judge_memory.record_marks(session, facts.cluster, facts.now, facts.brokers)
                judge_memory.record_absences(session, facts.cluster, facts.now, clients_known(facts))
    return report


def _advanced(
    session: Session,
    report: JudgeReport,
    facts: IntervalFacts,
    *,
    judgement: Judgement,
    pattern: str | None,
    ahead: bool,
) -> JudgeReport:
    """Let the findings act on the incidents; `ahead`: some interval was judged that lies ahead of the present."""
    concerned = [
        one.as_before(facts.interval) if ahead else one
        for one in incident_store.open_incidents(session, facts.cluster)
        if _matches(one.subject.consumer_group, pattern)
    ]
    changes = advance(
        concerned,
        report.findings,
        facts,
        RULES,
        cannot_tell=judgement.cannot_tell,
        wider=judgement.findings,
        lately_resolved=incident_store.resolved_since(session, facts.cluster, facts.now - LOOK_BACK),
    )
    return replace(report, changes=changes, history=history_of(concerned, changes, facts.now))


def _with_changes(session: Session, report: JudgeReport, facts: IntervalFacts) -> JudgeReport:
    """Say of each incident that people hear of what changed in the hour before it; the worst MOST_ASKED of them."""
    sent = sorted((one for one in report.opened if one.evidence.severity.is_sent), key=worst_first)[:MOST_ASKED]
    known = {}
    for incident in sent:
        about, since = _about(incident, facts), facts.now - BEFORE
        found = change_store.around(session, facts.cluster, since, facts.now, about, limit=MOST_CHANGES)
        known[incident.incident_id] = replace(incident, changes=tuple(Change(one.at, one.what) for one in found))
    opened = tuple(known.get(one.incident_id, one) for one in report.opened)
    return replace(report, changes=replace(report.changes, opened=opened))


def _about(incident: Incident, facts: IntervalFacts) -> change_store.About:
    """Return whose changes concern an incident: its group, its topics, and the brokers that it is on."""
    subject = incident.subject
    of_group = {row.topic for row in facts.groups if row.consumer_group == subject.consumer_group}
    topics = frozenset({subject.topic} if subject.topic is not None else of_group)
    return change_store.About(subject.consumer_group, topics, incident.evidence.broker_names)


def _planned(
    session: Session, report: JudgeReport, facts: IntervalFacts, config: Config, *, pattern: str | None, now: datetime
) -> JudgeReport:
    """Decide who is notified of what."""
    left_alone = [
        one
        for one in (incident_store.open_incidents(session, facts.cluster) if pattern is not None else ())
        if one.is_open and not _matches(one.subject.consumer_group, pattern)
    ]
    planned = plan(
        session,
        facts.cluster,
        facts.interval,
        open_incidents=(*report.changes.open, *left_alone),
        resolved=report.changes.resolved,
        config=config,
        now=now,
        outlooks=Outlooks(facts),
        late=report.mode is Mode.LATE,
    )
    return replace(report, planned=planned, history=(*report.history, *planned.history))


def _is_still_to_come(session: Session, report: JudgeReport, now: datetime) -> bool:
    """Whether a replayed interval is newer than all that were judged: its own run may yet have to warn."""
    newest = judged_intervals.newest_interval(session, report.cluster, now)
    return report.mode is Mode.HISTORY and (newest is None or report.interval > newest)


def _mode(
    session: Session, facts: IntervalFacts, config: Config, now: datetime, *, replay: bool, notify_late: bool
) -> Mode:
    newest = judged_intervals.newest_interval(session, facts.cluster, now)
    if (newest is not None and facts.interval <= newest) or (replay and not notify_late):
        return Mode.HISTORY
    if replay or now - facts.interval.end > timedelta(milliseconds=config.delivery.notify_within_ms):
        return Mode.LATE
    return Mode.LIVE


def _write(session: Session, report: JudgeReport, *, complete: bool, now: datetime) -> None:
    incident_store.save(session, report.changes.all)
    incident_store.save(session, report.planned.escalated)
    incident_store.forget(session, [one.incident_id for one in report.changes.vanished])
    incident_store.record_events(session, report.history)
    notifications.save(session, report.planned.notified)
    for message in report.messages:
        outbox.enqueue(
            session,
            idempotency_key=message.idempotency_key,
            channel=message.channel,
            receiver=message.receiver,
            view=message.view,
            now=now,
        )
    if not complete:
        return
    judged_intervals.record(
        session,
        JudgedIntervalRow(
            cluster=report.cluster,
            interval_start=report.interval.start,
            judged_at=now,
            mode=report.mode,
            finding_count=len(report.findings),
            opened_count=len(report.opened),
            resolved_count=len(report.resolved),
            message_count=len(report.messages),
        ),
    )


def _matches(consumer_group: str | None, pattern: str | None) -> bool:
    return pattern is None or (consumer_group is not None and fnmatch.fnmatchcase(consumer_group, pattern))
