"""Open trouble above it, silences, quiet hours and maintenance mute an incident, and nothing else does.

Quiet hours follow the clock on the wall, whatever it does; maintenance windows lie between two moments.
"""

from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.catalogue import Sentence
from offsetguard.catalogue.text import Locale
from offsetguard.config.routes import Maintenance, QuietHours
from offsetguard.decide.incidents.muting import Inhibitors, maintenance_mute, quiet_mute, quiet_until, silence_mute
from offsetguard.judge.registry import RULES
from offsetguard.judge.rule import Scope
from offsetguard.model.intervals import zone_of
from offsetguard.model.notification import Matchers, MuteReason, Silence
from offsetguard.model.verdicts import Severity
from offsetguard_peers.cases.running import for_each
from offsetguard_peers.judging.records import OPENED_AT, an_incident

HOUR = timedelta(hours=1)
CASES = yaml.safe_load((Path(__file__).parent / "inhibitions.yml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
def test_a_case_is_muted_as_it_says(case: dict[str, Any]) -> None:
    incidents = []
    for name, (rule_id, brokers, *more) in case["open"].items():
        given = {**(more[0] if more else {})}
        severity = Severity(given.pop("severity", "warning"))
        incidents.append(an_incident(rule_id, incident_id=name, brokers=tuple(brokers), severity=severity, **given))
    inhibitors = Inhibitors(incidents)
    muted = {one.incident_id: mute for one in incidents if (mute := inhibitors.mute(one)) is not None}
    assert {name: mute.by for name, mute in muted.items()} == case["expect"]
    assert {mute.reason for mute in muted.values()} <= {MuteReason.INHIBITION}


def test_the_data_names_rules_and_variants_that_there_are() -> None:
    for rule in RULES.values():
        if rule.mutes is not None:
            assert set(rule.mutes.variants) <= set(rule.texts), rule.id
            assert set(rule.mutes.rules) <= RULES.keys(), rule.id
            assert rule.mutes.scope in (Scope.BROKER, Scope.CLUSTER, Scope.TOPIC)


sources = st.sampled_from(
    [(rule.id, (rule.mutes.variants or ("default",))[0]) for rule in RULES.values() if rule.mutes]
)
brokers = st.frozensets(st.sampled_from(["broker-a", "broker-b"])).map(lambda names: tuple(sorted(names)))
anything = st.builds(
    lambda source, on, number: an_incident(
        source[0], incident_id=f"i{number}", variant=source[1], brokers=on, severity=Severity.CRITICAL
    ),
    sources,
    brokers,
    st.integers(0, 99),
)


@given(incidents=st.lists(anything, max_size=6, unique_by=lambda one: one.incident_id))
def test_something_is_always_heard_and_nothing_is_muted_by_itself_or_in_a_circle(incidents: list[Any]) -> None:
    muted_by = {one.incident_id: mute.by for one in incidents if (mute := Inhibitors(incidents).mute(one))}
    for start in muted_by:
        reached, at = set(), start
        while at in muted_by:
            assert at not in reached
            reached.add(at)
            at = muted_by[at]
    assert not incidents or len(muted_by) < len(incidents)


def test_the_first_silence_that_is_active_and_matches_mutes_and_says_whose_it_is_in_the_readers_language() -> None:
    silences = [
        Silence(Matchers(consumer_group=group), author, "move", OPENED_AT, OPENED_AT + HOUR, OPENED_AT, id=number)
        for number, author, group in ((1, "alice", "ledger"), (2, "bob", "bill*"), (3, "carol", "*"))
    ]
    mute = silence_mute(an_incident(), silences, OPENED_AT)
    assert mute is not None
    assert (mute.reason, mute.by, str(mute.text)) == (MuteReason.SILENCE, "2", "silence of bob: move")
    assert isinstance(mute.text, Sentence)
    assert mute.text.read_by(Locale.of("zh", "UTC")).startswith("bob 设置的静默")
    assert silence_mute(an_incident(), silences, OPENED_AT + HOUR) is None
    assert silence_mute(an_incident(consumer_group=None), silences, OPENED_AT) is None


QUIET_HOURS = yaml.safe_load((Path(__file__).parent / "quiet_hours.yml").read_text(encoding="utf-8"))
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@for_each("case", QUIET_HOURS, name_of=lambda case: case["why"])
def test_it_waits_until_the_end_of_the_quiet_hours(case: dict[str, Any]) -> None:
    windows = [QuietHours.model_validate(one) for one in case["windows"]]
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
    quiet = QuietHours.model_validate({"from": f"{starts:%H:%M}", "to": f"{ends:%H:%M}"})
    until = quiet_until([quiet], zone_of(zone), Severity.WARNING, now)
    if until is not None:
        assert timedelta(0) < until - now <= timedelta(hours=25)
        shown = until.astimezone(zone_of(zone)).time()
        assert shown == ends or abs((shown.hour - ends.hour) * 60 + shown.minute - ends.minute) in (30, 60)
        if starts != ends:
            assert quiet_until([quiet], zone_of(zone), Severity.WARNING, until) is None
    assert quiet_until([quiet], zone_of(zone), Severity.CRITICAL, now) is None


def test_the_mute_says_until_when() -> None:
    quiet = QuietHours.model_validate({"from": "09:00", "to": "17:00"})
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
