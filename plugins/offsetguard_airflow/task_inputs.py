"""What tasks work with: the interval, clusters and facts that a run is about, the configuration and our database."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException
from sqlalchemy import Engine

from offsetguard.collect.manifest import Manifest
from offsetguard.config import Config
from offsetguard.config.file import ConfigInUse, config_in_use, did_you_mean
from offsetguard.config.workspace import Workspace
from offsetguard.model.errors import ConfigError, PublishError
from offsetguard.model.intervals import INTERVAL_LENGTH, Interval
from offsetguard.store import published_intervals
from offsetguard.store.database import database_time, open_database
from offsetguard.store.published_intervals import PublishedInterval

if TYPE_CHECKING:
    from offsetguard.facts.interval import IntervalFacts

ALL_CLUSTERS = "all"
PUBLISHED_WITHIN = timedelta(minutes=2)  # of an interval's beginning: by then the judge goes on without Spark
_MINUTES_BACK = 15  # that are looked through for one that waits to be published
_LATE = "late"
_ENDED = frozenset({"failed", "upstream_failed", "removed", "success"})  # a skipped one left it to another's session


@dataclass(frozen=True, slots=True)
class Opened:
    """The workspace of a task, with what it reads first."""

    workspace: Workspace
    config: Config
    config_problem: str | None  # what is wrong with the file, where the last one that was right is gone by
    engine: Engine


def open_workspace(log_error: Callable[[str], object]) -> Opened:
    """Read the configuration and open the database; raises ConfigError, StoreError."""
    workspace = workspace_of_task()
    in_use = configuration(workspace, log_error)
    return Opened(workspace, in_use.config, in_use.problem, open_database(workspace.database_url))


def workspace_of_task() -> Workspace:
    """Return the workspace; in an object store it is read as the connection aws_default says, where nothing else does.

    From here on the environment of this process, and of those that it starts, has what that connection has.
    """
    workspace = Workspace.from_environment()
    if workspace.store and "AWS_ACCESS_KEY_ID" not in os.environ:
        with suppress(AirflowNotFoundException):  # then the role of this host counts
            given = BaseHook.get_connection("aws_default")
            of_connection = {
                "AWS_ACCESS_KEY_ID": given.login,
                "AWS_SECRET_ACCESS_KEY": given.password,
                "AWS_SESSION_TOKEN": given.extra_dejson.get("aws_session_token"),
                "AWS_ENDPOINT_URL": given.extra_dejson.get("endpoint_url"),
                "AWS_REGION": given.extra_dejson.get("region_name"),
            }
            os.environ |= {name: value for name, value in of_connection.items() if value}
    return workspace


def configuration(workspace: Workspace, log_error: Callable[[str], object]) -> ConfigInUse:
    """Return what holds now; raises ConfigError when the file is broken and none that was right is kept."""
    found = config_in_use(workspace)
    if found.problem is not None:
        for line in found.problem.splitlines():
            log_error(line)
        log_error("the configuration file is broken; going on with the last one that was right")
    if found.not_kept is not None:
        log_error(found.not_kept)
    return found


def interval_at(moment: str) -> Interval:
    """Return the interval that an ISO 8601 moment with a zone falls into; raises ValueError for anything else."""
    parsed = datetime.fromisoformat(moment)
    if parsed.tzinfo is None:
        raise ValueError(f"interval_start {moment!r} has no time zone; write e.g. 2026-11-21T10:39:00+00:00")
    return Interval.containing(parsed)


def chosen_clusters(cluster: str, *, or_all: bool = True) -> list[str]:
    """Return the configured clusters that the trigger form's field names.

    Raises AirflowFailException, with the names that there are, for a cluster that is not configured: trying again
    cannot help.
    """
    workspace = Workspace.from_environment()
    known = sorted(config_in_use(workspace).config.clusters)
    if cluster in known:
        return [cluster]
    if or_all and cluster == ALL_CLUSTERS:
        return known
    raise AirflowFailException(
        f"{workspace.config_file}: clusters: there is no cluster {cluster!r}"
        f"{did_you_mean(cluster, known)}; clusters: {', '.join(known)}. Trigger again with one of them"
        f"{f', or with {ALL_CLUSTERS!r}' if or_all else ''}"
    )


def has_landed(workspace: Workspace, cluster: str, interval: Interval) -> bool:
    """Whether the snapshot of a cluster's interval is there."""
    from offsetguard.collect import landing

    return landing.has_landed(workspace.landing_folder, cluster, interval)


@dataclass(frozen=True, slots=True)
class FactsToJudge:
    """The facts of one landed interval: those that are published, or, where people would wait, made on the spot.

    An interval that somebody may be notified of waits for its publication until PUBLISHED_WITHIN after the beginning of
    the oldest one that is not published: once Spark is late, nobody waits for it again. Any other interval is history,
    and waits for as long as its publication may still come.
    """

    ours: Opened
    cluster: str
    interval: Interval
    is_history: bool  # of a backfill
    publication_state: Callable[[], str | None]  # of the task that publishes the interval
    say: Callable[[str], object]

    def look(self) -> IntervalFacts | None:
        """Return them; None: their publication is waited for.

        Raises PublishError where history is not published, SnapshotError for a damaged landed file.
        """
        from offsetguard.facts.published import read_interval_facts, unaudited_facts

        state, published = self._state()
        workspace, engine = self.ours.workspace, self.ours.engine
        if published is not None:
            return read_interval_facts(workspace, published, Manifest.from_json(published.manifest_json))
        if state in _ENDED:
            raise PublishError(
                f"interval {self.interval.name} of cluster {self.cluster} is not published, and the task that "
                f"publishes it is {state}: look at its log and clear it; where it is green, both tasks must use "
                "the same OFFSETGUARD_DATABASE_URL"
            )
        if state == _LATE:
            self.say(f"{self.cluster}: {self.interval.name} is not published yet: judging what has landed, not audited")
            return unaudited_facts(workspace, engine, self.cluster, self.interval, self.ours.config, say=self.say)
        return None

    def is_ready(self) -> bool:
        """Whether `look` would not wait; asks our database and looks for landed snapshots, and reads no facts."""
        state, published = self._state()
        return published is not None or state == _LATE or state in _ENDED

    def _state(self) -> tuple[str | None, PublishedInterval | None]:
        """Return the state of the publication (_LATE: people would wait for it), and what is published."""
        engine = self.ours.engine
        now = database_time(engine)
        newest = published_intervals.newest(engine, self.cluster)
        may_notify = self._may_notify(now, newest)
        state = None if may_notify else self.publication_state()
        published = published_intervals.get(engine, self.cluster, self.interval)  # after the state of its task
        is_late = published is None and may_notify and now >= self._awaited_until(newest)
        return _LATE if is_late else state, published

    def _may_notify(self, now: datetime, newest: PublishedInterval | None) -> bool:
        is_young = now - self.interval.end <= timedelta(milliseconds=self.ours.config.delivery.notify_within_ms)
        return not self.is_history and is_young and (newest is None or newest.interval < self.interval)

    def _awaited_until(self, newest: PublishedInterval | None) -> datetime:
        oldest = self.interval
        for minutes in range(1, _MINUTES_BACK + 1):
            earlier = Interval(self.interval.start - minutes * INTERVAL_LENGTH)
            if newest is not None and earlier <= newest.interval:
                break
            if has_landed(self.ours.workspace, self.cluster, earlier):
                oldest = earlier
        return oldest.start + PUBLISHED_WITHIN


def check_group_pattern(pattern: str, facts: IntervalFacts) -> None:
    """Raise ConfigError, with the names that come closest, when no consumer group of the interval matches a glob."""
    groups = sorted({group.consumer_group for group in facts.groups})
    if any(fnmatch.fnmatchcase(group, pattern) for group in groups):
        return
    by_lower = {group.lower(): group for group in groups}
    similar = [by_lower[name] for name in get_close_matches(pattern.lower().strip("*"), by_lower, n=5, cutoff=0.5)]
    hint = f"similar: {', '.join(similar)}" if similar else f"there are {len(groups)} groups, none of a similar name"
    raise ConfigError(
        f"no consumer group of cluster {facts.cluster} matches the pattern {pattern!r} (case matters, * stands for "
        f"anything); {hint}"
    )
