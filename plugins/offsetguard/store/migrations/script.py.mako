"""${message}."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from offsetguard.store.columns import UtcDateTime

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """Go forward."""
    ${upgrades if upgrades else "pass"}
