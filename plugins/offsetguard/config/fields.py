"""What single values of the configuration file look like, and what is said to who writes something else."""

import re
from typing import Annotated

from offsetguard.constraints import BrokenRule, Checked, Exactly, Number
from offsetguard.errors import ConfigError
from offsetguard.moments import NOT_A_MOMENT, local_moment
from offsetguard.time_zones import NOT_A_TIME_ZONE, zone_of


def _written(pattern: str, what_to_write: str) -> Checked:
    expression = re.compile(pattern, re.ASCII)

    def check(value: str) -> None:
        if not expression.fullmatch(value):
            raise BrokenRule("not_written_so", what_to_write)

    return Checked(check)


def _port_exists(address: str) -> None:
    if not 1 <= int(address.rpartition(":")[2]) <= 65_535:
        raise BrokenRule("no_such_port", "is not an address: ports go from 1 to 65535")


def _time_zone_exists(name: str) -> None:
    try:
        zone_of(name)
    except ConfigError as error:
        raise BrokenRule("no_such_time_zone", NOT_A_TIME_ZONE) from error


def _moment_exists(text: str) -> None:
    try:
        local_moment(text)
    except ConfigError as error:
        raise BrokenRule("no_such_moment", NOT_A_MOMENT) from error


Name = Annotated[
    str,
    Exactly(),
    _written(
        r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}",
        "is not a name: start with a letter or digit, then letters, digits, '_', '.' or '-', at most 100",
    ),
]
Address = Annotated[
    str,
    Exactly(),
    _written(
        r"[A-Za-z0-9_.-]+:\d{1,5}",
        "is not an address: write host:port, e.g. 127.0.0.1:9876, one address to a list entry",
    ),
    Checked(_port_exists),
]
Glob = Annotated[
    str, Exactly(), _written(r"[^\x00-\x20\x7f]{1,255}", "is not a pattern: 1 to 255 characters without spaces")
]
MailAddress = Annotated[
    str,
    Exactly(),
    _written(
        r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?",
        "is not a mail address: write name@example.com, one address to a list entry",
    ),
]
SlackChannelName = Annotated[
    str,
    Exactly(),
    _written(
        r"#[^\s#@<>]{1,80}|[CGD][A-Z0-9]{6,}",
        "is not a Slack channel: write '#name' (in quotes, # starts a comment in YAML) or an id such as C0123ABCD",
    ),
]
WebUrl = Annotated[
    str,
    Exactly(),
    _written(
        r"https?://[^\s<>\"@|]+",
        "is not a page's address: write http://host:port or https://host without user name or password",
    ),
]
ConnectionId = Annotated[str, Exactly(), _written(r"[A-Za-z0-9_.-]{1,200}", "is not the id of an Airflow connection")]
TimeZone = Annotated[
    str, Exactly(), _written(r"[^\x00-\x1f]{1,100}", "is not the name of a time zone"), Checked(_time_zone_exists)
]
FilePath = Annotated[str, Exactly(), _written(r"[^\x00-\x1f]{1,4096}", "is not the path of a file")]
Line = Annotated[str, Exactly(), _written(r"[^\x00-\x1f\x7f]{1,500}", "is not one line of text")]
TimeOfDay = Annotated[
    str, Exactly(), _written(r"(?:[01]\d|2[0-3]):[0-5]\d", "is not a time of day: write '22:00' (in quotes)")
]
Moment = Annotated[str, Exactly(), Checked(_moment_exists)]  # without an offset: in the zone of the route
Milliseconds = Annotated[int, Number(gt=0)]
MillisecondsOrNone = Annotated[int, Number(ge=0)]  # 0: at once
Window = Annotated[int, Number(ge=60_000, le=30 * 60_000)]  # what is kept of a queue covers 30 min (queue_state.WINDOW)
