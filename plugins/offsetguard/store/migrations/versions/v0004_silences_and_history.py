"""Pending incidents and the history of all, acknowledgements and silences."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from offsetguard.store.columns import UtcDateTime

revision = "0004"
down_revision = "0003"

_ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create what is new; incidents of before were told at once, so none of them is pending."""
    op.add_column("incidents", sa.Column("is_pending", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_table(
        "incident_events",
        sa.Column("id", _ROW_NUMBER, autoincrement=True, nullable=False),
        sa.Column("incident_id", sa.String(32), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("kind", sa.String(255), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("by", sa.String(255), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_incident_events"),
    )
    op.create_index("ix_incident_events_incident", "incident_events", ["incident_id", "id"])
    op.create_table(
        "acknowledgements",
        sa.Column("id", _ROW_NUMBER, autoincrement=True, nullable=False),
        sa.Column("incident_id", sa.String(32), nullable=False),
        sa.Column("author", sa.String(255), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_acknowledgements"),
        sa.ForeignKeyConstraint(["incident_id"], ["incidents.incident_id"], name="fk_acknowledgements_incident_id"),
    )
    op.create_index("ix_acknowledgements_incident", "acknowledgements", ["incident_id", "id"])
    op.create_table(
        "silences",
        sa.Column("id", _ROW_NUMBER, autoincrement=True, nullable=False),
        sa.Column("matchers", sa.JSON(), nullable=False),
        sa.Column("author", sa.String(255), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.Column("starts_at", UtcDateTime(), nullable=False),
        sa.Column("ends_at", UtcDateTime(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expired_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_silences"),
    )
    op.create_index("ix_silences_ends_at", "silences", ["ends_at"])
