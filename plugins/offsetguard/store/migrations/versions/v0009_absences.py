"""When the clients of consumer groups were all away: the rhythm of who comes and goes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from offsetguard.store.columns import NAME_LIMIT, UtcDateTime

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Create what is new."""
    op.create_table(
        "absences",
        sa.Column("cluster", sa.String(NAME_LIMIT), primary_key=True),
        sa.Column("consumer_group", sa.String(NAME_LIMIT), primary_key=True),
        sa.Column("began_at", UtcDateTime(), primary_key=True),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
    )
