"""The views of one workspace: what was published, what incidents there are and what is configured, put together once.

Pages and assistants ask here; how they say a view is their own.
"""

from __future__ import annotations

from sqlalchemy import Engine

from offsetguard.catalogue import Catalogue
from offsetguard.config import Config
from offsetguard.config.file import config_in_use
from offsetguard.config.workspace import Workspace
from offsetguard.decide.incidents.history import IncidentWords
from offsetguard.model.errors import ConfigError
from offsetguard.store import incidents
from offsetguard.store.database import current_time, database_time, reading
from offsetguard.views.fleet import Fleet, NewestFacts, Wanted, fleet
from offsetguard.views.group import (
    INCIDENTS,
    AskedGroup,
    GroupView,
    change_lines,
    group_view,
    incident_line,
    limit_lines,
)
from offsetguard.views.published import PublishedFacts
from offsetguard.views.topic import AskedTopic, TopicView, topic_view


class WorkspaceViews:
    """Views of one workspace, from any number of threads; `words`: of who reads. Raises PublishError."""

    def __init__(self, workspace: Workspace, engine: Engine) -> None:
        self._workspace = workspace
        self._engine = engine
        self._facts = PublishedFacts(workspace, engine)

    def group_names(self) -> dict[str, frozenset[str]]:
        """Return the groups of the newest facts of each cluster that is configured or was ever published."""
        return {
            cluster: frozenset(line.consumer_group for line in facts.groups) if facts else frozenset()
            for cluster, facts in self._newest().items()
        }

    def fleet(self, wanted: Wanted, words: Catalogue) -> Fleet:
        """Return the groups that are asked for, of all clusters or one."""
        newest = self._newest()
        with reading(self._engine) as session:
            return fleet(
                newest,
                incidents.all_open(session),
                wanted,
                current_time(session),
                words_of=lambda ids: {
                    key: IncidentWords(one, words.locale).summary for key, one in incidents.by_id(session, ids).items()
                },
            )

    def group(self, asked: AskedGroup, words: Catalogue) -> GroupView:
        """Return one group; an empty view of one of which nothing is known."""
        with reading(self._engine) as session:
            now = current_time(session)
            since = now - asked.span.length
            found = incidents.of_group(session, asked.cluster, asked.consumer_group, since, limit=INCIDENTS)
        rows = self._facts.of_group(asked, now)
        changes = self._facts.changes_before(asked, rows)
        config = configuration(self._workspace)
        return group_view(
            asked,
            rows,
            [incident_line(one, words, since, now) for one in found],
            change_lines(changes, words, since, now),
            now,
            team=config.policy(asked.cluster, asked.consumer_group).team if config else None,
            limits=limit_lines(config, asked.cluster, asked.consumer_group) if config else (),
            console_url=config.delivery.console_address(asked.cluster, asked.consumer_group, None) if config else None,
        )

    def topic(self, asked: AskedTopic) -> TopicView:
        """Return one topic; an empty view of one of which nothing is known."""
        now = database_time(self._engine)
        return topic_view(asked, self._facts.of_topic(asked, now), now)

    def _newest(self) -> dict[str, NewestFacts | None]:
        config = configuration(self._workspace)
        return self._facts.newest(config.clusters if config else ())


def configuration(workspace: Workspace) -> Config | None:
    """Return what holds now; None where it cannot be read: what was published is shown all the same."""
    try:
        return config_in_use(workspace, keep=False).config
    except ConfigError:
        return None
