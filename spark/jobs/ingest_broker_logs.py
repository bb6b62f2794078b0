r"""Bring whole log files of a broker (or of clients) into log_events and offset_moves.

    python spark/jobs/ingest_broker_logs.py --cluster demo --files '/mnt/broker-a/otherdays/broker*.gz' \
        --broker-name broker-a [--broker-id 0] [--time-zone +08:00] [--routine] [--dry-run]

Reads OFFSETGUARD_HOME and OFFSETGUARD_CONFIG. Says each step when it begins; the last line is a report as JSON. A rerun
replaces the rows of its files. An error is one line on stderr and exit code 1: the tables are then as they were before.
"""

import sys

from offsetguard_spark.jobs import ingest

if __name__ == "__main__":
    sys.exit(ingest())
