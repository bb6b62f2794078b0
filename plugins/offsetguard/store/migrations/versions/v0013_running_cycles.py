"""The column of publications that run, where the first migration did not make it yet."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from offsetguard.store.models import CycleRow

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add it unless it is there: on a new database the first migration has."""
    table = CycleRow.__tablename__
    if "running_under" not in {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}:
        op.add_column(table, sa.Column("running_under", sa.String(), nullable=True))
