"""Publish one landed interval of one cluster.

    python spark/jobs/publish_interval.py --cluster demo --interval-start 2026-11-21T10:39:00Z [--again]

Reads OFFSETGUARD_HOME, OFFSETGUARD_CONFIG and OFFSETGUARD_DATABASE_URL. Says each step when it begins; the last line
is the verdict as JSON. An error is one line on stderr and exit code 1: readers then keep what they have.
"""

from __future__ import annotations

import sys

from offsetguard_spark.jobs import publish

if __name__ == "__main__":
    sys.exit(publish())
