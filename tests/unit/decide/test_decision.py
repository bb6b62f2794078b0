"""The decision to send is Alertmanager's: a table of cases, and what holds for every input."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.decide.incidents.timing import Decision, LastSent, decide
from offsetguard.model.views import NotificationReason
from offsetguard_peers.cases.running import for_each

NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
REPEAT_MS = 3_600_000
CASES = yaml.safe_load((Path(__file__).parent / "decisions.yml").read_text(encoding="utf-8"))

ids = st.frozensets(st.sampled_from("abcd"))
last_sents = st.none() | st.builds(
    LastSent, at=st.integers(0, 200).map(lambda minutes: NOW - timedelta(minutes=minutes)), firing=ids, resolved=ids
)


def _decide(last: LastSent | None, firing: frozenset[str], resolved: frozenset[str], *, wanted: bool) -> Decision:
    return decide(
        now=NOW,
        last_sent=last,
        firing=firing,
        resolved=resolved,
        repeat_interval_ms=REPEAT_MS,
        send_resolved=wanted,
    )


@for_each("case", CASES, name_of=lambda case: case["why"])
def test_a_case_is_decided_as_it_says(case: dict[str, Any]) -> None:
    last = case["last"]
    last_sent = last and LastSent(NOW - timedelta(minutes=last[0]), frozenset(last[1]), frozenset(last[2]))
    decision = _decide(
        last_sent, frozenset(case["firing"]), frozenset(case["resolved"]), wanted=case.get("send_resolved", True)
    )
    assert [decision.send, decision.reason.value] == case["expect"]


def test_every_reason_has_a_case() -> None:
    ours = {"worse", "escalated"}  # from severity and mutes; the rest of those that send are Alertmanager's
    sent = {reason.value for reason in NotificationReason if reason.is_sent} - ours
    assert {case["expect"][1] for case in CASES} == {*sent, "nothing_new", "nothing_firing"}


def _need_update_of_alertmanager(
    last: LastSent | None, firing: frozenset[str], resolved: frozenset[str], *, wanted: bool
) -> bool:
    """Say it line by line as notify/dedup_stage.go does."""
    if last is None:
        return len(firing) > 0
    if not firing.issubset(last.firing):
        return True
    if len(firing) == 0:
        return len(last.firing) > 0
    if wanted and not resolved.issubset(last.resolved):
        return True
    return last.at < NOW - timedelta(milliseconds=REPEAT_MS)


@given(last=last_sents, firing=ids, resolved=ids, wanted=st.booleans())
def test_it_sends_exactly_when_alertmanager_would(
    last: LastSent | None, firing: frozenset[str], resolved: frozenset[str], wanted: bool
) -> None:
    decision = _decide(last, firing, resolved, wanted=wanted)
    assert decision.send == _need_update_of_alertmanager(last, firing, resolved, wanted=wanted)
