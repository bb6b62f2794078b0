"""Task: judge the published facts of one interval."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from offsetguard_airflow.assets import OUTBOX, OUTBOX_CHANGES
from offsetguard_airflow.run_interval import interval_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk.definitions.context import Context

    from offsetguard.pipeline.judge import JudgeReport

EVERY_GROUP = "*"
LINES_PER_LIST = 20  # of what one finding explains, and of what could not be told


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
        group_pattern: str = EVERY_GROUP,
        rehearsal: bool | str = False,
        replay: bool | str = False,
        notify_late: bool | str = False,
        **kwargs: Any,
    ) -> None:
        """`group_pattern`: glob on consumer groups. `rehearsal`: a dry run, nothing is written. `replay`: history.

        `notify_late`: tell of history, too, and say that it is late. A template gives the three as text, "True" or
        "False". (`dry_run` is a method of all operators.)
        """
        kwargs.setdefault("map_index_template", "{{ task.cluster }}")
        kwargs.setdefault("outlets", [OUTBOX_CHANGES])
        super().__init__(**kwargs)
        self.cluster = cluster
        self.interval_start = interval_start
        self.group_pattern = group_pattern
        self.rehearsal = rehearsal
        self.replay = replay
        self.notify_late = notify_late

    def execute(self, context: Context) -> None:
        """Judge, and announce the outbox when messages were written."""
        from offsetguard.errors import ConfigError
        from offsetguard.pipeline.judge import judge_interval
        from offsetguard.store.database import open_database
        from offsetguard.workspace import Workspace
        from offsetguard_airflow.configuration import configuration
        from offsetguard_airflow.facts import check_group_pattern, read_facts

        workspace = Workspace.from_environment()
        in_use = configuration(workspace, self.log.error)
        engine = open_database(workspace.database_url)
        facts = read_facts(workspace, engine, self.cluster, interval_at(self.interval_start))
        pattern = None if self.group_pattern == EVERY_GROUP else self.group_pattern
        if pattern is not None:
            try:
                check_group_pattern(pattern, facts)
            except ConfigError as error:
                raise AirflowFailException(str(error)) from None  # trying again cannot help
        report = judge_interval(
            engine,
            replace(facts, config_problem=in_use.problem),
            in_use.config,
            now=datetime.now(UTC),
            dry_run=str(self.rehearsal) == "True",
            replay=str(self.replay) == "True",
            notify_late=str(self.notify_late) == "True",
            group_pattern=pattern,
        )
        self._log_report(report)
        if report.messages and not report.dry_run:
            context["outlet_events"][OUTBOX_CHANGES].add(OUTBOX)

    def _log_rest(self, entries: Sequence[object]) -> None:
        if len(entries) > LINES_PER_LIST:
            self.log.info("  and %d more", len(entries) - LINES_PER_LIST)

    def _log_report(self, report: JudgeReport) -> None:
        if report.already_judged:
            self.log.info("%s was judged before: nothing is changed or sent", report.interval.name)
        for finding in report.findings:
            about = " ".join(name for name in (finding.consumer_group, finding.topic) if name)
            level = logging.WARNING if finding.severity.is_sent else logging.INFO
            self.log.log(level, "%s %s %s: %s", finding.severity.value, finding.rule.id, about, finding.cause)
            for one in finding.explains[:LINES_PER_LIST]:
                self.log.info("  also explains %s: %s", one.rule_id, one.summary)
            self._log_rest(finding.explains)
        for entry in report.cannot_tell[:LINES_PER_LIST]:
            self.log.info("cannot tell: %s %s: %s", entry.rule_id, entry.consumer_group or "", entry.because)
        self._log_rest(report.cannot_tell)
        verb = "would be" if report.dry_run else "were"
        self.log.info("%d incidents %s opened, %d resolved", len(report.opened), verb, len(report.resolved))
        for decision in report.decisions:
            key, muted = decision.key, f", {decision.muted_count} muted" if decision.muted_count else ""
            about = f"team {key.group.team}, rule {key.group.rule_id}, {key.channel.value} to {key.receiver}"
            self.log.info("%s: %s%s", about, decision.decision.reason.value, muted)
        for message in report.messages:
            self.log.info("message by %s to %s %s written", message.channel.value, message.receiver, verb)
