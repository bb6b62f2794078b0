"""Publish one landed interval of one cluster.

    python spark/jobs/publish_interval.py --cluster demo --interval-start 2026-11-21T10:39:00Z [--again]

Reads OFFSETGUARD_HOME, OFFSETGUARD_CONFIG and OFFSETGUARD_DATABASE_URL. Says each step when it begins; the last line
is the verdict as JSON. An error is one line on stderr and exit code 1: readers then keep what they have.
"""

from __future__ import annotations

import gc
import sys

# Looking once through all that imports have made takes as long as an eighth of a small cycle, and finds little: a cycle
# leaves ten thousand objects behind, and its process ends with it.
gc.disable()

from offsetguard_spark.publish_job import main  # noqa: E402 - imports are what makes the objects

if __name__ == "__main__":
    sys.exit(main())
