r"""What a pattern is: one line of a log, as data that Python's `re` and Java's regex (Spark) read alike.

Goal: both engines find the same lines and the same fields. So a regex here uses only what they share:
- it starts with `^` and is searched in a record's message: the text behind the layout's ` - `, continuation lines
  included, joined by line feeds; `END` (and never `$`, which differs) says that a line must end;
- no `.`, `\d`, `\w`, `\s`, `\b`: their meaning differs between the engines (line separators, Unicode digits);
- groups by position: `fields` names them in order. An empty or absent group is NULL in both;
- an `int` beyond 64 bits is NULL, a `float` that is no finite number is NULL;
- `parts` are searched in a field's text (`regexp_extract(field, regex, 1)`): they keep regexes linear, where several
  free texts stand in one line.
The first pattern (in the order of `patterns.PATTERNS`) that matches names the record's kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class LogKind(StrEnum):
    """Logs that RocketMQ writes. A hint for people and for `--kind`: lines are told apart by their text."""

    BROKER = "broker"  # broker.log
    LOCK = "lock"  # lock.log; since 5.1.1 these lines stand in filter.log
    STATS = "stats"  # stats.log
    STORE = "store"  # store.log
    WATERMARK = "watermark"  # watermark.log, protection.log
    CLIENT = "client"  # rocketmq_client.log; tools_default.log of an application that has rocketmq-tools


class FieldType(StrEnum):
    """How a group's text is read."""

    TEXT = "text"
    INT = "int"  # 64 bits, signed
    FLOAT = "float"


@dataclass(frozen=True, slots=True)
class Field:
    """The name and type of one group."""

    name: str
    type: FieldType = FieldType.TEXT


@dataclass(frozen=True, slots=True)
class Part:
    """A further field: group 1 of a regex that is searched in another field's text."""

    name: str
    of: str
    regex: str
    type: FieldType = FieldType.TEXT


@dataclass(frozen=True, slots=True)
class Pattern:
    """One kind of line; several patterns of one kind are its forms in different versions."""

    kind: str
    log_kinds: tuple[LogKind, ...]
    must_contain: str  # a cheap test before the regex: part of the message's first line
    regex: str
    meaning: str
    source: str  # class that writes it, and the versions that were looked at
    fields: tuple[Field, ...] = ()
    parts: tuple[Part, ...] = ()
    spans_lines: bool = False  # the regex reads continuation lines, too
    routine: bool = False  # written for ever, also where nothing happens: landed only on demand

    @property
    def field_names(self) -> tuple[str, ...]:
        """Return the names of all fields, in the order of their groups, then the parts."""
        return (*(field.name for field in self.fields), *(part.name for part in self.parts))


def text(*names: str) -> tuple[Field, ...]:
    """Fields that are taken as they are."""
    return tuple(Field(name) for name in names)


def integers(*names: str) -> tuple[Field, ...]:
    """Whole numbers of 64 bits."""
    return tuple(Field(name, FieldType.INT) for name in names)


def floats(*names: str) -> tuple[Field, ...]:
    """Numbers as Java prints doubles."""
    return tuple(Field(name, FieldType.FLOAT) for name in names)


END = r"(?![^\n])"  # here the line ends
REST = r"([^\n]*)"  # everything to the end of the line
NAME = r"([^ ,\n]{1,512})"  # a topic, group, broker name or address: no space, no comma
ADDRESS = r"/?([^ ,/\n]{1,255})"  # ip:port; 4.x writes a slash before it
INT = r"(-?[0-9]{1,20})"
FLOAT = r"([0-9A-Za-z.+-]{0,40})"  # Double.toString, "NaN" included; empty right after a start
# A client id holds whatever the application called its instance; two of them at most in one regex, or it is not linear.
CLIENT = r"([^\n]{1,512}?)"
# As MessageQueue.toString prints it; MESSAGE_QUEUE_FIELDS names the groups.
MESSAGE_QUEUE = r"MessageQueue \[topic=([^,\n]{1,512}), brokerName=([^,\n]{1,512}), queueId=(-?[0-9]{1,10})\]"
MESSAGE_QUEUE_FIELDS = (*text("topic", "broker_name"), *integers("queue_id"))
