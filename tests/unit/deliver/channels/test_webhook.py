"""A webhook is signed as the reference library verifies, and means what docs/webhook.md says."""

import json
import os
import re
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from standardwebhooks import Webhook as Reference
from standardwebhooks import WebhookVerificationError

from offsetguard.config.routes import Delivery
from offsetguard.deliver.channels.channel import Connection, Unavailable, open_by
from offsetguard.deliver.channels.webhook import Webhook
from offsetguard.deliver.deliver import CHANNELS, deliver_due
from offsetguard.deliver.messages.cloud_event import cloud_event
from offsetguard.model.digest import digest
from offsetguard.model.errors import DeliveryError
from offsetguard.model.views import AnyView, IncidentView, NotificationReason
from offsetguard.store import outbox
from offsetguard.store.database import reading, writing
from offsetguard.store.models import Status
from offsetguard.store.outbox import Lane
from offsetguard.views.incident import IncidentPage
from offsetguard_peers.cases import messages
from offsetguard_peers.delivery.world import NOW, DeliveryWorld
from offsetguard_peers.http_server import HttpPeer, Quiet
from offsetguard_peers.waiting import wait_until

PAGE = Path(__file__).parents[4] / "docs" / "webhook.md"
KEY, NEXT_KEY = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
AT = datetime(2026, 11, 21, 7, 20, tzinfo=UTC)
INWARD = Delivery(receivers_may_lead_inward=True)


class Receiver(HttpPeer):
    """Answers with what is set, and keeps what it got."""

    def __init__(self) -> None:
        """Listen on a free port."""
        self.status, self.headers = 204, dict[str, str]()
        self.got: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.got.append((dict(self.headers), body))
                self.send_response(receiver.status)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.end_headers()

        super().__init__(Handler)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as started:
        yield started


def webhook(url: str, *keys: str, delivery: Delivery = INWARD) -> Webhook:
    connection = Connection("hook", None, None, None, url, None, {"secret": list(keys or (KEY,)), "timeout": 30})
    opened = open_by(CHANNELS["webhook"], "hook", connection, delivery)
    assert isinstance(opened, Webhook)
    return opened


def refused(one: Webhook) -> DeliveryError:
    with pytest.raises(DeliveryError) as caught:
        one.send(b"{}", "id")
    shown = "".join(traceback.format_exception(caught.value)) + repr(one)
    assert "top-secret" not in shown
    assert KEY.removeprefix("whsec_") not in shown
    return caught.value


def event(view: AnyView) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(cloud_event(view, event_id="key 1", at=AT))
    return document


def test_every_try_has_one_id_and_a_signature_of_each_key(world: DeliveryWorld, receiver: Receiver) -> None:
    with writing(world.engine) as session:
        outbox.enqueue(
            session, idempotency_key="key 1", channel="webhook", receiver="hook", view=messages.VIEW, now=NOW
        )
    receiver.status = 503
    deliver_due(world.engine, lambda _: webhook(receiver.url, KEY, NEXT_KEY), now=NOW)
    receiver.status = 200
    again = world.rows()["key 1"].next_attempt_at
    assert deliver_due(world.engine, lambda _: webhook(receiver.url, KEY, NEXT_KEY), now=again).sent == 1
    (first, body), (second, same) = receiver.got
    assert first["webhook-id"] == second["webhook-id"] == "key 1"
    assert body == same
    for key in (KEY, NEXT_KEY):
        assert Reference(key).verify(body, first)["data"]["cluster"] == "orders-cluster"
    with pytest.raises(WebhookVerificationError):
        Reference(KEY).verify(body.replace(b"orders-cluster", b"others-cluster"), first)


def test_410_switches_the_receiver_off_until_an_operator_switches_it_on(
    world: DeliveryWorld, receiver: Receiver
) -> None:
    def put(key: str) -> None:
        with writing(world.engine) as session:
            outbox.enqueue(
                session, idempotency_key=key, channel="webhook", receiver="hook", view=messages.VIEW, now=NOW
            )

    def deliver() -> dict[str, tuple[Status, str | None]]:
        deliver_due(world.engine, lambda _: webhook(receiver.url), now=NOW)
        return {key: (row.status, row.last_error) for key, row in world.rows().items()}

    receiver.status = 410
    put("key 1")
    put("key 2")
    assert [status for status, _ in deliver().values()] == [Status.OFF] * 2
    receiver.status = 204
    put("key 3")
    rows = deliver()
    assert len(receiver.got) == 1, "nothing is sent to who wants nothing"
    why = rows["key 1"][1] or ""
    assert rows["key 2"] == rows["key 3"] == (Status.OFF, f"not tried: {why}")
    assert outbox.why_off(world.engine, Lane("webhook", "hook")) == why
    assert outbox.why_off(world.engine, Lane("webhook", "another")) is None
    with reading(world.engine) as session:
        assert outbox.backlog(session).failed_count == 3
        assert outbox.undelivered(session, [messages.VIEW.thread_key]) == {
            (messages.VIEW.thread_key, "webhook", "hook"): f"not tried: {why}"
        }

    assert outbox.redrive(world.engine, ids=[world.rows()["key 3"].id]) == 3, "it is switched on as a whole"
    assert {status for status, _ in deliver().values()} == {Status.SENT}
    assert len(receiver.got) == 4

    receiver.status = 410
    put("key 4")
    deliver()
    assert outbox.dismiss(world.engine) == 1
    receiver.status = 204
    put("key 5")
    assert deliver()["key 5"] == (Status.SENT, None)


ANSWERS = [
    (410, {}, (True, None), "answers 410, so it is switched off: take it out of the configuration"),
    (400, {}, (True, None), "HTTP 400; see docs/webhook.md"),
    (401, {}, (False, None), "HTTP 401; correct the connection or the receiver"),
    (301, {"Location": "http://127.0.0.1:1/"}, (False, None), "redirects, which is not followed"),
    (429, {"Retry-After": "7"}, (False, 7), "may post no more for 7 s"),
    (503, {"Retry-After": "86400"}, (False, 3_600), "HTTP 503; whether the channel has the message is unknown"),
]


@pytest.mark.parametrize(("status", "headers", "expected", "said"), ANSWERS)
def test_an_answer_says_what_follows(
    receiver: Receiver, status: int, headers: dict[str, str], expected: tuple[bool, float | None], said: str
) -> None:
    receiver.status, receiver.headers = status, headers
    error = refused(webhook(f"{receiver.url}top-secret"))
    assert (error.permanent, error.retry_after_s) == expected
    assert said in str(error)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "10.0.0.1", "169.254.169.254", "[::1]", "0.0.0.0"])
def test_an_address_that_leads_inward_is_refused_unless_it_is_allowed(host: str) -> None:
    error = refused(webhook(f"http://{host}:1/top-secret", delivery=Delivery()))
    assert "leads inward; where that is meant, set delivery.receivers_may_lead_inward" in str(error)
    assert not error.permanent


def test_a_name_that_does_not_resolve_is_said_as_such() -> None:
    error = refused(webhook("https://nowhere.invalid/top-secret", delivery=Delivery()))
    assert "its name cannot be resolved" in str(error)


@pytest.mark.parametrize(
    ("secret", "said"), [(None, "write the key as"), ("whsec_not base64", "is not whsec_ and base64")]
)
def test_without_a_key_nothing_is_sent(secret: str | None, said: str) -> None:
    connection = Connection("hook", None, None, None, "https://example.com", None, {"secret": secret})
    opened = open_by(CHANNELS["webhook"], "hook", connection, Delivery())
    assert isinstance(opened, Unavailable)
    assert said in opened.reason


TYPES = [
    (messages.VIEW, "opened"),
    (messages.message(reason=NotificationReason.ESCALATED), "opened"),
    (messages.message(reason=NotificationReason.WORSE), "changed"),
    (messages.message(reason=NotificationReason.REPEAT), "changed"),
    (messages.ALL_RESOLVED, "resolved"),
    (digest([messages.VIEW], thread_key="thread 1"), "digest"),
]


@pytest.mark.parametrize(("view", "kind"), TYPES, ids=str)
def test_an_event_is_what_the_schema_of_the_page_says(view: AnyView, kind: str) -> None:
    schema = json.loads(_block("json"))
    jsonschema.Draft202012Validator.check_schema(schema)
    document = event(view)
    jsonschema.validate(document, schema)
    assert document["type"] == f"dev.offsetguard.incident.{kind}.v1"
    assert (document["id"], document["subject"], document["time"]) == ("key 1", "thread 1", "2026-11-21T07:20:00Z")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "type": "another"}, schema)


def test_its_incidents_have_the_names_that_the_json_of_their_pages_has() -> None:
    sent, page = IncidentView.model_fields, IncidentPage.model_fields
    own = {"news", "title", "explained_count", "cannot_tell_count", "lag_curve", "drain_ms", "loss_ms", "muted_count"}
    own |= {"muted_when_resolved", "incident_url", "group_url", "acknowledge_url", "silence_url"}
    assert {name for name in sent if name not in page} == own
    either_or = {name for name in sent.keys() - own if sent[name].annotation != page[name].annotation}
    assert either_or == {"severity"}, "a word there, one of three here"


def test_the_receiver_of_the_page_takes_what_is_signed_and_nothing_else(tmp_path: Path) -> None:
    code = _block("python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 16
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {**os.environ, "WEBHOOK_KEY": KEY, "PORT": str(port)}
    with (tmp_path / "out").open("w") as out:
        process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=out, stderr=subprocess.DEVNULL)
        try:
            url = f"http://127.0.0.1:{port}/"
            body = cloud_event(messages.VIEW, event_id="key 1", at=AT)

            def accepted() -> bool:
                try:
                    return webhook(url).send(body, "key 1").text == "webhook hook"
                except DeliveryError:
                    return False

            wait_until(accepted, "the receiver listens")
            with pytest.raises(DeliveryError, match="HTTP 401"):
                webhook(url, NEXT_KEY).send(body, "key 1")
            with pytest.raises(DeliveryError, match="HTTP 401"):
                webhook(url).send(body, "key 1", at_s=AT.timestamp())
        finally:
            process.kill()
            process.wait()
    assert (tmp_path / "out").read_text() == "dev.offsetguard.incident.opened.v1 orders-cluster critical\n"


def _block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return str(found)
