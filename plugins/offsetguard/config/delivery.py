"""Section `delivery`: through what messages go out, and when and how where no route says otherwise."""

from offsetguard.config.fields import (
    ConnectionId,
    MailAddress,
    Milliseconds,
    MillisecondsOrNone,
    TimeOfDay,
    TimeZone,
    WebUrl,
)
from offsetguard.constraints import NO_OTHER_FIELDS, Count, Flag
from offsetguard.languages import Language
from offsetguard.records import record


@record(kw_only=True)
class Delivery:
    """When and through what messages go out."""

    __pydantic_config__ = NO_OTHER_FIELDS

    group_wait_ms: MillisecondsOrNone = 0  # from the first incident to the first message: more may come and fit in
    group_interval_ms: Milliseconds = 5 * 60_000  # from a message to the next one with news about the same cause
    repeat_interval_ms: Milliseconds = 4 * 3_600_000  # from a message to the next one without news
    notify_within_ms: Milliseconds = 15 * 60_000  # older intervals are recorded as history and never sent
    send_resolved: Flag = True  # tell when it is over, with duration and peak
    language: Language = Language.EN  # of messages
    time_zone: TimeZone = "UTC"  # of times in messages
    digest_above: Count = 10  # more mails than this to one receiver at once become one digest
    daily_report_at: TimeOfDay | None = None  # in the team's zone; without it: no daily report
    mail_connection: ConnectionId = "offsetguard_smtp"  # Airflow connection of type SMTP
    mail_from: MailAddress = "offsetguard@localhost"  # sender of mails
    slack_connection: ConnectionId = "offsetguard_slack"  # Airflow connection of type Slack API, with a bot token
    heartbeat_url: WebUrl | None = None  # asked for after each healthy sweep of the dead-man; `/fail` behind it if not
    heartbeat_connection: ConnectionId | None = None  # Airflow connection that holds the same address as a secret
    silent_after_ms: Milliseconds = 10 * 60_000  # a cluster in which nothing was judged for so long is told
    undelivered_after_ms: Milliseconds = 15 * 60_000  # a due message that waits for so long is told
    page_url: WebUrl | None = None  # where readers reach the Airflow UI, for links
