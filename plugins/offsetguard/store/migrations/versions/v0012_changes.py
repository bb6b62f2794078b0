"""Tables of what changed, where the first migration did not make them yet."""

from __future__ import annotations

from alembic import op

from offsetguard.store.models import ChangeRow, RecordedChangesRow

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Create those that are not there: on a new database the first migration has."""
    for model in (ChangeRow, RecordedChangesRow):
        model.metadata.tables[model.__tablename__].create(op.get_bind(), checkfirst=True)
