"""One message as the judge writes it, of which tests change what they are about, and mails as they arrive."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from offsetguard.deliver.messages.mail import render_mail
from offsetguard.deliver.messages.slack import EVENT_TYPE, SlackMessage
from offsetguard.model import views
from offsetguard.model.verdicts import FURTHEST_MS
from offsetguard_peers.smtp.server import ReceivedMail, parsed

PAGE = "http://127.0.0.1:8080"
OPENED = datetime(2026, 11, 21, 6, 45, tzinfo=UTC)
SENT_AT = datetime(2026, 11, 21, 7, 20, tzinfo=UTC)
INCIDENT = views.IncidentView(
    incident_id="incident 1",
    consumer_group="order-group",
    topic="order-events",
    severity="critical",
    state="STOPPED",
    title="messages pile up",
    summary="order-group is offline and 5,120 messages behind on order-events",
    cause="Consumer group order-group is 5,120 messages behind on order-events and no client of it is online.",
    do_next="Start the consumers of order-group.",
    opened_at=OPENED,
    last_seen_at=OPENED + timedelta(minutes=34),
    seen_count=34,
    peak="5,120 messages",
    figures=(
        views.FigureView(label="Messages waiting", value="5,120"),
        views.FigureView(label="Clients online", value="0"),
    ),
    queues=tuple(
        views.QueueView(
            topic="order-events",
            broker_name="broker-a",
            queue_id=queue_id,
            figures=(views.FigureView(label="lag", value=f"{700 - queue_id}"),),
        )
        for queue_id in range(2)
    ),
    queue_count=16,
    explains=("never_committed: order-group has committed nothing of order-audit",),
    explained_count=13,
    cannot_tell=("lock_contention: lock.log of broker-a was not read.",),
    cannot_tell_count=1,
    lag_curve=tuple(
        views.LagPoint(at=OPENED + timedelta(minutes=n), lag=lag)
        for n, lag in ((0, 0), (5, 800), (20, 6_000), (30, 5_120))
    ),
    drain_ms=(480_000, 720_000),
    loss_ms=(5 * 3_600_000, FURTHEST_MS),
    acknowledged_at=OPENED + timedelta(minutes=15),
    acknowledged_by="alice",
    acknowledgement="I look after it",
    incident_url=f"{PAGE}/offsetguard/incidents/1",
    group_url=f"{PAGE}/offsetguard/fleet/group?cluster=orders-cluster&consumer_group=order-group",
    acknowledge_url=f"{PAGE}/offsetguard/incidents/1#acknowledge",
    silence_url=f"{PAGE}/offsetguard/incidents/1#silence",
)
VIEW = views.MessageView(
    team="orders",
    cluster="orders-cluster",
    rule_id="accumulation",
    severity="critical",
    title="messages pile up",
    reason=views.NotificationReason.FIRST,
    interval_start=OPENED + timedelta(minutes=34),
    thread_key="thread 1",
    firing=(INCIDENT,),
    page_url=PAGE,
    data_docs_url="http://127.0.0.1:8080/docs?a=1&b=2",
)


def incident(**changed: Any) -> views.IncidentView:
    """Return the incident with other fields."""
    return INCIDENT.model_copy(update=changed)


def message(*firing: views.IncidentView, **changed: Any) -> views.MessageView:
    """Return the message with other fields, about other incidents where they are given."""
    return VIEW.model_copy(update={"firing": firing or VIEW.firing, **changed})


ENDED = incident(resolved_at=OPENED + timedelta(minutes=41), resolution="caught up")
ALL_RESOLVED = message(firing=(), resolved=(ENDED,), reason=views.NotificationReason.ALL_RESOLVED)  # of the same thread


def slack_message(text: str = "hello & more", key: str = "key 1", **changed: Any) -> SlackMessage:
    """Return a message as it goes to Slack."""
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": "hello", "verbatim": True}}]
    metadata = {"event_type": EVENT_TYPE, "event_payload": {"idempotency_key": key}}
    return replace(SlackMessage(text, blocks, metadata), **changed)


def mail_of(view: views.AnyView, key: str = "key 1") -> ReceivedMail:
    """Render a mail, and read it back from the bytes that go to the server."""
    receiver = "orders@example.com"
    mail = render_mail(view, sender="offsetguard@example.com", receiver=receiver, idempotency_key=key, sent_at=SENT_AT)
    return ReceivedMail("offsetguard@example.com", (receiver,), parsed(mail.as_bytes()), mail.as_bytes(), SENT_AT)


def text_objects(blocks: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the texts in the blocks of a Slack message, wherever they are, with their types."""
    found = []
    for block in blocks:
        found += [block["text"]] if "text" in block else []
        parts = block.get("elements", [])
        if block["type"] == "rich_text":
            parts = [{"type": "code", "text": run["text"]} for part in parts for run in part["elements"]]
        found += block.get("fields", []) + parts
    return [each["text"] if each["type"] == "button" else each for each in found]
