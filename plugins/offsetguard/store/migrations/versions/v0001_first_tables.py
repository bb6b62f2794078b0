"""Published and judged intervals, incidents, outbox, notification log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from offsetguard.store.columns import UtcDateTime

revision = "0001"
down_revision = None

_ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create the first tables."""
    _create_intervals()
    _create_incidents()
    _create_outbox()
    _create_notification_log()


def _create_intervals() -> None:
    op.create_table(
        "published_intervals",
        sa.Column("cluster", sa.String(255), nullable=False),
        sa.Column("interval_start", UtcDateTime(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("published_at", UtcDateTime(), nullable=False),
        sa.Column("verdict", sa.String(255), nullable=False),
        sa.Column("snapshot_ids", sa.JSON(), nullable=False),
        sa.Column("manifest_json", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "interval_start", name="pk_published_intervals"),
    )
    op.create_table(
        "judged_intervals",
        sa.Column("cluster", sa.String(255), nullable=False),
        sa.Column("interval_start", UtcDateTime(), nullable=False),
        sa.Column("judged_at", UtcDateTime(), nullable=False),
        sa.Column("mode", sa.String(255), nullable=False),
        sa.Column("finding_count", sa.BigInteger(), nullable=False),
        sa.Column("opened_count", sa.BigInteger(), nullable=False),
        sa.Column("resolved_count", sa.BigInteger(), nullable=False),
        sa.Column("message_count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "interval_start", name="pk_judged_intervals"),
    )


def _create_incidents() -> None:
    op.create_table(
        "incidents",
        sa.Column("incident_id", sa.String(32), nullable=False),
        sa.Column("open_key", sa.String(64), nullable=True),
        sa.Column("cluster", sa.String(255), nullable=False),
        sa.Column("rule_id", sa.String(255), nullable=False),
        sa.Column("consumer_group", sa.String(255), nullable=True),
        sa.Column("topic", sa.String(255), nullable=True),
        sa.Column("severity", sa.String(255), nullable=False),
        sa.Column("state", sa.String(255), nullable=False),
        sa.Column("opened_at", UtcDateTime(), nullable=False),
        sa.Column("last_seen_at", UtcDateTime(), nullable=False),
        sa.Column("seen_count", sa.BigInteger(), nullable=False),
        sa.Column("unknown_since", UtcDateTime(), nullable=True),
        sa.Column("resolved_at", UtcDateTime(), nullable=True),
        sa.Column("resolution", sa.Text(), nullable=True),
        sa.Column("record_json", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("incident_id", name="pk_incidents"),
        sa.UniqueConstraint("open_key", name="uq_incidents_open_key"),
    )
    op.create_index("ix_incidents_cluster_opened_at", "incidents", ["cluster", "opened_at"])


def _create_outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", _ROW_NUMBER, autoincrement=True, nullable=False),
        sa.Column("idempotency_key", sa.String(64), nullable=False),
        sa.Column("channel", sa.String(255), nullable=False),
        sa.Column("receiver", sa.String(255), nullable=False),
        sa.Column("team", sa.String(255), nullable=False),
        sa.Column("cluster", sa.String(255), nullable=False),
        sa.Column("rule_id", sa.String(255), nullable=False),
        sa.Column("thread_key", sa.String(255), nullable=False),
        sa.Column("interval_start", UtcDateTime(), nullable=False),
        sa.Column("view_json", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("status", sa.String(255), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("next_attempt_at", UtcDateTime(), nullable=False),
        sa.Column("claimed_until", UtcDateTime(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
        sa.UniqueConstraint("idempotency_key", name="uq_outbox_idempotency_key"),
    )
    op.create_index("ix_outbox_status_next_attempt_at", "outbox", ["status", "next_attempt_at"])
    op.create_index("ix_outbox_last_sent", "outbox", ["team", "cluster", "rule_id", "interval_start"])


def _create_notification_log() -> None:
    op.create_table(
        "notification_log",
        sa.Column("id", _ROW_NUMBER, autoincrement=True, nullable=False),
        sa.Column("outbox_id", _ROW_NUMBER, nullable=False),
        sa.Column("channel", sa.String(255), nullable=False),
        sa.Column("receiver", sa.String(255), nullable=False),
        sa.Column("thread_key", sa.String(255), nullable=False),
        sa.Column("accepted_at", UtcDateTime(), nullable=False),
        sa.Column("receipt", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_notification_log"),
        sa.UniqueConstraint("outbox_id", name="uq_notification_log_outbox_id"),
        sa.ForeignKeyConstraint(["outbox_id"], ["outbox.id"], name="fk_notification_log_outbox_id"),
    )
    op.create_index("ix_notification_log_thread", "notification_log", ["thread_key", "receiver"])
