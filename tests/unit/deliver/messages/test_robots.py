"""What robots say: the same content in each form, within their limits, and no name is markup."""

import re
from collections.abc import Iterator

import pytest

from offsetguard.deliver.channels.one_post import as_json
from offsetguard.deliver.deliver import CHANNELS
from offsetguard.deliver.messages.robots import plain
from offsetguard.deliver.messages.slack import render_slack
from offsetguard.model.digest import digest
from offsetguard.model.views import AnyView
from offsetguard_peers.cases import messages
from offsetguard_peers.cases.messages import incident, message
from offsetguard_peers.robots.server import Received, RobotServer

ROBOTS = ("dingtalk", "feishu", "wecom")
HOSTILE = [
    "**bold** _it_ ~~gone~~",
    "[here](http://evil.example)",
    "![](http://evil.example/p.png)",
    "<@all> @all @所有人 <at id=all></at>",
    '<font color="warning">red</font><script>alert(1)</script>',
    "`code` | table | # head",
    "# head",
    "- item",
    "1. item",
    "group\u202egnp.exe\u200b",
    "🔴" * 255,
    "订" * 255,
]


@pytest.fixture
def server() -> Iterator[RobotServer]:
    with RobotServer(signs=False, keyword="OffsetGuard") as started:
        yield started


def told(server: RobotServer, name: str, view: AnyView) -> Received:
    """Return a message as the robot takes it: whatever is wrong with it, it would be refused."""
    CHANNELS[name]("night", server.address(name)).send(CHANNELS[name].said(view))  # type: ignore[attr-defined,call-arg]
    return server.received[-1]


@pytest.mark.parametrize("name", ROBOTS)
def test_all_say_what_since_when_why_and_what_to_do_in_one_order(server: RobotServer, name: str) -> None:
    command = "sh mqadmin consumerProgress -n 'a;b' -g order-group"
    view = message(incident(commands=(command,), acknowledged_at=None, acknowledged_by=None))
    said = told(server, name, view)
    parts = (
        "Critical: order-group is offline",
        "Cluster orders-cluster · Team orders",
        "no client of it is online.",
        "What to do: Start the consumers",
        command,
        "Topic",
        "Messages waiting",
        "First seen 2026-11-21 06:45:00 UTC",
        "Peak 5,120 messages",
        "Rule accumulation",
    )
    places = [said.text.index(part) for part in parts]
    assert places == sorted(places)
    one = messages.INCIDENT
    assert said.links[:4] == [one.incident_url, one.group_url, one.acknowledge_url, one.silence_url]


def test_robots_mail_and_slack_tell_the_same_in_one_order(server: RobotServer) -> None:
    view = message(incident(began_at=messages.OPENED, acknowledged_at=None, acknowledged_by=None))
    told_by = {name: told(server, name, view).text for name in ROBOTS}
    blocks = render_slack(view, idempotency_key="key 1", in_threads=False).blocks
    told_by["slack"] = "\n".join(one["text"] for one in messages.text_objects(blocks))
    plain_part = messages.mail_of(view).message.get_body(("plain",))
    assert plain_part is not None
    told_by["mail"] = plain_part.get_content()
    parts = ("no client of it is online", "Start the consumers", "Consumer group", "Topic", "Messages waiting")
    parts += ("Clients online", "Backlog gone in", "Since", "First seen", "Peak", "Lag of order-group")
    for name, text in told_by.items():
        place = 0
        for part in parts:
            place = text.find(part, place)
            assert place != -1, (name, part, text)


@pytest.mark.parametrize("name", ROBOTS)
def test_chinese_readers_get_chinese(server: RobotServer, name: str) -> None:
    view = message(language="zh", time_zone="Asia/Shanghai")
    text = told(server, name, view).text
    for part in (
        "严重：",
        "集群 orders-cluster",
        "处理建议：",
        "消费组",
        "2026-11-21 14:45:00 UTC+8",
        "规则 accumulation",
        "**消费组**：" if name != "feishu" else "消费组\n",
    ):
        assert part in text
    assert "Incident" not in text


@pytest.mark.parametrize("name", ROBOTS)
@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_name_is_text(server: RobotServer, name: str, hostile: str) -> None:
    one = incident(
        consumer_group=hostile, topic=hostile, summary=hostile, cause=hostile, do_next=hostile, acknowledgement=hostile
    )
    view = message(one, cluster=hostile, team=hostile, title=hostile)
    said = told(server, name, view)
    assert said.calls == []
    assert not [url for url in said.links if "evil" in url]
    if name != "feishu":  # all of it is plain text there
        own = re.sub(r"\[[^\[\]]*\]\([^()]*\)|^### |\*\*", "", said.text, flags=re.MULTILINE)
        assert not re.search(r"[*\[\]<>`#@~|]|^[-+] |^\d+\. ", own, re.MULTILINE)
    assert not re.search("[\u202e\u200b]", said.text)


def test_a_name_that_holds_no_markup_stays_as_it_is() -> None:
    for name in ("order_group-1", "%RETRY%order_group", "a.b-c", "订单-组 ñ"):
        assert plain(name) == name


@pytest.mark.parametrize("name", ROBOTS)
def test_what_does_not_fit_is_cut_at_a_character_with_a_link_to_the_rest(server: RobotServer, name: str) -> None:
    long = [incident(incident_id=f"id{n}", consumer_group=f"组{n}" * 80, cause="因" * 1_500) for n in range(60)]
    said = told(server, name, message(*long, page_url=messages.PAGE))
    assert "因" in said.text, "the worst is shown"
    assert "…" in said.text
    assert said.links[-1] == f"{messages.PAGE}/offsetguard/incidents/"


@pytest.mark.parametrize("name", ROBOTS)
def test_an_end_is_told_and_calls_nobody(server: RobotServer, name: str) -> None:
    firing = told(server, name, message(mentions=("8613800000000",)))
    assert firing.calls == ["8613800000000"]
    over = told(server, name, messages.ALL_RESOLVED.model_copy(update={"mentions": ("8613800000000",)}))
    assert over.calls == []
    assert "caught up after 41 min" in over.text
    assert "What to do" not in over.text


@pytest.mark.parametrize("name", ROBOTS)
def test_a_digest_tells_the_worst_five_and_counts_by_rule(server: RobotServer, name: str) -> None:
    views = [
        message(
            *[
                incident(incident_id=f"{rule} {n}", summary=f"{rule} of group {n}", cause=f"{rule} why", news=None)
                for n in range(2)
            ],
            rule_id=rule,
            title=f"title of {rule}",
            thread_key=rule,
        )
        for rule in ("first", "second", "third", "fourth")
    ]
    said = told(server, name, digest(views, thread_key="all"))
    assert "4 causes in one message: 8 findings" in said.text
    assert len(re.findall("of group", said.text)) == len(re.findall(" why", said.text)) == 5
    for rule in ("first", "second", "third", "fourth"):
        assert f"title of {rule}" in said.text
    assert said.links[-1].endswith("/offsetguard/incidents/")
    assert len(re.findall(r"\(\w+ \d\)", said.text)) == 5, "each with its id"


@pytest.mark.parametrize("name", ROBOTS)
def test_a_digest_of_ends_says_what_was(server: RobotServer, name: str) -> None:
    said = told(server, name, digest([messages.ALL_RESOLVED], thread_key="all"))
    assert "Resolved: 1 cause in one message: 1 resolved" in said.text
    assert "It was: Consumer group order-group is 5,120 messages behind" in said.text


def test_a_digest_in_the_longest_words_still_counts_by_rule(server: RobotServer) -> None:
    """WeCom takes a fifth of what the others take."""
    views = [
        message(
            incident(consumer_group="订单" * 10, summary="堆积" * 20, cause="因" * 1_500),
            rule_id=f"rule_{n}",
            title="标题" * 5,
            language="zh",
        )
        for n in range(6)
    ]
    text = told(server, "wecom", digest(views, thread_key="all")).text
    assert [n for n in range(6) if f"rule_{n}" in text] == [*range(6)]


def test_incidents_of_one_message_are_set_apart(server: RobotServer) -> None:
    """Everything is plain text to Feishu, so no heading is bold."""
    for name, mark in (("wecom", "a is bad**"), ("feishu", "a is bad")):
        said = told(server, name, message(incident(summary="a is bad"), incident(summary="b is bad")))
        assert mark in said.text
    assert [one["tag"] for one in said.document["card"]["elements"]].count("hr") == 2


def test_documents_are_counted_as_they_go_out() -> None:
    assert as_json({"a": "因"}) == '{"a":"因"}'.encode()
