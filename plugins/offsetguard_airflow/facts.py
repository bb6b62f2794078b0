"""The published facts of the interval that a task works on."""

from __future__ import annotations

import fnmatch
from difflib import get_close_matches
from typing import TYPE_CHECKING

from offsetguard.model.errors import ConfigError, PublishError

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from offsetguard.config.workspace import Workspace
    from offsetguard.facts.interval import IntervalFacts
    from offsetguard.model.intervals import Interval


def read_facts(workspace: Workspace, engine: Engine, cluster: str, interval: Interval) -> IntervalFacts:
    """Read them; raises PublishError when the interval was never published."""
    from offsetguard.collect.manifest import Manifest
    from offsetguard.facts.published import read_interval_facts
    from offsetguard.store import published_intervals

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
