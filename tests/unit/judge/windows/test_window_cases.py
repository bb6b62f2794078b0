"""Every case in `window_cases.yml` gets the verdict that it names, as `offsetguard explain queue` gives it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from offsetguard.config import GroupPolicy, WindowPolicy
from offsetguard.judge.explained import GivenQueue, GivenSample, explain_queues
from offsetguard.judge.windows.figures import QueueContext
from offsetguard.judge.windows.rules import WINDOW_RULES
from offsetguard.model.verdicts import QueueVerdict, State
from offsetguard.tables.queue_state import WINDOW
from offsetguard_peers.cases.running import for_each, read_cases
from offsetguard_peers.facts.answers import figures_of, states_of

CASES: list[dict[str, Any]] = read_cases(Path(__file__).parent / "window_cases.yml")
START_MS = 1_795_000_000_000
MINUTE_MS = 60_000


def samples_of(case: dict[str, Any]) -> list[GivenSample]:
    return [*_regular(case), *map(_given, case.get("samples", ()))]


def _regular(case: dict[str, Any]) -> list[GivenSample]:
    if "every" not in case:
        return []
    first, last, step, consumer, consumed, end, produced = case["every"]
    low = case.get("min", {})
    return [
        _given([minute, consumer + number * consumed, end + number * produced, low.get(minute, 0)])
        for number, minute in enumerate(range(first, last + 1, step))
    ]


def _given(said: list[int | None] | dict[str, int]) -> GivenSample:
    if isinstance(said, dict):
        return GivenSample(
            START_MS + said["at"] * MINUTE_MS,
            said["consumer"],
            said["max"],
            last_timestamp_ms=START_MS + said["last"] * MINUTE_MS,
        )
    minute, *offsets = said
    assert minute is not None
    return GivenSample(START_MS + round(minute * MINUTE_MS), *offsets)


def now_ms_of(case: dict[str, Any], samples: list[GivenSample]) -> int:
    return START_MS + case["now"] * MINUTE_MS if "now" in case else max(one.at_ms for one in samples)


def context_of(case: dict[str, Any]) -> QueueContext:
    return QueueContext(
        online_client_count=case.get("clients", 2),
        message_model=case.get("message_model"),
        subscribed=case.get("subscribed"),
        came_at=tuple(datetime.fromtimestamp(START_MS / 1000 + 60 * minute, UTC) for minute in case.get("came", ())),
    )


def given(case: dict[str, Any]) -> GivenQueue:
    samples = samples_of(case)
    return GivenQueue(samples, context_of(case), WindowPolicy(**case.get("policy", {})), now_ms_of(case, samples))


@pytest.fixture(scope="module")
def verdicts() -> dict[str, QueueVerdict]:
    """Return the verdict on each case, by why it is one: a query costs as much for all as for one."""
    return dict(zip((case["why"] for case in CASES), explain_queues([given(case) for case in CASES]), strict=True))


@for_each("case", CASES, name_of=lambda case: case["why"])
def test_the_table_of_cases(verdicts: dict[str, QueueVerdict], case: dict[str, Any]) -> None:
    verdict = verdicts[case["why"]]
    found = {name: getattr(verdict, name) for name in case["expect"]}
    assert found == case["expect"], (verdict.rule, verdict.reason, dict(verdict.figures))
    assert verdict.state is WINDOW_RULES[verdict.rule].state
    assert "unknown" not in verdict.reason


@for_each("step_s", (5, 10, 60))
@for_each("consumed", (35, 58, 90))
def test_whoever_falls_behind_evenly_is_not_well_in_between(step_s: int, consumed: int) -> None:
    """Of 100 messages a second it consumes all until minute 5, then so many; what it commits is 3 s old."""
    samples, looks = list[GivenSample](), list[GivenQueue]()
    for second in range(0, 1200, step_s):
        at = max(0, second - 3)
        committed = 100 * min(at, 300) + consumed * max(0, at - 300)
        samples.append(GivenSample(START_MS + 1000 * second, committed, 100 * second, 0))
        if second > 300:
            context = QueueContext(online_client_count=2)
            looks.append(GivenQueue(tuple(samples), context, WindowPolicy(), samples[-1].at_ms))
    rules = [verdict.rule for verdict in explain_queues(looks)]
    lasts = next(number for number, rule in enumerate(rules) if rule == "growing")
    assert set(rules[:lasts]) <= {"end_reached_recently", "below_floor"}
    assert set(rules[lasts:]) == {"growing"}
    assert consumed == 90 or lasts * step_s <= 120


def test_whatever_is_not_well_is_a_suspect(verdicts: dict[str, QueueVerdict]) -> None:
    """Only suspects are judged at all."""
    queues = {case["why"]: given(case) for case in CASES}
    queues = {why: queue for why, queue in queues.items() if queue.history() and verdicts[why].state is not State.OK}
    states = states_of([queue.history() for queue in queues.values()])
    moments = [datetime.fromtimestamp(queue.now_ms / 1000, UTC) for queue in queues.values()]
    suspects = [one["suspect"] for one in figures_of(states, moments)]
    assert [why for why, suspect in zip(queues, suspects, strict=True) if not suspect] == []


def test_every_state_has_a_case() -> None:
    assert {case["expect"]["state"] for case in CASES} == {state.value for state in State}


def test_no_policy_looks_further_back_than_what_is_kept_of_a_queue() -> None:
    """Events older than the kept window are no suspects any more, so a longer one would see only some of them."""
    assert timedelta(milliseconds=WindowPolicy().window_ms) == WINDOW
    longest = {"match": "*", "window_ms": WindowPolicy().window_ms}
    assert GroupPolicy.model_validate(longest).window_ms == WindowPolicy().window_ms
    with pytest.raises(ValidationError):
        GroupPolicy.model_validate(longest | {"window_ms": WindowPolicy().window_ms + 1})
