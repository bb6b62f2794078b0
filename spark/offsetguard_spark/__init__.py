"""Spark jobs that turn landed snapshots into published facts. Imports no Airflow."""
