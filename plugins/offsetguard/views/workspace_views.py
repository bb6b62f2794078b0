"""The views of one workspace: what was published, what incidents there are and what is configured, put together once.

Pages and assistants ask here; how they say a view is their own.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from offsetguard.catalogue import Catalogue
from offsetguard.config import Config
from offsetguard.config.file import ConfigFile, config_in_use
from offsetguard.config.workspace import Workspace
from offsetguard.judge.incident_words import IncidentWords
from offsetguard.model.errors import ConfigError, PublishError
from offsetguard.model.incident import BEFORE, MOST_CHANGES, Incident, Kind
from offsetguard.model.intervals import INTERVAL_LENGTH
from offsetguard.store import (
    changes,
    cycles,
    incidents,
    judge_memory,
    judged_intervals,
    notifications,
    published_intervals,
    silences,
)
from offsetguard.store.database import current_time, database_time, reading
from offsetguard.store.incidents import Which
from offsetguard.views.changes import AskedChanges, ChangesView, changes_view
from offsetguard.views.course import Span
from offsetguard.views.data_docs import MINUTES, AskedDataDocs, DataDocsView, data_docs_view
from offsetguard.views.fleet import AboutFleet, Fleet, Said, Wanted, fleet
from offsetguard.views.group import (
    INCIDENTS,
    MARKS,
    AskedGroup,
    GroupView,
    change_lines,
    group_view,
    incident_line,
    limit_lines,
    marks_of,
    what_concerns,
)
from offsetguard.views.incident import EVENTS, AskedIncident, IncidentPage, IncidentRecords, incident_page, span_around
from offsetguard.views.incidents import (
    AboutIncidents,
    IncidentList,
    State,
    WantedIncidents,
    incident_list,
    which,
)
from offsetguard.views.listing import ROWS, page_count
from offsetguard.views.published import PublishedFacts
from offsetguard.views.queues import AskedQueues, QueuesView, queues_view
from offsetguard.views.search import FOUND, AskedSearch, SearchView, find_incident, search_view, unknown
from offsetguard.views.silences import LATELY, SILENCES, AskedSilences, SilencesView, silences_view
from offsetguard.views.topic import AskedTopic, TopicView, topic_view

_KINDS = {"consumer_group": "kind_group", "topic": "kind_topic"}  # their words in the catalogue
_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Bar:
    """What the bar of every page shows."""

    cluster: str  # that the page is about; empty: all
    clusters: tuple[str, ...]  # that there are
    open_count: int  # open incidents of the cluster, or of all


class WorkspaceViews:
    """Views of one workspace, from any number of threads; `words`: of who reads.

    Raises PublishError, and UnknownName where nothing is known of the cluster, group, topic or incident.
    """

    def __init__(self, workspace: Workspace, engine: Engine) -> None:
        self._workspace = workspace
        self._engine = engine
        self._facts = PublishedFacts(workspace, engine)
        self._config_file: tuple[object, ConfigFile | None] | None = None  # as it was when it was like that

    def stamp(self, cluster: str = "") -> str:
        """Return what changes when anything that a view shows does; `cluster`: of that one only, "": of all.

        It has the age of the facts in whole minutes, as pages say it: nothing is taken for unchanged for longer.
        """
        clusters = [cluster] if cluster else published_intervals.clusters(self._engine)
        with reading(self._engine) as session:
            now, marks = current_time(session), judged_intervals.marks(session, clusters)
        runs = [self._facts.newest_run(one) for one in clusters]
        ages = [(now - (run.facts_of if run else _EPOCH)) // INTERVAL_LENGTH for run in runs or [None]]
        return repr((clusters, [run and run.run_id for run in runs], ages, marks, self._configured()))

    def bar(self, cluster: str) -> Bar:
        """Return what every page says; `cluster`: that it is about, whatever else it may be is taken for all."""
        config = self._config()
        clusters = tuple(self._facts.clusters(config.clusters if config else ()))
        picked = cluster if cluster in clusters else ""
        with reading(self._engine) as session:
            return Bar(picked, clusters, incidents.count(session, Which(picked), over=False))

    def fleet(self, wanted: Wanted, words: Catalogue) -> Fleet:
        """Return clusters, and the groups that are asked for, of all clusters or one."""
        self._check_cluster(wanted.cluster)
        config = self._config()
        newest = self._facts.newest(config.clusters if config else ())
        with reading(self._engine) as session:
            now = current_time(session)

            def judged_until(cluster: str) -> datetime | None:
                judged = judged_intervals.newest_interval(session, cluster, now)
                return judged and judged.end

            about = AboutFleet(
                words_of=self._said_by(session, words),
                why_late=self._why_late,
                lags_of=self._facts.last_hour,
                judged_until=judged_until,
                team_of=config.team_of if config else None,
                teams=tuple(sorted({*config.teams, config.default_team})) if config else (),
            )
            return fleet(newest, incidents.all_open(session), wanted, now, about)

    def search(self, asked: AskedSearch, words: Catalogue) -> SearchView:
        """Return what has a name, whatever it is, in all clusters."""
        config, wanted = self._config(), asked.q.strip()
        names = self._facts.searched(config.clusters if config else ()) if wanted else ()
        with reading(self._engine) as session:
            told = incidents.beginning_with(session, wanted, limit=FOUND) if wanted else ()
            return search_view(asked, names, told, current_time(session), words)

    def silences(self, asked: AskedSilences, words: Catalogue) -> SilencesView:
        """Return the silences of all clusters, and what one would match that is asked for."""
        with reading(self._engine) as session:
            now = current_time(session)
            shown = [*silences.not_over(session, now)]
            shown += silences.over_since(session, now - LATELY, now, limit=SILENCES)
            return silences_view(
                asked,
                shown,
                incidents.seen_since(session, now - LATELY),
                incidents.all_open(session),
                now,
                words_of=self._said_by(session, words),
            )

    def group(self, asked: AskedGroup, words: Catalogue) -> GroupView:
        """Return one group."""
        now, file = database_time(self._engine), self._file()
        asked = asked.filled(self._facts.oldest_shown(asked.cluster, now), now)
        with reading(self._engine) as session:
            since = (asked.until or now) - asked.length
            found = incidents.of_group(session, asked.cluster, asked.consumer_group, since, limit=INCIDENTS)
            told = {
                one.incident_id: notifications.recipients_of(session, one) for one in found if one.resolved_at is None
            }
            stated = judge_memory.open_forecasts(session, asked.cluster, asked.consumer_group)
        rows = self._facts.of_group(asked, now)
        if not (rows.topics or found):
            self._check(asked.cluster, "consumer_group", asked.consumer_group, now)
        _, since, until = asked.shown(rows.facts_of, now)
        hour_ago = (rows.facts_of or now) - BEFORE
        with reading(self._engine) as session:
            changed = changes.around(
                session, asked.cluster, min(since, hour_ago), until, what_concerns(asked, rows), limit=MARKS
            )
            of_members = changes.Asked(asked.cluster, since, until, asked.consumer_group, kind=Kind.MEMBERS)
            members_changed = changes.count(session, of_members)
        config = file.config if file else None
        return group_view(
            asked,
            rows,
            [incident_line(one, words, since, until, told.get(one.incident_id, ())) for one in found],
            change_lines([one for one in changed if one.at >= hour_ago][:MOST_CHANGES], words, since, until),
            now,
            marks=marks_of(changed, words, since, until),
            members_changed=members_changed,
            stated=tuple(stated.values()),
            team=config.policy(asked.cluster, asked.consumer_group).team if config else None,
            limits=limit_lines(file, asked.cluster, asked.consumer_group) if file else (),
            console_url=config.delivery.console_address(asked.cluster, asked.consumer_group, None) if config else None,
        )

    def topic(self, asked: AskedTopic) -> TopicView:
        """Return one topic."""
        now = database_time(self._engine)
        asked = asked.filled(self._facts.oldest_shown(asked.cluster, now), now)
        rows = self._facts.of_topic(asked, now)
        if not (rows.topics or rows.groups or rows.queues):
            self._check(asked.cluster, "topic", asked.topic, now)
        return topic_view(asked, rows, now)

    def queues(self, asked: AskedQueues) -> QueuesView:
        """Return the queues of a group."""
        now = database_time(self._engine)
        asked = asked.filled(self._facts.oldest_shown(asked.cluster, now), now)
        rows = self._facts.of_queues(asked, now)
        if not (rows.topics or rows.queues):
            self._check(asked.cluster, "consumer_group", asked.consumer_group, now)
        config = self._config()
        limit = config.policy(asked.cluster, asked.consumer_group).max_lag_messages if config else None
        return queues_view(asked, rows, now, limit)

    def incidents(self, wanted: WantedIncidents, words: Catalogue) -> IncidentList:
        """Return the incidents that are asked for, open ones first."""
        self._check_cluster(wanted.cluster)
        config = self._config()
        with reading(self._engine) as session:
            now = current_time(session)
            asked = which(wanted, incidents.groups(session) if wanted.team else (), config)
            open_count, past_count = (
                incidents.count(session, asked, over=over) if wanted.state in {None, state} else 0
                for over, state in ((False, State.OPEN), (True, State.PAST))
            )
            wanted = wanted.model_copy(update={"page": min(wanted.page, page_count(open_count + past_count))})
            first = (wanted.page - 1) * ROWS
            shown = min(max(open_count - first, 0), ROWS)
            found = incidents.listed(session, asked, over=False, limit=shown, offset=first)
            if shown < min(ROWS, open_count + past_count - first):
                offset = max(first - open_count, 0)
                found += incidents.listed(session, asked, over=True, limit=ROWS - shown, offset=offset)
            acknowledged = silences.acknowledgements_of(session, [one.incident_id for one in found if not one.is_over])
            about = AboutIncidents(now, words, config, silences.active(session, now))
            rules = incidents.rules(session)
        return incident_list(wanted, found, about, acknowledged, counts=(open_count, past_count), rules=rules)

    def incident(self, asked: AskedIncident, words: Catalogue) -> IncidentPage:
        """Return one incident, by its id or the start of it."""
        with reading(self._engine) as session:
            now = current_time(session)
            found = find_incident(session, asked.incident_id)
            incident_id = found.incident_id
            given = silences.acknowledgements_of(session, [incident_id]).get(incident_id)
            recipients = notifications.recipients_of(session, found)
            events = incidents.events_of(session, incident_id, limit=EVENTS + 1)
            about = AboutIncidents(now, words, self._config(), silences.active(session, now))
        since, until = span_around(found, self._facts.known_until(found.subject.cluster, now))
        try:
            history, unreadable = self._facts.of_subject(found.subject, since, until), None
        except PublishError as error:  # who can acknowledge it needs no facts for that
            history, unreadable = pa.table({}), str(error)
        return incident_page(
            IncidentRecords(found, given, recipients, events, history, since, until, unreadable), about
        )

    def changes(self, asked: AskedChanges, words: Catalogue) -> ChangesView:
        """Return what changed in a cluster, whether facts can be read or not."""
        self._check_cluster(asked.cluster)
        config = self._config()
        clusters = self._facts.clusters(config.clusters if config else ())
        if not asked.cluster and clusters:
            asked = asked.model_copy(update={"cluster": clusters[0]})
        with reading(self._engine) as session:
            now = current_time(session)
            read = self._facts.changes(session, asked)
        return changes_view(read, now, clusters=clusters, words=words)

    def data_docs(self, asked: AskedDataDocs) -> DataDocsView:
        """Return what the newest minutes violated of each cluster that has Data Docs."""
        folder = self._workspace.data_docs_folder
        there = folder.iterdir() if folder.is_dir() else ()
        names = sorted(one.name for one in there if (one / "index.html").is_file())
        histories = [one for one in names if (folder / one / "history" / f"{asked.invariant.upper()}.html").is_file()]
        published = [one for name in names for one in cycles.newest(self._engine, cluster=name, limit=MINUTES)]
        return data_docs_view(asked, names, histories, published, database_time(self._engine))

    def _check(self, cluster: str, kind: str, name: str, now: datetime) -> None:
        """Raise UnknownName unless the newest facts, those of a month, or an incident have a name."""
        self._check_cluster(cluster)
        known = self._facts.names(cluster, kind)
        if known is None or name in known or self._facts.was_there(cluster, kind, name, now - Span.MONTH.length, now):
            return
        with reading(self._engine) as session:
            of_incidents = {(one, group) for one, group in incidents.groups(session) if kind == "consumer_group"}
        if (cluster, name) not in of_incidents:
            raise unknown(_KINDS[kind], name, known)

    def _check_cluster(self, name: str) -> None:
        """Raise UnknownName for a cluster that is neither configured nor was published, nor has an incident."""
        config = self._config()
        if not name or config is None or name in config.clusters:
            return
        with reading(self._engine) as session:
            known = {*self._facts.clusters(config.clusters), *(cluster for cluster, _ in incidents.groups(session))}
        if name not in known:
            raise unknown("kind_cluster", name, known)

    def _said_by(self, session: Session, words: Catalogue) -> Callable[[Collection[str]], Mapping[str, Said]]:
        """Return what gives what incidents say, by their ids."""

        def said(incident_id: str, one: Incident) -> Said:
            summary = IncidentWords(one, words.locale).summary
            return Said(summary, one.first_seen_at, one.evidence.broker_names, one.evidence.audited)

        return lambda ids: {key: said(key, one) for key, one in incidents.by_id(session, ids).items()}

    def _why_late(self, cluster: str, facts_of: datetime) -> str | None:
        """Return what the newest publication said that failed since the facts of a cluster, its first line."""
        failed = cycles.newest(self._engine, cluster=cluster, failed=True, since=facts_of, limit=1)
        return (failed[0].error or "").partition("\n")[0] or None if failed else None

    def _configured(self) -> tuple[object, ...]:
        """Return what changes when the configuration may have."""
        files = (self._workspace.config_file, self._workspace.last_good_config_file)
        return tuple((one.stat().st_mtime_ns, one.stat().st_size) if one.exists() else None for one in files)

    def _file(self) -> ConfigFile | None:
        """Return the configuration that holds now, with its lines; read again only when its files have changed."""
        written = self._configured()
        if self._config_file is None or self._config_file[0] != written:
            self._config_file = written, configuration(self._workspace)
        return self._config_file[1]

    def _config(self) -> Config | None:
        file = self._file()
        return file.config if file else None


def configuration(workspace: Workspace) -> ConfigFile | None:
    """Return what holds now and where it stands; None where it cannot be read: what was published is shown anyway."""
    try:
        return config_in_use(workspace, keep=False).file
    except ConfigError:
        return None
