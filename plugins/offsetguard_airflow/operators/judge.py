"""Task: judge the published facts of one interval."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.definitions.context import Context
from airflow.sdk.exceptions import AirflowFailException

from offsetguard.deliver.messages.wording import harmless
from offsetguard.model.errors import ConfigError
from offsetguard_airflow.defaults import OUTBOX, OUTBOX_CHANGES
from offsetguard_airflow.task_inputs import FactsToJudge, check_group_pattern, interval_at, open_workspace

if TYPE_CHECKING:
    from offsetguard.decide.judge import JudgeReport

EVERY_GROUP = "*"
LINES_PER_LIST = 20  # of what one finding explains, and of what could not be told
_LINE_LIMIT = 4_000  # characters


class JudgeOperator(BaseOperator):
    """Turn facts into incidents and messages, in one transaction of our database."""

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
        **kwargs: Any,
    ) -> None:
        """`publish_task_id`: of the task that publishes the interval meanwhile.

        `group_pattern`: glob on consumer groups. `rehearsal`: a dry run, nothing is written. `replay`: history.
        `notify_late`: tell of history, too, and say that it is late. A template gives the three as text, "True" or
        "False". (`dry_run` is a method of all operators.)
        """
        kwargs.setdefault("map_index_template", "{{ task.cluster }}")
        kwargs.setdefault("outlets", [OUTBOX_CHANGES])
        super().__init__(**kwargs)
        self.cluster = cluster
        self.interval_start = interval_start
        self.publish_task_id = publish_task_id
        self.group_pattern = group_pattern
        self.rehearsal = rehearsal
        self.replay = replay
        self.notify_late = notify_late

    def execute(self, context: Context) -> None:
        """Judge, and announce the outbox when messages were written."""
        from offsetguard.decide.judge import judge_interval
        from offsetguard.facts.changes import catch_up, record_changes
        from offsetguard.lake.reading import FactReader
        from offsetguard.store.database import database_time

        ours = open_workspace(self.log.error)
        interval, is_rehearsal = interval_at(self.interval_start), str(self.rehearsal) == "True"
        facts = FactsToJudge(
            ours,
            self.cluster,
            interval,
            is_history=str(self.replay) == "True",
            publication_state=lambda: state_beside(context["ti"], self.publish_task_id),
            say=self.log.warning,
        ).read()
        pattern = None if self.group_pattern == EVERY_GROUP else self.group_pattern
        if pattern is not None:
            try:
                check_group_pattern(pattern, facts)
            except ConfigError as error:
                raise AirflowFailException(str(error)) from None  # trying again cannot help
        reader = FactReader(ours.workspace, ours.engine)
        if not is_rehearsal:
            record_changes(reader, ours.engine, self.cluster, interval.start)
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
        if not is_rehearsal and (count := catch_up(reader, ours.engine, self.cluster, database_time(ours.engine))):
            self.log.info("wrote down what changed in %d intervals that were published lately", count)
        self._log_report(report)
        if report.messages and not report.dry_run:
            context["outlet_events"][OUTBOX_CHANGES].add(OUTBOX)

    def _log_report(self, report: JudgeReport) -> None:
        for level, line in report_lines(report):
            self.log.log(level, "%s", line)


def state_beside(ti: Any, task_id: str) -> str | None:
    """Return the state of another task of the same run and cluster."""
    states = ti.get_task_states(ti.dag_id, map_index=ti.map_index, task_ids=[task_id], run_ids=[ti.run_id])
    return next(iter(states.get(ti.run_id, {}).values()), None)


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
        about = f"team {key.group.team}, rule {key.group.rule_id}, {key.channel.value} to {key.receiver}"
        yield logging.INFO, f"{about}: {decision.decision.reason.value}{muted}"
    for message in report.messages:
        yield logging.INFO, f"message by {message.channel.value} to {message.receiver} {verb} written"


def _rest(entries: Sequence[object]) -> Iterator[tuple[int, str]]:
    if len(entries) > LINES_PER_LIST:
        yield logging.INFO, f"  and {len(entries) - LINES_PER_LIST} more"
