"""Every table of our database, as the models describe them: nobody has an older one that could differ.

The first migration that changes a model writes down here what the tables were like until then (`op.create_table`), so
that this one does not change with it, and its own steps in a file of its own.
"""

from alembic import op

from offsetguard.store.models import Base

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create them."""
    Base.metadata.create_all(op.get_bind())
