"""A Slack message is within Slack's limits whatever the trouble, and no name in it acts as markup."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from offsetguard.messages.mrkdwn import code, fit, units
from offsetguard.messages.slack import MAX_TOTAL_UNITS, render_slack, total_units
from offsetguard.messages.view import FigureView, NotificationReason, QueueView
from offsetguard_peers.slack_blocks import block_problems, total_characters

if TYPE_CHECKING:
    from offsetguard.messages.view import IncidentView, MessageView

FAST = settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
NAME = st.text(st.sampled_from("ab&<>*_~`@:#!|\n\r\u202e\0🔴订\ud800"), max_size=255)


def blocks_of(view: MessageView) -> list[dict[str, Any]]:
    return render_slack(view, idempotency_key="key 1").blocks


def texts(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All text objects, wherever they are."""
    found = []
    for block in blocks:
        found += [block["text"]] if "text" in block else []
        found += block.get("fields", []) + block.get("elements", [])
    return found


def test_a_first_warning_reads_as_it_should(view: MessageView) -> None:
    message = render_slack(view, idempotency_key="key 1")
    assert [f"{text['type']}: {text['text']}" for text in texts(message.blocks)] == [
        "plain_text: 🔴 Critical: order-group is offline and 5,120 messages behind on order-events",
        "mrkdwn: Cluster `orders-cluster`",
        "mrkdwn: Team `orders`",
        "mrkdwn: First message about this.",
        "plain_text: Consumer group order-group is 5,120 messages behind on order-events "
        "and no client of it is online.",
        "plain_text: What to do: Start the consumers of order-group.",
        "mrkdwn: *Consumer group*\n`order-group`",
        "mrkdwn: *Topic*\n`order-events`",
        "mrkdwn: *Messages waiting*\n5,120",
        "mrkdwn: *Clients online*\n0",
        "mrkdwn: • `broker-a queue 0` lag 700\n• `broker-a queue 1` lag 699\nand 14 more queues",
        "plain_text: Also explains:\n• never_committed: order-group has committed nothing of order-audit\n"
        "and 12 more findings",
        "plain_text: Cannot tell:\n• lock_contention: lock.log of broker-a was not read.",
        "mrkdwn: Since 2026-11-21 06:45:00 UTC, for 34 min, seen 34 times",
        "mrkdwn: Peak 5,120 messages",
        "mrkdwn: <http://127.0.0.1:8080|Open in Airflow>",
        "mrkdwn: <http://127.0.0.1:8080/docs?a=1&amp;b=2|Data Docs>",
        "mrkdwn: Rule `accumulation` · interval 2026-11-21 07:19:00 UTC",
    ]
    assert message.text.splitlines() == [
        "[CRITICAL] orders-cluster · order-group is offline and 5,120 messages behind on order-events",
        "order-group (order-events): Consumer group order-group is 5,120 messages behind on order-events "
        "and no client of it is online.",
    ]
    assert message.metadata["event_payload"]["idempotency_key"] == "key 1"


def test_a_resolution_says_how_long_and_how_bad_it_was(view: MessageView, resolved_incident: IncidentView) -> None:
    changes = {"firing": (), "resolved": (resolved_incident,), "reason": NotificationReason.ALL_RESOLVED}
    shown = [text["text"] for text in texts(blocks_of(view.model_copy(update=changes)))]
    assert shown[0] == "✅ Resolved: order-group · caught up after 41 min"
    assert "Lasted 41 min, from 2026-11-21 06:45:00 to 07:26:00 UTC" in shown
    assert "Peak 5,120 messages" in shown


@pytest.mark.parametrize("count", [2, 8, 60, 400])
def test_what_does_not_fit_is_counted(view: MessageView, incident: IncidentView, count: int) -> None:
    many = tuple(
        incident.model_copy(update={"consumer_group": f"g{n}", "summary": f"g{n} is behind"}) for n in range(count)
    )
    blocks = blocks_of(view.model_copy(update={"firing": many}))
    assert block_problems(blocks) == []
    words = json.dumps(blocks, ensure_ascii=False)
    named = sum(f"`g{n}`" in words for n in range(count))
    rest = re.search(r"\*Also:\*[^\"]* and (\d+) more finding", words)
    assert named + (int(rest[1]) if rest else 0) == count
    assert named >= min(count, 10)


@FAST
@given(name=NAME, words=st.text(max_size=40), counts=st.tuples(st.integers(0, 12), st.integers(0, 300)))
def test_slacks_limits_hold_whatever_is_said(
    view: MessageView, resolved_incident: IncidentView, name: str, words: str, counts: tuple[int, int]
) -> None:
    (count, queue_count), words = counts, words * 80
    figures = tuple(FigureView(label=name, value=words) for _ in range(15))
    queues = tuple(
        QueueView(topic=name, broker_name=name, queue_id=n, figures=figures) for n in range(min(20, queue_count))
    )
    full = resolved_incident.model_copy(
        update={
            "consumer_group": name, "topic": name, "summary": words, "cause": words, "do_next": words, "peak": words,
            "resolution": words, "figures": figures, "queues": queues, "queue_count": queue_count,
            "explains": (words,) * min(20, queue_count), "explained_count": queue_count,
            "cannot_tell": (words,) * min(20, queue_count), "cannot_tell_count": queue_count,
        }
    )  # fmt: skip
    for firing, resolved in (((full,) * count, ()), ((full,), (full,) * count), ((), (full,) * count)):
        message = render_slack(
            view.model_copy(update={"firing": firing, "resolved": resolved, "cluster": name, "title": words}),
            idempotency_key=name,
        )
        assert block_problems(message.blocks) == []
        assert total_characters(message.blocks) <= 13_000
        assert total_units(message.blocks) <= MAX_TOTAL_UNITS
        assert 0 < len(message.text) <= 4_000
        json.dumps(message.blocks, ensure_ascii=False).encode()


@FAST
@given(name=NAME)
def test_no_name_acts_as_markup(view: MessageView, incident: IncidentView, name: str) -> None:
    """Outside code spans, links of ours and our bold labels, nothing in mrkdwn is active."""
    hostile = incident.model_copy(
        update={"consumer_group": name, "topic": name, "peak": name, "figures": (FigureView(label="lag", value=name),)}
    )
    changes = {"firing": (hostile,), "cluster": name, "rule_id": name, "team": name}
    message = render_slack(view.model_copy(update=changes), idempotency_key="key 1")
    for text in texts(message.blocks):
        if text["type"] == "mrkdwn":
            for line in text["text"].splitlines():
                outside = re.sub(r"`[^`\n]+`|<http[^<>|\n]+\|[A-Za-z ]+>|\*[A-Za-z0-9 ,·:-]+\*", "", line)
                assert not set(outside) & set("*_~`<>@"), outside
        else:
            assert text["emoji"] is False
    assert not re.search(r"[<>]", message.text)


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
