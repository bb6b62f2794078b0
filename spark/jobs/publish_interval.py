"""Publish all that waits, in one session: the interval that is named, and what has landed before it and meanwhile.

    python spark/jobs/publish_interval.py --cluster demo --interval-start 2026-11-21T10:39:00Z [--again]

With `--again`, or for an interval that is older than what is published: what is live first, then this one alone.
Reads OFFSETGUARD_HOME, OFFSETGUARD_CONFIG and OFFSETGUARD_DATABASE_URL. Says each step when it begins; the last line
is the verdict of the named interval as JSON. An error is one line on stderr and exit code 1, of whichever interval it
is; the others are published, and readers keep what they have of this one.
"""

import sys

from offsetguard_spark.jobs import publish

if __name__ == "__main__":
    sys.exit(publish())
