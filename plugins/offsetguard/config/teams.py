"""Section `teams`: who is told, and how."""

from dataclasses import field

from offsetguard.config.fields import ConnectionId, MailAddress, SlackChannelName, TimeOfDay
from offsetguard.constraints import NO_OTHER_FIELDS
from offsetguard.receivers import Channel, Receiver
from offsetguard.records import record


@record(kw_only=True)
class Team:
    """Who is told, and how."""

    __pydantic_config__ = NO_OTHER_FIELDS

    mail: list[MailAddress] = field(default_factory=list)  # each gets its own message
    slack: list[SlackChannelName] = field(default_factory=list)  # names or ids; the bot must be a member
    slack_webhooks: list[ConnectionId] = field(default_factory=list)  # Airflow connections; can only add messages
    daily_report_at: TimeOfDay | None = None  # without it: as in `delivery`


RECEIVER_LISTS = {"mail": Channel.MAIL, "slack": Channel.SLACK, "slack_webhooks": Channel.SLACK_WEBHOOK}
"""Fields of a team, and of a route, that hold receivers; in this order they are told."""


def receivers(lists: dict[str, list[str]]) -> tuple[Receiver, ...]:
    """Return each receiver of the lists of a team or route once, in the order of RECEIVER_LISTS."""
    return tuple(
        (channel, name) for field, channel in RECEIVER_LISTS.items() for name in dict.fromkeys(lists.get(field, ()))
    )
