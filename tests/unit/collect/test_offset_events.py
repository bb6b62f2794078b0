"""OFFSET_MOVED_EVENT is read once and whole: from the first event on, over recreated topics, and over kill -9."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from offsetguard.collect.collector import collect_cluster
from offsetguard.collect.landing import Row, read_table, snapshot_folder
from offsetguard.collect.manifest import EventCursor, Manifest
from offsetguard.collect.offset_events import MAX_EVENTS_PER_ROUND, EventStart, first_offset
from offsetguard.config import Config
from offsetguard.model.intervals import Interval
from offsetguard.tables import OFFSET_MOVES, UNDECODABLE_RECORDS
from offsetguard_peers.collecting import as_rows, collect_snapshot
from offsetguard_peers.configs import one_team
from offsetguard_peers.scripted.broker import ScriptedBroker, event_body, scripted_cluster

FIRST = Interval(datetime(2026, 11, 21, 10, 39, tzinfo=UTC))


def config_for(name_server: str) -> Config:
    return one_team({"main": {"name_servers": [name_server], "request_timeout_ms": 20_000}})


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [event_body("billing", requested, requested + 500) for requested in range(start, start + count)]


def later(minutes: int) -> Interval:
    return Interval(FIRST.start + timedelta(minutes=minutes))


async def land(name_server: str, landing: Path, interval: Interval) -> Manifest:
    return await collect_cluster("main", config_for(name_server), interval, landing, started_at=interval.end)


def landed(landing: Path, interval: Interval) -> list[Row]:
    rows: list[Row] = read_table(snapshot_folder(landing, "main", interval), OFFSET_MOVES).to_pylist()
    return rows


def test_the_first_round_reads_from_the_oldest_event_and_the_next_one_goes_on(tmp_path: Path) -> None:
    async def run() -> list[Manifest]:
        broker = ScriptedBroker("broker-a", events=numbered(20), first_event=100)
        async with scripted_cluster(broker) as (name_server, _):
            first = await land(name_server, tmp_path, later(0))
            broker.events += numbered(3, start=20)
            return [first, await land(name_server, tmp_path, later(1)), await land(name_server, tmp_path, later(2))]

    cursors = [manifest.event_cursors[0] for manifest in asyncio.run(run())]
    assert [(cursor.from_offset, cursor.next_offset) for cursor in cursors] == [(100, 120), (120, 123), (123, 123)]
    assert [row["position"] for row in landed(tmp_path, later(0))] == list(range(100, 120))
    (row, *_) = landed(tmp_path, later(1))
    assert (row["consumer_group"], row["topic"], row["broker_name"], row["queue_id"]) == (
        "billing",
        "orders",
        "broker-a",
        0,
    )
    assert (row["requested_offset"], row["corrected_offset"], row["client_id"]) == (20, 520, None)


def test_an_unreadable_event_is_kept_with_its_reason_and_does_not_stop_the_reading(tmp_path: Path) -> None:
    async def run() -> Manifest:
        events = [*numbered(2), b'{"consumerGroup":"billing","offsetNew":"x"}', b"\xff\xfe not json", *numbered(2, 4)]
        async with scripted_cluster(ScriptedBroker("broker-a", events=events)) as (name_server, _):
            return await land(name_server, tmp_path, FIRST)

    assert asyncio.run(run()).event_cursors[0].next_offset == 6
    assert [row["position"] for row in landed(tmp_path, FIRST)] == [0, 1, 4, 5]
    kept = read_table(snapshot_folder(tmp_path, "main", FIRST), UNDECODABLE_RECORDS).to_pylist()
    assert [(row["source"], row["position"]) for row in kept] == [
        ("OFFSET_MOVED_EVENT of broker-a", 2),
        ("OFFSET_MOVED_EVENT of broker-a", 3),
    ]
    assert all(row["reason"] and row["body_base64"] for row in kept)


@pytest.mark.parametrize(
    ("cursor", "low_and_high", "start", "expected", "word"),
    [
        (None, (5, 9), EventStart.OLDEST, 5, None),
        (None, (5, 50_000), EventStart.NEWEST, 50_000 - MAX_EVENTS_PER_ROUND, None),
        (None, (5, 9), EventStart.NEWEST, 5, None),
        (7, (5, 9), EventStart.OLDEST, 7, None),
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
    assert (note is None) if word is None else (note is not None and word in note)


def test_a_round_for_an_older_interval_leaves_the_events_to_the_newer_one(tmp_path: Path) -> None:
    async def run() -> None:
        broker = ScriptedBroker("broker-a", events=numbered(4))
        async with scripted_cluster(broker) as (name_server, _):
            await land(name_server, tmp_path, later(0))
            broker.events += numbered(4, start=4)
            await land(name_server, tmp_path, later(2))
            broker.events += numbered(4, start=8)
            await land(name_server, tmp_path, later(1))
            await land(name_server, tmp_path, later(3))

    asyncio.run(run())
    offsets = [[row["position"] for row in landed(tmp_path, later(minute))] for minute in range(4)]
    assert offsets == [[0, 1, 2, 3], [], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_a_broker_that_is_away_for_a_round_keeps_its_cursor(tmp_path: Path) -> None:
    async def run() -> list[Manifest]:
        broker = ScriptedBroker("broker-a", events=numbered(4))
        other = ScriptedBroker("broker-b")
        async with scripted_cluster(broker, other) as (name_server, listed):
            manifests = [await land(name_server, tmp_path, later(0))]
            address = listed.pop("broker-a")
            manifests.append(await land(name_server, tmp_path, later(1)))
            listed["broker-a"] = address
            broker.events += numbered(2, start=4)
            manifests.append(await land(name_server, tmp_path, later(2)))
        return manifests

    cursors = [
        (cursor.from_offset, cursor.next_offset)
        for manifest in asyncio.run(run())
        for cursor in manifest.event_cursors
        if cursor.broker_name == "broker-a"
    ]
    assert cursors == [(0, 4), (4, 4), (4, 6)]


def test_a_diagnosis_reads_events_without_a_landed_round() -> None:
    async def run() -> dict[str, list[Row]]:
        async with scripted_cluster(ScriptedBroker("broker-a", events=numbered(3))) as (name_server, _):
            _, tables = await collect_snapshot("main", config_for(name_server), FIRST, started_at=FIRST.end)
            return as_rows(tables)

    assert [row["position"] for row in asyncio.run(run())[OFFSET_MOVES.name]] == [0, 1, 2]
