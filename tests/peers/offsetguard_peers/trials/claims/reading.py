"""Lines of mails, messages and pages read as claims: the texts of the rules are the patterns.

    claims_of("stock-worker is offline, and 2,002 messages wait ...", groups)   # Claim("consumer_offline", ...)

Whatever words a text has today, a sentence made of it gives its rule, its group and its figures.
"""

from __future__ import annotations

import html
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import NamedTuple

from offsetguard.catalogue.catalogue import entries
from offsetguard.catalogue.text import Language
from offsetguard.judge.registry import RULES


class Bounds(NamedTuple):
    """What is said of a time, ms, or of messages: at least, and at most; None = nothing."""

    least: int | None
    most: int | None


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of a rule: what it is about, and its figures as numbers or moments."""

    rule_id: str  # empty: of no rule
    group: str | None
    figures: Mapping[str, int | datetime | Bounds]


_SPAN = r"(?:\d+ (?:ms|s|min|h|d)(?: |\b))+"
_DURATION = rf"(?:at least |at most |{_SPAN}to )?{_SPAN}"
MOMENT = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
_COUNT = r"(?:at least |at most )?-?[\d,]+"
_FORMS = {"messages": _COUNT, "duration": _DURATION, "moment": MOMENT, "plural": "s?", "clock": r"\d\d:\d\d"}
_OF_SENTENCES = {"silence": _DURATION}
_NAMES = frozenset({"consumer_group", "topic"})
_UNIT_MS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return (rule, pattern) of every English text that says how something is."""
    course = entries("messages.yml")["lag_course"][Language.EN]
    course = course.replace("{name}", "{consumer_group}").replace("{last:messages}", "{effective_lag:messages}")
    texts = [(rule.id, some) for rule in RULES.values() for some in rule.texts.values()]
    templates = [("", course), *((rule_id, text) for rule_id, one in texts for text in (one.summary, one.cause))]
    return tuple((rule_id, re.compile(pattern_of(text))) for rule_id, text in templates)


def pattern_of(template: str) -> str:
    pieces, named = [], set()
    for text, name, form, _ in string.Formatter().parse(template):
        pieces.append(re.escape(text))
        if name is None:
            continue
        shape = r"[\w%.-]+" if name in _NAMES else _OF_SENTENCES.get(name) or _FORMS.get(form or "", ".+?")
        shape = shape if form == "plural" else f"(?:unknown|{shape})"
        pieces.append(shape if form == "plural" or name in named else f"(?P<{name}>{shape})")
        named |= {name} - ({name} if form == "plural" else set())
    return rf"(?<![\w-]){''.join(pieces)}(?![\w-])"


@cache
def claims_of(line: str, groups: frozenset[str]) -> tuple[Claim, ...]:
    """Return what a line says in the words of a rule, of the one that it names; of another group than these nothing."""
    found = []
    named = re.match(r"\W*(\w+): ", line)
    of_rules = {named[1]} & RULES.keys() if named is not None else set()
    for rule_id, pattern in _patterns():
        if of_rules and rule_id not in of_rules:
            continue
        if (match := pattern.search(line)) is not None:
            texts = match.groupdict()
            group = texts.get("consumer_group")
            if group is None or group in groups:
                figures = {name: value for name, text in texts.items() if (value := value_of(text)) is not None}
                found.append((len(match[0]), Claim(rule_id, group, figures)))
    longest = max((length for length, _ in found), default=0)  # the others are parts of it
    whole = {(claim.rule_id, claim.group): claim for length, claim in found if length == longest}
    return tuple(whole.values())


def value_of(text: str | None) -> int | datetime | Bounds | None:
    if text is None:
        return None
    if re.fullmatch(_COUNT, text):
        count = int(text.split()[-1].replace(",", ""))
        return {"at least": Bounds(count, None), "at most": Bounds(None, count)}.get(text.rpartition(" ")[0], count)
    if re.fullmatch(MOMENT, text):
        return datetime.strptime(text, "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=UTC)
    if re.fullmatch(_DURATION, text):
        first, to, last = text.partition("to ")
        if to:
            return Bounds(_span_ms(first), _span_ms(last))
        return Bounds(None, _span_ms(text)) if text.startswith("at most") else _span_ms(text)
    return None


def _span_ms(text: str) -> int:
    return sum(int(count) * _UNIT_MS[unit] for count, unit in re.findall(r"(\d+) (ms|s|min|h|d)\b", text))


_BLOCK = re.compile(r"</?(?:p|div|tr|li|ul|h\d|table|thead|tbody|td|th|pre|br|header|button)\b[^>]*>", re.IGNORECASE)


def lines_of_html(text: str) -> str:
    """Return what a reader sees of a page, a line for each block."""
    text = re.sub(r"<(style|script|svg|head)\b.*?</\1>", "", text, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", "", _BLOCK.sub("\n", text)))


def strings_in(value: object) -> Iterator[str]:
    """Yield the texts of a structure: blocks of Slack."""
    if isinstance(value, Mapping):
        if isinstance(value.get("text"), str):
            yield value["text"].replace("`", "")
        for below in value.values():
            yield from strings_in(below)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for below in value:
            yield from strings_in(below)
