"""A deliverer killed with SIGKILL at any step loses nothing and repeats at most one message; Slack sees no repeat."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from multiprocessing.process import BaseProcess
from queue import SimpleQueue

import pytest
from sqlalchemy import Engine, text

from offsetguard.deliver.deliver import deliver_due
from offsetguard.store.database import open_database, writing
from offsetguard.store.models import Status
from offsetguard_peers.cases.running import examples
from offsetguard_peers.databases import PostgresServer
from offsetguard_peers.delivery.kills import KillTrials
from offsetguard_peers.delivery.world import (
    DETAILED,
    LATER,
    NOW,
    RESOLVED,
    VIEW,
    Addresses,
    DeliveryWorld,
    delivery_world,
    running_deliverer,
)
from offsetguard_peers.robots.server import ROBOTS, Fault, RobotServer
from offsetguard_peers.smtp.server import Step
from offsetguard_peers.waiting import wait_until

ENDS_WITHIN_S = 180.0
CLAIMS_HAVE_ENDED = LATER + timedelta(minutes=3)
RANDOM_KILLS = examples(0.2)  # on each database; `make delivery-kills` does 200


# What is killed where: a name, the receiver, how the trap is set, how many repeats this costs
STEPS: list[tuple[str, str, Callable[[DeliveryWorld, Callable[[], object]], object], int]] = [
    ("claimed, mail not handed over", "a@example.com", lambda w, kill: w.smtp.when(Step.RECIPIENT_NAMED, kill), 0),
    ("mail kept, answer not read", "a@example.com", lambda w, kill: w.smtp.when(Step.MAIL_KEPT, kill), 1),
    ("mail accepted, not logged", "a@example.com", lambda w, kill: w.smtp.when(Step.ANSWER_READ, kill), 1),
    ("Slack still at work", "#alerts", lambda w, kill: w.slack.when("chat.postMessage", kill), 0),
    ("posted, answer not read", "#alerts", lambda w, kill: w.slack.when_done("chat.postMessage", kill), 0),
    ("between parent and thread", "#alerts", lambda w, kill: w.slack.when("chat.update", kill), 0),
    ("parent edited, not replied", "#alerts", lambda w, kill: w.slack.when_done("chat.update", kill), 0),
    ("webhook posted, answer not read", "hook", lambda w, kill: w.slack.when_done("webhook", kill), 1),
]


@pytest.mark.parametrize("step", ["when", "when_done"])
def test_killed_between_a_warning_and_its_details_both_stand_in_slack_once(
    each_world: DeliveryWorld, step: str
) -> None:
    """When details are about to be posted, and when they are and nobody has read the answer."""
    world = each_world
    world.put("warning", "#alerts", DETAILED)
    victims: SimpleQueue[BaseProcess] = SimpleQueue()

    def kill_at_details() -> None:
        if len(world.slack.messages) == (1 if step == "when" else 2):
            victims.get(timeout=ENDS_WITHIN_S).kill()

    getattr(world.slack, step)("chat.postMessage", kill_at_details)
    with running_deliverer(world.addresses, NOW) as process:
        victims.put(process)
        ended(process)
        assert process.exitcode == -9, "the trap did not close"
    getattr(world.slack, step)("chat.postMessage", lambda: None)
    assert deliver_due(world.engine, world.channels, now=CLAIMS_HAVE_ENDED).reasons == ()
    warning, details = world.slack.messages
    assert (warning.thread_ts, details.thread_ts) == (None, warning.ts)
    assert {row.status for row in world.rows().values()} == {Status.SENT}


@pytest.mark.parametrize(("receiver", "set_trap", "repeats"), [s[1:] for s in STEPS], ids=[s[0] for s in STEPS])
def test_killed_at_a_step_the_message_still_arrives(
    each_world: DeliveryWorld,
    receiver: str,
    set_trap: Callable[[DeliveryWorld, Callable[[], object]], object],
    repeats: int,
) -> None:
    world = each_world
    world.put("warning", receiver)
    world.put("resolved", receiver, RESOLVED)
    victims: SimpleQueue[BaseProcess] = SimpleQueue()
    set_trap(world, lambda: victims.get(timeout=ENDS_WITHIN_S).kill())
    with running_deliverer(world.addresses, NOW) as process:
        victims.put(process)
        ended(process)
        assert process.exitcode == -9, "the trap did not close"
    set_trap(world, lambda: None)
    assert any(row.status is Status.PENDING for row in world.rows().values())
    assert deliver_due(world.engine, world.channels, now=CLAIMS_HAVE_ENDED).reasons == ()
    assert {row.status for row in world.rows().values()} == {Status.SENT}
    accepted = len(world.smtp.mails) + len(world.slack.messages)
    assert accepted == 2 + repeats


@pytest.mark.parametrize("robot", ROBOTS)
@pytest.mark.parametrize("accepted", [False, True])
def test_killed_while_a_robot_keeps_its_answer_back_costs_one_repeat_at_most(
    world: DeliveryWorld, robot: str, accepted: bool
) -> None:
    with RobotServer(signs=False) as server:
        world.put_robot(robot, "warning", VIEW)
        world.put_robot(robot, "resolved", RESOLVED)
        server.faults.append(Fault(accepts=accepted, hangs=True))
        addresses = replace(world.addresses, robots={robot: server.address(robot)})
        with running_deliverer(addresses, NOW) as process:
            wait_until(lambda: not server.faults and (server.received or not accepted), "the robot to be reached")
            process.kill()
            ended(process)
        assert deliver_due(world.engine, addresses.channels(), now=CLAIMS_HAVE_ENDED).reasons == ()
        assert {row.status for row in world.rows().values()} == {Status.SENT}
        repeats = accepted and robot != "dingtalk"  # which knows the message again by its key
        assert len(server.received) == 2 + repeats


@pytest.mark.postgres
def test_killed_amidst_the_transaction_of_the_log_nothing_of_it_stays(
    postgresql_world: DeliveryWorld,
) -> None:
    world = postgresql_world
    world.put("warning", "a@example.com")
    killed_amidst_the_log(world, world.addresses)
    assert deliver_due(world.engine, world.channels, now=CLAIMS_HAVE_ENDED).sent == 1
    assert len(world.smtp.mails) == 2, "accepted, and not logged: one repeat"
    first, second = (mail.message["Message-ID"] for mail in world.smtp.mails)
    assert first == second, "by which a mail program can tell that it has it already"


@pytest.mark.postgres
def test_killed_once_a_robots_answer_was_read_and_before_it_was_logged_costs_one_repeat_at_most(
    postgresql_world: DeliveryWorld,
) -> None:
    world = postgresql_world
    for robot in ROBOTS:
        with RobotServer(signs=False) as server:
            world.put_robot(robot, "warning", VIEW)
            world.put_robot(robot, "resolved", RESOLVED)
            addresses = replace(world.addresses, robots={robot: server.address(robot)})
            killed_amidst_the_log(world, addresses)
            assert deliver_due(world.engine, addresses.channels(), now=CLAIMS_HAVE_ENDED).reasons == ()
            told = [one.document for one in server.received]
            repeats = robot != "dingtalk"  # which knows the message again by its key
            assert len(told) == 2 + repeats, robot
            assert told[0] == told[repeats], "the same message"
    assert {row.status for row in world.rows().values()} == {Status.SENT}


@pytest.mark.slow
def test_killed_at_random_moments_nothing_is_lost_and_at_most_one_message_repeats(each_world: DeliveryWorld) -> None:
    trials = KillTrials(each_world, seed=7)
    for _ in range(8 * RANDOM_KILLS):
        if trials.killed == RANDOM_KILLS:
            break
        trials.kill_once()
    assert (trials.lost, trials.slack_repeats) == (0, 0)
    assert trials.worst_repeats <= 1
    assert trials.killed > 0, "none was killed while it worked: nothing was tested"


@pytest.fixture
def postgresql_world(request: pytest.FixtureRequest) -> Iterator[DeliveryWorld]:
    """Only there a lock can stop a transaction in its middle."""
    server: PostgresServer = request.getfixturevalue("postgresql")
    engine = open_database(server.url(server.new_database(template=request.getfixturevalue("migrated_template"))))
    with delivery_world(engine) as started:
        yield started
    engine.dispose()


def killed_amidst_the_log(world: DeliveryWorld, addresses: Addresses) -> None:
    """Kill a deliverer that has read an answer: the row is changed and the log is locked, and all of it rolled back."""
    with writing(world.engine) as session:
        session.execute(text("LOCK TABLE notification_log IN SHARE MODE"))
        with running_deliverer(addresses, NOW) as process:
            wait_until(lambda: waits_for_a_lock(world.engine), "the deliverer to wait for the log")
            process.kill()
    assert Status.PENDING in {row.status for row in world.rows().values()}
    wait_until(lambda: not waits_for_a_lock(world.engine), "PostgreSQL to roll back what was killed")


def waits_for_a_lock(engine: Engine) -> bool:
    query = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    with engine.connect() as connection:
        return bool(connection.execute(query).scalar_one())


def ended(process: BaseProcess) -> None:
    process.join(ENDS_WITHIN_S)
    assert not process.is_alive(), f"the deliverer goes on after {ENDS_WITHIN_S:.0f} s"
