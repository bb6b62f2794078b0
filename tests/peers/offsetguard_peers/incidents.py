"""Incidents for tests of what is decided about them: whatever is not named is of no importance there."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from offsetguard.model.incident import Evidence, Incident, Subject
from offsetguard.model.verdicts import Severity

OPENED_AT = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
_EVIDENCE = Evidence(
    severity=Severity.WARNING,
    state="ANOMALY",
    variant="default",
    summary="something is wrong",
    cause="nobody knows why",
    do_next="look",
    figures={},
    queues=(),
    queue_count=0,
    broker_names=frozenset(),
)


def an_incident(
    rule_id: str = "accumulation",
    *,
    incident_id: str = "i1",
    cluster: str = "demo",
    consumer_group: str | None = "billing",
    topic: str | None = "orders",
    severity: Severity = Severity.WARNING,
    variant: str = "default",
    brokers: tuple[str, ...] = (),
    **more: Any,
) -> Incident:
    """Return an open incident; `more`: further fields of Incident."""
    evidence = replace(_EVIDENCE, severity=severity, variant=variant, broker_names=frozenset(brokers))
    fields = {"opened_at": OPENED_AT, "last_seen_at": OPENED_AT, "seen_count": 1, **more}
    return Incident(incident_id, Subject(cluster, rule_id, consumer_group, topic), evidence=evidence, **fields)
