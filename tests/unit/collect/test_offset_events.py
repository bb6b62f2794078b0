"""OFFSET_MOVED_EVENT is read once and whole: from the first event on, over recreated topics, and over kill -9."""

import pytest

from offsetguard.collect.manifest import EventCursor, Manifest
from offsetguard.collect.offset_events import MAX_EVENTS_PER_ROUND, EventStart, first_offset
from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard.tables import OFFSET_MOVES, UNDECODABLE_RECORDS
from offsetguard_peers.scripted.broker import EVENT_TOPIC, ScriptedBroker, close, event_body, when
from offsetguard_peers.scripted.rounds import Play, Rounds, collect, healthy_broker


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [event_body("billing", requested, requested + 500) for requested in range(start, start + count)]


def read(manifest: Manifest) -> tuple[int, int]:
    """Return from where to where the events of broker-a were read."""
    return next((one.from_offset, one.next_offset) for one in manifest.event_cursors if one.broker_name == "broker-a")


def positions(rounds: Rounds) -> list[int]:
    return [row["position"] for row in rounds.rows(OFFSET_MOVES)]


def test_the_first_round_reads_from_the_oldest_event_and_the_next_one_goes_on(play: Play) -> None:
    broker = ScriptedBroker("broker-a", events=numbered(20), first_event=100)
    rounds = play(broker)
    assert read(rounds.run()) == (100, 120)
    assert positions(rounds) == list(range(100, 120))
    broker.events += numbered(3, start=20)
    assert read(rounds.run()) == (120, 123)
    (row, *_) = rounds.rows(OFFSET_MOVES)
    queue = (row["consumer_group"], row["topic"], row["broker_name"], row["queue_id"])
    assert queue == ("billing", "orders", "broker-a", 0)
    assert (row["requested_offset"], row["corrected_offset"], row["client_id"]) == (20, 520, None)
    assert read(rounds.run()) == (123, 123)


def test_an_unreadable_event_is_kept_with_its_reason_and_does_not_stop_the_reading(play: Play) -> None:
    events = [*numbered(2), b'{"consumerGroup":"billing","offsetNew":"x"}', b"\xff\xfe not json", *numbered(2, 4)]
    rounds = play(ScriptedBroker("broker-a", events=events))
    assert read(rounds.run()) == (0, 6)
    assert positions(rounds) == [0, 1, 4, 5]
    kept = rounds.rows(UNDECODABLE_RECORDS)
    source = "OFFSET_MOVED_EVENT of broker-a"
    assert [(row["source"], row["position"]) for row in kept] == [(source, 2), (source, 3)]
    assert all(row["reason"] and row["body_base64"] for row in kept)


@pytest.mark.parametrize(
    ("cursor", "low_and_high", "start", "expected", "word"),
    [
        (None, (5, 50_000), EventStart.NEWEST, 50_000 - MAX_EVENTS_PER_ROUND, None),
        (None, (5, 9), EventStart.NEWEST, 5, None),
        (9, (5, 9), EventStart.OLDEST, 9, None),
        (10, (5, 9), EventStart.OLDEST, 5, "recreated"),
        (3, (5, 9), EventStart.OLDEST, 5, "2 events were deleted"),
    ],
)
def test_where_reading_starts(
    cursor: int | None, low_and_high: tuple[int, int], start: EventStart, expected: int, word: str | None
) -> None:
    before = None if cursor is None else EventCursor(broker_name="broker-a", from_offset=0, next_offset=cursor)
    offset, note = first_offset(before, *low_and_high, start)
    assert offset == expected
    assert (word or "") in (note or "")
    assert bool(word) == bool(note)


def test_a_round_for_an_older_interval_leaves_the_events_to_the_newer_one(play: Play) -> None:
    broker = ScriptedBroker("broker-a")
    rounds = play(broker)
    for minutes, expected in ((1, [0, 1, 2, 3]), (2, [4, 5, 6, 7]), (-1, []), (2, [8, 9, 10, 11, 12, 13, 14, 15])):
        broker.events += numbered(4, start=len(broker.events))
        rounds.run(minutes)
        assert positions(rounds) == expected


def test_a_broker_that_is_away_for_a_round_keeps_its_cursor(play: Play) -> None:
    broker = ScriptedBroker("broker-a", events=numbered(4))
    rounds = play(broker, ScriptedBroker("broker-b"))
    assert read(rounds.run()) == (0, 4)
    address = rounds.listed.pop("broker-a")
    assert read(rounds.run()) == (4, 4)
    rounds.listed["broker-a"] = address
    broker.events += numbered(2, start=4)
    assert read(rounds.run()) == (4, 6)


def test_a_diagnosis_reads_events_without_a_landed_round() -> None:
    _, rows = collect(ScriptedBroker("broker-a", events=numbered(3)))
    assert [row["position"] for row in rows[OFFSET_MOVES.name]] == [0, 1, 2]


def test_of_no_other_topic_a_message_is_read() -> None:
    broker = healthy_broker()
    broker.events = numbered(3)
    pulled = []
    broker.trouble = when(lambda request: request.code == RequestCode.PULL_MESSAGE and pulled.append(request), close)
    collect(broker)
    assert {request.ext_fields["topic"] for request in pulled} == {EVENT_TOPIC}
