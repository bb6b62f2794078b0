"""A real Alertmanager shows as firing what is open here, groups and silences it, and tells that it is over."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from offsetguard.config import Config
from offsetguard.config.routes import Delivery
from offsetguard.deliver.channels.alertmanager import Alertmanager, post_alerts
from offsetguard.deliver.channels.channel import Connection, Transport, Unavailable, open_by
from offsetguard.deliver.deliver import deliver_due
from offsetguard.model.notification import MuteReason
from offsetguard.store.database import reading
from offsetguard.store.models import Status
from offsetguard.store.notifications import recipients_of
from offsetguard.store.outbox import Lane
from offsetguard_peers.alertmanager import LOGIN, PASSWORD
from offsetguard_peers.alertmanager import Alertmanager as Server
from offsetguard_peers.databases import newest_incidents
from offsetguard_peers.delivery.world import DeliveryWorld
from offsetguard_peers.host_clock import HostClock
from offsetguard_peers.judging.records import MINUTE
from offsetguard_peers.judging.timelines import BASE, Course
from offsetguard_peers.waiting import wait_until

PAGE = "https://airflow.example.com"
HOSTILE = 'quote " backslash \\ line\nend \u202e <!channel> {{ .Labels }} 消费 ' + "x" * 200


ALONE: dict[str, Any] = {  # nobody is told by a message
    **BASE,
    "teams": {"ops": {"mail": []}},
    "delivery": {**BASE["delivery"], "alertmanagers": ["am"], "page_url": PAGE},
}


def opened(host: str, *, login: str | None = None, password: str | None = None) -> Alertmanager:
    connection = Connection("am", host, None, login, password, None, {"timeout": 60})
    found = open_by(Alertmanager, "am", connection, Delivery())
    assert isinstance(found, Alertmanager)
    return found


Step = Callable[[], object]
Steps = dict[int, tuple[dict[str, Any], Step]]


def play(
    world: DeliveryWorld,
    to: Alertmanager,
    steps: Steps,
    *,
    config: Mapping[str, Any] | None = None,
    base: Mapping[str, Any] = BASE,
) -> None:
    """Judge a minute after the other, the last one now; deliver after each, post, and look at what there is then."""
    settings = {**base, "delivery": {**base["delivery"], "page_url": PAGE, **(config or {})}}
    at = {minute: change for minute, (change, _) in steps.items()}

    def opened_for(lane: Lane) -> Transport | Unavailable:
        return to if lane.channel == "alertmanager" else world.channels(lane)

    def after(minute: int, now: datetime) -> None:
        assert deliver_due(world.engine, opened_for, now=now).reasons == ()
        assert post_alerts(world.engine, Config.model_validate(settings), [to]) == ()
        if minute in steps:
            steps[minute][1]()

    start = datetime.now(UTC).replace(second=0, microsecond=0) - (max(steps) + 1) * MINUTE
    Course(world.engine, {"config": settings, "at": at, "until": max(steps)}, after, start=start).run()


def firing(alertmanager: Server) -> dict[tuple[str, str], str]:
    """Return by group and severity whether each alert is active or suppressed."""
    return {
        (one["labels"]["consumer_group"], one["labels"]["severity"]): one["status"]["state"]
        for one in alertmanager.alerts()
    }


def notified(alertmanager: Server, status: str, *groups: str) -> dict[str, Any]:
    """Wait until it has notified of these groups' alerts, all in one group of its own and as firing or resolved."""
    wanted = {(name, status) for name in groups}

    def found() -> dict[str, Any] | None:
        for one in alertmanager.notified:
            if wanted <= {(alert["labels"]["consumer_group"], alert["status"]) for alert in one["alerts"]}:
                return one
        return None

    return wait_until(found, lambda: f"{wanted}, notified: {alertmanager.notified}")


def test_what_is_open_fires_in_one_group_gets_worse_and_is_over(world: DeliveryWorld, alertmanager: Server) -> None:
    def both() -> None:
        group = notified(alertmanager, "firing", "a", HOSTILE)
        assert group["groupLabels"] == {"alertname": "consumer_offline", "cluster": "demo"}
        (alert,) = (one for one in alertmanager.alerts() if one["labels"]["consumer_group"] == "a")
        (incident,) = (one for one in newest_incidents(world.engine) if one.subject.consumer_group == "a")
        assert alert["labels"] == {
            "alertname": "consumer_offline",
            "cluster": "demo",
            "consumer_group": "a",
            "topic": "orders",
            "severity": "warning",
            "team": "ops",
        }
        assert alert["generatorURL"] == f"{PAGE}/offsetguard/incidents/{incident.incident_id}"
        said = alert["annotations"]
        assert (said["incident_id"], said["summary"]) == (incident.incident_id, str(incident.evidence.summary))
        assert said.keys() >= {"description", "do_next"}
        assert datetime.fromisoformat(alert["startsAt"]) == incident.first_seen_at
        assert datetime.fromisoformat(alert["endsAt"]) > datetime.now(UTC)

    def worse() -> None:
        assert firing(alertmanager).keys() == {("a", "critical"), (HOSTILE, "warning")}

    def over() -> None:
        assert firing(alertmanager).keys() == {(HOSTILE, "warning")}
        (incident,) = (one for one in newest_incidents(world.engine) if one.subject.consumer_group == "a")
        wait_until(
            lambda: resolutions() == {str(incident.resolution)}, lambda: f"{incident.resolution}, {resolutions()}"
        )

    def resolutions() -> set[str]:
        alerts = [alert for one in alertmanager.notified for alert in one["alerts"] if alert["status"] == "resolved"]
        return {alert["annotations"]["resolution"] for alert in alerts if alert["labels"]["severity"] == "critical"}

    steps: Steps = {
        0: ({"bad": {"a": "warning", HOSTILE: "warning"}}, both),
        1: ({}, both),
        2: ({"bad": {"a": "critical", HOSTILE: "warning"}}, worse),
        3: ({"bad": {HOSTILE: "warning"}}, lambda: None),
        6: ({}, over),
    }
    play(world, opened(alertmanager.url), steps)


def test_a_silence_there_holds_while_it_is_posted_again_and_again(world: DeliveryWorld, alertmanager: Server) -> None:
    def silence() -> None:
        now = datetime.now(UTC)
        matcher = {"name": "consumer_group", "value": "a", "isRegex": False, "isEqual": True}
        silence = {"matchers": [matcher], "createdBy": "alice", "comment": "deployment"}
        times = {"startsAt": now.isoformat(), "endsAt": (now + timedelta(hours=1)).isoformat()}
        alertmanager.ask("silences", {**silence, **times})

    steps: Steps = {
        0: ({"bad": {"b": "warning"}}, silence),
        1: ({"bad": {"a": "warning", "b": "warning"}}, lambda: None),
        3: ({}, lambda: wait_until(lambda: firing(alertmanager)["a", "warning"] == "suppressed", "the silence")),
    }
    play(world, opened(alertmanager.url), steps)
    assert firing(alertmanager)["b", "warning"] == "active"
    assert "a" not in {alert["labels"]["consumer_group"] for one in alertmanager.notified for alert in one["alerts"]}


def test_where_nobody_else_is_told_it_is_known_what_it_took_and_what_is_muted_is_not_posted(
    world: DeliveryWorld, alertmanager: Server
) -> None:
    silenced = {"silence": {"matchers": {"cluster": "demo", "consumer_group": "b"}, "minutes": 60}}

    def told() -> None:
        notified(alertmanager, "firing", "a")
        assert firing(alertmanager).keys() == {("a", "warning")}
        (row,) = world.rows().values()
        assert (row.channel, row.receiver, row.status) == ("alertmanager", "am", Status.SENT)
        incidents_by_group = {one.subject.consumer_group: one for one in newest_incidents(world.engine)}
        with reading(world.engine) as session:
            known = {name: recipients_of(session, one) for name, one in incidents_by_group.items()}
        (at_a,), (at_b,) = known["a"], known["b"]
        assert (at_a.channel, at_a.receiver, at_a.told_at is not None) == ("alertmanager", "am", True)
        assert (at_b.told_at, at_b.muted) == (None, MuteReason.SILENCE)

    def over() -> None:
        notified(alertmanager, "resolved", "a")
        assert firing(alertmanager) == {}
        assert [row.status for row in world.rows().values()] == [Status.SENT, Status.SENT]
        assert "b" not in {
            alert["labels"]["consumer_group"] for one in alertmanager.notified for alert in one["alerts"]
        }

    steps: Steps = {
        0: ({**silenced, "bad": {"a": "warning", "b": "critical"}}, told),
        2: ({}, told),
        3: ({"bad": {}}, lambda: None),
        9: ({}, over),
    }
    play(world, opened(alertmanager.url), steps, base=ALONE)


def test_a_late_message_about_an_end_does_not_end_what_came_back(world: DeliveryWorld, alertmanager: Server) -> None:
    bad, well = {"bad": {"a": "warning"}}, {"bad": {}}
    start = datetime.now(UTC).replace(second=0, microsecond=0) - 9 * MINUTE
    Course(world.engine, {"config": ALONE, "at": {0: bad, 1: well, 7: bad}, "until": 8}, start=start).run()
    assert len(newest_incidents(world.engine)) == 2
    to = opened(alertmanager.url)
    assert post_alerts(world.engine, Config.model_validate(ALONE), [to]) == ()
    assert deliver_due(world.engine, lambda _: to, now=datetime.now(UTC)).reasons == ()
    assert {row.status for row in world.rows().values()} == {Status.SENT}
    assert "all_resolved" in {row.view.reason for row in world.rows().values()}
    assert firing(alertmanager) == {("a", "warning"): "active"}


def test_where_nobody_else_is_told_and_it_is_away_the_reason_stands_in_the_outbox_until_it_is_back(
    world: DeliveryWorld, alertmanager: Server
) -> None:
    start = datetime.now(UTC).replace(second=0, microsecond=0) - MINUTE
    Course(world.engine, {"config": ALONE, "at": {0: {"bad": {"a": "warning"}}}, "until": 0}, start=start).run()
    away = deliver_due(world.engine, lambda _: opened("127.0.0.1:1"), now=datetime.now(UTC))
    assert away.retried == 1
    (row,) = world.rows().values()
    assert row.channel == "alertmanager"
    assert "Alertmanager 'am' cannot be reached" in (row.last_error or "")
    later = row.next_attempt_at
    assert deliver_due(world.engine, lambda _: opened(alertmanager.url), now=later).reasons == ()
    notified(alertmanager, "firing", "a")


def test_what_is_muted_here_from_its_start_is_not_posted_and_what_was_told_stays(
    world: DeliveryWorld, alertmanager: Server
) -> None:
    silenced = {"silence": {"matchers": {"cluster": "demo"}, "minutes": 60}}
    steps: Steps = {
        0: ({"bad": {"a": "warning"}}, lambda: None),
        1: ({"acknowledge": ["a"]}, lambda: None),
        2: ({**silenced, "bad": {"a": "warning", "b": "critical"}}, lambda: None),
        4: ({}, lambda: None),
    }
    play(world, opened(alertmanager.url), steps)
    assert firing(alertmanager).keys() == {("a", "warning")}


def test_what_ended_while_it_was_away_is_told_after_its_restart(world: DeliveryWorld, alertmanager: Server) -> None:
    def start_again() -> None:
        alertmanager.stop()
        alertmanager.start()

    def restart() -> None:
        notified(alertmanager, "firing", "a", "b")
        start_again()
        assert firing(alertmanager) == {}, "it keeps no alert"

    def again() -> None:
        assert firing(alertmanager).keys() == {("b", "warning")}
        notified(alertmanager, "resolved", "a")

    steps: Steps = {
        0: ({"bad": {"a": "warning", "b": "warning"}}, restart),
        1: ({}, restart),
        2: ({"bad": {"b": "warning"}}, start_again),
        5: ({}, again),
    }
    play(world, opened(alertmanager.url), steps)


def test_each_of_a_digest_is_told_as_over_after_a_restart(world: DeliveryWorld, alertmanager: Server) -> None:
    """People are told of five of them by name, and of the others in numbers."""
    many = [f"g{number}" for number in range(7)]
    bad = {"bad": {**dict.fromkeys(many, "warning"), "late": "slow"}}

    def restart() -> None:
        notified(alertmanager, "firing", *many)
        alertmanager.stop()
        alertmanager.start()

    steps: Steps = {
        0: (bad, restart),
        1: ({"bad": {}}, lambda: None),
        5: ({}, lambda: notified(alertmanager, "resolved", *many)),
    }
    play(world, opened(alertmanager.url), steps, config={"digest_above": 1})
    assert len(world.smtp.mails) == 2


def test_what_comes_back_soon_after_its_end_fires_again(world: DeliveryWorld, alertmanager: Server) -> None:
    """Its end is posted once more for a quarter of an hour; its labels are those of what fires now."""
    steps: Steps = {
        0: ({"bad": {"a": "warning"}}, lambda: notified(alertmanager, "firing", "a")),
        1: ({"bad": {}}, lambda: None),
        5: ({}, lambda: notified(alertmanager, "resolved", "a")),
        6: ({"bad": {"a": "warning"}}, lambda: None),
        8: ({}, lambda: None),
    }
    play(world, opened(alertmanager.url), steps)
    assert firing(alertmanager) == {("a", "warning"): "active"}
    assert len(newest_incidents(world.engine)) == 2


def test_what_nobody_posts_any_more_ends_by_itself_and_fires_again_afterwards(
    world: DeliveryWorld, alertmanager: Server
) -> None:
    def end() -> None:
        wait_until(lambda: firing(alertmanager) == {}, "the end of what nobody posts")

    steps: Steps = {0: ({"bad": {"a": "warning"}}, end), 1: ({}, lambda: notified(alertmanager, "firing", "a"))}
    play(world, opened(alertmanager.url), steps, config={"silent_after_ms": 2_000})


POST = """
import sys
from offsetguard.config import Config
from offsetguard.deliver.channels.alertmanager import Alertmanager, post_alerts
from offsetguard.store.database import connect
config = Config.model_validate_json(sys.argv[3])
to = Alertmanager("am", f"{sys.argv[2]}/api/v2/alerts", config.delivery, {"Content-Type": "application/json"}, 60.0)
print(*post_alerts(connect(sys.argv[1]), config, [to]), sep="\\n", end="")
"""
CLOCKS = [
    (timedelta(seconds=-45), True, ""),
    (timedelta(seconds=45), True, ""),
    (timedelta(minutes=-20), False, "20 min ahead of the database's, so that what is open ends there at once"),
    (timedelta(minutes=-5), True, "5 min ahead of the database's, so that what is open ends there so much too early"),
    (timedelta(minutes=5), True, "5 min behind the database's, so that what is over ends there so much too late"),
]


@pytest.mark.parametrize(("ours", "fires", "said"), CLOCKS, ids=str)
def test_a_clock_that_is_off_there_or_here_is_said(
    world: DeliveryWorld, alertmanager: Server, ours: timedelta, fires: bool, said: str
) -> None:
    """The database's clock is that of its host, which is `ours` ahead."""
    start = datetime.now(UTC).replace(second=0, microsecond=0) - MINUTE
    Course(world.engine, {"at": {0: {"bad": {"a": "warning"}}}, "until": 0}, start=start).run()
    url = world.engine.url.render_as_string(hide_password=False)
    command = [sys.executable, "-c", POST, url, alertmanager.url, json.dumps(BASE)]
    environment = {**os.environ, **HostClock(ours).environment}
    posted = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert posted.returncode == 0, posted.stderr
    assert posted.stdout.startswith(f"Alertmanager 'am': its clock is {said}") if said else posted.stdout == ""
    assert (firing(alertmanager) != {}) is fires


def test_alerts_of_others_are_left_alone(world: DeliveryWorld, alertmanager: Server) -> None:
    labels = {"alertname": "consumer_offline", "cluster": "demo", "consumer_group": "a", "severity": "page"}
    alertmanager.ask(
        "alerts", [{"labels": labels}, {"labels": labels | {"severity": "x"}, "annotations": {"incident_id": "1"}}]
    )
    play(
        world, opened(alertmanager.url), {0: ({"bad": {"a": "warning"}}, lambda: None), 2: ({"bad": {}}, lambda: None)}
    )
    assert {("a", "page"), ("a", "x")} <= firing(alertmanager).keys()


def test_each_of_several_gets_all_and_who_does_not_is_named(
    world: DeliveryWorld, alertmanager: Server, tmp_path: Path
) -> None:
    none = Unavailable("Airflow connection 'gone' does not exist")
    with Server(tmp_path / "guarded", login=True) as guarded:
        at_all: list[Alertmanager | Unavailable] = [
            opened(alertmanager.url),
            none,
            opened("127.0.0.1:1"),
            opened(f"{alertmanager.url}/nowhere"),
            opened(guarded.url),
        ]
        at_all += [
            opened(guarded.url, login=LOGIN, password="wrong"),
            opened(guarded.url, login=LOGIN, password=PASSWORD),
        ]
        said: list[tuple[str, ...]] = []
        config = Config.model_validate(BASE)
        play(
            world,
            opened(alertmanager.url),
            {0: ({"bad": {"a": "warning"}}, lambda: said.append(post_alerts(world.engine, config, at_all)))},
        )
        assert alertmanager.notified
        wait_until(lambda: guarded.notified, "the one that wants a login")
    (reasons,) = said
    gone, refused, nowhere, no_login, wrong = reasons
    assert gone == "Airflow connection 'gone' does not exist; no alerts are posted there"
    assert refused.startswith("Alertmanager 'am' cannot be reached: ")
    assert "has no API v2 there" in nowhere
    assert no_login == wrong
    assert "refuses the login" in wrong
    assert PASSWORD not in repr(at_all)
