"""A Slack message is within Slack's limits whatever the trouble, and no name in it acts as markup.

A thread reads as a story: the parent turns green, and each update stands below it.
"""

import json
import re
import time
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from offsetguard.deliver.messages.slack import SlackMessage, render_slack, total_units
from offsetguard.deliver.messages.slack_blocks import code, fit, units
from offsetguard.model.views import DetailsView, FigureView, MessageView, News, NotificationReason, QueueView, StackView
from offsetguard_peers.cases.messages import ALL_RESOLVED, ENDED, INCIDENT, PAGE, VIEW, incident, message, text_objects
from offsetguard_peers.cases.running import examples
from offsetguard_peers.pictures.slack import READERS, story
from offsetguard_peers.slack.blocks import block_problems
from offsetguard_peers.slack.workspace import SlackWorkspace

NAME = st.text(st.sampled_from("ab&<>*_~`@:#!|\n\r\u202e\0🔴订\ud800"), max_size=255)


def rendered(view: MessageView) -> SlackMessage:
    return render_slack(view, idempotency_key="key 1")


def details_of(view: MessageView) -> SlackMessage:
    """Return what follows in the thread."""
    return rendered(DetailsView.of(view))


def whole(view: MessageView) -> SlackMessage:
    """Return what a webhook gets, which has no threads."""
    return render_slack(view, idempotency_key="key 1", in_threads=False)


def lines_of(view: MessageView) -> list[str]:
    """Return all that a reader of the channel and of the thread gets."""
    sent = rendered(view)
    blocks = sent.blocks + (details_of(view).blocks if sent.follow_up else [])
    return [text["text"] for text in text_objects(blocks)]


def accept(message: SlackMessage) -> None:
    """Let the strict Slack take a message as a post, and as what a post is edited to."""
    slack = SlackWorkspace()
    content = {"channel": "C0ALERTS", "text": message.text, "blocks": message.blocks, "metadata": message.metadata}
    if message.reply_blocks is not None:
        reply = slack.call("chat.postMessage", {**content, "blocks": message.reply_blocks}, slack.token)
        assert reply["ok"], reply
        slack.messages.clear()
    posted = slack.call("chat.postMessage", json.loads(json.dumps(content)), slack.token)
    assert posted["ok"], posted
    edited = slack.call("chat.update", {**content, "ts": posted["ts"]}, slack.token)
    assert edited["ok"], edited
    assert slack.messages[0].text == message.text, "nothing is cut"


def test_a_first_warning_reads_as_it_should() -> None:
    first = rendered(VIEW)
    assert [f"{text['type']}: {text['text']}" for text in text_objects(first.blocks)] == [
        "plain_text: 🔴 Critical: order-group is offline and 5,120 messages behind on order-events",
        "mrkdwn: Cluster `orders-cluster`",
        "mrkdwn: Team `orders`",
        "mrkdwn: First message about this.",
        "plain_text: Consumer group order-group is 5,120 messages behind on order-events "
        "and no client of it is online.",
        "plain_text: What to do: Start the consumers of order-group.",
        "plain_text: First seen 2026-11-21 06:45:00 UTC, for 34 min, seen 34 times",
        "plain_text: Peak 5,120 messages",
        "plain_text: Backlog gone in 8 min to 12 min",
        "plain_text: First messages lost in 5 h or later",
        "plain_text: Acknowledged by alice, 2026-11-21 07:00:00 UTC: I look after it",
        "plain_text: Silence",
        "plain_text: Open",
        "plain_text: Group",
        "mrkdwn: <http://127.0.0.1:8080|Open in Airflow>",
        "mrkdwn: <http://127.0.0.1:8080/docs?a=1&amp;b=2|Data Docs>",
        "mrkdwn: Details in the replies",
        "mrkdwn: Rule `accumulation` · interval 2026-11-21 07:19:00 UTC",
    ]
    assert [f"{text['type']}: {text['text']}" for text in text_objects(details_of(VIEW).blocks)] == [
        "plain_text: Details: messages pile up · interval 2026-11-21 07:19:00 UTC",
        "mrkdwn: *Consumer group*\n`order-group`",
        "mrkdwn: *Topic*\n`order-events`",
        "mrkdwn: *Messages waiting*\n5,120",
        "mrkdwn: *Clients online*\n0",
        "mrkdwn: *Backlog gone in*\n8 min to 12 min",
        "mrkdwn: *First messages lost in*\n5 h or later",
        "mrkdwn: • `broker-a queue 0` lag 700\n• `broker-a queue 1` lag 699\nand 14 more queues",
        "plain_text: Also explains:\n• never_committed: order-group has committed nothing of order-audit\n"
        "and 12 more findings",
        "plain_text: Cannot tell:\n• lock_contention: lock.log of broker-a was not read.",
        "plain_text: Lag of order-group in the queues that are behind, 2026-11-21 06:45:00 to 07:15:00 UTC: "
        "0 at first, at most 6,000 at 07:05, 5,120 at the end",
    ]
    assert first.text.splitlines() == [
        "[CRITICAL] orders-cluster · order-group is offline and 5,120 messages behind on order-events",
        "order-group (order-events): Consumer group order-group is 5,120 messages behind on order-events "
        "and no client of it is online.",
    ]
    assert first.metadata["event_payload"]["idempotency_key"] == "key 1"


LONG_CAUSE = "Consumer group order-group is 5,120 messages behind, and nobody knows why. " * 30
MANY = tuple(incident(consumer_group=f"group-{n}", summary=f"group-{n} is behind") for n in range(40))
WARNINGS = {
    "one": VIEW,
    "one with a long cause": message(incident(cause=LONG_CAUSE, do_next=LONG_CAUSE)),
    "one with commands": message(incident(commands=tuple(f"mqadmin consumerProgress -g g{n}" for n in range(4)))),
    "one with a long command": message(incident(commands=("mqadmin consumerProgress -g " + "g" * 900,))),
    "many": message(*MANY, hidden_firing=300, resolved=(ENDED,) * 20, repeat_count=3, late=True, muted_count=312),
    "Chinese": message(*MANY, language="zh", time_zone="Asia/Shanghai"),
}


@pytest.mark.parametrize("view", WARNINGS.values(), ids=WARNINGS)
def test_a_warning_takes_at_most_fifteen_lines_of_the_channel_and_the_rest_stands_in_its_thread(
    view: MessageView,
) -> None:
    sent, details = rendered(view), details_of(view)
    assert sent.follow_up
    assert sum(map(height_of, sent.blocks)) <= 15, sent.blocks
    accept(details)
    assert (details.is_details, details.follow_up, details.in_channel) == (True, None, False)
    missing = {one["text"] for one in text_objects(whole(view).blocks)}
    missing = {one for one in missing if "broker-a" in one or "mqadmin" in one} - {*lines_of(view)}
    assert not missing, "what a webhook gets in one message"


def test_nothing_follows_where_nothing_is_left_and_of_an_end() -> None:
    bare = incident(figures=(), queues=(), queue_count=0, explains=(), explained_count=0, cannot_tell=(), lag_curve=())
    bare = bare.model_copy(update={"cannot_tell_count": 0})
    assert "Details in the replies" not in lines_of(message(bare))
    for view in (message(bare), ALL_RESOLVED, message(resolved=(ENDED,), reason=NotificationReason.RESOLVED)):
        assert rendered(view).follow_up is None


def height_of(block: dict[str, Any]) -> int:
    """Return the lines that a block takes in a channel of 110 characters a line."""
    texts = [text["text"] for text in text_objects([block])]
    if block["type"] in {"context", "actions"}:
        texts = [" · ".join(texts)]
    elif "fields" in block:
        return len(texts[::2]) * 2
    elif block["type"] == "divider":
        return 0
    return sum(-(-max(len(line), 1) // 110) for text in texts for line in text.splitlines())


def test_a_resolution_says_how_long_and_how_bad_it_was() -> None:
    shown = lines_of(ALL_RESOLVED)
    assert shown[0] == "✅ Resolved: order-group · caught up after 41 min"
    assert "Lasted 41 min, from 2026-11-21 06:45:00 to 07:26:00 UTC" in shown
    assert "Peak 5,120 messages" in shown


def test_of_what_has_resolved_the_thread_gets_only_the_new_lines() -> None:
    """The parent above tells the rest."""
    partly = rendered(message(resolved=(ENDED,), reason=NotificationReason.RESOLVED))
    assert partly.reply_blocks is not None
    shown = [text["text"] for text in text_objects(partly.reply_blocks)]
    assert shown[3:5] == [
        "Sent because some of it has been resolved.",
        "*Resolved*\n✅ `order-group` caught up, 41 min, from 2026-11-21 06:45:00 to 07:26:00 UTC",
    ]
    assert INCIDENT.cause in [text["text"] for text in text_objects(partly.blocks)]
    assert rendered(VIEW).reply_blocks is None


def test_what_an_operator_must_know_first_stands_above_the_rest() -> None:
    assert lines_of(message(repeat_count=3, late=True, escalated_from="orders", muted_count=312))[4:8] == [
        "Sent late: a replay or backfill was asked to notify.",
        "Escalated: team orders has not acknowledged it.",
        "Reminder 3: it goes on.",
        "312 findings that follow from this: muted while it lasts.",
    ]


def test_the_events_own_moment_stands_beside_when_it_was_first_seen() -> None:
    shown = lines_of(message(incident(began_at=INCIDENT.opened_at - timedelta(seconds=17))))
    since = shown.index("Since 2026-11-21 06:44:43 UTC")
    assert shown[since + 1].startswith("First seen 2026-11-21 06:45:00 UTC, ")


def test_the_line_of_queues_with_equal_figures_counts_them() -> None:
    alike = INCIDENT.queues[0].model_copy(update={"alike_count": 3})
    shown = lines_of(message(incident(queues=(alike,), queue_count=4)))
    assert "• 4 queues, each lag 700" in shown


def test_what_is_new_is_marked_and_a_thread_of_which_something_goes_on_is_not_green() -> None:
    new = incident(news=News.NEW)
    assert f"New: {new.summary}" in "\n".join(lines_of(message(new, INCIDENT)))
    header, *_, note = lines_of(ALL_RESOLVED.model_copy(update={"goes_on_count": 1}))[:5]
    assert header.startswith("🔵 Resolved: ")
    assert note == "Also going on, acknowledged or muted and so not listed: 1 finding of this cause."


def buttons(view: MessageView) -> dict[str, str]:
    """Return the address of each button by its id."""
    found = [each for block in whole(view).blocks if block["type"] == "actions" for each in block["elements"]]
    assert len({each["action_id"] for each in found}) == len(found)
    return {each["action_id"]: each["url"] for each in found}


def test_buttons_lead_to_the_pages_of_the_incident_and_its_group() -> None:
    page = f"{PAGE}/offsetguard/incidents/1"
    assert buttons(message(incident(acknowledged_at=None), INCIDENT)) == {
        "acknowledge_0": f"{page}#acknowledge",
        "silence_0": f"{page}#silence",
        "open_0": page,
        "group_0": INCIDENT.group_url,
        "silence_1": f"{page}#silence",  # somebody looks after this one
        "open_1": page,
        "group_1": INCIDENT.group_url,
    }
    assert buttons(ALL_RESOLVED) == {"open_0": page, "group_0": INCIDENT.group_url}
    nowhere = incident(incident_url=None, acknowledge_url=None, silence_url=None, group_url=None)
    assert buttons(message(nowhere)) == {}
    assert buttons(message(nowhere.model_copy(update={"console_url": CONSOLE}))) == {"console_0": CONSOLE}


CONSOLE = "https://console.example.com/#/consumer?group=order-group"
SENT_REASONS = [reason for reason in NotificationReason if reason.is_sent]


@pytest.mark.parametrize("reason", SENT_REASONS)
def test_what_people_must_not_miss_is_shown_in_the_channel_too(reason: NotificationReason) -> None:
    ends = {NotificationReason.RESOLVED, NotificationReason.ALL_RESOLVED}
    assert rendered(message(reason=reason)).in_channel is (reason not in ends)


def test_of_each_stack_three_frames_are_shown_the_last_of_them_the_listener() -> None:
    frames = ("com.acme.Pool.<init>:7", "com.acme.Http.execute:88", "com.acme.Api.call:9", "com.acme.Orders.consume:42")
    stacks = (StackView(said="client a@1"), StackView(said="20 of 20 consume threads, waiting", frames=frames))
    told = lines_of(message(incident(stacks=stacks)))
    (shown,) = (one for one in told if one.startswith("What the client's threads did:"))
    assert shown.splitlines()[1:] == [
        "• client a@1",
        "• 20 of 20 consume threads, waiting: com.acme.Pool.<init>:7 ← com.acme.Http.execute:88 ← … ← "
        "com.acme.Orders.consume:42",
    ]


def test_chinese_readers_read_chinese_in_their_zone() -> None:
    """Texts of the rule and names of figures come translated with the view: planning renders them."""
    shown = "\n".join(lines_of(message(language="zh", time_zone="Asia/Shanghai")))
    expected = (
        *(
            "🔴 严重：order-group is offline",
            "集群 `orders-cluster`",
            "首次通知。",
            "处理建议：Start",
            "broker-a 队列 0",
        ),
        *("另有 14 个队列", "首次发现于 2026-11-21 14:45:00", "静默", "打开"),
    )
    assert [words for words in expected if words not in shown] == []


def test_ten_thousand_queues_of_five_thousand_groups_are_one_message_within_a_moment() -> None:
    queues = INCIDENT.queues * 5_000
    many = [incident(consumer_group=f"g{n}", queues=queues, queue_count=10_000) for n in range(5_000)]
    start = time.process_time()
    told = whole(message(*many, hidden_firing=7))
    assert time.process_time() - start < 10, "a fraction of a second; bears a machine that is ten times slower"
    accept(told)
    accept(rendered(message(*many, hidden_firing=7)))
    accept(details_of(message(*many, hidden_firing=7)))
    words = json.dumps(told.blocks, ensure_ascii=False)
    named = sum(f"`g{n}`" in words for n in range(100))
    assert f"and {5_007 - named:,} more findings" in words
    assert "5,000 consumer groups" in told.text
    assert "and 9,995 more queues" in words


@pytest.mark.parametrize("count", [2, 8, 60, 400])
def test_what_does_not_fit_is_counted(count: int) -> None:
    many = [incident(consumer_group=f"g{n}", summary=f"g{n} is behind") for n in range(count)]
    for render, least in ((whole, 10), (details_of, 10), (rendered, 3)):
        blocks = render(message(*many)).blocks
        assert block_problems(blocks) == []
        words = json.dumps(blocks, ensure_ascii=False)
        named = sum(bool(re.search(f"\\bg{n}\\b", words)) for n in range(count))
        rest = re.search(r"\*Also:\*[^\"]* and (\d+) more finding", words)
        assert named + (int(rest[1]) if rest else 0) == count
        assert named >= min(count, least)


LONG = [
    "x" * 5_000,
    '"\\' * 2_500,  # twice as long in JSON
    "&<>" * 2_000,  # five times as long in mrkdwn
    "🔴" * 2_500,  # two UTF-16 units each
    "\u202e" * 2_000,  # six characters each when shown
]


@settings(max_examples=examples(0.25), suppress_health_check=[HealthCheck.too_slow])
@given(
    name=st.one_of(NAME, st.sampled_from(LONG)),
    words=st.one_of(st.text(max_size=40).map(lambda text: text * 80), st.sampled_from(LONG)),
    counts=st.tuples(st.integers(0, 70), st.integers(0, 70), st.integers(0, 300)),
    language=st.sampled_from(["en", "zh"]),
    path=st.sampled_from(["", "x" * 300, "x" * 1_900]),
    told=st.booleans(),
    reason=st.sampled_from(SENT_REASONS),
)
def test_any_view_is_accepted_and_its_worst_incident_told(
    *,
    name: str,
    words: str,
    counts: tuple[int, int, int],
    language: str,
    path: str,
    told: bool,
    reason: NotificationReason,
) -> None:
    firing_count, resolved_count, others = counts
    figures = tuple(FigureView(label=name, value=words) for _ in range(min(15, others)))
    queues = tuple(QueueView(topic=name, broker_name=name, queue_id=n, figures=figures) for n in range(min(20, others)))
    url = f"https://airflow.example.com/{path}"
    full = ENDED.model_copy(
        update={
            "consumer_group": name, "topic": name, "summary": words, "cause": f"cause {words}", "do_next": words,
            "peak": words, "resolution": words, "figures": figures, "queues": queues, "queue_count": others,
            "explains": (words,) * min(20, others), "explained_count": others,
            "stacks": (StackView(said=words, frames=(name,) * min(12, others)),) * min(8, others),
            "cannot_tell": (words,) * min(20, others), "cannot_tell_count": others, "muted_count": others,
            "muted_when_resolved": words, "acknowledged_by": name, "acknowledgement": words,
            "acknowledged_at": ENDED.acknowledged_at if told else None,
            "incident_url": url, "acknowledge_url": url, "silence_url": url, "group_url": url, "console_url": url,
        }
    )  # fmt: skip
    firing, resolved = (full,) * firing_count, (full,) * resolved_count
    changes = {
        "firing": firing, "resolved": resolved, "cluster": name, "team": name, "title": words, "language": language,
        "hidden_firing": others if firing else 0, "hidden_resolved": others, "muted_count": others,
        "repeat_count": others, "escalated_from": name, "late": told,
        "page_url": url, "data_docs_url": url, "reason": reason,
    }  # fmt: skip
    sent = rendered(VIEW.model_copy(update=changes))
    accept(sent)
    accept(whole(VIEW.model_copy(update=changes)))
    if sent.follow_up:
        accept(details_of(VIEW.model_copy(update=changes)))
    assert total_units(sent.blocks) <= 12_000
    assert 0 < units(sent.text) <= 4_000
    stories = [
        text["text"] for text in text_objects(sent.blocks) if re.match(r"(It was: |原告警.)?cause", text["text"])
    ]
    assert stories or not (firing or resolved)


@settings(max_examples=examples(0.1))
@given(name=NAME)
def test_no_name_acts_as_markup(name: str) -> None:
    """Outside code spans, links of ours and our bold text, nothing in mrkdwn is active."""
    hostile = incident(consumer_group=name, topic=name, peak=name, figures=(FigureView(label="lag", value=name),))
    hostile = hostile.model_copy(update={"stacks": (StackView(said=name, frames=(name, name)),)})
    everywhere = {"cluster": name, "rule_id": name, "team": name, "escalated_from": name}
    sent = rendered(message(hostile, hostile, resolved=(hostile,), **everywhere))
    for text in text_objects(sent.blocks):
        if text["type"] == "mrkdwn":
            for line in text["text"].splitlines():
                quoted = re.sub(r"`[^`\n]+`|<http[^<>|\n]+\|[A-Za-z ]+>", "x", line)
                outside = re.sub(r"\*[^*_~`<>@]+\*", "", quoted)
                assert not set(outside) & set("*_~`<>@"), outside
        else:
            assert text["emoji"] is False
    assert not re.search(r"[<>]", sent.text)


@given(st.text(), st.integers(2, 60))
def test_cut_text_never_ends_within_an_entity_and_never_exceeds_the_limit(text: str, limit: int) -> None:
    cut = fit(text, limit)
    assert units(cut) <= limit
    assert re.fullmatch(r"(?:[^&<>]|&(?:amp|lt|gt);)*", cut, re.DOTALL)


@given(st.text(), st.integers(3, 60))
def test_a_code_span_is_one_span(text: str, limit: int) -> None:
    span = code(text, limit)
    assert units(span) <= limit
    assert span.count("`") == 2
    assert len(span) > 2


def test_nothing_is_left_in_english_for_chinese_readers() -> None:
    """But for names, commands, numbers and what RocketMQ and Airflow call things."""
    said = " ".join(line for _, view in story("zh", READERS["zh"]) for line in lines_of(view))
    english = set(re.findall(r"[A-Za-z]{3,}", re.sub(r"`[^`]*`|<[^>]*>|mqadmin.*? -s", "", said)))
    named = {"order", "group", "events", "invoice", "broker", "inflight", "UTC", "alice"}
    comment = {"listener", "hangs", "restarting"}
    assert english - named - comment == set()
