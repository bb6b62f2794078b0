"""What the judge writes into its task's log: names that brokers gave stand there and can do nothing."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime

from offsetguard.catalogue.text import named_figures
from offsetguard.decide.judge import JudgeReport
from offsetguard.judge.rule import Finding
from offsetguard.judge.rules.consumer_offline import RULE
from offsetguard.model.intervals import Interval
from offsetguard.model.verdicts import CannotTell, Severity
from offsetguard.store.models import Mode
from offsetguard_airflow.operators.judge import LINES_PER_LIST, report_lines

HOSTILE = "billing\x1b[2J\r\nERROR all is lost\u202e\0"
SHOWN = r"billing\x1b[2J\r\nERROR all is lost\u202e\x00"


def test_names_and_texts_of_a_cluster_cannot_steer_who_reads_the_log() -> None:
    named = named_figures(RULE.texts["default"].cause) - {"cluster", "consumer_group", "topic"}
    other = Finding(RULE, "demo", HOSTILE, "orders", Severity.CRITICAL, figures=dict.fromkeys(named))
    finding = replace(other, explained=(other,) * (LINES_PER_LIST + 1))
    untold = CannotTell("lock_contention", HOSTILE, frozenset(), HOSTILE)
    interval = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
    report = JudgeReport("demo", interval, False, Mode.LIVE, False, (finding,), (untold,))

    lines = list(report_lines(report))

    assert all(line.isprintable() for _, line in lines)
    level, first = lines[0]
    assert level == logging.WARNING
    assert first.startswith(f"critical consumer_offline {SHOWN} orders: ")
    said = [line for _, line in lines]
    assert sum(line.startswith(f"  also explains consumer_offline: {SHOWN} ") for line in said) == LINES_PER_LIST
    assert "  and 1 more" in said
    assert f"cannot tell: lock_contention {SHOWN}: {SHOWN}" in said
    assert said[-1] == "0 incidents were opened, 0 resolved"
