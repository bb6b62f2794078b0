"""Data quality and alerting for Apache RocketMQ consumer offsets: the logic, free of Airflow and Spark."""

import os


def write_for_owner_only() -> None:
    """Let this process, and those that it starts, make files and folders that only their owner can read.

    Every process of ours begins with it: they hold names of groups and clients, log lines, receivers of messages.
    """
    os.umask(0o077)
