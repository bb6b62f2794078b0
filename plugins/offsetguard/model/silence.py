"""A silence: incidents that somebody wants to hear nothing of for a time, and an acknowledgement of one.

A silence mutes messages and nothing else: incidents are found, kept and shown as ever, and one that was told of before
still tells that it has resolved.
"""

import fnmatch
import re
from dataclasses import dataclass
from datetime import datetime

from offsetguard.model.errors import SilenceError
from offsetguard.model.incident import Incident, Subject
from offsetguard.model.verdicts import Severity

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
