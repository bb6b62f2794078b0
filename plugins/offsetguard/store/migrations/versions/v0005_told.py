"""What each receiver was last told; taken from the newest messages, so that an upgrade does not tell it again.

What a message only counted, since it had more incidents than it keeps, is not known by name, and is told once more.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from alembic import op

from offsetguard.store.columns import UtcDateTime

if TYPE_CHECKING:
    from collections.abc import Iterator

revision = "0005"
down_revision = "0004"

_OUTBOX = sa.table(
    "outbox",
    sa.column("id", sa.BigInteger()),
    sa.column("team", sa.String()),
    sa.column("cluster", sa.String()),
    sa.column("rule_id", sa.String()),
    sa.column("channel", sa.String()),
    sa.column("receiver", sa.String()),
    sa.column("thread_key", sa.String()),
    sa.column("interval_start", UtcDateTime()),
    sa.column("view_json", sa.Text()),
)


def upgrade() -> None:
    """Create what is new, and fill it."""
    told = op.create_table(
        "told",
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("team", sa.String(255), nullable=False),
        sa.Column("cluster", sa.String(255), nullable=False),
        sa.Column("rule_id", sa.String(255), nullable=False),
        sa.Column("channel", sa.String(255), nullable=False),
        sa.Column("receiver", sa.Text(), nullable=False),
        sa.Column("told_at", UtcDateTime(), nullable=True),
        sa.Column("thread_key", sa.String(255), nullable=False),
        sa.Column("firing_json", sa.Text(), nullable=False),
        sa.Column("muted_json", sa.Text(), nullable=False),
        sa.Column("repeat_count", sa.BigInteger(), nullable=False),
        sa.Column("ended", sa.String(255), nullable=True),
        sa.PrimaryKeyConstraint("key", name="pk_told"),
    )
    op.create_index("ix_told_cluster", "told", ["cluster"])
    if rows := list(_last_told()):
        op.bulk_insert(told, rows)


def _last_told() -> Iterator[dict[str, Any]]:
    """Give a row for each receiver whose newest message about a cause said that something fires."""
    row = _OUTBOX.c
    key = (row.team, row.cluster, row.rule_id, row.channel, row.receiver)
    newest = sa.select(sa.func.max(row.id)).group_by(*key)
    for message in op.get_bind().execute(sa.select(_OUTBOX).where(row.id.in_(newest)).order_by(row.id)):
        at = message.interval_start
        firing = {
            one["incident_id"]: [one["severity"], at.isoformat(), at.isoformat(), 0]
            for one in json.loads(message.view_json)["firing"]
        }
        if not firing:
            continue
        parts = (message.team, message.cluster, message.rule_id, message.channel, message.receiver)
        yield {
            "key": hashlib.sha256("\x1f".join(parts).encode()).hexdigest(),
            "team": message.team,
            "cluster": message.cluster,
            "rule_id": message.rule_id,
            "channel": message.channel,
            "receiver": message.receiver,
            "told_at": at,
            "thread_key": message.thread_key,
            "firing_json": json.dumps(firing),
            "muted_json": "{}",
            "repeat_count": 0,
            "ended": None,
        }
