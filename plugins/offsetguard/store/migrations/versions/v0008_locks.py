"""Who may commit to the Iceberg tables: a row instead of a file, which several containers and hosts share."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from offsetguard.store.columns import NAME_LIMIT, UtcDateTime

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Create what is new."""
    op.create_table(
        "locks",
        sa.Column("name", sa.String(NAME_LIMIT), primary_key=True),
        sa.Column("token", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("holder", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("process", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("held_since", UtcDateTime(), nullable=False),
        sa.Column("held_until", UtcDateTime(), nullable=False),
    )
