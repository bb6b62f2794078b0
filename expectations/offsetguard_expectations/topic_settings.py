"""Invariants of `topic_settings`: what masters say that a topic is."""

from __future__ import annotations

from offsetguard.model.verdicts import Severity
from offsetguard.tables import TOPIC_SETTINGS
from offsetguard_expectations.invariant import Invariant, ViolationMeans

SETTINGS_IN_RANGE = Invariant(
    id="OG-A11",
    title="Queue numbers and permissions of topics are in their range",
    violation="A topic has settings that cannot be",
    table=TOPIC_SETTINGS,
    violation_means=ViolationMeans.CORRUPT,
    severity=Severity.WARNING,
    applies_when="TRUE",
    holds_when="read_queue_nums >= 0 AND write_queue_nums >= 0 AND perm BETWEEN 0 AND 15",
    example=(
        "topic || ' on ' || broker_name || ': ' || read_queue_nums || ' read queues, ' || write_queue_nums"
        " || ' write queues, permission ' || perm"
    ),
    meaning=(
        "A topic has fewer than 0 queues, or a permission that is no sum of 8 (priority), 4 (read), 2 (write) and 1"
        " (inherit). `topics.json` of the broker was edited by hand or is damaged, or the answer was misread by us."
    ),
    do_next="Look at the row in the table `quarantine` and at `config/topics.json` of that broker.",
)

INVARIANTS = (SETTINGS_IN_RANGE,)
