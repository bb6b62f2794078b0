r"""Publish many landed intervals of one cluster once more, in one Spark session.

    python spark/jobs/recompute_intervals.py --cluster demo --from 2026-11-14T00:00:00Z --to 2026-11-20T23:59:00Z \
        [--since 2026-11-21T10:39:00Z] [--rebuild-state] [--dry-run]

Reads OFFSETGUARD_HOME, OFFSETGUARD_CONFIG and OFFSETGUARD_DATABASE_URL. Says a line for each interval: how many of how
many, how fast, how long it will take; the last line is a report as JSON. Killed, it goes on when it is run again with
the same `--since`. Exit code 1 when an interval could not be recomputed; readers then keep what they have of it.
"""

import sys

from offsetguard_spark.jobs import recompute

if __name__ == "__main__":
    sys.exit(recompute())
