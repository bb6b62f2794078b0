"""What a webhook is sent: a message as it stands in the outbox, in a CloudEvents 1.0 envelope.

docs/webhook.md is made of it: `python -m offsetguard.deliver.messages.cloud_event > docs/webhook.md`.
"""

import json
import sys
from datetime import datetime
from typing import Any, Literal

from offsetguard.model.views import AnyView, DailyReportView, DigestView, MessageView, NotificationReason, Record

MEDIA_TYPE = "application/cloudevents+json"
_BEGINS = {NotificationReason.FIRST, NotificationReason.ESCALATED}


class CloudEvent(Record):
    """The envelope; `id` stays the same on every try."""

    specversion: Literal["1.0"] = "1.0"
    id: str
    source: str
    type: Literal[
        "dev.offsetguard.incident.opened.v1",
        "dev.offsetguard.incident.changed.v1",
        "dev.offsetguard.incident.resolved.v1",
        "dev.offsetguard.incident.digest.v1",
    ]
    subject: str  # equal for all messages about the same spell of trouble
    time: datetime
    datacontenttype: Literal["application/json"] = "application/json"
    data: MessageView | DigestView


def cloud_event(view: AnyView, *, event_id: str, at: datetime) -> bytes:
    """Return the body; raises TypeError for a daily report."""
    if isinstance(view, DailyReportView):
        raise TypeError("a DailyReportView is for mail only")
    return (
        CloudEvent(
            id=event_id,
            source=f"/offsetguard/{view.cluster}"
            if view.page_url is None
            else f"{view.page_url.rstrip('/')}/offsetguard",
            type=f"dev.offsetguard.incident.{_what(view)}.v1",
            subject=view.thread_key,
            time=at,
            data=view,
        )
        .model_dump_json()
        .encode()
    )


def _what(view: MessageView | DigestView) -> str:
    if isinstance(view, DigestView):
        return "digest"
    if view.reason in _BEGINS:
        return "opened"
    return "resolved" if view.reason is NotificationReason.ALL_RESOLVED else "changed"


_PAGE = """\
# Webhooks

`webhooks` of a team or a route names Airflow connections of type `generic`: the address as password, and the key that
signs as extra, `{"secret": "whsec_..."}`; a list of keys while one is replaced, each message then has a signature of
each. A key is `whsec_` and 24 to 64 random bytes in base64:

```sh
python3 -c "import base64, os; print('whsec_' + base64.b64encode(os.urandom(32)).decode())"
```

Each message is one POST of `application/cloudevents+json`: an envelope of [CloudEvents 1.0](https://cloudevents.io),
signed as [Standard Webhooks](https://www.standardwebhooks.com) say, with `webhook-id`, `webhook-timestamp` and
`webhook-signature`.

| `type` | sent when |
|---|---|
| `dev.offsetguard.incident.opened.v1` | something fires that this receiver has not been told of |
| `dev.offsetguard.incident.changed.v1` | more fires, it got worse, a part has resolved, or it is repeated |
| `dev.offsetguard.incident.resolved.v1` | all of it is over |
| `dev.offsetguard.incident.digest.v1` | more than `digest_above` at once: one message instead |

`subject` is the same from the first message of a spell of trouble to its end. `webhook-id` and `id` are the same on
every try: after a crash or a time-out a message may come twice, and whoever keeps the ids takes it once.

| answer | what follows |
|---|---|
| 2xx | accepted |
| 3xx | not followed; it waits with the reason |
| 400, 413, 422 | refused for good: `offsetguard outbox list --status failed` has it |
| 410 | likewise: the receiver wants nothing any more; take it out of the configuration |
| 429, 503 with `Retry-After` | tried again then, after an hour at most |
| anything else, or none in time | tried again, later each time, half an hour apart at last |

An address that leads into this host's own network is refused, unless `delivery.receivers_may_lead_inward` is true.

## A receiver

With `pip install standardwebhooks`; it answers 401 to what is not signed by the key, or is older than five minutes.

```python
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
from standardwebhooks.webhooks import Webhook, WebhookVerificationError


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            event = Webhook(os.environ["WEBHOOK_KEY"]).verify(body, dict(self.headers))
            print(event["type"], event["data"]["cluster"], event["data"]["severity"], flush=True)
            self.send_response(204)
        except WebhookVerificationError:
            self.send_response(401)
        self.end_headers()


HTTPServer(("127.0.0.1", int(os.environ.get("PORT", 8000))), Receiver).serve_forever()
```

## JSON Schema

```json
SCHEMA
```
"""


def webhook_page() -> str:
    """Return docs/webhook.md."""
    schema = _untitled(CloudEvent.model_json_schema(mode="serialization"))
    return _PAGE.replace("SCHEMA", json.dumps(schema, indent=1))


def _untitled(schema: Any) -> Any:
    """Return a schema without the titles that pydantic makes of names."""
    if isinstance(schema, dict):
        return {key: _untitled(one) for key, one in schema.items() if key != "title" or isinstance(one, dict)}
    return list(map(_untitled, schema)) if isinstance(schema, list) else schema


if __name__ == "__main__":
    sys.stdout.write(webhook_page())
