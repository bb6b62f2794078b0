"""Messages that another release wrote are read: one with further fields, and one that lacks what came later."""

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from offsetguard.model import views
from offsetguard.model.digest import digest
from offsetguard_peers.cases.messages import VIEW

DAY = datetime(2026, 11, 21, tzinfo=UTC)
REPORT = views.DailyReportView(
    team="orders",
    severity="info",
    interval_start=DAY,
    ends_at=DAY + timedelta(days=1),
    day=date(2026, 11, 21),
    thread_key="thread",
    forecasts=(views.ForecastQuality(cluster="orders-cluster", kind="drain", inside=17, early=1, late=2, void=4),),
)
EVERY_KIND = pytest.mark.parametrize(
    "view", [VIEW, digest([VIEW], thread_key="thread"), REPORT], ids=["message", "digest", "daily report"]
)
_ADDRESSED = {"team", "cluster", "rule_id", "severity", "interval_start", "thread_key"}
_CAUSE = {"rule_id", "title", "severity", "reason", "thread_key"}
# What each record has had from the first release on. Whatever comes later has a default: see `model.views`.
ALWAYS_THERE: dict[type[views.Record], set[str]] = {
    views.FigureView: {"label", "value"},
    views.QueueView: {"topic", "broker_name", "queue_id", "figures"},
    views.LagPoint: {"at", "lag"},
    views.IncidentView: {"incident_id", "consumer_group", "topic", "severity", "state", "summary", "cause", "do_next"}
    | {"opened_at", "last_seen_at"},
    views.Cause: _CAUSE,
    views.MessageView: _ADDRESSED | _CAUSE,
    views.DigestSection: _CAUSE,
    views.DigestView: _ADDRESSED - {"rule_id"} | {"sections"},
    views.ReportedIncident: {"cluster", "consumer_group", "topic", "rule_id", "title", "severity"}
    | {"opened_at", "resolved_at", "lasted_ms"},
    views.ForecastQuality: {"cluster", "kind", "inside", "early", "late", "void"},
    views.DataQuality: {
        "cluster",
        "expected_count",
        "judged_count",
        "late_count",
        "failed_cycle_count",
        "longest_gap_ms",
    }
    | {"violation_count", "quarantined_count"},
    views.DailyReportView: {"team", "severity", "interval_start", "thread_key", "ends_at", "day"},
}


def with_more(document: Any) -> Any:
    """Return the document with one more field in each of its records."""
    if isinstance(document, list):
        return [with_more(below) for below in document]
    if not isinstance(document, dict):
        return document
    return {name: with_more(below) for name, below in document.items()} | {"of_tomorrow": {"count": 1}}


@EVERY_KIND
def test_fields_of_a_later_release_are_left_out(view: views.AnyView) -> None:
    assert views.read_view(json.dumps(with_more(json.loads(view.model_dump_json())))) == view


@EVERY_KIND
def test_a_message_needs_no_more_than_it_had_in_the_first_release(view: views.AnyView) -> None:
    kept = {name: getattr(view, name) for name in ALWAYS_THERE[type(view)] | {"kind"} if hasattr(view, name)}
    least = type(view).model_construct(**kept)
    read = views.read_view(least.model_dump_json(exclude_unset=True))
    assert {name: getattr(read, name) for name in kept} == kept


def test_a_field_that_comes_later_has_a_default() -> None:
    for record, names in ALWAYS_THERE.items():
        needed = {name for name, field in record.model_fields.items() if field.is_required()}
        assert needed <= names, f"{record.__name__}: messages that wait in the outbox have no {needed - names}"


def test_no_count_is_made_up_that_a_message_does_not_say() -> None:
    defaults = {
        (record.__name__, name): field.default for record in ALWAYS_THERE for name, field in record.model_fields.items()
    }
    counts = {place: default for place, default in defaults.items() if type(default) in (int, float) and default}
    assert counts == {("IncidentView", "seen_count"): 1, ("DailyReportView", "forecast_days"): 7}
