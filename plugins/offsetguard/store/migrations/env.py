"""What Alembic runs: the migrations, inside the transaction of the connection that `database._migrate` passes."""

from alembic import context

from offsetguard.store.models import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
with context.begin_transaction():
    context.run_migrations()
