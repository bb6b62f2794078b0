"""Finding what is over long enough to be deleted, and what the daily report of a team counts, without a whole table."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Create what is new, and drop the index of a question that nobody asks any more: `told` answers it."""
    op.drop_index("ix_outbox_last_sent", "outbox")
    op.create_index("ix_outbox_created_at", "outbox", ["status", "created_at"])
    op.create_index("ix_outbox_team", "outbox", ["team", "created_at"])
    op.create_index("ix_incidents_resolved_at", "incidents", ["resolved_at"])
    op.create_index("ix_incident_events_kind", "incident_events", ["kind", "at"])
