"""The languages that messages are written in, and who reads one: a language and a time zone."""

from __future__ import annotations

from dataclasses import field
from datetime import UTC, tzinfo
from enum import StrEnum

from offsetguard.records import record
from offsetguard.time_zones import zone_of


class Language(StrEnum):
    """As the configuration writes it; every text of `offsetguard.catalogue` exists in each of them."""

    EN = "en"
    ZH = "zh"  # simplified Chinese


@record
class FigureWords:
    """What figures need of a language. Every language here groups thousands by a comma and has a decimal point."""

    days: str
    hours: str
    minutes: str
    seconds: str
    milliseconds: str
    unknown: str
    yes: str
    no: str
    between: str  # what stands between the parts of a list of sentences


FIGURE_WORDS = {
    Language.EN: FigureWords("d", "h", "min", "s", "ms", unknown="unknown", yes="yes", no="no", between="; "),
    Language.ZH: FigureWords("天", "小时", "分", "秒", "毫秒", unknown="未知", yes="是", no="否", between="；"),  # noqa: RUF001 Chinese
}


@record
class Locale:
    """Who reads: in which language, and by which clock."""

    language: Language = Language.EN
    zone: tzinfo = field(default=UTC)

    @classmethod
    def of(cls, language: str, time_zone: str) -> Locale:
        """Return the locale of a route; raises ValueError for an unknown language, ConfigError for an unknown zone."""
        return cls(Language(language), zone_of(time_zone))

    @property
    def words(self) -> FigureWords:
        """What figures need of the language."""
        return FIGURE_WORDS[self.language]


ENGLISH_UTC = Locale()
