"""What an assistant may ask of `offsetguard mcp`: each tool is a question's fields and the document that answers it.

A question is what stands in the address of a page, an answer the view that the page shows, without its pictures. Every
tool only reads: the database is opened so that it refuses to be changed, and no configuration is kept.
"""

import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

import click
from pydantic import BaseModel, ConfigDict, Field

from offsetguard.catalogue import catalogue
from offsetguard.cli.diagnose import document_of, shown_by
from offsetguard.cli.finding_output import MAX_QUEUES_SHOWN
from offsetguard.cli.parameters import check_is_known
from offsetguard.config.workspace import Workspace
from offsetguard.judge.registry import RULES, section_of
from offsetguard.model.errors import BundleError
from offsetguard.model.views import Record
from offsetguard.sources.bundle.layout import INDEX
from offsetguard.store.database import open_migrated
from offsetguard.views.changes import AskedChanges
from offsetguard.views.course import POINTS, Course
from offsetguard.views.fleet import Wanted
from offsetguard.views.group import AskedGroup
from offsetguard.views.incident import AskedIncident
from offsetguard.views.incidents import WantedIncidents
from offsetguard.views.search import AskedSearch
from offsetguard.views.silences import AskedSilences
from offsetguard.views.topic import AskedTopic
from offsetguard.views.workspace_views import WorkspaceViews

MAX_BUNDLE_INDEX_BYTES = 16 * 1024 * 1024  # up to 17 times as much in memory; `offsetguard diagnose` takes larger ones
STEPS = 60  # of a course that was not asked for in more
_INVARIANT = re.compile(r"OG-[A-Z]{1,3}\d{1,3}")


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool; its name and its description are those of the function that answers."""

    asked: type[BaseModel]
    answer: Callable[[Any], Mapping[str, Any] | str]  # a document of the view's fields, or a text of our own


TOOLS: dict[str, Tool] = {}
Asked = TypeVar("Asked", bound=BaseModel)
Answer = Callable[[Asked], Mapping[str, Any] | str]


def _tool(asked: type[Asked]) -> Callable[[Answer[Asked]], Answer[Asked]]:
    def registered(answer: Answer[Asked]) -> Answer[Asked]:
        TOOLS[answer.__name__] = Tool(asked, answer)
        return answer

    return registered


@_tool(Wanted)
def fleet(asked: Wanted) -> Mapping[str, Any]:
    """Show who is in trouble: consumer groups, worst first, what their worst open incident says, and what waits.

    Per cluster: how old the facts are (trust), what was not seen, totals. A good first question.
    """
    return _said(_views().fleet(asked, catalogue()), exclude={"teams", "rules", "cluster_names"})


@_tool(AskedGroup)
def group(asked: AskedGroup) -> Mapping[str, Any]:
    """Show one consumer group now: what is wrong, since when, what to do.

    Open incidents with cause, next step and commands for people; topics, worst queues, members, changes of the last
    hour, team, and the thresholds that hold with the entry of the configuration that sets each. `over`: incidents that
    ended within the span; `outlooks`: when the backlog is gone, or messages are lost, if it goes on so.
    """
    return _said(_views().group(asked, catalogue()), exclude={"courses"})


@_tool(WantedIncidents)
def incidents(asked: WantedIncidents) -> Mapping[str, Any]:
    """List incidents, open ones worst first, then those that are over, what ended last first; and silences that hold.

    Of each: what it says, since when, how long, who looks after it, whether it is silenced, how it ended.
    """
    return _said(_views().incidents(asked, catalogue()), exclude={"teams", "severities", "rules", "clusters"})


@_tool(AskedIncident)
def incident(asked: AskedIncident) -> Mapping[str, Any]:
    """Show one incident whole: cause, next step, commands for people, figures, queues, and its timeline.

    Who was told and what mutes it, what changed before it, what else it explains, messages lost in it, and courses from
    an hour before it on, in steps as `history` has them.
    """
    view = _views().incident(asked, catalogue())
    return _said(view, exclude={"courses"}) | _brief(view.courses, STEPS)


@_tool(AskedChanges)
def changes(asked: AskedChanges) -> Mapping[str, Any]:
    """List what changed in a cluster, newest first: settings, versions, members, resets, restarts.

    `unknown_count`: minutes of which it is not known what changed.
    """
    return _said(_views().changes(asked, catalogue()), exclude={"clusters"})


@_tool(AskedSilences)
def silences(asked: AskedSilences) -> Mapping[str, Any]:
    """List silences, who wanted each and why, until when, and which open incidents it matches now.

    With matchers: which open incidents a silence of them would match (`would_match`); none is made.
    """
    return _said(_views().silences(asked, catalogue()))


@_tool(AskedSearch)
def search(asked: AskedSearch) -> Mapping[str, Any]:
    """Find groups, topics, brokers, clients and incidents of all clusters by part of a name.

    Where a question names something and no cluster, ask this first.
    """
    return _said(_views().search(asked, catalogue()))


class AskedHistory(AskedGroup):
    """The course of a group."""

    steps: Annotated[int, Field(ge=2, le=POINTS)] = STEPS  # of each course: more are finer


@_tool(AskedHistory)
def history(asked: AskedHistory) -> Mapping[str, Any]:
    """Show how a consumer group was doing over a span.

    Lag in messages (effective_lag), age of the oldest message that waits (lag_ms), rates in and out: each in equal
    steps of step_ms, the first from first_step_at on, with the least, the most and the last figure of each step (null:
    nothing is known of it; those numbered in at_least: a queue was not read, so that it may be more); incidents and
    changes (`marks`) of the span, and what is forecast (`outlooks`).
    """
    view = _views().group(asked, catalogue())
    one = {"__all__": {"incident_id", "rule_id", "severity", "summary", "opened_at", "resolved_at"}}
    whole = ("at", "asked", "trust", "facts_of", "since", "until", "marks", "outlooks", "kept_since")
    told = dict.fromkeys(whole, True) | {"open": one, "over": one}
    return _said(view, include=told) | _brief(view.courses, asked.steps)


@_tool(AskedTopic)
def topic(asked: AskedTopic) -> Mapping[str, Any]:
    """Show one topic: which groups read it, and how far behind each is.

    Its queues from where to where, how many messages are kept, what comes in over the span beside what is usual at that
    hour of the week (baseline_tps).
    """
    view = _views().topic(asked)
    return _said(view, exclude={"courses", "usual"}) | _brief((*view.courses, *view.usual), STEPS)


class AskedMeaning(BaseModel):
    """A name that stands in findings, incidents or facts."""

    model_config = ConfigDict(frozen=True)

    id: Annotated[str, Field(min_length=1, max_length=64)]  # a rule, e.g. consumer_offline, or an invariant: OG-Q03


@_tool(AskedMeaning)
def explain(asked: AskedMeaning) -> str:
    """Say what a rule (rule_id of an incident) or an invariant (violated_invariants) means: the documentation of it.

    Which evidence it wants, when it opens and ends, which others it explains, what to do.
    """
    if not _INVARIANT.fullmatch(asked.id):
        check_is_known("id", asked.id, RULES)
        return section_of(asked.id)
    command = [sys.executable, "-m", "offsetguard_expectations.reference", asked.id]  # which we may not import
    said = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=60)
    if not said.stdout:
        raise click.UsageError(f"id: there is no invariant {asked.id!r}; docs/invariants.md has them all")
    return said.stdout


class AskedBundle(BaseModel):
    """A support bundle on the machine where this runs."""

    model_config = ConfigDict(frozen=True)

    path: Annotated[
        str, Field(min_length=1, max_length=4_096, pattern=r"^[^\x00]+$")
    ]  # the folder that `offsetguard record` wrote
    group: Annotated[str, Field(max_length=255)] = ""  # only groups in whose name this stands, in any case


@_tool(AskedBundle)
def diagnose(asked: AskedBundle) -> Mapping[str, Any]:
    """Judge a recorded support bundle by the rules that judge live clusters.

    Findings, worst first, with evidence and next step, also those that were over when the recording ended; what could
    not be told, and why.
    """
    folder = Path(asked.path)
    try:
        size = (folder / INDEX).stat().st_size
    except OSError as error:
        raise BundleError(f"{folder}: is not a support bundle: {INDEX}: {error.strerror}") from error
    if size > MAX_BUNDLE_INDEX_BYTES:
        raise BundleError(
            f"{folder / INDEX}: {size:,} bytes, more than {MAX_BUNDLE_INDEX_BYTES:,}: run `offsetguard diagnose` on it"
        )
    pattern = re.compile(re.escape(asked.group), re.IGNORECASE) if asked.group else None
    shown = shown_by(folder, group_pattern=pattern)
    return {
        "looked_at": shown.looked_at,
        "unseen": shown.unseen,
        "findings": [
            {**one, "queues": one["queues"][:MAX_QUEUES_SHOWN], "queue_count": len(one["queues"])}
            for one in map(document_of, shown.found)
        ],
        "cannot_tell": [asdict(one) | {"broker_names": sorted(one.broker_names)} for one in shown.cannot_tell],
    }


def _said(view: Record, **chosen: Any) -> dict[str, Any]:
    """Return a view as JSON has it, without where things lie in pictures; `chosen`: as model_dump takes it."""

    def unpictured(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: unpictured(one) for name, one in value.items() if name != "band"}
        return [unpictured(one) for one in value] if isinstance(value, list) else value

    document: dict[str, Any] = unpictured(view.model_dump(mode="json", **chosen))
    return document


def _brief(courses: tuple[Course, ...], steps: int) -> dict[str, Any]:
    """Return courses in at most so many steps, as columns: a point of its own for each step has ten times the text."""
    return {"courses": [_brief_course(one, -(-len(one.points) // steps)) for one in courses]}


def _brief_course(course: Course, together: int) -> dict[str, Any]:
    """Return a course with so many of its steps made one, none of its peaks lost."""
    runs = [course.points[first : first + together] for first in range(0, len(course.points), together)]
    known = [[one for one in run if one.last is not None] for run in runs]
    return {
        "figure": course.figure,
        "greatest": _rounded(course.greatest),
        "first_step_at": course.points[0].at if course.points else None,
        "step_ms": together * course.step_ms,
        "least": [_rounded(min((one.least for one in run if one.least is not None), default=None)) for run in known],
        "most": [
            _rounded(max((one.greatest for one in run if one.greatest is not None), default=None)) for run in known
        ],
        "last": [_rounded(run[-1].last) if run else None for run in known],
        "at_least": [number for number, run in enumerate(known) if any(one.at_least for one in run)],
    }


def _rounded(figure: float | None) -> float | None:
    return round(figure, 3) if isinstance(figure, float) else figure


def _views() -> WorkspaceViews:
    return _views_of(Workspace.from_environment())


@cache
def _views_of(workspace: Workspace) -> WorkspaceViews:
    """Open a database once; one that cannot be opened is tried again at the next question."""
    return WorkspaceViews(workspace, open_migrated(workspace.database_url, read_only=True))
