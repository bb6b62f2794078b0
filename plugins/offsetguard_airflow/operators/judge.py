"""Task: judge the published facts of one interval, cluster by cluster."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.configuration import conf
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException

from offsetguard.deliver.messages.wording import harmless
from offsetguard.model.errors import ConfigError
from offsetguard.model.intervals import Interval
from offsetguard.store import published_intervals
from offsetguard_airflow.defaults import OUTBOX, OUTBOX_CHANGES
from offsetguard_airflow.task_inputs import (
    FactsToJudge,
    Opened,
    check_group_pattern,
    chosen_clusters,
    has_landed,
    interval_at,
    open_workspace,
)
from offsetguard_airflow.triggers import FactsTrigger, state_of

if TYPE_CHECKING:
    from offsetguard.decide.judge import JudgeReport
    from offsetguard.facts.interval import IntervalFacts

EVERY_GROUP = "*"
LINES_PER_LIST = 20  # of what one finding explains, and of what could not be told
_LINE_LIMIT = 4_000  # characters
_POLL_S = 1.0


class JudgeOperator(BaseOperator):
    """Turn facts into incidents and messages, each cluster in one transaction of our database, once it is published.

    One that cannot be judged turns the task red at its end, by name; what was judged of the others stays.
    """

    template_fields: Sequence[str] = (
        "cluster",
        "interval_start",
        "group_pattern",
        "rehearsal",
        "replay",
        "notify_late",
    )
    ui_color = "#fdebd0"

    def __init__(
        self,
        *,
        cluster: str,
        interval_start: str,
        publish_task_id: str,
        group_pattern: str = EVERY_GROUP,
        rehearsal: bool | str = False,
        replay: bool | str = False,
        notify_late: bool | str = False,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        """`cluster`: its name, or "all". `publish_task_id`: of the task that publishes the interval meanwhile.

        `group_pattern`: glob on consumer groups. `rehearsal`: a dry run, nothing is written. `replay`: history.
        `notify_late`: tell of history, too, and say that it is late. A template gives the three as text, "True" or
        "False". (`dry_run` is a method of all operators.) `deferrable`: the triggerer waits instead of a worker.
        """
        kwargs.setdefault("outlets", [OUTBOX_CHANGES])
        super().__init__(**kwargs)
        self.cluster = cluster
        self.interval_start = interval_start
        self.publish_task_id = publish_task_id
        self.group_pattern = group_pattern
        self.rehearsal = rehearsal
        self.replay = replay
        self.notify_late = notify_late
        self.deferrable = deferrable

    def execute(self, context: Context) -> None:
        """Judge what has landed, and announce the outbox when messages were written."""
        ours, interval = open_workspace(self.log.error), interval_at(self.interval_start)
        self._judge_all(context, ours, self._landed(ours, interval), {}, wrote=False)

    def resume(self, context: Context, event: Any, *, clusters: list[str], failed: dict[str, str], wrote: bool) -> None:
        """Go on after the triggerer has waited. `failed`, `wrote`: of the clusters that were judged before."""
        self._judge_all(context, open_workspace(self.log.error), clusters, failed, wrote=wrote)

    def _judge_all(
        self, context: Context, ours: Opened, clusters: list[str], failed: dict[str, str], *, wrote: bool
    ) -> None:
        interval = interval_at(self.interval_start)
        waiting = {cluster: self._facts_of(context, ours, cluster, interval) for cluster in clusters}
        lasting = 0
        while waiting:
            for cluster, one in tuple(waiting.items()):
                try:
                    facts = one.look()
                    if facts is None:
                        continue
                    wrote |= self._judge(ours, facts)
                except Exception as error:  # one cluster's trouble is none of the others'
                    self.log.exception("%s: not judged", cluster)
                    failed[cluster] = str(error)
                    lasting += isinstance(error, ConfigError)
                del waiting[cluster]
            if waiting and self.deferrable:
                so_far = {"clusters": list(waiting), "failed": failed, "wrote": wrote}
                self.defer(trigger=self._trigger(context, waiting), method_name=self.resume.__name__, kwargs=so_far)
            elif waiting:
                time.sleep(_POLL_S)
        if wrote:
            context["outlet_events"][OUTBOX_CHANGES].add(OUTBOX)
        if failed:
            said = "; ".join(f"{cluster}: {error}" for cluster, error in failed.items())
            # a pattern that matches in none does not get better by trying again
            raise AirflowFailException(said) if lasting == len(failed) else AirflowException(said)

    def _trigger(self, context: Context, clusters: Collection[str]) -> FactsTrigger:
        ti = context["ti"]
        return FactsTrigger(
            clusters=list(clusters),
            interval_start=self.interval_start,
            is_history=str(self.replay) == "True",
            dag_id=ti.dag_id,
            run_id=ti.run_id,
            publish_task_id=self.publish_task_id,
        )

    def _landed(self, ours: Opened, interval: Interval) -> list[str]:
        """Return the clusters that there is something to judge of."""
        found = []
        for cluster in chosen_clusters(self.cluster):
            if has_landed(ours.workspace, cluster, interval) or published_intervals.get(ours.engine, cluster, interval):
                found.append(cluster)
            else:
                self.log.warning("%s: nothing has landed of %s: not judged", cluster, interval.name)
        if not found:
            raise AirflowSkipException(f"nothing has landed of {interval.name}")
        return found

    def _facts_of(self, context: Context, ours: Opened, cluster: str, interval: Interval) -> FactsToJudge:
        ti = context["ti"]
        return FactsToJudge(
            ours,
            cluster,
            interval,
            is_history=str(self.replay) == "True",
            publication_state=lambda: state_of(ti, ti.dag_id, ti.run_id, self.publish_task_id),
            say=self.log.warning,
        )

    def _judge(self, ours: Opened, facts: IntervalFacts) -> bool:
        """Judge one cluster; returns whether there is something to deliver; what is open is posted each minute."""
        from offsetguard.decide.judge import judge_interval
        from offsetguard.facts.changes import catch_up, record_changes
        from offsetguard.lake.reading import FactReader
        from offsetguard.store.database import database_time

        pattern = None if self.group_pattern == EVERY_GROUP else self.group_pattern
        if pattern is not None:
            check_group_pattern(pattern, facts)
        reader, is_rehearsal = FactReader(ours.workspace, ours.engine), str(self.rehearsal) == "True"
        if not is_rehearsal:
            record_changes(reader, ours.engine, facts.cluster, facts.interval.start)
        report = judge_interval(
            ours.engine,
            replace(facts, config_problem=ours.config_problem),
            ours.config,
            now=database_time(ours.engine),
            dry_run=is_rehearsal,
            replay=str(self.replay) == "True",
            notify_late=str(self.notify_late) == "True",
            group_pattern=pattern,
        )
        if not is_rehearsal and (count := catch_up(reader, ours.engine, facts.cluster, database_time(ours.engine))):
            self.log.info("%s: wrote down what changed in %d intervals published lately", facts.cluster, count)
        self._log_report(report)
        return bool(report.messages or ours.config.delivery.alertmanagers) and not report.dry_run

    def _log_report(self, report: JudgeReport) -> None:
        for level, line in report_lines(report):
            self.log.log(level, "%s", line)


def report_lines(report: JudgeReport) -> Iterator[tuple[int, str]]:
    """Yield what a judgement came to, as lines with their levels; no name from the cluster can steer a terminal."""
    return ((level, harmless(line, _LINE_LIMIT)) for level, line in _lines(report))


def _lines(report: JudgeReport) -> Iterator[tuple[int, str]]:
    if report.already_judged:
        yield logging.INFO, f"{report.interval.name} was judged before: nothing is changed or sent"
    for finding in report.findings:
        about = " ".join(name for name in (finding.consumer_group, finding.topic) if name)
        level = logging.WARNING if finding.severity.is_sent else logging.INFO
        yield level, f"{finding.severity.value} {finding.rule.id} {about}: {finding.cause}"
        for one in finding.explains[:LINES_PER_LIST]:
            yield logging.INFO, f"  also explains {one.rule_id}: {one.summary}"
        yield from _rest(finding.explains)
    for entry in report.cannot_tell[:LINES_PER_LIST]:
        yield logging.INFO, f"cannot tell: {entry.rule_id} {entry.consumer_group or ''}: {entry.because}"
    yield from _rest(report.cannot_tell)
    verb = "would be" if report.dry_run else "were"
    yield logging.INFO, f"{len(report.opened)} incidents {verb} opened, {len(report.resolved)} resolved"
    for decision in report.decisions:
        key, muted = decision.key, f", {decision.muted_count} muted" if decision.muted_count else ""
        about = f"team {key.group.team}, rule {key.group.rule_id}, {key.channel} to {key.receiver}"
        yield logging.INFO, f"{about}: {decision.decision.reason.value}{muted}"
    for message in report.messages:
        yield logging.INFO, f"message by {message.channel} to {message.receiver} {verb} written"


def _rest(entries: Sequence[object]) -> Iterator[tuple[int, str]]:
    if len(entries) > LINES_PER_LIST:
        yield logging.INFO, f"  and {len(entries) - LINES_PER_LIST} more"
