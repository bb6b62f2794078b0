"""Alembic migrations, run by `store.database.open_database`."""
