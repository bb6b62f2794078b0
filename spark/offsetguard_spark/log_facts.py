"""Facts of log lines about one interval: what they are made of, and when there is nothing to make."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from offsetguard.tables import CLIENT_SNAPSHOTS, GROUP_SNAPSHOTS, LOG_EVENTS
from offsetguard_spark.lock_waits import lock_wait_facts, with_holders
from offsetguard_spark.log_lines import log_line_facts
from offsetguard_spark.moves import oldest_interval
from offsetguard_spark.subscriptions import subscription_facts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from offsetguard_spark.fact_sources import FactSources


def lock_waits_of(sources: FactSources) -> DataFrame:
    """Return the interval's rows of `lock_wait_facts`."""
    waits = lock_wait_facts(sources.history(LOG_EVENTS), sources.cluster, sources.interval, _window(sources))
    return with_holders(waits, sources.rows(CLIENT_SNAPSHOTS), sources.rows(GROUP_SNAPSHOTS))


def log_lines_of(sources: FactSources) -> DataFrame:
    """Return the interval's rows of `log_line_facts`."""
    return log_line_facts(sources.history(LOG_EVENTS), sources.cluster, sources.interval, _window(sources))


def has_log_lines(sources: FactSources) -> bool:
    """Whether the look-back window may hold lines of any log."""
    oldest = oldest_interval(sources.interval, _window(sources))
    return sources.row_count(LOG_EVENTS) > 0 or sources.may_hold(LOG_EVENTS, oldest, sources.interval.start)


def subscriptions_of(sources: FactSources) -> DataFrame:
    """Return the interval's rows of `subscription_facts`."""
    events, clients = sources.history(LOG_EVENTS), sources.rows(CLIENT_SNAPSHOTS)
    return subscription_facts(events, clients, sources.cluster, sources.interval, _window(sources))


def has_subscriptions(sources: FactSources) -> bool:
    """Whether there are lines, or clients that may subscribe differently: one client alone agrees with itself."""
    return sources.row_count(CLIENT_SNAPSHOTS) > 1 or has_log_lines(sources)


def _window(sources: FactSources) -> timedelta:
    return timedelta(milliseconds=sources.config.judgement.log_window_ms)
