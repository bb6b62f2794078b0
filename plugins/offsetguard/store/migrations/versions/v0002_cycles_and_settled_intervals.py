"""Cycles, one row per run of a publication, failed ones included; settled intervals; an index for readers of a past."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from offsetguard.store.columns import UtcDateTime

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create what is new."""
    _create_cycles()
    _settle_intervals()
    op.create_index("ix_published_intervals_published_at", "published_intervals", ["cluster", "published_at"])


def _create_cycles() -> None:
    op.create_table(
        "cycles",
        sa.Column("cluster", sa.String(255), nullable=False),
        sa.Column("interval_start", UtcDateTime(), nullable=False),
        sa.Column("run_id", sa.String(255), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("finished_at", UtcDateTime(), nullable=False),
        sa.Column("verdict", sa.String(255), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("failed_step", sa.String(255), nullable=True),
        sa.Column("seconds", sa.JSON(), nullable=False),
        sa.Column("row_counts", sa.JSON(), nullable=False),
        sa.Column("file_counts", sa.JSON(), nullable=False),
        sa.Column("violations", sa.JSON(), nullable=False),
        sa.Column("duplicates", sa.BigInteger(), nullable=True),
        sa.Column("quarantined", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "interval_start", "run_id", name="pk_cycles"),
    )
    op.create_index("ix_cycles_started_at", "cycles", ["started_at"])


def _settle_intervals() -> None:
    op.add_column("published_intervals", sa.Column("settled", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_table(
        "settled_snapshots",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("snapshot_ids", sa.JSON(), nullable=False),
        sa.Column("kept_from", sa.JSON(), nullable=False),
        sa.Column("settled_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_settled_snapshots"),
    )
