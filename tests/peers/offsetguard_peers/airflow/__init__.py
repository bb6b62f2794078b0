"""Airflow as users run it: a standalone one in a folder of its own, and its REST API."""
