"""Timelines with real receivers: after each minute's judgement two deliverers run at once, and receivers fail as told.

After Alertmanager's acceptance tests Retry, WebhookTimeout and ClusterDeduplication.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import Engine

from offsetguard.deliver.channels.mail import MailChannel
from offsetguard.deliver.deliver import deliver_due
from offsetguard.store import outbox
from offsetguard.store.models import Status
from offsetguard_peers.databases import newest_accepted
from offsetguard_peers.delivery.world import Channels, DeliveryWorld, delivery_world
from offsetguard_peers.judging.timelines import Course
from offsetguard_peers.slack.server import Failure

(EVERYWHERE,) = yaml.safe_load((Path(__file__).parents[1] / "decide" / "everywhere.yml").read_text(encoding="utf-8"))
DELIVERERS = 2


@pytest.fixture
def world(engine: Engine) -> Iterator[DeliveryWorld]:
    """Start it and stop it."""
    with delivery_world(engine) as started:
        yield started


class Told:
    """Delivers after each minute, and keeps in which minute each receiver accepted what."""

    def __init__(self, world: DeliveryWorld, trouble: Callable[[int], object]) -> None:
        self.world = world
        self.channels = world.channels
        self.trouble = trouble
        self.accepted: list[tuple[int, str, str]] = []  # minute, receiver, reason

    def __call__(self, minute: int, now: datetime) -> None:
        self.trouble(minute)
        self.world.slack.workspace.clock = now.timestamp
        start = threading.Barrier(DELIVERERS)
        before = {entry.outbox_id for entry in newest_accepted(self.world.engine)}

        def deliver(_number: int) -> None:
            start.wait()
            deliver_due(self.world.engine, self.channels, now=now + timedelta(seconds=5))

        with ThreadPoolExecutor(DELIVERERS) as pool:
            list(pool.map(deliver, range(DELIVERERS)))
        rows = {row.id: row for row in outbox.messages(self.world.engine)}
        for entry in reversed(newest_accepted(self.world.engine)):
            if entry.outbox_id not in before:
                self.accepted.append((minute, entry.receiver, rows[entry.outbox_id].view.reason.value))


def run(
    world: DeliveryWorld,
    script: dict[str, Any],
    trouble: Callable[[int], object] = lambda minute: None,
    channels: Channels | None = None,
) -> list[tuple[int, str, str]]:
    told = Told(world, trouble)
    told.channels = channels or world.channels
    course = Course(world.engine, script, told)
    course.run()
    world.accepted()  # the servers agree with the log
    assert len(told.accepted) == len(course.said), "lost, or told twice"
    assert {row.status for row in outbox.messages(world.engine)} == {Status.SENT}
    return told.accepted


BOTH = {"config": {"teams": {"ops": {"slack": ["#alerts"]}}}}


@pytest.mark.slow
def test_two_deliverers_at_once_tell_everything_once_and_in_its_order(world: DeliveryWorld) -> None:
    accepted = run(world, EVERYWHERE)
    expected = [(one["between"][0], one.get("to", "ops@example.org"), one["reason"]) for one in EVERYWHERE["expect"]]
    assert sorted(accepted) == sorted(expected)


@pytest.mark.slow
def test_a_receiver_that_fails_for_a_while_gets_its_message_later_and_the_healthy_one_no_second(
    world: DeliveryWorld,
) -> None:
    def trouble(minute: int) -> None:
        if minute == 0:
            world.slack.fail_next("chat.postMessage", Failure(status=503), Failure(status=503))

    script = {"until": 9, "at": {0: {"bad": {"a": "warning"}}}, **BOTH}
    mailed, posted = run(world, script, trouble)
    assert mailed == (0, "ops@example.org", "first")
    assert posted[1:] == ("#alerts", "first")
    assert 1 <= posted[0] <= 8


def test_a_mail_server_that_never_answers_holds_up_nobody_else(world: DeliveryWorld) -> None:
    """Slack is given all the time it wants: only the mail's time-out is short."""
    impatient = MailChannel(world.smtp.host, world.smtp.port, timeout_s=3.0)
    script = {"until": 20, "at": {0: {"bad": {"a": "warning"}}}, **BOTH}
    channels = replace(world.channels, mail=impatient)
    posted, mailed = run(world, script, lambda minute: world.smtp.hang_at_data(minute == 0), channels)
    assert posted == (0, "#alerts", "first")
    assert mailed[1:] == ("ops@example.org", "first")
    assert mailed[0] >= 1


def away(world: DeliveryWorld, minutes: int) -> Callable[[int], None]:
    """Let nobody reach the mail server for so many minutes."""

    def trouble(minute: int) -> None:
        if minute == 0:
            world.smtp.close_port()
        if minute == minutes:
            world.smtp.open_port()

    return trouble


@pytest.mark.slow
def test_a_mail_server_that_is_away_for_hours_costs_no_message(world: DeliveryWorld) -> None:
    """mqcloud and the dashboards try once; what was written meanwhile comes in its order, and nothing twice."""
    script = {"until": 240, "at": {0: {"bad": {"a": "warning"}}, 10: {"bad": {"a": "critical"}}, 100: {"bad": {}}}}
    accepted = run(world, script, away(world, minutes=200))
    assert [reason for _, _, reason in accepted] == ["first", "worse", "repeat", "all_resolved"]
    assert min(minute for minute, _, _ in accepted) >= 200


def test_an_end_never_overtakes_the_warning_that_could_not_be_told(world: DeliveryWorld) -> None:
    script = {"until": 20, "at": {0: {"bad": {"a": "warning"}}, 2: {"bad": {}}}}
    accepted = run(world, script, away(world, minutes=7))
    assert [reason for _, _, reason in accepted] == ["first", "all_resolved"]
    assert all(minute >= 7 for minute, _, _ in accepted)
