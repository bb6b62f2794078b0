"""Single values of the configuration file, and patterns of names: what they look like, what they match.

What matches is `fnmatch.fnmatchcase`: * = anything, ? = one character, [abc] = one of them; case matters. Trying 300
patterns on 10,000 consumer groups takes a quarter of a second.
"""

import fnmatch
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, StrictStr, WithJsonSchema
from pydantic_core import PydanticCustomError

from offsetguard.model.errors import ConfigError
from offsetguard.model.intervals import NOT_A_MOMENT, NOT_A_TIME_ZONE, local_moment, zone_of


class Section(BaseModel):
    """A section of the file: an unknown key is a mistake, and what was read does not change any more."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def key_names(cls) -> tuple[str, ...]:
        """Return the keys that the section may have, as they stand in the file."""
        return tuple(one.alias or name for name, one in cls.model_fields.items())


class Entry(Section):
    """An entry of a list: of what its patterns match it may set fields, each by the first entry that sets it."""

    SETS: ClassVar[tuple[str, ...]]

    def fields_set(self) -> list[str]:
        """Return which fields it sets."""
        return [name for name in self.SETS if getattr(self, name) is not None]


def _written(pattern: str, what_to_write: str) -> AfterValidator:
    expression = re.compile(pattern, re.ASCII)

    def check(value: str) -> str:
        if not expression.fullmatch(value):
            raise PydanticCustomError("not_written_so", what_to_write)
        return value

    return AfterValidator(check)


def _port_exists(address: str) -> str:
    if not 1 <= int(address.rpartition(":")[2]) <= 65_535:
        raise PydanticCustomError("no_such_port", "is not an address: ports go from 1 to 65535")
    return address


def network_of(text: str) -> IPv4Network | IPv6Network | None:
    """Return a network, or that of a single address; None for a host name. ValueError for a network that is none."""
    try:
        return ip_network(text, strict=False)
    except ValueError:
        if "/" in text or ":" in text:
            raise
        return None


def _network_exists(text: str) -> str:
    try:
        network_of(text)
    except ValueError as error:
        raise PydanticCustomError("no_such_network", "is no network: write e.g. 10.1.0.0/16 or fd00::/8") from error
    return text


def _exists(find: Callable[[str], object], otherwise: str) -> AfterValidator:
    """Check a text by what finds it, and raises ConfigError where there is no such thing."""

    def check(text: str) -> str:
        try:
            find(text)
        except ConfigError as error:
            raise PydanticCustomError("no_such_thing", otherwise) from error
        return text

    return AfterValidator(check)


def _shown_as(words: str) -> WithJsonSchema:
    """Say what docs/configuration.md calls such a value."""
    return WithJsonSchema({"type": "string", "format": words})


Name = Annotated[
    StrictStr,
    _written(
        r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}",
        "is not a name: start with a letter or digit, then letters, digits, '_', '.' or '-', at most 100",
    ),
    _shown_as("name"),
]
Address = Annotated[
    StrictStr,
    _written(
        r"[A-Za-z0-9_.-]+:\d{1,5}",
        "is not an address: write host:port, e.g. 127.0.0.1:9876, one address to a list entry",
    ),
    AfterValidator(_port_exists),
    _shown_as("host:port"),
]
HostRange = Annotated[
    StrictStr,
    _written(
        r"[A-Za-z0-9_.*?-]{1,255}|[0-9A-Fa-f.:]{2,45}(/\d{1,3})?",
        "is neither a network nor a host name: write 10.1.0.0/16, 10.1.2.3, fd00::/8 or broker-*.example.com",
    ),
    AfterValidator(_network_exists),
    _shown_as("network or host name"),
]
Glob = Annotated[
    StrictStr,
    _written(r"[^\x00-\x20\x7f]{1,255}", "is not a pattern: 1 to 255 characters without spaces"),
    _shown_as("pattern"),
]
MailAddress = Annotated[
    StrictStr,
    _written(
        r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?",
        "is not a mail address: write name@example.com, one address to a list entry",
    ),
    _shown_as("mail address"),
]
SlackChannelName = Annotated[
    StrictStr,
    _written(
        r"#[^\s#@<>]{1,80}|[CGD][A-Z0-9]{6,}",
        "is not a Slack channel: write '#name' (in quotes, # starts a comment in YAML) or an id such as C0123ABCD",
    ),
    _shown_as("Slack channel"),
]
WebUrl = Annotated[
    StrictStr,
    _written(
        r"https?://[^\s<>\"@|]+",
        "is not a page's address: write http://host:port or https://host without user name or password",
    ),
    _shown_as("web address"),
]
ConsoleUrl = Annotated[
    StrictStr,
    _written(
        r"https?://(?:[^\s<>\"@|{}]|\{(?:cluster|consumer_group|topic)\})+",
        "is not the address of a page: write e.g. https://console.example.com/#/consumer?group={consumer_group}; of "
        "names in braces {cluster}, {consumer_group} and {topic} are known",
    ),
    _shown_as("web address"),
]
ConnectionId = Annotated[
    StrictStr,
    _written(r"[A-Za-z0-9_.-]{1,200}", "is not the id of an Airflow connection"),
    _shown_as("connection id"),
]
Mention = Annotated[
    StrictStr,
    _written(
        r"(?!all$)[A-Za-z0-9_.+-]{1,64}", "is not the id of one person: write letters, digits, '_', '.', '+', '-'"
    ),
    _shown_as("person"),
]
TimeZone = Annotated[
    StrictStr,
    _written(r"[^\x00-\x1f]{1,100}", "is not the name of a time zone"),
    _exists(zone_of, NOT_A_TIME_ZONE),
    _shown_as("time zone"),
]
FilePath = Annotated[StrictStr, _written(r"[^\x00-\x1f]{1,4096}", "is not the path of a file"), _shown_as("path")]
Line = Annotated[StrictStr, _written(r"[^\x00-\x1f\x7f]{1,500}", "is not one line of text"), _shown_as("text")]
TimeOfDay = Annotated[
    StrictStr,
    _written(r"(?:[01]\d|2[0-3]):[0-5]\d", "is not a time of day: write '22:00' (in quotes)"),
    _shown_as('time of day, "22:00"'),
]
Moment = Annotated[StrictStr, _exists(local_moment, NOT_A_MOMENT), _shown_as("moment")]  # no offset: the route's zone
Count = Annotated[StrictInt, Field(ge=0)]
Milliseconds = Annotated[StrictInt, Field(gt=0)]
MillisecondsOrNone = Annotated[StrictInt, Field(ge=0)]  # 0: at once
Window = Annotated[StrictInt, Field(ge=60_000, le=30 * 60_000)]  # a queue is kept for 30 min (queue_state.WINDOW)


@lru_cache(maxsize=4_096)
def matcher(pattern: str) -> Callable[[str], object]:
    """Return what says (as something true or false) whether a name matches; `fnmatch` itself keeps too few of them."""
    return re.compile(fnmatch.translate(pattern)).match


def matches(name: str, pattern: str) -> bool:
    """Say whether a name matches a pattern."""
    return pattern == "*" or bool(matcher(pattern)(name))


def first_to_set(entries: Sequence[Entry], positions: Sequence[int]) -> dict[str, int]:
    """Return for each field that an entry at these positions sets the first position where one does."""
    found: dict[str, int] = {}
    for position in reversed(positions):
        found.update((name, position) for name in entries[position].fields_set())
    return found
