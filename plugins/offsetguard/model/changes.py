"""What changed, of which kind, and whose it is."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

BEFORE = timedelta(hours=1)  # an incident: of which people are told what changed
MOST_CHANGES = 5  # that they are told, the newest


class Kind(StrEnum):
    """What a change is of."""

    SETTINGS = "settings"
    QUEUES = "queues"
    VERSIONS = "versions"
    SUBSCRIPTIONS = "subscriptions"
    MEMBERS = "members"
    OFFSETS = "offsets"
    RESTARTS = "restarts"
    MASTERS = "masters"


@dataclass(frozen=True, slots=True)
class Change:
    """Something that was other than before."""

    at: datetime  # the moment that was told, or the look that first shows it
    what: str  # a sentence of the catalogue


@dataclass(frozen=True, slots=True)
class NamedChange(Change):
    """The same, and whose it is; nobody's and of no kind: what is not known of changes."""

    kind: Kind | None
    consumer_group: str | None = None
    topic: str | None = None
    broker_name: str | None = None
