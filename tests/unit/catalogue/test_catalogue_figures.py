"""Figures are shown with a name and in a unit that people read, by the reader's language and clock."""

from datetime import UTC, datetime

import pytest
from babel.numbers import format_decimal
from hypothesis import given
from hypothesis import strategies as st

from offsetguard.catalogue import Sentence, catalogue
from offsetguard.catalogue.catalogue import FIGURES, entries
from offsetguard.catalogue.text import Language, Locale, format_from_to, render_text
from offsetguard.judge.registry import RULES
from offsetguard.judge.rule import Rule
from offsetguard_peers.cases.running import for_each

ENGLISH = Locale.of("en", "UTC")
CHINESE = Locale.of("zh", "Asia/Shanghai")
MORNING = datetime(2026, 11, 21, 6, 45, 30, tzinfo=UTC)


@for_each("rule", RULES.values(), name_of=lambda rule: rule.id)
def test_every_figure_of_a_rules_table_has_a_name_for_readers(rule: Rule) -> None:
    assert {*rule.table, *([rule.peak] if rule.peak else [])} <= set(entries(FIGURES))


@pytest.mark.parametrize(
    ("name", "figure", "english", "chinese"),
    [
        ("effective_lag", 1234567, "1,234,567", "1,234,567"),
        ("effective_lag", 0, "0", "0"),
        ("lag_ms", 754_000, "12 min 34 s", "12 分钟 34 秒"),
        ("lag_ms", 3_900_000, "1 h 5 min", "1 小时 5 分钟"),
        ("lag_ms", 3_600_000, "1 h", "1 小时"),
        ("lag_ms", 93_600_000, "1 d 2 h", "1 天 2 小时"),
        ("lag_ms", 93_784_000, "1 d 2 h", "1 天 2 小时"),
        ("lag_ms", 250, "250 ms", "250 毫秒"),
        ("lag_ms", 999, "999 ms", "999 毫秒"),
        ("lag_ms", 1_000, "1 s", "1 秒"),
        ("lag_ms", 86_400_000, "1 d", "1 天"),
        ("lag_ms", 3_650 * 86_400_000, "3650 d", "3650 天"),
        ("lag_ms", 3_650 * 86_400_000 + 1, "never at this rate", "按此速度永远不会"),
        ("lag_ms", 928_803_234_094_233_600_000, "never at this rate", "按此速度永远不会"),
        ("lag_ms", None, "unknown", "未知"),
        ("first_moved_at", MORNING, "2026-11-21 06:45:30 UTC", "2026-11-21 14:45:30 UTC+8"),
        ("slave_behind_bytes", 1_023, "1023 B", "1023 B"),
        ("slave_behind_bytes", 1_024, "1.0 KiB", "1.0 KiB"),
        ("slave_behind_bytes", 1_048_576, "1.0 MiB", "1.0 MiB"),
        ("slave_behind_bytes", 1_288_490_188, "1.2 GiB", "1.2 GiB"),
        ("slave_behind_bytes", 2**60, "1024.0 PiB", "1024.0 PiB"),
        ("hit_percent", 0.25, "0.25", "0.25"),
        ("orderly", True, "yes", "是"),
        ("orderly", False, "no", "否"),
        ("reasons", "no answer", "no answer", "no answer"),
        ("last_timestamp", Sentence("never_committed"), "unknown: nothing was ever committed", "未知：从未提交过位点"),
    ],
)
def test_a_figure_is_shown_in_its_unit(name: str, figure: object, english: str, chinese: str) -> None:
    assert catalogue(ENGLISH).figure(name, figure) == english
    assert catalogue(CHINESE).figure(name, figure) == chinese


@pytest.mark.parametrize(
    ("zone", "moment", "shown"),
    [
        ("UTC", MORNING, "2026-11-21 06:45:30 UTC"),
        ("Asia/Shanghai", MORNING, "2026-11-21 14:45:30 UTC+8"),
        ("+08:00", MORNING, "2026-11-21 14:45:30 UTC+8"),
        ("Asia/Kolkata", MORNING, "2026-11-21 12:15:30 UTC+5:30"),
        ("America/New_York", MORNING, "2026-11-21 01:45:30 UTC-5"),
        ("-03:30", MORNING, "2026-11-21 03:15:30 UTC-3:30"),
        ("Pacific/Kiritimati", MORNING, "2026-11-21 20:45:30 UTC+14"),
        ("Europe/Berlin", datetime(2026, 10, 25, 0, 30, tzinfo=UTC), "2026-10-25 02:30:00 UTC+2"),
        ("Europe/Berlin", datetime(2026, 10, 25, 1, 30, tzinfo=UTC), "2026-10-25 02:30:00 UTC+1"),
        ("Europe/London", datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01 00:00:00 UTC"),
    ],
)
def test_a_moment_is_told_by_the_readers_clock_in_every_language(zone: str, moment: datetime, shown: str) -> None:
    """The hour that a clock shows twice is told apart by its distance from UTC."""
    for language in Language:
        assert catalogue(Locale.of(language, zone)).moment(moment) == shown


@pytest.mark.parametrize(
    ("zone", "start", "end", "shown"),
    [
        ("UTC", (6, 45), (7, 30), ("2026-11-21 06:45:00", "07:30:00 UTC")),
        ("Asia/Shanghai", (15, 59), (16, 1), ("2026-11-21 23:59:00", "2026-11-22 00:01:00 UTC+8")),
        ("Asia/Shanghai", (16, 0), (17, 0), ("2026-11-22 00:00:00", "01:00:00 UTC+8")),
    ],
)
def test_a_span_names_the_day_and_the_zone_once_where_they_are_the_same(
    zone: str, start: tuple[int, int], end: tuple[int, int], shown: tuple[str, str]
) -> None:
    first, last = (datetime(2026, 11, 21, *at, tzinfo=UTC) for at in (start, end))
    assert format_from_to(first, last, Locale.of("en", zone)) == shown


def test_a_span_over_a_change_of_the_clock_names_both_distances_from_utc() -> None:
    berlin = Locale.of("en", "Europe/Berlin")
    shown = format_from_to(datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC), berlin)
    assert shown == ("2026-10-25 02:30:00 UTC+2", "02:30:00 UTC+1")


@given(st.integers(-(10**18), 10**18), st.sampled_from(Language))
def test_numbers_are_grouped_as_the_language_groups_them(count: int, language: Language) -> None:
    """Babel knows CLDR: a language that groups otherwise has to be told to `text.format_messages` first."""
    said = render_text("{count:messages}", {"count": count}, Locale.of(language, "UTC"))
    assert said == format_decimal(count, locale={"en": "en_US", "zh": "zh_CN"}[language])


@pytest.mark.parametrize(
    ("template", "figure", "said"),
    [
        ("{x:unix_ms}", MORNING, "1795243530000"),
        ("{x:clock}", MORNING, "14:45"),
        ("{x:shell}", "a|b", "'a|b'"),
        ("message{x:plural}", 1, "message"),
        ("message{x:plural}", 0, "messages"),
        ("message{x:plural}", None, "messages"),
    ],
)
def test_a_template_gives_a_figure_the_form_that_it_asks_for(template: str, figure: object, said: str) -> None:
    assert render_text(template, {"x": figure}, CHINESE) == said


def test_a_span_stands_in_a_chinese_sentence_without_a_space_behind_its_unit() -> None:
    span = {"silence_ms": 314_000}
    assert render_text("{silence_ms:duration} 内没有提交", span, CHINESE) == "5 分钟 14 秒内没有提交"
    assert render_text("{silence_ms:duration} without a commit", span, ENGLISH) == "5 min 14 s without a commit"
