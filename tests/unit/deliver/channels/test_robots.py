"""Robots of DingTalk, WeCom and Feishu: an answer of 200 is no acceptance, and the address stands nowhere."""

import itertools
import logging
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from offsetguard.config.routes import Delivery
from offsetguard.deliver.channels.channel import Connection, open_by
from offsetguard.deliver.channels.one_post import Robot
from offsetguard.deliver.deliver import CHANNELS, deliver_due
from offsetguard.model.errors import DeliveryError
from offsetguard.model.views import AnyView, DigestView, IncidentView, MessageView
from offsetguard.store import outbox
from offsetguard.store.database import reading, writing
from offsetguard.store.models import Status
from offsetguard_peers.cases import messages
from offsetguard_peers.delivery.world import NOW, DeliveryWorld
from offsetguard_peers.robots.server import SECRET, TOKEN, Fault, RobotServer
from offsetguard_peers.waiting import at_once

ROBOTS = ("dingtalk", "feishu", "wecom")
CODE = {"dingtalk": "errcode", "wecom": "errcode", "feishu": "code"}
VIEW = messages.VIEW


@pytest.fixture
def server() -> Iterator[RobotServer]:
    with RobotServer() as started:
        yield started


@pytest.fixture(autouse=True)
def _nothing_logs_a_secret(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    assert TOKEN not in caplog.text
    assert SECRET not in caplog.text


def robot(name: str, password: str, *, secret: str | None = SECRET, timeout: float = 30) -> Robot:
    extra = {"timeout": timeout} | ({} if secret is None else {"secret": secret})
    connection = Connection("night", None, None, None, password, None, extra)
    opened = open_by(CHANNELS[name], "night", connection, Delivery())
    assert isinstance(opened, Robot)
    return opened


def refused(one: Robot, said: dict[str, Any] | None = None, at_s: float | None = None) -> DeliveryError:
    with pytest.raises(DeliveryError) as caught:
        one.send(one.said(VIEW) if said is None else said, at_s=at_s)
    shown = "".join(traceback.format_exception(caught.value)) + repr(one)
    assert TOKEN not in shown
    assert SECRET not in shown
    assert "of the Airflow connection 'night'" in str(caught.value)
    return caught.value


@pytest.mark.parametrize("name", ROBOTS)
def test_a_message_is_accepted_with_its_signature(server: RobotServer, name: str) -> None:
    one = robot(name, server.address(name))
    assert one.send(one.said(VIEW)).text == "robot night"
    (message,) = server.received
    assert message.robot == name
    assert "order-group is offline and 5,120 messages behind on order-events" in message.text
    assert message.links[0] == messages.INCIDENT.incident_url


@pytest.mark.parametrize("name", ROBOTS)
def test_a_token_alone_is_put_behind_the_host_of_the_connection(server: RobotServer, name: str) -> None:
    connection = Connection("night", server.url, None, None, TOKEN, None, {"secret": SECRET})
    opened = open_by(CHANNELS[name], "night", connection, Delivery())
    assert isinstance(opened, Robot)
    assert opened.url == server.address(name)


REFUSALS = [
    ("dingtalk", {"errcode": -1, "errmsg": "系统繁忙"}, (False, 30), "may post no more for 30 s"),
    ("dingtalk", {"status": 1111, "punish": "deny", "errcode": 130101, "errmsg": "x"}, (False, 600), "for 600 s"),
    ("dingtalk", {"status": 1111, "wait": 5, "punish": "deny"}, (False, 600), "for 600 s"),
    ("dingtalk", {"errcode": 310000, "errmsg": "keywords not in content"}, (False, None), "let it take OffsetGuard"),
    ("dingtalk", {"errcode": 310000, "errmsg": "ip 1.2.3.4 not in whitelist"}, (False, None), "this host's address"),
    ("dingtalk", {"errcode": 310000, "errmsg": "sign not match"}, (False, None), "extra `secret` is not the robot's"),
    ("dingtalk", {"errcode": 88, "errmsg": "no right"}, (False, None), "has no right to post"),
    ("dingtalk", {"errcode": 400402, "errmsg": "miss title"}, (True, None), "a defect of OffsetGuard"),
    ("dingtalk", {"errcode": 400105, "errmsg": "unsupported msgtype"}, (True, None), "a defect of OffsetGuard"),
    ("dingtalk", {"errcode": 777, "errmsg": "new"}, (True, None), "777 new; see the reference of DingTalk"),
    ("dingtalk", {"errcode": 777, "errmsg": "发送速度太快"}, (False, 600), "for 600 s"),
    ("dingtalk", {"errcode": 660026, "errmsg": "sending too many messages per minute"}, (False, 600), "for 600 s"),
    ("dingtalk", {"errcode": 460101, "errmsg": "message too long, exceed 20000 bytes"}, (True, None), "a defect of"),
    ("dingtalk", {"errcode": 90030, "errmsg": "webhook over limit"}, (False, None), "calls of the month are used up"),
    ("dingtalk", {"errcode": 40035, "errmsg": "缺少参数 access_token"}, (False, None), "there is no such token"),
    ("dingtalk", {"errcode": 40035, "errmsg": "缺少参数 json"}, (True, None), "a defect of OffsetGuard"),
    ("wecom", {"errcode": 45009, "errmsg": "freq"}, (False, 60), "for 60 s"),
    ("wecom", {"errcode": 93000, "errmsg": "invalid webhook url"}, (False, None), "the key is wrong or the robot was"),
    ("wecom", {"errcode": 40058, "errmsg": "exceed"}, (True, None), "a defect of OffsetGuard"),
    ("feishu", {"code": 11232, "msg": "frequency limited"}, (False, 60), "for 60 s"),
    ("feishu", {"code": 19021, "msg": "sign match fail"}, (False, None), "the clock of this host may be off"),
    ("feishu", {"code": 19022, "msg": "Ip Not Allowed"}, (False, None), "this host's address"),
    ("feishu", {"code": 19024, "msg": "Key Words Not Found"}, (False, None), "let it take OffsetGuard"),
    ("feishu", {"code": 9499, "msg": "Bad Request"}, (True, None), "a defect of OffsetGuard"),
    ("feishu", {"StatusCode": 0, "code": 9499, "msg": "too many request"}, (False, 60), "for 60 s"),
    ("feishu", {"StatusCode": 0, "code": 19007, "msg": "Bot Not Enabled"}, (False, None), "the bot is not enabled"),
]


@pytest.mark.parametrize(("name", "answer", "expected", "said"), REFUSALS, ids=str)
def test_a_code_within_200_says_whether_a_retry_can_help(
    server: RobotServer, name: str, answer: dict[str, Any], expected: tuple[bool, float | None], said: str
) -> None:
    server.faults.append(Fault(answer))
    error = refused(robot(name, server.address(name)))
    assert (error.permanent, error.retry_after_s) == expected
    assert said in str(error)
    assert not server.received


HTML = b"<html><body>Please log in</body></html>"
FAULTS = [
    (Fault(status=503), "failed with HTTP 503; whether the channel has the message is unknown", None),
    (Fault(status=429, headers=(("Retry-After", "7"),)), "may post no more for 7 s", 7),
    (Fault(status=302, headers=(("Location", "http://127.0.0.1:1/"),)), "a proxy may stand in between", None),
    (Fault(body=HTML), "a proxy may stand in between; whether the channel has the message is unknown", None),
    (Fault(body=b'{"errcode": "0", "code": "0"}'), "a proxy may stand in between", None),
    (Fault(body=b"[0]"), "a proxy may stand in between", None),
    (Fault(body=HTML, status=404), "a proxy may stand in between", None),
    (Fault(closes=True), "cannot be reached", None),
    (Fault(hangs=True), "did not answer within 1 s; whether the channel has the message is unknown", None),
    (Fault(drips=True), "did not answer within 1 s; whether the channel has the message is unknown", None),
]


@pytest.mark.parametrize(("fault", "said", "wait_s"), FAULTS, ids=str)
@pytest.mark.parametrize("name", ROBOTS)
def test_what_is_no_answer_of_the_robot_is_no_acceptance(
    server: RobotServer, name: str, fault: Fault, said: str, wait_s: float | None
) -> None:
    server.faults.append(fault)
    error = refused(robot(name, server.address(name), timeout=1 if fault.hangs or fault.drips else 30))
    assert (error.permanent, error.retry_after_s) == (False, wait_s)
    assert said in str(error)


@pytest.mark.parametrize("name", ["dingtalk", "feishu"])
def test_a_wrong_secret_and_a_wrong_clock_are_refused_and_said_as_such(server: RobotServer, name: str) -> None:
    assert "extra `secret` is not" in str(refused(robot(name, server.address(name), secret="another")))
    late = refused(robot(name, server.address(name)), at_s=time.time() - 3_700)
    assert "the clock of this host may be off: signatures are refused beyond an hour" in str(late)
    assert not late.permanent


@pytest.mark.parametrize("name", ROBOTS)
def test_a_robot_that_is_gone_is_a_matter_of_the_connection(server: RobotServer, name: str) -> None:
    error = refused(robot(name, server.address(name).replace(TOKEN, "robot-token-gone")))
    assert not error.permanent
    assert "connection" in str(error)


@pytest.mark.parametrize("name", ROBOTS)
def test_a_keyword_can_be_one_that_stands_in_each_message(name: str) -> None:
    with RobotServer(keyword="OffsetGuard") as server:
        one = robot(name, server.address(name))
        one.send(one.said(VIEW))
        one.send(one.said(messages.ALL_RESOLVED))
        assert len(server.received) == 2


@pytest.mark.parametrize("name", ROBOTS)
def test_the_outbox_hands_over_and_keeps_what_was_refused(world: DeliveryWorld, server: RobotServer, name: str) -> None:
    with writing(world.engine) as session:
        for key in ("first", "second"):
            view = VIEW.model_copy(update={"thread_key": key})
            outbox.enqueue(session, idempotency_key=key, channel=name, receiver="night", view=view, now=NOW)
    server.faults.append(Fault({CODE[name]: {"dingtalk": 88, "wecom": 93000, "feishu": 19024}[name], "msg": "no"}))
    report = deliver_due(world.engine, lambda _: robot(name, server.address(name)), now=NOW)
    assert (report.sent, report.retried, len(server.received)) == (0, 2, 0)
    later = deliver_due(
        world.engine, lambda _: robot(name, server.address(name)), now=world.rows()["first"].next_attempt_at
    )
    assert (later.sent, len(server.received)) == (2, 2)


def test_more_than_a_robot_takes_at_once_waits_and_none_is_refused(world: DeliveryWorld, server: RobotServer) -> None:
    """Feishu takes five a second; without a budget the sixth is refused."""
    with writing(world.engine) as session:
        for number in range(8):
            view = VIEW.model_copy(update={"thread_key": str(number)})
            outbox.enqueue(session, idempotency_key=str(number), channel="feishu", receiver="night", view=view, now=NOW)
    report = deliver_due(world.engine, lambda _: robot("feishu", server.address("feishu")), now=NOW)
    assert (report.sent, report.retried, server.refused) == (8, 0, [])


@pytest.mark.parametrize(("name", "count"), [("dingtalk", 30), ("feishu", 120), ("wecom", 1_000)])
def test_a_storm_becomes_a_digest_and_none_is_refused_lost_or_sent_twice_by_two_deliverers(
    each_world: DeliveryWorld, server: RobotServer, name: str, count: int
) -> None:
    with writing(each_world.engine) as session:
        for number in range(count):
            one = messages.incident(incident_id=f"incident {number}", summary=f"group {number} stands still")
            view = messages.message(one, thread_key=f"thread {number}", rule_id=f"rule_{number % 7}")
            key = f"key {number}"
            outbox.enqueue(session, idempotency_key=key, channel=name, receiver="night", view=view, now=NOW)
    reports = at_once(2, lambda: deliver_due(each_world.engine, lambda _: robot(name, server.address(name)), now=NOW))
    rows = outbox.messages(each_world.engine, limit=2_000)
    assert server.refused == []
    assert [report.reasons for report in reports] == [(), ()]
    assert {row.status for row in rows} == {Status.SENT, Status.MERGED}
    told = [one for row in rows if row.status is Status.SENT for one in _told(row.view)]
    assert sorted(told) == sorted(f"incident {number}" for number in range(count)), "each once"
    assert len(server.received) <= 5, "digests, and one that each may have claimed while the other merged"
    assert any("causes in one message" in one.text for one in server.received)


@pytest.mark.slow
def test_a_thousand_groups_on_three_robots_are_told_and_told_as_over_within_ten_minutes(
    world: DeliveryWorld, server: RobotServer
) -> None:
    """More than 1,000 messages to each chat at once, then their ends; the robots' own limits hold."""
    started = time.monotonic()

    def told(what: str, view_of: Callable[[int], MessageView]) -> None:
        with writing(world.engine) as session:
            for number, name in itertools.product(range(1_000), ROBOTS):
                view, key = view_of(number), f"{name} {what} {number}"
                outbox.enqueue(session, idempotency_key=key, channel=name, receiver="night", view=view, now=NOW)
        report = deliver_due(world.engine, lambda lane: robot(lane.channel, server.address(lane.channel)), now=NOW)
        assert (report.reasons, server.refused) == ((), [])

    def group(number: int, **over: Any) -> IncidentView:
        return messages.incident(incident_id=str(number), summary=f"group {number} stands still", **over)

    told("is bad", lambda number: messages.message(group(number), thread_key=str(number)))
    ended = {"resolved_at": NOW, "resolution": "caught up"}
    told(
        "is over",
        lambda number: messages.ALL_RESOLVED.model_copy(
            update={"thread_key": str(number), "resolved": (group(number, **ended),)}
        ),
    )
    rows = world.rows().values()
    assert {row.status for row in rows} == {Status.SENT, Status.MERGED}
    sent = [row for row in rows if row.status is Status.SENT]
    for name in ROBOTS:
        firing = sum(_count(row.view, over=False) for row in sent if row.channel == name)
        over = sum(_count(row.view, over=True) for row in sent if row.channel == name)
        assert (firing, over) == (1_000, 1_000), "each once"
        assert sum(one.robot == name for one in server.received) <= 6, "three digests at most of warnings, and of ends"
    assert time.monotonic() - started < 600


def _count(view: AnyView, *, over: bool) -> int:
    assert isinstance(view, MessageView | DigestView)
    if isinstance(view, DigestView):
        return sum(one.resolved_count if over else one.firing_count for one in view.sections)
    return len(view.resolved if over else view.firing)


BAD = [
    ("dingtalk", "?access_token=wrong", None, "there is no such token; put the address of a robot that works"),
    ("wecom", "?key=gone", None, "the key is wrong or the robot was removed"),
    ("feishu", "gone", None, "there is no such bot"),
    ("feishu", TOKEN, None, "the connection's extra `secret` is not the bot's, or the clock of this host may be off"),
    ("dingtalk", "", {"errcode": 310000, "errmsg": "keywords not in content"}, "the robot wants a keyword"),
    ("dingtalk", "", {"errcode": 310000, "errmsg": "invalid timestamp"}, "signatures are refused beyond an hour"),
    ("wecom", "", {}, "a proxy may stand in between"),
    ("wecom", "http://name-of-nobody.invalid/", None, "cannot be reached: "),
]


@pytest.mark.parametrize(("name", "end", "answer", "said"), BAD, ids=str)
def test_what_is_wrong_stands_in_the_outbox_and_beside_the_recipient_and_costs_no_message(
    world: DeliveryWorld, name: str, end: str, answer: dict[str, Any] | None, said: str
) -> None:
    with RobotServer() as server:
        with writing(world.engine) as session:
            outbox.enqueue(session, idempotency_key="key", channel=name, receiver="night", view=VIEW, now=NOW)
        if answer is not None:
            server.faults.append(Fault(answer) if answer else Fault(body=HTML))
        right = server.address(name)
        address = end if "://" in end else right.partition("?")[0].removesuffix(TOKEN) + end if end else right
        secret = "another" if end == TOKEN else SECRET
        deliver_due(world.engine, lambda _: robot(name, address, secret=secret), now=NOW)
        row = world.rows()["key"]
        assert (row.status, said in (row.last_error or "")) == (Status.PENDING, True), row.last_error
        with reading(world.engine) as session:
            assert outbox.undelivered(session, [VIEW.thread_key]) == {(VIEW.thread_key, name, "night"): row.last_error}
        assert deliver_due(world.engine, lambda _: robot(name, right), now=row.next_attempt_at).sent == 1


def _told(view: AnyView) -> list[str]:
    assert isinstance(view, MessageView | DigestView)
    return [one.incident_id for one in view.firing]
