"""What a message says, before it is mail or Slack blocks: plain, serialisable, kept in the outbox as JSON.

A message about the incidents of one rule; a digest, which takes the place of several of them; a daily report. Figures
and names only; what renders them puts them into words. Rows that another release wrote are read, too, after an upgrade
and on the way back: fields that this one does not know are left out, and a field that comes after the first release
needs a default.
"""

import inspect
import re
from datetime import date, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, Self
from urllib.parse import quote, urlencode

from pydantic import BaseModel, ConfigDict, Discriminator, Tag, TypeAdapter

LAG_POINTS = 120  # of one curve: more cannot be told apart in the picture
LEAST_LAG_POINTS = 3  # fewer show no course
DIGEST = "digest"  # stands where other messages have their rule id
DAILY_REPORT = "daily_report"  # stands where other messages have their rule id
EVERY_CLUSTER = "*"
INCIDENTS_LISTED = 30
CLUSTERS_LISTED = 20


class NotificationReason(StrEnum):
    """Why a message was, or was not, sent; the names of `explain notification` and of the judge's log."""

    # sent
    FIRST = "first"  # nothing was ever told to the receiver, or the last message told of a resolution
    NEW_FIRING = "new_firing"  # something fires that the last message did not have
    WORSE = "worse"  # something got more severe than it was told: does not wait for group_interval
    ESCALATED = "escalated"  # first to a team that is told because another one did not acknowledge
    REPEAT = "repeat"  # the repeat interval has passed
    RESOLVED = "resolved"  # something that was told has resolved, and something else still fires
    ALL_RESOLVED = "all_resolved"  # nothing fires any more
    # not sent: there is nothing to tell
    NOTHING_NEW = "nothing_new"  # the last message still says it all
    NOTHING_FIRING = "nothing_firing"  # nothing fires and nothing was told
    RESOLVED_UNWANTED = "resolved_unwanted"  # nothing fires any more, and the route wants no resolve notices
    RECEIVER_REMOVED = "receiver_removed"  # the configuration names the receiver no more: it hears nothing further
    # not sent yet: a later interval will
    GROUP_WAIT = "group_wait"  # the first message waits for more to fit in
    GROUP_INTERVAL = "group_interval"  # something is new, and the last message is too young
    # not sent: all that fires is muted (`notification.MuteReason`); the worst incident's mute is named
    MUTED_BY_INHIBITION = "muted_by_inhibition"
    MUTED_UNTIL_SEEN = "muted_until_seen"
    MUTED_BY_MAINTENANCE = "muted_by_maintenance"
    MUTED_BY_SILENCE = "muted_by_silence"
    MUTED_BY_QUIET_HOURS = "muted_by_quiet_hours"
    NEEDS_NOBODY = "needs_nobody"
    ACKNOWLEDGED = "acknowledged"  # somebody looks after it, and it did not get worse

    @property
    def is_sent(self) -> bool:
        """Whether a message goes out for this reason."""
        return self in _SENDS


_SENDS = frozenset(
    {
        NotificationReason.FIRST,
        NotificationReason.NEW_FIRING,
        NotificationReason.WORSE,
        NotificationReason.ESCALATED,
        NotificationReason.REPEAT,
        NotificationReason.RESOLVED,
        NotificationReason.ALL_RESOLVED,
    }
)


class News(StrEnum):
    """What is new of an incident in a message that also shows others."""

    NEW = "new"
    WORSE = "worse"  # than its reader knows it


class Record(BaseModel):
    """Base of all views: nothing changes after it was written."""

    # its errors get into logs, where nothing of a message may stand
    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)


class FigureView(Record):
    """One line of the small table: label and formatted value."""

    label: str
    value: str


class QueueView(Record):
    """One affected queue."""

    topic: str
    broker_name: str
    queue_id: int
    figures: tuple[FigureView, ...]
    alike_count: int = 0  # further queues of the topic with these very figures


class StackView(Record):
    """Threads of a client that do the same; the first of several says whose they are, and when it was."""

    said: str
    frames: tuple[str, ...] = ()  # innermost first; empty: there is nothing to be seen


class LagPoint(Record):
    """One sample of a lag curve."""

    at: datetime
    lag: int  # messages


class IncidentView(Record):
    """One incident as the reader sees it."""

    incident_id: str
    consumer_group: str | None
    topic: str | None
    severity: str
    news: News | None = None  # None: its reader knows of it, or all of the message is new
    state: str
    title: str = ""  # a few words: what is wrong
    summary: str
    cause: str
    do_next: str
    commands: tuple[str, ...] = ()  # for a shell, one a line
    began_at: datetime | None = None  # the event's own moment; None: it is not known, only when it was seen
    opened_at: datetime  # when it was first seen: the end of an interval, as the next two
    last_seen_at: datetime
    resolved_at: datetime | None = None
    resolution: str | None = None  # e.g. "recovered", "consumer group was deleted"
    seen_count: int = 1  # intervals in which it was found
    peak: str | None = None  # the worst figure so far, formatted
    figures: tuple[FigureView, ...] = ()
    audited: bool = True  # False: told by what has landed, before it was published
    queues: tuple[QueueView, ...] = ()  # worst first, capped
    queue_count: int = 0  # all of them
    changes: tuple[str, ...] = ()  # of the hour before it, newest first
    stacks: tuple[StackView, ...] = ()  # what the threads of a client did, most threads first
    explains: tuple[str, ...] = ()  # findings that are named here and nowhere else, capped
    explained_count: int = 0
    cannot_tell: tuple[str, ...] = ()  # what could not be told about the same group or brokers, capped
    cannot_tell_count: int = 0
    lag_curve: tuple[LagPoint, ...] = ()  # oldest first, at most LAG_POINTS; empty: no picture
    drain_ms: tuple[int, int] | None = None  # low and high: until the backlog is gone
    loss_ms: tuple[int, int] | None = None  # low and high: until retention deletes what was not consumed
    muted_count: int = 0  # incidents below this one that are not told because of it
    muted_when_resolved: str | None = None  # what muted it when it ended, e.g. "silence of alice: deployment"
    acknowledged_at: datetime | None = None
    acknowledged_by: str | None = None
    acknowledgement: str | None = None  # the comment
    incident_url: str | None = None  # its page
    group_url: str | None = None  # the page of its consumer group
    acknowledge_url: str | None = None
    silence_url: str | None = None
    console_url: str | None = None  # the group in the console in which its team acts


class Addressed(Record):
    """What the outbox needs of every message, and who reads it."""

    team: str
    cluster: str
    rule_id: str
    severity: str  # the worst of what fires, or of what resolved when nothing fires
    interval_start: datetime
    thread_key: str  # equal for all messages about the same firing spell
    language: str = "en"
    time_zone: str = "UTC"  # IANA name; in which the reader sees moments
    page_url: str | None = None  # the Airflow UI
    data_docs_url: str | None = None
    mentions: tuple[str, ...] = ()  # people whom the channel calls, by its own ids


class Cause(Record):
    """What is said of one rule's incidents, by itself or within a digest."""

    rule_id: str  # in whose words the worst of it stands
    title: str  # a few words: what is wrong
    severity: str
    reason: NotificationReason
    thread_key: str
    firing: tuple[IncidentView, ...] = ()  # worst first
    resolved: tuple[IncidentView, ...] = ()
    hidden_firing: int = 0  # further incidents of this cause that are not in `firing`
    hidden_resolved: int = 0
    group_count: int = 0  # consumer groups concerned, listed or not; 0: count those that are listed, if any
    muted_count: int = 0  # incidents that are not told because of what stands here
    goes_on_count: int = 0  # of this cause, that its reader knows of: acknowledged or muted, so that they take no part
    repeat_count: int = 0  # how often it was told again without anything new
    escalated_from: str | None = None  # the team that did not react


class MessageView(Addressed, Cause):
    """One message: (team, cluster, rule)."""

    late: bool = False  # about an interval that is long gone (replay or backfill, when asked for)


class DetailsView(MessageView):
    """What a message leaves to its thread, where a channel has threads: it follows once that one is accepted."""

    kind: Literal["details"] = "details"

    @classmethod
    def of(cls, message: MessageView) -> Self:
        """Return the same view, of which only what the message left out is shown."""
        return cls(**{name: getattr(message, name) for name in MessageView.model_fields})


class DigestSection(Cause):
    """One cause: what one message would have said, shortened to INCIDENTS_PER_CAUSE."""

    @property
    def firing_count(self) -> int:
        """All that fire, listed or not."""
        return len(self.firing) + self.hidden_firing

    @property
    def resolved_count(self) -> int:
        """All that resolved, listed or not."""
        return len(self.resolved) + self.hidden_resolved


class DigestView(Addressed):
    """One mail about several causes in one cluster and interval."""

    kind: Literal["digest"] = "digest"
    rule_id: str = DIGEST
    sections: tuple[DigestSection, ...]  # worst first
    late: bool = False

    @property
    def firing(self) -> tuple[IncidentView, ...]:
        """What fires and is listed."""
        return tuple(incident for section in self.sections for incident in section.firing)

    @property
    def resolved(self) -> tuple[IncidentView, ...]:
        """What resolved and is listed."""
        return tuple(incident for section in self.sections for incident in section.resolved)


class ReportedIncident(Record):
    """One incident that the day saw."""

    cluster: str
    consumer_group: str | None
    topic: str | None
    rule_id: str
    title: str
    severity: str  # the worst that it had on the day
    opened_at: datetime
    resolved_at: datetime | None  # None: it was open at the day's end
    lasted_ms: int  # within the day
    peak: str | None = None  # the worst figure of its whole life, formatted
    unknown: bool = False  # at the day's end its evidence could not be seen
    incident_url: str | None = None
    group_url: str | None = None


class ForecastQuality(Record):
    """How one kind of forecast of one cluster turned out."""

    cluster: str
    kind: str  # drain or loss
    inside: int
    early: int
    late: int
    void: int  # their subject went away: they count for nothing


class DataQuality(Record):
    """How much of the day was seen of one cluster, and what was wrong with what was seen."""

    cluster: str
    expected_count: int  # intervals of the day
    judged_count: int
    late_count: int  # of these, judged so late that nobody was told
    failed_cycle_count: int
    longest_gap_ms: int  # between two judged intervals, or to the day's ends; 0: no interval is missing
    violation_count: int  # of invariants
    quarantined_count: int  # rows left out of the facts


class DailyReportView(Addressed):
    """One team's report about one day, which began at `interval_start`; `severity` is the worst of it, or info."""

    kind: Literal["daily_report"] = "daily_report"
    cluster: str = EVERY_CLUSTER
    rule_id: str = DAILY_REPORT
    ends_at: datetime  # when the day ended
    day: date  # by the reader's calendar
    incidents: tuple[ReportedIncident, ...] = ()  # worst first, at most INCIDENTS_LISTED
    hidden_incidents: int = 0
    critical_count: int = 0  # of all of them
    opened_count: int = 0  # on this day
    resolved_count: int = 0  # on this day
    open_count: int = 0  # at its end
    muted_count: int = 0  # incidents that were muted for a time
    acknowledged_count: int = 0
    silence_count: int = 0  # silences that were in force, of all teams
    sent_count: int = 0  # messages that receivers accepted
    waiting_count: int = 0  # of the day, not accepted yet
    failed_count: int = 0  # refused for good
    forecast_days: int = 7  # that the forecasts' outcomes are of, the day being the last
    forecasts: tuple[ForecastQuality, ...] = ()
    data: tuple[DataQuality, ...] = ()  # worst first, at most CLUSTERS_LISTED
    hidden_clusters: int = 0


MESSAGE = "message"  # what has no `kind`


def _kind(value: Any) -> str:
    kind = value.get("kind", MESSAGE) if isinstance(value, dict) else getattr(value, "kind", MESSAGE)
    return kind if isinstance(kind, str) else MESSAGE


AnyView = Annotated[
    Annotated[MessageView, Tag(MESSAGE)]
    | Annotated[DetailsView, Tag("details")]
    | Annotated[DigestView, Tag("digest")]
    | Annotated[DailyReportView, Tag("daily_report")],
    Discriminator(_kind),
]
_ANY_VIEW: TypeAdapter[AnyView] = TypeAdapter(AnyView, config=ConfigDict(hide_input_in_errors=True))


def read_view(text: str) -> AnyView:
    """Return the view that a row keeps; raises pydantic.ValidationError when it lacks what every message has."""
    return _ANY_VIEW.validate_json(text)


# where our pages are served below Airflow's own address: the plugin mounts them there, messages link there
URL_PREFIX = "/offsetguard"
DATA_DOCS_PATH = "/data-docs"  # below URL_PREFIX
INCIDENTS_PATH = "/incidents"  # below URL_PREFIX
FLEET_PATH = "/fleet"  # below URL_PREFIX
ACKNOWLEDGE, SILENCE = "acknowledge", "silence"  # ids of the forms on an incident's page


def data_docs_url(page_url: str, cluster: str) -> str:
    """Return the address of a cluster's Data Docs; `page_url`: Airflow's own, as `delivery.page_url` has it."""
    return f"{page_url.rstrip('/')}{URL_PREFIX}{DATA_DOCS_PATH}/{quote(cluster, safe='')}/index.html"


def incidents_url(page_url: str) -> str:
    """Return the address of the list of open incidents."""
    return f"{page_url.rstrip('/')}{URL_PREFIX}{INCIDENTS_PATH}/"


def incident_url(page_url: str, incident_id: str) -> str:
    """Return the address of an incident's page, with its forms `#acknowledge` and `#silence`."""
    return f"{page_url.rstrip('/')}{URL_PREFIX}{INCIDENTS_PATH}/{quote(incident_id, safe='')}"


def group_url(page_url: str, cluster: str, consumer_group: str) -> str:
    """Return the address of a consumer group's page; any name may stand in it."""
    about = urlencode({"cluster": cluster, "consumer_group": consumer_group}, quote_via=quote, safe="")
    return f"{page_url.rstrip('/')}{URL_PREFIX}{FLEET_PATH}/group?{about}"


_FIELD = re.compile(r"^    (\w+?)_?: (?:[^#\n]|\n(?!    \w))*  # (.*)$", re.MULTILINE)  # it may go over lines


def meanings(model: type[BaseModel]) -> dict[str, str]:
    """Return the meaning of each field that has a comment, by its key; those of the bases, too."""
    bases = (base for base in reversed(model.__mro__) if issubclass(base, BaseModel) and base is not BaseModel)
    return {key: meaning for base in bases for key, meaning in _FIELD.findall(inspect.getsource(base))}
