"""Timelines with real receivers: after each minute's judgement two deliverers run at once, and receivers fail as told.

After Alertmanager's acceptance tests Retry and ClusterDeduplication.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from offsetguard.config import Delivery
from offsetguard.deliver.channels.channel import Connection
from offsetguard.deliver.deliver import CHANNELS, deliver_due
from offsetguard.store import outbox
from offsetguard.store.models import Status
from offsetguard_peers.databases import newest_accepted, newest_incidents
from offsetguard_peers.delivery.world import DeliveryWorld
from offsetguard_peers.judging.timelines import Course
from offsetguard_peers.robots.server import ROBOTS, SECRET, RobotServer
from offsetguard_peers.waiting import at_once

(EVERYWHERE,) = yaml.safe_load((Path(__file__).parents[1] / "decide" / "everywhere.yml").read_text(encoding="utf-8"))
DELIVERERS = 2


class Deliveries:
    """Delivers after each minute, and keeps in which minute each receiver accepted what."""

    def __init__(self, world: DeliveryWorld, before: Callable[[int], object]) -> None:
        self.world = world
        self.before = before
        self.accepted: list[tuple[int, str, str]] = []  # minute, receiver, reason

    def __call__(self, minute: int, now: datetime) -> None:
        self.before(minute)
        engine = self.world.engine
        self.world.slack.workspace.clock = now.timestamp
        known = {entry.outbox_id for entry in newest_accepted(engine)}
        at_once(DELIVERERS, lambda: deliver_due(engine, self.world.channels, now=now + timedelta(seconds=5)))
        rows = {row.id: row for row in outbox.messages(engine)}
        for entry in reversed(newest_accepted(engine)):
            if entry.outbox_id not in known and not rows[entry.outbox_id].is_details:  # these follow their message
                self.accepted.append((minute, entry.receiver, rows[entry.outbox_id].view.reason.value))


def run(
    world: DeliveryWorld, script: dict[str, Any], before: Callable[[int], object] = lambda minute: None
) -> list[tuple[int, str, str]]:
    deliveries = Deliveries(world, before)
    course = Course(world.engine, script, deliveries)
    course.run()
    world.accepted()  # the servers agree with the log
    assert len(deliveries.accepted) == len(course.said), "lost, or told twice"
    assert {row.status for row in outbox.messages(world.engine)} == {Status.SENT}
    return deliveries.accepted


@pytest.mark.slow
def test_two_deliverers_at_once_tell_everything_once_and_in_its_order(world: DeliveryWorld) -> None:
    accepted = run(world, EVERYWHERE)
    expected = [(one["between"][0], one.get("to", "ops@example.org"), one["reason"]) for one in EVERYWHERE["expect"]]
    assert sorted(accepted) == sorted(expected)


@pytest.mark.slow
def test_a_mail_server_that_is_away_for_hours_costs_no_message(world: DeliveryWorld) -> None:
    """mqcloud and the dashboards try once; what was written meanwhile comes in its order, and nothing twice."""

    def away(minute: int) -> None:
        if minute == 0:
            world.smtp.close_port()
        if minute == 200:
            world.smtp.open_port()

    script = {"until": 240, "at": {0: {"bad": {"a": "warning"}}, 10: {"bad": {"a": "critical"}}, 100: {"bad": {}}}}
    accepted = run(world, script, away)
    assert [reason for _, _, reason in accepted] == ["first", "worse", "repeat", "all_resolved"]
    assert min(minute for minute, _, _ in accepted) >= 200


@pytest.mark.slow
def test_a_team_that_nothing_reaches_is_told_of_to_the_default_team_once_until_it_is_reached(
    world: DeliveryWorld,
) -> None:
    world.dead_webhooks["orders_hook"] = "http://127.0.0.1:1/"

    def before(minute: int) -> None:
        if minute == 40:
            world.dead_webhooks.clear()

    config = {
        "teams": {"orders": {"slack_webhooks": ["orders_hook"]}},
        "groups": [{"match": "a", "team": "orders"}],
        "delivery": {"repeat_interval_ms": 14_400_000},
    }
    script = {"until": 95, "config": config, "at": {0: {"bad": {"a": "warning"}}}}
    accepted = run(world, script, before)
    told = [(minute, reason) for minute, receiver, reason in accepted if receiver == "ops@example.org"]
    assert [reason for _, reason in told] == ["first", "all_resolved"]
    assert 15 <= told[0][0] <= 20
    assert told[1][0] > 40
    mail = world.smtp.mails[0]
    assert "a team is not reached" in str(mail.message["Subject"])
    assert "orders" in str(mail.message.get_body(("plain",)))


# What each robot shows of it: how a title begins, and the colour that Feishu gives it
COURSE = [("Warning: ", "orange"), ("Critical: ", "red"), ("Resolved: ", "green")]


@pytest.mark.parametrize("robot", ROBOTS)
def test_a_robot_tells_of_an_incident_when_it_is_opened_worse_and_over_and_not_in_between(
    world: DeliveryWorld, robot: str
) -> None:
    """They cannot edit: each is a message of its own that names the incident, and the end calls nobody."""
    config = {
        "teams": {"ops": {"mail": [], robot: ["night"], f"{robot}_mentions": ["alice"]}},
        "delivery": {"page_url": "https://airflow.example.com", "repeat_interval_ms": 14_400_000},
    }
    script = {
        "until": 60,
        "config": config,
        "at": {0: {"bad": {"a": "warning"}}, 20: {"bad": {"a": "critical"}}, 40: {"bad": {}}},
    }
    told: list[int] = []  # the minute of each message
    with RobotServer() as server:
        opened = CHANNELS[robot].opened(
            Connection("night", None, None, None, server.address(robot), None, {"secret": SECRET}), Delivery()
        )

        def after(minute: int, now: datetime) -> None:
            assert deliver_due(world.engine, lambda _: opened, now=now + timedelta(seconds=5)).reasons == ()
            told.extend([minute] * (len(server.received) - len(told)))

        Course(world.engine, script, after).run()
        assert server.refused == []
        messages = list(server.received)
    (incident,) = newest_incidents(world.engine)
    assert told[:2] == [0, 20]
    assert len(told) == 3
    assert 40 <= told[2] <= 50
    for message, (title, colour) in zip(messages, COURSE, strict=True):
        assert message.title.startswith(title)
        assert message.colour in {None, colour}
        assert incident.incident_id[:8] in message.text
        assert f"https://airflow.example.com/offsetguard/incidents/{incident.incident_id}" in message.links
    first, worse, over = messages
    assert [one.calls for one in messages] == [["alice"], ["alice"], []]
    assert "What to do" in first.text
    assert "worse" in worse.text
    assert str(incident.resolution) in over.text
    assert "What to do" not in over.text
