"""Whatever an outbox row may hold, read back from its JSON."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Tag, TypeAdapter

from offsetguard.messages.daily_report import DailyReportView
from offsetguard.messages.digest import DigestView
from offsetguard.messages.view import MessageView

MESSAGE = "message"  # what has no `kind`


def _kind(value: Any) -> str:
    kind = value.get("kind", MESSAGE) if isinstance(value, dict) else getattr(value, "kind", MESSAGE)
    return kind if isinstance(kind, str) else MESSAGE


AnyView = Annotated[
    Annotated[MessageView, Tag(MESSAGE)]
    | Annotated[DigestView, Tag("digest")]
    | Annotated[DailyReportView, Tag("daily_report")],
    Discriminator(_kind),
]
_ANY_VIEW: TypeAdapter[AnyView] = TypeAdapter(AnyView)


def read_view(text: str) -> AnyView:
    """Return the view that a row keeps; raises pydantic.ValidationError when another version wrote it."""
    return _ANY_VIEW.validate_json(text)
