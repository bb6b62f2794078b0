"""A silence matches what it names, for as long as it says, and nothing else."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.model.errors import SilenceError
from offsetguard.model.incident import Incident, Subject
from offsetguard.model.notification import Acknowledgement, Matchers, Silence
from offsetguard.model.verdicts import Severity
from offsetguard_peers.judging.records import an_incident

NOW = datetime(2026, 11, 21, 10, 39, tzinfo=UTC)
HOUR = timedelta(hours=1)


def incident(subject: Subject, severity: Severity = Severity.WARNING) -> Incident:
    return replace(an_incident(severity=severity), subject=subject)


ORDERS = Subject("main", "accumulation", "order-group", "orders")
CLUSTER = Subject("main", "broker_unreachable", None, None)


@pytest.mark.parametrize(
    ("matchers", "subject", "matches"),
    [
        (Matchers(cluster="main"), ORDERS, True),
        (Matchers(cluster="mai?", consumer_group="order-*", topic="[o]rders", rule="acc*"), ORDERS, True),
        (Matchers(cluster="main", consumer_group="pay-*"), ORDERS, False),
        (Matchers(consumer_group="Order-group"), ORDERS, False),
        (Matchers(consumer_group="order"), ORDERS, False),
        (Matchers(severity=Severity.INFO), ORDERS, False),
        (Matchers(consumer_group="*"), CLUSTER, False),  # it has no group that a glob could match
        (Matchers(rule="broker_*"), CLUSTER, True),
    ],
    ids=str,
)
def test_all_matchers_must_match(matchers: Matchers, subject: Subject, *, matches: bool) -> None:
    assert matchers.matches(incident(subject)) is matches


def test_a_silence_of_warnings_lets_the_incident_through_when_it_gets_worse() -> None:
    silence = Matchers(cluster="main", severity=Severity.WARNING)
    assert [silence.matches(incident(ORDERS, one)) for one in Severity] == [True, True, False]


names = st.text(st.characters(codec="utf-8"), max_size=8) | st.sampled_from(
    ["*", "[a]", "a[", "?", "a", "[!a]", "]", "\n"]
)
subjects = st.builds(Subject, names, names, names | st.none(), names | st.none())


@given(one=subjects, other=subjects)
def test_matchers_of_an_incident_match_it_whatever_it_is_called_and_no_other_name(one: Subject, other: Subject) -> None:
    matchers = Matchers.of(one)
    assert matchers.matches(incident(one))
    if matchers.matches(incident(other)):
        known = [
            (mine, theirs)
            for mine, theirs in zip(
                (one.cluster, one.rule_id, one.consumer_group, one.topic),
                (other.cluster, other.rule_id, other.consumer_group, other.topic),
                strict=True,
            )
            if mine is not None
        ]
        assert all(mine == theirs for mine, theirs in known)


@pytest.mark.parametrize(
    ("minutes", "expired_after", "active"),
    [
        (-1, None, False),
        (0, None, True),
        (59, None, True),
        (60, None, False),
        (29, 30, True),
        (30, 30, False),
        (60, 90, False),
    ],
)
def test_it_mutes_from_its_start_until_it_ends_or_is_ended(
    minutes: int, expired_after: int | None, *, active: bool
) -> None:
    expired_at = None if expired_after is None else NOW + timedelta(minutes=expired_after)
    silence = Silence(Matchers(cluster="main"), "anna", "why", NOW, NOW + HOUR, NOW - HOUR, expired_at)
    assert silence.active_at(NOW + timedelta(minutes=minutes)) is active


@pytest.mark.parametrize(
    ("matchers", "author", "comment", "lasts", "says"),
    [
        (Matchers(), "anna", "why", HOUR, "needs a cluster"),
        (Matchers(cluster="*"), " ", "why", HOUR, "needs an? author"),
        (Matchers(cluster="*"), "anna", "\n", HOUR, "needs a comment"),
        (Matchers(cluster="*"), "anna", "why", timedelta(), "end after it starts"),
    ],
)
def test_what_nobody_can_have_meant_is_refused(
    matchers: Matchers, author: str, comment: str, lasts: timedelta, says: str
) -> None:
    with pytest.raises(SilenceError, match=says):
        Silence(matchers, author, comment, NOW, NOW + lasts, NOW)


def test_an_acknowledgement_needs_an_author() -> None:
    with pytest.raises(SilenceError, match="author"):
        Acknowledgement("0123456789abcdef", "  ", "", NOW)
