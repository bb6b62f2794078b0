"""Pages that the Airflow API server shows behind its login."""
