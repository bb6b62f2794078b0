"""What lies beyond a group's courses."""

from __future__ import annotations

import pytest

from offsetguard.catalogue import Sentence, catalogue
from offsetguard.model.incident import Kind as ChangeKind
from offsetguard.model.incident import NamedChange
from offsetguard.model.verdicts import DRAINED_MS, FURTHEST_MS, Basis, Forecast, Kind, Stated
from offsetguard.views.course import WIDTH
from offsetguard.views.group import marks_of
from offsetguard.views.outlook import LossInSight, kept_since, loss_in_sight, outlooks
from offsetguard_peers.lake.warehouse import minute

SINCE, UNTIL = minute(0), minute(60)
MINUTE_MS = 60_000


def stated(kind: Kind, topic: str, low: int, high: int, *, made: int = 60) -> Stated:
    """Return a forecast of `billing`; minutes."""
    basis = Basis.CONSUME_RATE if kind is Kind.DRAIN else Basis.DISK
    forecast = Forecast(low * MINUTE_MS, min(high * MINUTE_MS, FURTHEST_MS), basis)
    return Stated("billing", topic, kind, minute(made), forecast)


def topic(name: str, lag: int | None = 7, lag_ms: int | None = DRAINED_MS + 1) -> dict[str, object]:
    return {"topic": name, "effective_lag": lag, "lag_ms": lag_ms, "unknown_queue_count": 0}


def test_a_group_is_drained_with_its_last_topic_and_loses_with_its_first() -> None:
    told = [
        stated(Kind.DRAIN, "orders", 500, 600),
        stated(Kind.DRAIN, "orders", 10, 20),  # the newer one counts
        stated(Kind.DRAIN, "payments", 15, 18),
        stated(Kind.LOSS, "orders", 30, 10**6),
        stated(Kind.LOSS, "payments", 60, 10**6),
    ]
    drain, loss = outlooks(told, [topic("orders"), topic("payments")], SINCE, UNTIL)
    assert (drain.kind, drain.low_ms, drain.high_ms) == (Kind.DRAIN, 15 * MINUTE_MS, 20 * MINUTE_MS)
    assert (drain.band.x, drain.band.width) == (pytest.approx(WIDTH * 1.25), pytest.approx(WIDTH / 12))
    assert (loss.kind, loss.low_ms, loss.high_ms) == (Kind.LOSS, 30 * MINUTE_MS, None), "or later"


@pytest.mark.parametrize(
    ("told", "topics"),
    [
        ((), [topic("orders")]),
        ([stated(Kind.DRAIN, "orders", 1, 2)], [topic("orders"), topic("payments")]),  # of one nobody knows
        # one was not read: it may be the last
        ([stated(Kind.DRAIN, "orders", 1, 2)], [topic("orders"), topic("payments", None) | {"unknown_queue_count": 1}]),
        ([stated(Kind.DRAIN, "orders", 1, 2, made=50)], [topic("orders")]),  # it would have been made again
        ([stated(Kind.DRAIN, "orders", 1, 2)], [topic("orders", lag=0)]),  # nothing waits any more
        ([stated(Kind.DRAIN, "orders", 1, 2)], [topic("orders", lag_ms=DRAINED_MS)]),  # nor anything old
    ],
)
def test_what_is_not_forecast_now_is_not_shown(told: list[Stated], topics: list[dict[str, object]]) -> None:
    assert outlooks(told, topics, SINCE, UNTIL) == ()


@pytest.mark.parametrize(
    ("changed", "kept", "said"),
    [
        ({}, 0, LossInSight.NONE),
        ({}, None, LossInSight.UNKNOWN),  # nobody knows how long a broker keeps messages
        ({"lag_ms": None}, 0, LossInSight.UNKNOWN),  # nor how old what waits is
        ({"unknown_queue_count": 1}, 0, LossInSight.UNKNOWN),
        ({"effective_lag": 0, "lost": None}, 0, LossInSight.UNKNOWN),
        ({"effective_lag": 0}, None, LossInSight.NOTHING_WAITS),
        ({"lost": 2_002}, 0, LossInSight.LOST),  # never "none is in sight" beside it
        ({"lost": 2_002, "lag_ms": None}, None, LossInSight.LOST),
    ],
)
def test_whether_a_loss_is_in_sight_is_one_answer(
    changed: dict[str, object], kept: int | None, said: LossInSight
) -> None:
    row = {**topic("orders"), "lost": 0, **changed}
    assert loss_in_sight((), [row], None if kept is None else minute(kept)) is said


def test_the_broker_that_keeps_the_shortest_is_the_edge_and_an_unknown_one_makes_it_unknown() -> None:
    rows = [{"broker_id": 0, "earliest_message_at": minute(n)} for n in (3, 9, 5)]
    slave = {"broker_id": 1, "earliest_message_at": minute(50)}
    assert kept_since([*rows, slave]) == minute(9)
    assert kept_since([*rows, {"broker_id": 0, "earliest_message_at": None}]) is None
    assert kept_since([slave]) is None


def test_a_change_is_marked_by_its_kind_and_what_lies_outside_of_the_span_is_not() -> None:
    said = (
        (9, Sentence("changed_offsets", topic="orders", count=2), ChangeKind.OFFSETS),
        (5, Sentence("changed_start", broker="broker-a"), ChangeKind.RESTARTS),
        (-1, Sentence("changed_start", broker="broker-b"), ChangeKind.RESTARTS),
    )
    changes = [NamedChange(minute(at), what, kind) for at, what, kind in said]
    offsets, start = marks_of(changes, catalogue(), SINCE, UNTIL)
    assert (offsets.kind, start.kind, start.what) == (ChangeKind.OFFSETS, ChangeKind.RESTARTS, "broker-a was started")
    assert start.band.x == pytest.approx(WIDTH * 5 / 60)
