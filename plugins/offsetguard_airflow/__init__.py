"""Airflow wiring: hooks, operators and the page. Logic lives in `offsetguard`."""
