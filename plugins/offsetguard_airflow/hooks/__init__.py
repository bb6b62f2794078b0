"""From Airflow connections to clients and channels: the only place where secrets are read."""
