"""Every table of our database: intervals, cycles, incidents, outbox, notifications, forecasts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from offsetguard.store.columns import NAME_LIMIT, UtcDateTime

revision = "0011"
down_revision = None

_ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Create them."""
    op.create_table(
        "absences",
        sa.Column("cluster", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("consumer_group", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("began_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "consumer_group", "began_at", name="pk_absences"),
    )
    op.create_table(
        "broker_marks",
        sa.Column("cluster", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("broker_name", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("commit_log_min_offset", sa.BigInteger(), nullable=False),
        sa.Column("commit_log_max_offset", sa.BigInteger(), nullable=False),
        sa.Column("earliest_message_at", UtcDateTime(), nullable=True),
        sa.Column("disk_ratio", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "broker_name", "at", name="pk_broker_marks"),
    )
    op.create_table(
        "cycles",
        sa.Column("cluster", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("interval_start", UtcDateTime(), nullable=False),
        sa.Column("run_id", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("finished_at", UtcDateTime(), nullable=False),
        sa.Column("verdict", sa.String(NAME_LIMIT), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("failed_step", sa.String(NAME_LIMIT), nullable=True),
        sa.Column("seconds", sa.JSON(), nullable=False),
        sa.Column("row_counts", sa.JSON(), nullable=False),
        sa.Column("file_counts", sa.JSON(), nullable=False),
        sa.Column("violations", sa.JSON(), nullable=False),
        sa.Column("duplicates", sa.BigInteger(), nullable=True),
        sa.Column("quarantined", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("cluster", "interval_start", "run_id", name="pk_cycles"),
    )
    op.create_index("ix_cycles_started_at", "cycles", ["started_at"])
    op.create_table(
        "forecast_scores",
        sa.Column("cluster", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("day", UtcDateTime(), nullable=False),
        sa.Column("kind", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("basis", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("inside_count", sa.BigInteger(), nullable=False),
        sa.Column("early_count", sa.BigInteger(), nullable=False),
        sa.Column("late_count", sa.BigInteger(), nullable=False),
        sa.Column("void_count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "day", "kind", "basis", name="pk_forecast_scores"),
    )
    op.create_table(
        "forecasts",
        sa.Column("id", _ROW_NUMBER, nullable=False, autoincrement=True),
        sa.Column("cluster", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("consumer_group", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("topic", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("kind", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("made_at", UtcDateTime(), nullable=False),
        sa.Column("low_ms", sa.BigInteger(), nullable=False),
        sa.Column("high_ms", sa.BigInteger(), nullable=False),
        sa.Column("basis", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("outcome", sa.String(NAME_LIMIT), nullable=True),
        sa.Column("known_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_forecasts"),
    )
    op.create_index("ix_forecasts_made_at", "forecasts", ["made_at"])
    op.create_index("ix_forecasts_open", "forecasts", ["cluster", "outcome"])
    op.create_table(
        "incident_events",
        sa.Column("id", _ROW_NUMBER, nullable=False, autoincrement=True),
        sa.Column("incident_id", sa.String(32), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("kind", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("by", sa.String(NAME_LIMIT), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_incident_events"),
    )
    op.create_index("ix_incident_events_incident", "incident_events", ["incident_id", "id"])
    op.create_index("ix_incident_events_kind", "incident_events", ["kind", "at"])
    op.create_table(
        "incidents",
        sa.Column("incident_id", sa.String(32), nullable=False),
        sa.Column("open_key", sa.String(64), nullable=True),
        sa.Column("cluster", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("rule_id", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("consumer_group", sa.String(NAME_LIMIT), nullable=True),
        sa.Column("topic", sa.String(NAME_LIMIT), nullable=True),
        sa.Column("severity", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("state", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("opened_at", UtcDateTime(), nullable=False),
        sa.Column("last_seen_at", UtcDateTime(), nullable=False),
        sa.Column("seen_count", sa.BigInteger(), nullable=False),
        sa.Column("unknown_since", UtcDateTime(), nullable=True),
        sa.Column("resolved_at", UtcDateTime(), nullable=True),
        sa.Column("resolution", sa.Text(), nullable=True),
        sa.Column("is_pending", sa.Boolean(), nullable=False),
        sa.Column("record_json", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("incident_id", name="pk_incidents"),
        sa.UniqueConstraint("open_key", name="uq_incidents_open_key"),
    )
    op.create_index("ix_incidents_cluster_opened_at", "incidents", ["cluster", "opened_at"])
    op.create_index("ix_incidents_resolved_at", "incidents", ["resolved_at"])
    op.create_table(
        "judged_intervals",
        sa.Column("cluster", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("interval_start", UtcDateTime(), nullable=False),
        sa.Column("judged_at", UtcDateTime(), nullable=False),
        sa.Column("mode", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("finding_count", sa.BigInteger(), nullable=False),
        sa.Column("opened_count", sa.BigInteger(), nullable=False),
        sa.Column("resolved_count", sa.BigInteger(), nullable=False),
        sa.Column("message_count", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "interval_start", name="pk_judged_intervals"),
    )
    op.create_table(
        "locks",
        sa.Column("name", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("token", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("holder", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("process", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("held_since", UtcDateTime(), nullable=False),
        sa.Column("held_until", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_locks"),
    )
    op.create_table(
        "outbox",
        sa.Column("id", _ROW_NUMBER, nullable=False, autoincrement=True),
        sa.Column("idempotency_key", sa.String(64), nullable=False),
        sa.Column("channel", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("receiver", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("team", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("cluster", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("rule_id", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("thread_key", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("interval_start", UtcDateTime(), nullable=False),
        sa.Column("view_json", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("status", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("next_attempt_at", UtcDateTime(), nullable=False),
        sa.Column("claimed_until", UtcDateTime(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_outbox"),
        sa.UniqueConstraint("idempotency_key", name="uq_outbox_idempotency_key"),
    )
    op.create_index("ix_outbox_created_at", "outbox", ["status", "created_at"])
    op.create_index("ix_outbox_lane", "outbox", ["status", "channel", "receiver", "id"])
    op.create_index("ix_outbox_status_next_attempt_at", "outbox", ["status", "next_attempt_at"])
    op.create_index("ix_outbox_team", "outbox", ["team", "created_at"])
    op.create_index("ix_outbox_thread", "outbox", ["thread_key", "receiver", "status"])
    op.create_table(
        "published_intervals",
        sa.Column("cluster", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("interval_start", UtcDateTime(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("published_at", UtcDateTime(), nullable=False),
        sa.Column("verdict", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("snapshot_ids", sa.JSON(), nullable=False),
        sa.Column("manifest_json", sa.Text(), nullable=False),
        sa.Column("settled", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "interval_start", name="pk_published_intervals"),
    )
    op.create_index("ix_published_intervals_published_at", "published_intervals", ["cluster", "published_at"])
    op.create_table(
        "settled_snapshots",
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("snapshot_ids", sa.JSON(), nullable=False),
        sa.Column("kept_from", sa.JSON(), nullable=False),
        sa.Column("settled_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_settled_snapshots"),
    )
    op.create_table(
        "silences",
        sa.Column("id", _ROW_NUMBER, nullable=False, autoincrement=True),
        sa.Column("matchers", sa.JSON(), nullable=False),
        sa.Column("author", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.Column("starts_at", UtcDateTime(), nullable=False),
        sa.Column("ends_at", UtcDateTime(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expired_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_silences"),
    )
    op.create_index("ix_silences_ends_at", "silences", ["ends_at"])
    op.create_table(
        "last_notifications",
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("team", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("cluster", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("rule_id", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("channel", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("receiver", sa.Text(), nullable=False),
        sa.Column("notified_at", UtcDateTime(), nullable=True),
        sa.Column("thread_key", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("firing_json", sa.Text(), nullable=False),
        sa.Column("muted_json", sa.Text(), nullable=False),
        sa.Column("repeat_count", sa.BigInteger(), nullable=False),
        sa.Column("ended", sa.String(NAME_LIMIT), nullable=True),
        sa.PrimaryKeyConstraint("key", name="pk_last_notifications"),
    )
    op.create_index("ix_last_notifications_cluster", "last_notifications", ["cluster"])
    op.create_table(
        "acknowledgements",
        sa.Column("id", _ROW_NUMBER, nullable=False, autoincrement=True),
        sa.Column("incident_id", sa.String(32), nullable=False),
        sa.Column("author", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_acknowledgements"),
        sa.ForeignKeyConstraint(["incident_id"], ["incidents.incident_id"], name="fk_acknowledgements_incident_id"),
    )
    op.create_index("ix_acknowledgements_incident", "acknowledgements", ["incident_id", "id"])
    op.create_table(
        "notification_log",
        sa.Column("id", _ROW_NUMBER, nullable=False, autoincrement=True),
        sa.Column("outbox_id", _ROW_NUMBER, nullable=False),
        sa.Column("channel", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("receiver", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("thread_key", sa.String(NAME_LIMIT), nullable=False),
        sa.Column("accepted_at", UtcDateTime(), nullable=False),
        sa.Column("receipt", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_notification_log"),
        sa.ForeignKeyConstraint(["outbox_id"], ["outbox.id"], name="fk_notification_log_outbox_id"),
        sa.UniqueConstraint("outbox_id", name="uq_notification_log_outbox_id"),
    )
    op.create_index("ix_notification_log_receiver", "notification_log", ["channel", "receiver", "id"])
    op.create_index("ix_notification_log_thread", "notification_log", ["thread_key", "receiver"])
