"""What tasks work with: the interval, clusters and facts that a run is about, the configuration and our database."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING

from sqlalchemy import Engine

from offsetguard.collect.manifest import Manifest
from offsetguard.config import Config
from offsetguard.config.file import ConfigInUse, config_in_use, did_you_mean
from offsetguard.config.workspace import Workspace
from offsetguard.model.errors import ConfigError, PublishError
from offsetguard.model.intervals import Interval
from offsetguard.store import published_intervals
from offsetguard.store.database import open_database

if TYPE_CHECKING:
    from offsetguard.facts.interval import IntervalFacts

ALL_CLUSTERS = "all"


@dataclass(frozen=True, slots=True)
class Opened:
    """The workspace of a task, with what it reads first."""

    workspace: Workspace
    config: Config
    config_problem: str | None  # what is wrong with the file, where the last one that was right is gone by
    engine: Engine


def open_workspace(log_error: Callable[[str], object]) -> Opened:
    """Read the configuration and open the database; raises ConfigError, StoreError."""
    workspace = Workspace.from_environment()
    in_use = configuration(workspace, log_error)
    return Opened(workspace, in_use.config, in_use.problem, open_database(workspace.database_url))


def configuration(workspace: Workspace, log_error: Callable[[str], object]) -> ConfigInUse:
    """Return what holds now; raises ConfigError when the file is broken and none that was right is kept."""
    found = config_in_use(workspace)
    if found.problem is not None:
        for line in found.problem.splitlines():
            log_error(line)
        log_error("the configuration file is broken; going on with the last one that was right")
    return found


def interval_at(moment: str) -> Interval:
    """Return the interval that an ISO 8601 moment with a zone falls into; raises ValueError for anything else."""
    parsed = datetime.fromisoformat(moment)
    if parsed.tzinfo is None:
        raise ValueError(f"interval_start {moment!r} has no time zone; write e.g. 2026-11-21T10:39:00+00:00")
    return Interval.containing(parsed)


def chosen_clusters(cluster: str) -> list[str]:
    """Return the configured clusters that the trigger form's field names; raises ConfigError for an unknown name."""
    workspace = Workspace.from_environment()
    config_file = workspace.config_file
    known = sorted(config_in_use(workspace).config.clusters)
    if cluster == ALL_CLUSTERS and cluster not in known:
        return known
    if cluster not in known:
        raise ConfigError(
            f"{config_file}: clusters: there is no cluster {cluster!r}{did_you_mean(cluster, known)}; "
            f"clusters: {', '.join(known)}. Trigger again with one of them, or with {ALL_CLUSTERS!r}"
        )
    return [cluster]


def read_facts(workspace: Workspace, engine: Engine, cluster: str, interval: Interval) -> IntervalFacts:
    """Read them; raises PublishError when the interval was never published."""
    from offsetguard.facts.published import read_interval_facts

    published = published_intervals.get(engine, cluster, interval)
    if published is None:
        raise PublishError(
            f"interval {interval.name} of cluster {cluster} is not published; clear the task publish_interval of this "
            "run, and look at OFFSETGUARD_DATABASE_URL when it is green: both tasks must use the same database"
        )
    return read_interval_facts(workspace, published, Manifest.from_json(published.manifest_json))


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
