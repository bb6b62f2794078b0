"""Finding the next message of a receiver, and the earlier ones of its thread, without looking at all that wait."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create what is new."""
    op.create_index("ix_outbox_lane", "outbox", ["status", "channel", "receiver", "id"])
    op.create_index("ix_outbox_thread", "outbox", ["thread_key", "receiver", "status"])
    op.create_index("ix_notification_log_receiver", "notification_log", ["channel", "receiver", "id"])
