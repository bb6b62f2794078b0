"""Typed reading of decoded bodies, and what codecs raise for bytes that are not what RocketMQ sends.

The codecs know no address; `client.py` turns this into `errors.UndecodableResponse`, which names the peer.
"""

import functools
import json
import math
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from offsetguard.model.offsets import MessageQueue


class MalformedBytes(ValueError):
    """Bytes that cannot be decoded; the text names the field and what was found there."""


Key = TypeVar("Key", bound=Hashable)
Entry = TypeVar("Entry")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT64_START, _INT64_END = -(2**63), 2**63
LAST_TIMESTAMP_MS = 253_402_300_799_999  # the last that a datetime can show: the end of the year 9999
_REQUIRED: Any = object()
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_PLAIN_TEXT = r'"([^"\\\x00-\x1f]*+)"'
_PLAIN_MESSAGE_QUEUE = re.compile(
    rf'\{{"brokerName":{_PLAIN_TEXT},"queueId":(-?(?:0|[1-9][0-9]{{0,9}}+)),"topic":{_PLAIN_TEXT}\}}'
)


def object_field(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a field that is an object; {} when it is missing (fastjson leaves nulls out)."""
    return as_object(document.get(name), name)


def list_field(document: Mapping[str, Any], name: str) -> list[Any]:
    """Return a field that is a list; [] when it is missing."""
    value = document.get(name)
    if value is None:
        return []
    if isinstance(value, list):
        return value
    raise _wrong(name, "a list", value)


def numbered_field(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a field that is a list as a map, in which one that is wrong has a name: `name[3]`."""
    return {f"{name}[{place}]": value for place, value in enumerate(list_field(document, name))}


def int_field(document: Mapping[str, Any], name: str, default: int = _REQUIRED) -> int:
    """Return a 64-bit number."""
    value = document.get(name)
    if type(value) is int and _INT64_START <= value < _INT64_END:  # at once: it is asked for each figure of each queue
        return value
    if value is None and default is not _REQUIRED:
        return default
    raise _wrong(name, "a 64-bit number", value)


def optional_int_field(document: Mapping[str, Any], name: str) -> int | None:
    """Return a 64-bit number; None when it is missing."""
    value = document.get(name)
    return None if value is None else as_int64(value, name)


def float_field(document: Mapping[str, Any], name: str) -> float:
    """Return a number; 0 when it is missing."""
    value = document.get(name, 0)
    if value is None:  # fastjson writes NaN as null
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(name, "a number", value)
    try:
        number = float(value)
    except OverflowError as error:
        raise _wrong(name, "a number", value) from error
    if not math.isfinite(number):  # 1e999
        raise _wrong(name, "a number", value)
    return number


def bool_field(document: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """Return true or false."""
    value = document.get(name)
    if value is None:
        return default
    if isinstance(value, bool):
        return value
    raise _wrong(name, "true or false", value)


def optional_bool_field(document: Mapping[str, Any], name: str) -> bool | None:
    """Return true or false; None when it is missing."""
    value = document.get(name)
    return None if value is None else bool_field(document, name, default=False)


def text_field(document: Mapping[str, Any], name: str) -> str:
    """Return a text."""
    return as_text(document.get(name), name)


def optional_text_field(document: Mapping[str, Any], name: str) -> str | None:
    """Return a text; None when it is missing."""
    value = document.get(name)
    if value is None or isinstance(value, str):
        return value
    raise _wrong(name, "a text", value)


def texts_field(document: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return a field that maps texts to texts; other values are shown as texts."""
    return {key: value if isinstance(value, str) else str(value) for key, value in object_field(document, name).items()}


def timestamp_field(document: Mapping[str, Any], name: str) -> datetime | None:
    """Return a time given in ms; None for 0 and below: never, or deleted."""
    milliseconds = int_field(document, name, default=0)
    return timestamp_of(milliseconds, name) if milliseconds > 0 else None


def timestamp_ms_field(document: Mapping[str, Any], name: str) -> int:
    """Return a time as it was given, in ms; 0 when it is missing."""
    milliseconds = int_field(document, name, default=0)
    if milliseconds > LAST_TIMESTAMP_MS:
        raise _wrong(name, "a time in ms", milliseconds)
    return milliseconds


def timestamp_of(milliseconds: int, name: str) -> datetime:
    """Return the time of a Java timestamp; raises MalformedBytes beyond the year 9999."""
    try:
        return _EPOCH + timedelta(0, 0, 0, milliseconds)  # by name it takes twice as long
    except OverflowError as error:
        raise _wrong(name, "a time in ms", milliseconds) from error


def number_in(text: str) -> int | None:
    """Return a 64-bit number that is written as a text, as settings and figures are; None for any other text."""
    number = int(text) if _NUMBER.fullmatch(text) else None
    return number if number is not None and _INT64_START <= number < _INT64_END else None


def time_in(text: str) -> datetime | None:
    """Return a time that is written so in ms; None for 0 and below (unknown), and beyond the year 9999."""
    milliseconds = number_in(text)
    return (
        _EPOCH + timedelta(milliseconds=milliseconds)
        if milliseconds and 0 < milliseconds <= LAST_TIMESTAMP_MS
        else None
    )


def as_object(value: object, name: str) -> dict[str, Any]:
    """Return a value that is an object; {} for null."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise _wrong(name, "an object", value)


def as_text(value: object, name: str) -> str:
    """Return a value that is a text."""
    if isinstance(value, str):
        return value
    raise _wrong(name, "a text", value)


def as_int64(value: object, name: str) -> int:
    """Return a value that is a 64-bit number."""
    if type(value) is int and _INT64_START <= value < _INT64_END:
        return value
    raise _wrong(name, "a 64-bit number", value)


@functools.lru_cache(maxsize=1024)  # queue ids come again and again
def int_key(key: str, name: str) -> int:
    """Return a map key that is a 32-bit number."""
    number = int(key) if key.isascii() and key.removeprefix("-").isdigit() and len(key) <= len("-2147483648") else None
    if number is None or not -(2**31) <= number < 2**31:
        raise _wrong(name, "a number as key", key)
    return number


def message_queue_key(key: str) -> MessageQueue:
    """Return a map key that was a MessageQueue object (`fastjson.decode` gives its text)."""
    if plain := _PLAIN_MESSAGE_QUEUE.fullmatch(key):
        broker_name, digits, topic = plain.groups()
        queue_id = int(digits)
        if -(2**31) <= queue_id < 2**31:
            return MessageQueue(topic, broker_name, queue_id)
    try:
        return message_queue_of(json.loads(key))
    except (ValueError, RecursionError) as error:
        raise MalformedBytes(f"body: the key {key[:80]!r} is no MessageQueue") from error


def message_queue_of(value: object) -> MessageQueue:
    """Return a value that is a MessageQueue object."""
    document = as_object(value, "MessageQueue")
    queue_id = int_field(document, "queueId")
    if not -(2**31) <= queue_id < 2**31:
        raise _wrong("queueId", "a 32-bit number", queue_id)
    return MessageQueue(text_field(document, "topic"), text_field(document, "brokerName"), queue_id)


def texts(document: Mapping[str, Any], name: str) -> list[str]:
    """Return a field that is a list of texts; [] when it is missing."""
    values = list_field(document, name)
    if all(isinstance(value, str) for value in values):
        return values
    raise MalformedBytes(f"body: {name}: expected a list of texts")


class Entries(dict[Key, Entry]):
    """The entries of a map that could be read; `unreadable`: why the others could not, by their names there.

    One that is wrong costs itself, not the answer in which it stands: whoever takes the entries says what is missing.
    """

    def __init__(self, rows: Mapping[str, Any], read: Callable[[str, Any], Entry], key: Callable[[str], Key]) -> None:
        """`read`: makes an entry of its name and value; `key`: of its name what it is found by."""
        super().__init__()
        self.unreadable: dict[str, str] = {}
        for name, value in rows.items():
            try:
                self[key(name)] = read(name, value)
            except MalformedBytes as error:
                self.unreadable[name] = str(error)


def by_message_queue(document: Mapping[str, Any], name: str) -> Iterator[tuple[MessageQueue, dict[str, Any]]]:
    """Yield the entries of a field that maps message queues to objects."""
    for key, value in object_field(document, name).items():
        yield message_queue_key(key), as_object(value, name)


def _wrong(name: str, expected: str, value: object) -> MalformedBytes:
    return MalformedBytes(f"body: {name}: expected {expected}, found {_shown(value)}")


def _shown(value: object) -> str:
    """Show a value briefly; a number of many digits must not be converted to text."""
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    return repr(value)[:60] if not isinstance(value, dict | list) else f"a {type(value).__name__}"
