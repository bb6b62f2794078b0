"""Texts with figures, for who reads them: a language and a time zone.

Texts with figures: `{lag:messages}`, `{lag_ms:duration}`, `{moved_at:moment}`, `{next_at:clock}`, `{behind:bytes}`,
`{topic:shell}`.

Unknown figures read "unknown". Everything is English and in UTC unless a `Locale` says who reads it.
Not by Babel: it has no durations of two units, no short units in Chinese ("12 duration-hour") and no GiB.
"""

import re
import shlex
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from functools import cache
from typing import Any

from offsetguard.model.intervals import zone_of


class Language(StrEnum):
    """As the configuration writes it; every text of `offsetguard.catalogue` exists in each of them."""

    EN = "en"
    ZH = "zh"  # simplified Chinese


@dataclass(frozen=True, slots=True)
class FigureWords:
    """What figures need of a language. Every language here groups thousands by a comma and has a decimal point."""

    days: str
    hours: str
    minutes: str
    seconds: str
    milliseconds: str
    never: str  # instead of a duration beyond LONGEST_MS
    unknown: str
    yes: str
    no: str
    between: str  # what stands between the parts of a list of sentences
    comma: str  # what stands between the parts of another list
    colon: str  # what stands after a head, before what is said of it


FIGURE_WORDS = {
    Language.EN: FigureWords(
        "d",
        "h",
        "min",
        "s",
        "ms",
        "never at this rate",
        unknown="unknown",
        yes="yes",
        no="no",
        between="; ",
        comma=", ",
        colon=": ",
    ),
    Language.ZH: FigureWords(
        "天",
        "小时",
        "分钟",
        "秒",
        "毫秒",
        "按此速度永远不会",
        unknown="未知",
        yes="是",
        no="否",
        between="；",
        comma="，",
        colon="：",
    ),
}


@dataclass(frozen=True, slots=True)
class Locale:
    """Who reads: in which language, and by which clock."""

    language: Language = Language.EN
    zone: tzinfo = field(default=UTC)

    @classmethod
    def of(cls, language: str, time_zone: str) -> "Locale":
        """Return the locale of a route; raises ValueError for an unknown language, ConfigError for an unknown zone."""
        return cls(Language(language), zone_of(time_zone))

    @property
    def words(self) -> FigureWords:
        """What figures need of the language."""
        return FIGURE_WORDS[self.language]


ENGLISH_UTC = Locale()


_MOMENT = "%Y-%m-%d %H:%M:%S"
# Chinese has spaces around figures only, and templates cannot know that a span ends with a Chinese unit.
_BETWEEN_HAN = re.compile("(?<=[\u4e00-\u9fff]) (?=[\u4e00-\u9fff])")


class Readable(str):
    """A figure that is words itself, and reads otherwise to other readers (`catalogue.Sentence`)."""

    __slots__ = ()

    def read_by(self, locale: Locale) -> str:
        """Return it in the reader's language, with the reader's time."""
        raise NotImplementedError


def render_text(template: str, figures: Mapping[str, Any], locale: Locale = ENGLISH_UTC) -> str:
    """Fill a template; raises KeyError when it names a figure that the finding does not have."""
    text = _formatter(locale).vformat(template, (), dict(figures))
    return _BETWEEN_HAN.sub("", text) if locale.language is Language.ZH else text


@cache
def named_figures(template: str) -> frozenset[str]:
    """Return the figures that a template names."""
    return frozenset(name for _, name, _, _ in string.Formatter().parse(template) if name)


LONGEST_MS = 10 * 365 * 86_400_000  # ten years


def format_messages(count: int) -> str:
    """12345 -> '12,345': every digit, since 1.2 and 1.3 thousand are different news."""
    return f"{count:,}"


def format_duration(duration_ms: float, locale: Locale = ENGLISH_UTC) -> str:
    """Two largest units: 754000 -> '12 min 34 s' or '12 分钟 34 秒'; below one second in ms.

    What a rate next to 0 makes of a backlog is no duration: beyond LONGEST_MS it is never.
    """
    words = locale.words
    if duration_ms > LONGEST_MS:
        return words.never
    rest = round(duration_ms)
    if rest < 1_000:
        return f"{rest} {words.milliseconds}"
    units = ((words.days, 86_400_000), (words.hours, 3_600_000), (words.minutes, 60_000), (words.seconds, 1_000))
    parts: list[str] = []
    for unit, length_ms in units:
        count, rest = divmod(rest, length_ms)
        if count:
            parts.append(f"{count} {unit}")
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts)


def format_moment(moment: datetime, locale: Locale = ENGLISH_UTC) -> str:
    """'2026-11-21 06:45:30 UTC', or by the reader's clock '2026-11-21 14:45:30 UTC+8'."""
    local = moment.astimezone(locale.zone)
    return f"{local.strftime(_MOMENT)} {_zone(local)}"


def format_from_to(start: datetime, end: datetime, locale: Locale = ENGLISH_UTC) -> tuple[str, str]:
    """Return two moments of one story: the day and the zone stand there once where they are the same.

    ('2026-11-21 06:45:30', '06:46:30 UTC')
    """
    first, last = start.astimezone(locale.zone), end.astimezone(locale.zone)
    shown = "%H:%M:%S" if first.date() == last.date() else _MOMENT
    same_zone = first.utcoffset() == last.utcoffset()
    return (
        first.strftime(_MOMENT) if same_zone else format_moment(start, locale),
        f"{last.strftime(shown)} {_zone(last)}",
    )


def format_bytes(count: int) -> str:
    """1288490188 -> '1.2 GiB'."""
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if abs(size) < 1_024:
            break
        size, unit = size / 1_024, larger
    return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"


def _zone(local: datetime) -> str:
    """Return 'UTC', 'UTC+8' or 'UTC-3:30', and no abbreviation: CST is the time of China and of Chicago."""
    offset = local.utcoffset() or timedelta()
    if not offset:
        return "UTC"
    hours, minutes = divmod(abs(offset) // timedelta(minutes=1), 60)
    return f"UTC{'-' if offset < timedelta() else '+'}{hours}" + (f":{minutes:02}" if minutes else "")


class _FigureFormatter(string.Formatter):
    def __init__(self, locale: Locale) -> None:
        self._locale = locale
        self._formats: dict[str, Callable[[Any], str]] = {
            "messages": format_messages,
            "duration": lambda duration_ms: format_duration(duration_ms, locale),
            "moment": lambda moment: format_moment(moment, locale),
            "clock": lambda moment: moment.astimezone(locale.zone).strftime("%H:%M"),
            "bytes": format_bytes,
            # a word of a command that the reader may paste: RocketMQ allows | and % in names
            "shell": lambda word: shlex.quote(str(word)),
            "each": lambda word: shlex.quote(str(word)),
            "unix_ms": lambda moment: str(round(moment.timestamp() * 1_000)),
        }

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec == "plural":  # of an unknown count as well, and of one in words
            return "" if value == 1 else "s"
        if value is None:
            return "s" if format_spec == "plural" else self._locale.words.unknown
        if isinstance(value, Readable):
            return value.read_by(self._locale)
        if isinstance(value, tuple):
            return self._locale.words.between.join(self.format_field(one, format_spec) for one in value)
        figure_format = self._formats.get(format_spec)
        return str(super().format_field(value, format_spec)) if figure_format is None else figure_format(value)


@cache
def _formatter(locale: Locale) -> _FigureFormatter:
    return _FigureFormatter(locale)
