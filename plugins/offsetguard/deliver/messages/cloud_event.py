"""What a webhook is sent: a message as it stands in the outbox, in a CloudEvents 1.0 envelope."""

from datetime import datetime
from typing import Literal

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
