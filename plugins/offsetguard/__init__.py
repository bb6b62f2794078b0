"""Data quality and alerting for Apache RocketMQ consumer offsets: the logic, free of Airflow and Spark."""
