"""The page of the simulated robots shows what their chats would: markup as such, and names as text."""

import urllib.request
from pathlib import Path

from offsetguard.config.routes import Delivery
from offsetguard.deliver.channels.channel import Connection, open_by
from offsetguard.deliver.channels.one_post import Robot
from offsetguard.deliver.deliver import CHANNELS
from offsetguard_peers.cases.messages import incident, message
from offsetguard_peers.robots.page import markdown_to_html
from offsetguard_peers.robots.server import ROBOTS, SECRET, RobotServer

HOSTILE = "<b>html</b> **bold** @all [x](http://evil.example) `code` \u202e"


def test_markup_is_shown_as_the_clients_show_it() -> None:
    shown = markdown_to_html("### Head\n**Lag**: 5 *soft*\n[Open](https://a.example/?b=1&c=2) `a * b` <@bob> 1 < 2")
    assert "<h3>Head</h3>" in shown
    assert "<b>Lag</b>: 5 <i>soft</i>" in shown
    assert '<a href="https://a.example/?b=1&amp;c=2">Open</a> <code>a * b</code>' in shown
    assert "<mark>&lt;@bob&gt;</mark> 1 &lt; 2" in shown


def test_the_page_has_each_robots_messages_and_a_name_acts_as_none_of_it(tmp_path: Path) -> None:
    kept = tmp_path / "robots.jsonl"
    with RobotServer(message_file=kept) as server:
        for name in ROBOTS:
            connection = Connection(
                name, None, None, None, server.address(name), None, {"secret": SECRET, "timeout": 60}
            )
            robot = open_by(CHANNELS[name], name, connection, Delivery())
            assert isinstance(robot, Robot)
            robot.send(robot.said(message(incident(consumer_group=HOSTILE, topic=HOSTILE, lag_curve=()))))
    with RobotServer(message_file=kept) as again, urllib.request.urlopen(again.url) as answer:
        page = answer.read().decode()
    assert page.count("<article>") == len(ROBOTS), "a new server goes on with what was posted"
    assert "http-equiv" in page
    for active in ("<b>html</b>", "<b>bold</b>", "<mark>", 'href="http://evil.example"', "<code>code</code>", "\u202e"):
        assert active not in page, active
