"""Quiet hours follow the clock on the wall, whatever it does; maintenance windows lie between two moments."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.config.routes import DAYS, Maintenance, QuietHours
from offsetguard.decide.incidents.muting import maintenance_mute, quiet_mute, quiet_until
from offsetguard.model.intervals import zone_of
from offsetguard.model.notification import MuteReason
from offsetguard.model.verdicts import Severity
from offsetguard_peers.cases.running import for_each
from offsetguard_peers.judging.records import an_incident

CASES = yaml.safe_load((Path(__file__).parent / "quiet_hours.yml").read_text(encoding="utf-8"))
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def window(given: dict[str, Any]) -> QuietHours:
    return QuietHours(
        frozenset(DAYS.index(day) for day in given.get("days", DAYS)),
        time.fromisoformat(given["from"]),
        time.fromisoformat(given["to"]),
        Severity(given.get("severity_below", "critical")),
    )


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@for_each("case", CASES, name_of=lambda case: case["why"])
def test_it_waits_until_the_end_of_the_quiet_hours(case: dict[str, Any]) -> None:
    windows = [window(one) for one in case["windows"]]
    severity = Severity(case.get("severity", "warning"))
    until = quiet_until(windows, zone_of(case["zone"]), severity, utc(case["now"]))
    assert until == (utc(case["expect"]) if case["expect"] else None)


times = st.builds(time, st.integers(0, 23), st.sampled_from([0, 30]))
zones = st.sampled_from(["UTC", "Asia/Shanghai", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
moments = st.integers(0, 2 * 365 * 24 * 4).map(lambda quarters: utc("2026-01-01T00:00") + quarters * HOUR / 4)


@given(starts=times, ends=times, zone=zones, now=moments)
def test_quiet_hours_end_at_their_hour_and_never_last_longer_than_a_day_and_the_clocks_change(
    starts: time, ends: time, zone: str, now: datetime
) -> None:
    quiet = QuietHours(frozenset(range(7)), starts, ends, Severity.CRITICAL)
    until = quiet_until([quiet], zone_of(zone), Severity.WARNING, now)
    if until is not None:
        assert timedelta(0) < until - now <= timedelta(hours=25)
        shown = until.astimezone(zone_of(zone)).time()
        assert shown == ends or abs((shown.hour - ends.hour) * 60 + shown.minute - ends.minute) in (30, 60)
        if starts != ends:
            assert quiet_until([quiet], zone_of(zone), Severity.WARNING, until) is None
    assert quiet_until([quiet], zone_of(zone), Severity.CRITICAL, now) is None


def test_the_mute_says_until_when() -> None:
    quiet = window({"from": "09:00", "to": "17:00"})
    mute = quiet_mute(an_incident(severity=Severity.WARNING), [quiet], UTC, NOON)
    assert mute is not None
    assert (mute.reason, str(mute.text)) == (
        MuteReason.QUIET_HOURS,
        "quiet hours until 2026-11-20 17:00:00 UTC",
    )


def maintenance(**given: str) -> Maintenance:
    patterns = {"cluster": "*", "consumer_group": "*", "comment": "", **given}
    return Maintenance(NOON, NOON + HOUR, **patterns)


@pytest.mark.parametrize(
    ("given", "at", "group", "text"),
    [
        ({}, NOON, "billing", "maintenance"),
        ({"comment": "move"}, NOON, "billing", "maintenance: move"),
        ({}, NOON - timedelta(seconds=1), "billing", None),
        ({}, NOON + HOUR, "billing", None),
        ({"consumer_group": "bill*"}, NOON, "billing", "maintenance"),
        ({"consumer_group": "ledger"}, NOON, "billing", None),
        ({"cluster": "other"}, NOON, "billing", None),
        ({}, NOON, None, "maintenance"),
        ({"consumer_group": "b*"}, NOON, None, None),
    ],
)
def test_maintenance_mutes_what_it_names_from_its_first_moment_until_before_its_last(
    given: dict[str, str], at: datetime, group: str | None, text: str | None
) -> None:
    mute = maintenance_mute(an_incident(consumer_group=group), [maintenance(**given)], at)
    assert (None if mute is None else str(mute.text)) == text
