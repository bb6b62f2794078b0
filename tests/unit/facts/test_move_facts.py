"""Each case of move_cases.yml: what told of an offset move, and what the moves are."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from offsetguard.model.intervals import Interval
from offsetguard.tables import LOG_EVENTS, OFFSET_MOVE_FACTS, OFFSET_MOVES
from offsetguard.tables.facts import OffsetMoveFacts
from offsetguard_peers.facts.answers import answers

CASES = yaml.safe_load((Path(__file__).parent / "move_cases.yml").read_text(encoding="utf-8"))
INTERVAL = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))
END = INTERVAL.end


def offset_moves(rows: list[dict[str, Any]]) -> list[OffsetMoveFacts]:
    return answers(OFFSET_MOVE_FACTS, OffsetMoveFacts, {OFFSET_MOVES.name: rows}, INTERVAL)


def move_row(given: dict[str, Any]) -> dict[str, Any]:
    requested, corrected = given["moved"]
    return {
        "cluster": "demo",
        "interval_start": END - timedelta(minutes=1 + given.get("collected_min_ago", 0)),
        "origin": given.get("origin", "event"),
        "source": given.get("source", "broker-a"),
        "position": given.get("position", 1),
        "moved_at": END - timedelta(seconds=given["s_ago"]),
        **_names(given),
        "requested_offset": requested,
        "corrected_offset": corrected,
    }


def expected_fact(given: dict[str, Any]) -> OffsetMoveFacts:
    requested, corrected = given["moved"]
    first_s_ago, last_s_ago = given["s_ago"]
    return OffsetMoveFacts(
        **_names(given),
        requested_offset=requested,
        corrected_offset=corrected,
        move_count=given["count"],
        first_moved_at=END - timedelta(seconds=first_s_ago),
        last_moved_at=END - timedelta(seconds=last_s_ago),
        origin=given.get("origin", "event"),
    )


def _names(given: dict[str, Any]) -> dict[str, Any]:
    return {
        "consumer_group": given.get("group", "billing"),
        "client_id": given.get("client"),
        "topic": given.get("topic", "orders"),
        "broker_name": given.get("broker", "broker-a"),
        "queue_id": given.get("queue", 0),
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["why"])
def test_moves_become_the_facts_that_the_case_says(case: dict[str, Any]) -> None:
    expected = [expected_fact(fact) for fact in case["facts"]]
    rows = [move_row(move) for move in case["moves"]]
    again = [row | {"interval_start": row["interval_start"] - timedelta(minutes=1), "source": "again"} for row in rows]
    for read in (rows, [*rows, *again]):
        assert offset_moves(read) == sorted(expected, key=repr)


def test_a_step_back_keeps_the_start_and_the_change_of_members_nearest_to_it() -> None:
    """Those of later must not hide them: a handover would come up again as a reset."""

    def change(s_ago: float, position: int, kind: str = "consumer_connected", group: str = "billing") -> dict[str, Any]:
        about = {"source": "broker-a-0", "file": "broker.log", "position": position, "consumer_group": group}
        started_at = END - timedelta(minutes=1)
        at = END - timedelta(seconds=s_ago)
        return {"cluster": "demo", "interval_start": started_at, "kind": kind, "at": at, "fields_json": "{}", **about}

    lines = [
        {**change(0, 6), "at": None},
        change(1100, 1),
        change(590, 2),
        change(580, 3, group="other"),
        change(30, 4),
        change(599, 5, "mute"),
    ]
    step = {"moved": [900, 850], "s_ago": 600, "origin": "snapshot"}
    started_at = END - timedelta(seconds=605)
    moves = [
        {**move_row(step), "nearest_start_at": started_at},
        move_row({"moved": [100, 300], "s_ago": 600, "queue": 1}),
    ]
    back, asked = answers(
        OFFSET_MOVE_FACTS, OffsetMoveFacts, {OFFSET_MOVES.name: moves, LOG_EVENTS.name: lines}, INTERVAL
    )
    assert (back.nearest_start_at, back.members_changed_at) == (started_at, END - timedelta(seconds=590))
    assert (asked.nearest_start_at, asked.members_changed_at) == (None, None)


def test_moves_of_later_intervals_do_not_count() -> None:
    """A backfill gives the same answer when newer intervals are there already."""
    assert not offset_moves([move_row({"moved": [100, 330], "s_ago": 10, "collected_min_ago": -1})])
