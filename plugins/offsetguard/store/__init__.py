"""Our database: incidents, outbox, notification log, published intervals (SQLAlchemy, Alembic)."""
