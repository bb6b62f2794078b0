"""Each case of lock_waits.yml, and what is known of a lock's holder."""

from pathlib import Path
from typing import Any

import pytest

from offsetguard.model.intervals import Interval, zone_of
from offsetguard.sources.logs.events import LogEvent, LogOrigin, event_row, read_records
from offsetguard.tables import CLIENT_SNAPSHOTS, GROUP_SNAPSHOTS, LOCK_WAIT_FACTS, LOG_EVENTS
from offsetguard.tables.log_facts import LockWaitFacts
from offsetguard_peers.facts import log_cases
from offsetguard_peers.facts.answers import answers

CAPTURED = Path(__file__).parents[1] / "sources" / "logs" / "excerpts" / "lock-4.9.8.log"


def lock_waits(
    lines: list[Any], others: dict[str, Any] | None = None, interval: Interval = log_cases.INTERVAL
) -> list[LockWaitFacts]:
    return answers(LOCK_WAIT_FACTS, LockWaitFacts, {LOG_EVENTS.name: lines, **(others or {})}, interval)


@pytest.mark.parametrize("case", log_cases.cases("lock_waits"), ids=lambda case: case["why"])
def test_lines_become_the_waits_that_the_case_says(case: dict[str, Any]) -> None:
    lines = [log_cases.lock_line(at, line) for at, line in enumerate(case["lines"])]
    expected = [log_cases.lock_wait(given) for given in case["waits"]]
    assert lock_waits(lines) == sorted(expected, key=repr)
    assert lock_waits(log_cases.read_again(lines)) == sorted(expected, key=repr)


def test_lines_of_a_later_interval_do_not_count() -> None:
    """A backfill gives the same answer when newer intervals are there already."""
    assert not lock_waits(
        [log_cases.lock_line(0, [10, "refused", "b", "a", {"interval_start": log_cases.INTERVAL.end}])]
    )


def test_a_captured_dead_holder_is_found_with_its_queues() -> None:
    """Real lines of 4.9.8: an orderly client was killed, the other one got its queues 60 s later."""
    origin = LogOrigin("broker-b-0", "lock.log", "broker-b", 0)
    events = read_records(CAPTURED.read_bytes(), zone_of("+08:00"), origin=origin)
    rows = [event_row(event, "demo", event.at) for event in events if isinstance(event, LogEvent)]
    waits = lock_waits(rows, interval=Interval(max(row["at"] for row in rows)))
    expired = {(one.topic, one.queue_id, one.waited_ms) for one in waits if one.ended_by == "expired"}
    assert expired
    assert all(one.next_holder_client_id == one.waiter_client_id for one in waits if one.ended_by == "expired")


def test_the_holder_of_a_lock_is_looked_up_among_the_clients_of_its_group() -> None:
    """None where nobody could tell: the line names no holder, or the group's clients were not seen."""
    lines, clients, groups = log_cases.holder_rows()
    found = {
        (one.consumer_group, one.holder_client_id): (one.holder_online, one.holder_start_at)
        for one in lock_waits(lines, {CLIENT_SNAPSHOTS.name: clients, GROUP_SNAPSHOTS.name: groups})
    }
    assert found == log_cases.HOLDERS
