"""How people are reached; which of them hears what is said by the routes of the configuration."""

from __future__ import annotations

from enum import StrEnum


class Channel(StrEnum):
    """How a receiver is reached; the value is also the name of the list that holds such receivers in the file."""

    MAIL = "mail"  # receiver: a mail address
    SLACK = "slack"  # receiver: a channel's name or id; parents are edited, updates are threaded
    SLACK_WEBHOOK = "slack_webhook"  # receiver: id of an Airflow connection; messages can only be added


Receiver = tuple[Channel, str]
