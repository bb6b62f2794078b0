"""What a pattern is: one line of a log, as data.

- Its regex starts with `^` and some text, and is searched in a record's message: the text behind the layout's ` - `,
  continuation lines included, joined by line feeds; `<END>` says that a line must end.
- Groups by position: `fields` names them in order. An empty or absent group is NULL.
- An `int` beyond 64 bits is NULL, a `float` that is no finite number is NULL.
- `parts` are searched in a field's text: they keep regexes linear, where several free texts stand in one line.
The first pattern (in the order of `patterns.PATTERNS`) that matches names the record's kind.
"""

import re
from dataclasses import dataclass
from enum import StrEnum


class LogKind(StrEnum):
    """Logs that RocketMQ writes. A hint for people and for `--kind`: lines are told apart by their text."""

    BROKER = "broker"  # broker.log
    LOCK = "lock"  # lock.log; since 5.1.1 these lines stand in filter.log
    STATS = "stats"  # stats.log
    STORE = "store"  # store.log
    WATERMARK = "watermark"  # watermark.log, protection.log
    POP = "pop"  # pop.log (5.x)
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


END = r"(?![^\n])"  # here the line ends
_NAME = r"[^ ,\n]{1,512}"  # a topic, group, broker name or address: no space, no comma
_GROUPS: dict[str, tuple[str, FieldType]] = {
    "": (f"({_NAME})", FieldType.TEXT),
    "rest": (r"([^\n]*)", FieldType.TEXT),  # everything to the end of the line
    "address": (r"/?([^ ,/\n]{1,255})", FieldType.TEXT),  # ip:port; 4.x writes a slash before it
    # whatever the application called its instance; two of them at most in one line, or the regex is not linear
    "client": (r"([^\n]{1,512}?)", FieldType.TEXT),
    "int": (r"(-?[0-9]{1,20})", FieldType.INT),
    "queue": (r"(-?[0-9]{1,10})", FieldType.INT),
    "unsigned": (r"([0-9]{1,10})", FieldType.INT),
    "float": (r"([0-9A-Za-z.+-]{0,40})", FieldType.FLOAT),  # Double.toString, "NaN" included; empty after a start
}
_FRAGMENTS = {  # what stands in many lines: mostly what toString of some classes prints
    "END": END,
    "MESSAGE_QUEUE": r"MessageQueue \[topic=<topic:[^,\n]{1,512}>, brokerName=<broker_name:[^,\n]{1,512}>, "
    r"queueId=<queue_id:queue>\]",
    "PULL_REQUEST": r"PullRequest \[consumerGroup=<consumer_group>, messageQueue=<MESSAGE_QUEUE>, nextOffset=",
    "CHANNEL_INFO": r"ClientChannelInfo \[channel=<channel:client>, clientId=<client_id:client>, "
    r"language=<language:[A-Z_]{1,20}>, version=<client_version:int>",
}
_FRAGMENT = re.compile(r"<([A-Z_]+)>")
REPEATS = frozenset("*+{")
SPECIAL = frozenset("\\^$.[]|()?*+{}")
SIGN = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|.", re.DOTALL)  # an escape, a class, or one character
_FIELD = re.compile(r"<([a-z_]+)(?::([^>]*))?>")


def pattern(
    log_kinds: tuple[LogKind, ...],
    kind: str,
    line: str,
    *,
    meaning: str,
    source: str,
    must_contain: str | None = None,
    parts: tuple[Part, ...] = (),
    spans_lines: bool = False,
    routine: bool = False,
) -> Pattern:
    """Return the pattern of a line: a regex in which `<name>`, `<name:int>` and the like stand for fields.

    Types are those of `_GROUPS`; anything else behind the colon is the regex of a text. `<END>`: the line must end.
    `must_contain`: where the longest text of the line says less than another one.
    """
    while fragment := _FRAGMENT.search(line):
        line = line.replace(fragment[0], _FRAGMENTS[fragment[1]])
    fields = []

    def group(found: re.Match[str]) -> str:
        name, form = found[1], found[2] or ""
        regex, field_type = _GROUPS.get(form, (f"({form})", FieldType.TEXT))
        fields.append(Field(name, field_type))
        return regex

    regex = _FIELD.sub(group, line)
    hint = must_contain or _longest_text(regex)
    return Pattern(kind, log_kinds, hint, regex, meaning, source, tuple(fields), parts, spans_lines, routine)


def _longest_text(regex: str) -> str:
    """Return the longest text that the first line of every message has in it that the regex finds."""
    signs = SIGN.findall(regex.removeprefix("^").partition(END)[0])
    texts, depth = [""], 0
    for sign, following in zip(signs, [*signs[1:], ""], strict=True):
        depth += (sign == "(") - (sign == ")")
        if is_literal(sign) and depth == 0 and following not in REPEATS | {"?"}:
            texts[-1] += sign[-1]
        else:
            texts.append("")
    return max(texts, key=len)


def is_literal(sign: str) -> bool:
    """Whether a sign of a regex stands for itself, or is escaped to do so."""
    return sign not in SPECIAL if len(sign) == 1 else sign[0] == "\\" and not sign[1].isalnum()


def forms(
    log_kinds: tuple[LogKind, ...],
    kind: str,
    meaning: str,
    *versions: tuple[str, str],
) -> tuple[Pattern, ...]:
    """Return the patterns of a line whose text differs between versions, each as (source, line)."""
    return tuple(pattern(log_kinds, kind, line, meaning=meaning, source=source) for source, line in versions)
