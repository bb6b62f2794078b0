"""Excerpts of real logs: what they hold, line by line, and the moves that they tell of."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from offsetguard.model.intervals import zone_of
from offsetguard.sources.logs.events import LogEvent, LogOrigin, Skipped, moves_from, read_records
from offsetguard.tables import OFFSET_MOVES

FOLDER = Path(__file__).parent / "excerpts"
COUNTS = yaml.safe_load((FOLDER / "counts.yml").read_text())
BROKER = LogOrigin("broker-a", "broker-1", "broker-a", 0)
INTERVAL = datetime(2026, 11, 21, 7, 48, tzinfo=UTC)


def events_of(text: bytes) -> list[LogEvent]:
    outcomes = list(read_records([text], zone_of("+08:00"), origin=BROKER))
    assert all(isinstance(outcome, LogEvent | Skipped) for outcome in outcomes)
    assert sum(outcome.line_count for outcome in outcomes) == text.count(b"\n")
    return [outcome for outcome in outcomes if isinstance(outcome, LogEvent)]


def test_every_excerpt_is_counted():
    assert sorted(COUNTS) == sorted(path.name for path in FOLDER.glob("*.log"))


@pytest.mark.parametrize("name", COUNTS)
def test_an_excerpt_holds_what_was_counted_by_hand(name):
    assert Counter(event.kind for event in events_of((FOLDER / name).read_bytes())) == COUNTS[name]


def test_moves_of_a_5_x_broker_have_the_client_or_the_queue_from_the_line_before():
    """5.3.3 writes no OFFSET_MOVED_EVENT: its log is all there is."""
    moves = list(moves_from(events_of((FOLDER / "broker-5.3.3.log").read_bytes()), "main", INTERVAL))
    assert [
        (
            move["consumer_group"],
            move["client_id"],
            move["queue_id"],
            move["requested_offset"],
            move["corrected_offset"],
        )
        for move in moves
    ] == [
        ("probe-beyond", "127.0.0.1:34222", None, 99999, 203),
        ("probe-beyond", "127.0.0.1:34222", None, 99999, 203),
        ("probe-beyond", None, 1, 7, 0),
        ("probe-below", "127.0.0.1:34222", None, 1, 452),
        ("probe-below", "127.0.0.1:34222", None, 1, 452),
        ("late-reader", "127.0.0.1:46416", None, 1, 1420),
        ("late-reader", "127.0.0.1:46416", None, 2, 1419),
        ("slow-audit", "127.0.0.1:46424", None, 0, 1420),
        ("slow-audit", "127.0.0.1:46424", None, 0, 1419),
    ]
    assert list(moves[0]) == [column.name for column in OFFSET_MOVES.columns]
    assert moves[0]["moved_at"] == datetime(2026, 11, 21, 7, 48, 25, tzinfo=UTC)
    assert moves[0]["source"] == "broker-a/broker-1"
    assert len({(move["source"], move["position"]) for move in moves}) == len(moves)


def log(*lines: str) -> bytes:
    return "".join(f"2026-11-21 15:00:00 {line}\n" for line in lines).encode()


TOO_SMALL = (
    "the request offset too small. group=G1, topic=T1, requestOffset=1, brokerMinOffset=500, clientIp=/10.0.0.9:1"
)
MOVED = "PULL_OFFSET_MOVED:correction offset. topic=T1, groupId=G1, requestOffset=1, newOffset=500, suggestBrokerId=0"


@pytest.mark.parametrize(
    ("lines", "clients"),
    [
        ([f"INFO Pull_1 - {TOO_SMALL}", f"WARN Pull_1 - {MOVED}"], ["10.0.0.9:1"]),
        ([f"INFO Pull_1 - {TOO_SMALL}", f"WARN Pull_2 - {MOVED}"], [None]),  # another thread, another pull
        ([f"INFO Pull_1 - {TOO_SMALL}", f"WARN Pull_1 - {MOVED.replace('T1', 'T2')}"], [None]),
        ([f"INFO Pull_1 - {TOO_SMALL}", f"WARN Pull_1 - {MOVED}", f"WARN Pull_1 - {MOVED}"], ["10.0.0.9:1", None]),
        (
            [
                f"INFO Pull_1 - {TOO_SMALL}",
                f"INFO Pull_2 - {TOO_SMALL.replace('.9:1', '.8:2')}",
                f"WARN Pull_2 - {MOVED}",
                f"WARN Pull_1 - {MOVED}",
            ],
            ["10.0.0.8:2", "10.0.0.9:1"],
        ),
        (["WARN Pull_1 - " + MOVED.replace("requestOffset=1", "requestOffset=99999999999999999999")], []),
        (
            ["WARN Pull_1 - PULL_OFFSET_MOVED:none correction. topic=T, groupId=G, requestOffset=1, suggestBrokerId=0"],
            [],
        ),
    ],
)
def test_a_move_takes_the_client_of_its_own_pull_only(lines, clients):
    assert [move["client_id"] for move in moves_from(events_of(log(*lines)), "main", INTERVAL)] == clients


def test_a_pop_group_is_moved_in_the_queue_that_the_line_names():
    pop = "WARN PopMessageThread_1 - Pop initial offset, because store is no correct, T@G@3, 7->"
    moves = moves_from(events_of(log(pop + "900", pop + "null")), "main", INTERVAL)
    assert [(move["queue_id"], move["requested_offset"], move["corrected_offset"]) for move in moves] == [(3, 7, 900)]
