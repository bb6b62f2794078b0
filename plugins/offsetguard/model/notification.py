"""Channels and receivers, what these were notified of, and what is muted for them and why: by a silence, for one.

What a channel says of itself stands at the top of its file in `deliver/channels/`. It is read there without importing
the file, as commands are found by their first line: whoever reads the configuration needs no client of HTTP or SMTP,
and no layer looks up.

A silence: incidents that somebody wants to hear nothing of for a time, and an acknowledgement of one. A silence mutes
messages and nothing else: incidents are found, kept and shown as ever, and one that was told of before still tells that
it has resolved.
"""

import ast
import fnmatch
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from importlib.resources import files

from offsetguard.model.errors import SilenceError
from offsetguard.model.incident import Incident, Subject
from offsetguard.model.verdicts import Severity

Channel = str  # how a receiver is reached, by the name that the channel's file declares
Receiver = tuple[Channel, str]


class MuteReason(StrEnum):
    """What mutes; each value is also a NotificationReason. The first one that holds, in this order, is recorded."""

    INHIBITION = "muted_by_inhibition"  # trouble above it is notified instead, and says how many it mutes
    UNTIL_SEEN = "muted_until_seen"  # that trouble has ended, and no interval has shown this one again since
    MAINTENANCE = "muted_by_maintenance"  # a maintenance window of the configuration
    SILENCE = "muted_by_silence"  # a silence that somebody added
    QUIET_HOURS = "muted_by_quiet_hours"  # not severe enough for the hour
    NEEDS_NOBODY = "needs_nobody"  # it is INFO by now, and goes on: who knows of it is notified of its end
    ACKNOWLEDGED = "acknowledged"  # somebody looks after it, and it did not get worse since


@dataclass(frozen=True, slots=True)
class Mute:
    """What mutes one incident for one receiver."""

    reason: MuteReason
    by: str  # incident id, silence id, or the window as it is written; never shown without `text`
    text: str  # a few words for people, a catalogue.Sentence mostly: "silence of alice: deployment"


@dataclass(frozen=True, slots=True, order=True)
class GroupKey:
    """What one message is about."""

    team: str  # that the incidents belong to; who hears of them may be another one (escalation)
    cluster: str
    rule_id: str


@dataclass(frozen=True, slots=True, order=True)
class NotificationKey:
    """What one message is about, and who gets it: as in Alertmanager's notification log."""

    group: GroupKey
    channel: Channel
    receiver: str


@dataclass(frozen=True, slots=True)
class NotifiedIncident:
    """How a receiver knows an incident that it was notified of, and not of its end."""

    severity: Severity  # as it was last notified
    first_notified_at: datetime  # start of an interval, as all moments here but the next
    severity_notified_at: datetime  # by the clock, when this severity was decided on: to compare with people's acts
    repeats: int = 0  # messages that repeated it without anything new
    stage: int = 0  # how far the trouble had come by then (`Evidence.stage`)

    def is_less_than(self, severity: Severity, stage: int) -> bool:
        """Whether something as bad as this, and come so far, is worse than the receiver knows."""
        return (severity.rank, stage) > (self.severity.rank, self.stage)


@dataclass(frozen=True, slots=True)
class Notified:
    """What one receiver was last notified of about one (team, cluster, rule), and what is muted for it."""

    at: datetime | None = None  # None: nothing yet
    thread_key: str = ""
    firing: Mapping[str, NotifiedIncident] = field(default_factory=dict)  # by incident id
    muted: Mapping[str, MuteReason] = field(default_factory=dict)  # firing incidents, known to it or not
    repeat_count: int = 0  # messages with nothing new, one after the other
    ended: Severity | None = None  # after a spell, for group_interval: the worst that it knew in the end

    @property
    def is_empty(self) -> bool:
        """Nothing is left that a later message could be about, or would have to wait for."""
        return self.at is None and not self.muted

    @property
    def worst(self) -> Severity | None:
        """The worst that it knows, or knew when the spell ended; None: there was nothing."""
        return max((one.severity for one in self.firing.values()), key=lambda one: one.rank, default=self.ended)


@dataclass(frozen=True, slots=True)
class Declared:
    """A channel as the configuration, the outbox and pages know it. Its arguments in a channel's file are literals."""

    name: str  # in the outbox; also that of its file
    receivers: str  # the field of a team, and of a route, that lists receivers; of `delivery` where it `takes_all`
    meaning: str  # of that field
    title: str  # what people call it
    title_zh: str
    receiver: str = "ConnectionId"  # what one looks like: a type of `config.fields`
    note: str | None = None  # what somebody who uses it should know
    digests: bool = False  # takes one message instead of many
    daily_reports: bool = False
    takes_all: bool = False  # its receivers get all that is open, whoever else does; a team without others has them
    mentions: str | None = None  # what those are whom it calls, in `<receivers>_mentions` of a team; None: it cannot

    @property
    def mentions_list(self) -> str:
        """The field of a team that lists them."""
        return f"{self.receivers}_mentions"


def _declared() -> Iterator[Declared]:
    folder = files("offsetguard").joinpath("deliver", "channels")
    for file in sorted(folder.iterdir(), key=lambda one: one.name):
        if not file.name.endswith(".py"):
            continue
        for line in ast.parse(file.read_text("utf-8")).body:
            match line:
                case ast.Assign(value=ast.Call(func=ast.Name(id="Declared"), keywords=said)):
                    yield Declared(**{one.arg: ast.literal_eval(one.value) for one in said if one.arg is not None})


DECLARED = {one.name: one for one in _declared()}
"""By their names; in the order of their files people are told."""
RECEIVER_LISTS = {one.receivers: one.name for one in DECLARED.values() if not one.takes_all}
"""Fields of a team, and of a route, that hold receivers: the channel of each."""
LISTS_FOR_ALL = {one.receivers: one.name for one in DECLARED.values() if one.takes_all}
"""Fields of `delivery` that hold receivers: the channel of each."""


_SPECIAL = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Matchers:
    """Which incidents: globs (`*`, `?`, `[ab]`, case matters) that must all match; None = any, even none at all."""

    cluster: str | None = None
    consumer_group: str | None = None
    topic: str | None = None
    rule: str | None = None
    severity: Severity | None = None  # up to this one; a worse incident is heard

    @classmethod
    def of(cls, subject: Subject) -> "Matchers":
        """Return matchers of one incident's subject and of nothing else that is named differently."""
        group, topic = subject.consumer_group, subject.topic
        return cls(
            literal(subject.cluster),
            None if group is None else literal(group),
            None if topic is None else literal(topic),
            literal(subject.rule_id),
        )

    def matches(self, incident: Incident) -> bool:
        """Whether every matcher that is set matches; a group or topic that an incident has not matches no glob."""
        return self.fit(incident.shown_as, incident.evidence.severity)

    def fit(self, subject: Subject, severity: Severity) -> bool:
        """Whether they match an incident about a subject."""
        return (
            _fits(self.cluster, subject.cluster)
            and _fits(self.consumer_group, subject.consumer_group)
            and _fits(self.topic, subject.topic)
            and _fits(self.rule, subject.rule_id)
            and (self.severity is None or severity.rank <= self.severity.rank)
        )

    @property
    def named(self) -> dict[str, str]:
        """Those that are set, by name: for JSON and for people."""
        given = {
            "cluster": self.cluster,
            "consumer_group": self.consumer_group,
            "topic": self.topic,
            "rule": self.rule,
            "severity": None if self.severity is None else self.severity.value,
        }
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Silence:
    """Matchers for a span of time, with who wanted it and why; `id` is None until it is stored."""

    matchers: Matchers
    author: str
    comment: str
    starts_at: datetime
    ends_at: datetime
    created_at: datetime
    expired_at: datetime | None = None  # somebody ended it before its time
    id: int | None = None

    def __post_init__(self) -> None:
        """Refuse what nobody can have meant; raises SilenceError."""
        if not self.matchers.named:
            raise SilenceError("a silence needs a cluster, consumer group, topic, rule or severity: '*' means any")
        for name, text in (("author", self.author), ("comment", self.comment)):
            if not text.strip():
                raise SilenceError(f"a silence needs a {name}: others will want to know")
        if self.ends_at <= self.starts_at:
            raise SilenceError("a silence must end after it starts")

    @property
    def over_at(self) -> datetime:
        """When it ends or was ended."""
        return self.ends_at if self.expired_at is None else min(self.ends_at, self.expired_at)

    def active_at(self, now: datetime) -> bool:
        """Whether it mutes at a moment; one that began when it was made did so before the clock was put back."""
        return (self.starts_at <= now or now < self.created_at == self.starts_at) and now < self.over_at

    def matches(self, incident: Incident) -> bool:
        """Whether it is about an incident, at whatever time."""
        return self.matchers.matches(incident)


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Somebody looks after an incident: it goes on, and is neither told again nor escalated until it gets worse."""

    incident_id: str
    author: str
    comment: str  # may be empty
    at: datetime

    def __post_init__(self) -> None:
        """Refuse one of nobody; raises SilenceError."""
        if not self.author.strip():
            raise SilenceError("an acknowledgement needs an author: others will want to know")


def literal(name: str) -> str:
    """Return the glob that matches exactly this name."""
    return _SPECIAL.sub(lambda found: f"[{found.group()}]", name)


def _fits(glob: str | None, name: str | None) -> bool:
    return glob is None or (name is not None and fnmatch.fnmatchcase(name, glob))
