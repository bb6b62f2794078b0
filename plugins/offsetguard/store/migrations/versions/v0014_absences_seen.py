"""The column of absences that go on, where the first migration did not make it yet."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from offsetguard.store.columns import UtcDateTime
from offsetguard.store.models import AbsenceRow

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Add it unless it is there: on a new database the first migration has."""
    table = AbsenceRow.__tablename__
    if "seen_at" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}:
        op.add_column(table, sa.Column("seen_at", UtcDateTime(), nullable=True))
