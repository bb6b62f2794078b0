"""Forecasts and their scores, and marks of how far brokers' commit logs reached."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from offsetguard.store.columns import UtcDateTime

revision = "0003"
down_revision = "0002"

_ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create what is new."""
    op.create_table(
        "forecasts",
        sa.Column("id", _ROW_NUMBER, autoincrement=True, nullable=False),
        sa.Column("cluster", sa.String(255), nullable=False),
        sa.Column("consumer_group", sa.String(255), nullable=False),
        sa.Column("topic", sa.String(255), nullable=False),
        sa.Column("kind", sa.String(255), nullable=False),
        sa.Column("made_at", UtcDateTime(), nullable=False),
        sa.Column("low_ms", sa.BigInteger(), nullable=False),
        sa.Column("high_ms", sa.BigInteger(), nullable=False),
        sa.Column("basis", sa.String(255), nullable=False),
        sa.Column("outcome", sa.String(255), nullable=True),
        sa.Column("known_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_forecasts"),
    )
    op.create_index("ix_forecasts_open", "forecasts", ["cluster", "outcome"])
    op.create_index("ix_forecasts_made_at", "forecasts", ["made_at"])
    op.create_table(
        "forecast_scores",
        sa.Column("cluster", sa.String(255), nullable=False),
        sa.Column("day", UtcDateTime(), nullable=False),
        sa.Column("kind", sa.String(255), nullable=False),
        sa.Column("basis", sa.String(255), nullable=False),
        sa.Column("inside_count", sa.BigInteger(), nullable=False),
        sa.Column("early_count", sa.BigInteger(), nullable=False),
        sa.Column("late_count", sa.BigInteger(), nullable=False),
        sa.Column("void_count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "day", "kind", "basis", name="pk_forecast_scores"),
    )
    op.create_table(
        "broker_marks",
        sa.Column("cluster", sa.String(255), nullable=False),
        sa.Column("broker_name", sa.String(255), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("commit_log_min_offset", sa.BigInteger(), nullable=False),
        sa.Column("commit_log_max_offset", sa.BigInteger(), nullable=False),
        sa.Column("earliest_message_at", UtcDateTime(), nullable=True),
        sa.Column("disk_ratio", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "broker_name", "at", name="pk_broker_marks"),
    )
