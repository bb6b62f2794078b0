"""Publish all that waits, in one session: every cluster, the live minutes first, until nothing waits or time is over.

A minute is one publication of all clusters of which it waits, and of minutes behind it. What is next is looked up
before each (`collect/backlog.py`), so that what lands meanwhile is taken along, and a live minute waits for one
publication at most. An interval that cannot be published is said, and the others go on; an error of Spark ends the
session, as the next one would have it, too.
"""

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from offsetguard.collect.backlog import CAUGHT_UP, given_up, next_waiting
from offsetguard.model.errors import PublishError
from offsetguard.model.intervals import INTERVAL_LENGTH, Minute
from offsetguard_spark.minutes import Minutes
from offsetguard_spark.publish import Publisher
from offsetguard_spark.reports import Progress, Publication, PublishReport

_SPARE = 1.5  # times the longest publication so far: with less time left none is begun


@dataclass(slots=True)
class SessionReport:
    """What became of each interval."""

    published: dict[Minute, PublishReport] = field(default_factory=dict)
    failed: dict[Minute, str] = field(default_factory=dict)  # why
    out_of_time: bool = False  # something waits still

    def publish(self, publisher: Publisher, minutes: Minutes, *, now: datetime, again: bool = False) -> None:
        """Publish intervals of some clusters and note what became of each; raises what Spark raises."""
        say, one = publisher.progress.say, Publication()
        own = replace(publisher, progress=Progress(say))
        try:
            own.publish_together(minutes, one, now=now, again=again)
        except PublishError as error:  # what is wrong with all that are left
            one.failed |= {
                minute: error for minute in minutes.each() if minute not in one.done and minute not in one.failed
            }
        for (cluster, interval), why in one.failed.items():
            say(f"{cluster}: {interval.name}: {why}; going on without it")
            self.failed[cluster, interval] = str(why)
        self.published |= one.done


def publish_waiting(
    publisher: Publisher,
    clock: Callable[[], datetime],
    *,
    ends_at: datetime | None = None,
    live_only: bool = False,
    without: Collection[Minute] = (),
) -> SessionReport:
    """Publish what waits; `ends_at`: when the time-out of the task ends the process, by the same clock.

    `without`: what the caller publishes itself. Raises what Spark raises; whatever was published until then stays.
    """
    report, say = SessionReport(), publisher.progress.say
    engine, landing, clusters = publisher.engine, publisher.workspace.landing_folder, publisher.config.clusters
    longest_s, in_order, was_slow = 0.0, CAUGHT_UP, False
    while found := next_waiting(
        engine, landing, clusters, live_only=live_only, in_order=in_order, without={*without, *report.failed}
    ):
        if ends_at is not None and longest_s and clock() + timedelta(seconds=_SPARE * longest_s) > ends_at:
            say("the time-out of the task is near: the next minute's task goes on with what waits")
            report.out_of_time = True
            break
        is_warm, began = longest_s > 0, time.monotonic()
        passed_over = "" if found.is_live else ", which was passed over"
        say(f"{', '.join(found.clusters)}: publishing {', '.join(one.name for one in found.intervals)}{passed_over}")
        report.publish(publisher, Minutes(found.clusters, found.intervals), now=clock())
        took_s = time.monotonic() - began
        longest_s = max(longest_s, took_s)
        # Where warm publications of all clusters take longer than their minutes, one after the other, a backlog would
        # never end: what is older than the newest minute is passed over then. After one there may be several minutes
        # to publish at once, which takes less.
        a_minute_takes_s = took_s * len(clusters) / len(found.clusters) / len(found.intervals)
        is_slow = is_warm and a_minute_takes_s > INTERVAL_LENGTH.total_seconds()
        in_order = 1 if is_slow and was_slow else CAUGHT_UP
        was_slow = is_slow
    if not live_only:
        for cluster in clusters:
            if left_out := given_up(engine, landing, cluster):
                say(
                    f"{cluster}: {len(left_out)} landed intervals, the newest {left_out[-1].name}, failed again and "
                    "again and are left out: offsetguard cycles --failed says why, recompute_facts tries them again"
                )
    return report
