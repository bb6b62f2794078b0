"""What patterns are: each names its groups, begins with some text, and takes linear time on any line."""

import re
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offsetguard.sources.logs.matching import PATTERNS, beginnings
from offsetguard.sources.logs.pattern import END, FieldType
from offsetguard.sources.logs.records import LAYOUTS, MAX_RECORD_BYTES, RECORD_START
from offsetguard_peers.cases.running import examples, for_each

REGEXES = sorted(
    {pattern.regex for pattern in PATTERNS}
    | {part.regex for pattern in PATTERNS for part in pattern.parts}
    | {layout.regex for layout in LAYOUTS}
    | {RECORD_START}
)
# Free texts whose end only what follows can tell: each multiplies the work. Bounds as in `pattern.py`.
MAX_WORK = MAX_RECORD_BYTES * 1024


def parts_of(regex: str) -> list[tuple[Any, Any]]:
    return list(parser.parse(regex))


def walk(items: list[tuple[Any, Any]], depth: int = 0):
    """Yield (operator, argument, number of repeats around it)."""
    for operator, argument in items:
        yield operator, argument, depth
        if operator in {sre.MAX_REPEAT, sre.MIN_REPEAT}:
            yield from walk(list(argument[2]), depth + (argument[1] > 1))
        elif operator is sre.SUBPATTERN:
            yield from walk(list(argument[3]), depth)
        elif operator is sre.BRANCH:
            for branch in argument[1]:
                yield from walk(list(branch), depth)


def flat(items: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Put groups that stand once, or once at most, into the sequence that they are part of."""
    sequence = []
    for operator, argument in items:
        if operator is sre.SUBPATTERN:
            sequence += flat(list(argument[3]))
        elif operator in {sre.MAX_REPEAT, sre.MIN_REPEAT} and argument[1] == 1:
            sequence += flat(list(argument[2]))
        else:
            sequence.append((operator, argument))
    return sequence


def can_match(item: tuple[Any, Any], character: int) -> bool:
    operator, argument = item
    if operator is sre.LITERAL:
        return argument == character
    if operator is sre.NOT_LITERAL:
        return argument != character
    if operator is sre.IN:
        negated = argument[0][0] is sre.NEGATE
        inside = any(
            (kind is sre.LITERAL and value == character) or (kind is sre.RANGE and value[0] <= character <= value[1])
            for kind, value in argument
        )
        return inside != negated
    return True


def work_of(regex: str) -> int:
    """Bound the steps: the product of the lengths of all repeats whose end is not certain at once."""
    sequence = flat(parts_of(regex))
    work = 1
    for number, (operator, argument) in enumerate(sequence):
        if operator not in {sre.MAX_REPEAT, sre.MIN_REPEAT}:
            continue
        longest = MAX_RECORD_BYTES if argument[1] is sre.MAXREPEAT else int(argument[1])
        repeated = argument[2][0]
        follower = sequence[number + 1] if number + 1 < len(sequence) else None
        ends_at_once = follower is None or (follower[0] is sre.LITERAL and not can_match(repeated, follower[1]))
        ends_at_once = ends_at_once or follower[0] is sre.ASSERT_NOT or all_disjoint(repeated, follower)
        if not ends_at_once:
            work *= longest
    return work


def all_disjoint(repeated: tuple[Any, Any], follower: tuple[Any, Any]) -> bool:
    """Whether nothing that begins what follows can be part of the repeat: checked over ASCII."""
    return not any(can_match(repeated, code) and can_match(follower, code) for code in range(128))


@for_each("regex", REGEXES)
def test_a_regex_takes_bounded_work_on_any_line(regex):
    for operator, argument, depth in walk(parts_of(regex)):
        if operator in {sre.MAX_REPEAT, sre.MIN_REPEAT} and argument[1] != 1:
            assert depth == 0, f"a repeat within a repeat: {regex}"
            assert len(argument[2]) == 1, f"repeat one character class, not a sequence: {regex}"
    assert work_of(regex) <= MAX_WORK, regex


def test_the_bound_finds_what_it_is_for():
    assert work_of(r"^a([^\n]*)b([^\n]*)c([^\n]*)d") > MAX_WORK
    assert work_of(r"^a([^,\n]*), b([^,\n]*), c") == 1


@for_each("pattern", PATTERNS, name_of=lambda one: one.kind)
def test_a_pattern_names_each_group(pattern):
    assert pattern.regex.startswith("^")
    assert re.compile(pattern.regex).groups == len(pattern.fields)
    names = [field.name for field in (*pattern.fields, *pattern.parts)]
    assert len(set(names)) == len(names)
    texts = {field.name for field in pattern.fields if field.type is FieldType.TEXT}
    assert all(part.of in texts and re.compile(part.regex).groups == 1 for part in pattern.parts)


@pytest.mark.slow
@for_each("pattern", PATTERNS, name_of=lambda pattern: f"{pattern.kind} {pattern.regex[:40]}")
@settings(max_examples=examples(0.1))
@given(data=st.data())
def test_a_message_of_a_pattern_begins_as_it_is_looked_for(pattern, data):
    message = data.draw(st.from_regex(pattern.regex.replace(END + r"\n", r"\n").replace(END, r"\n")))
    assert message.startswith(tuple(beginnings(pattern.regex)))


def test_every_pattern_begins_with_something() -> None:
    """A pattern that may begin with anything makes every line of every log one to look at."""
    anything = [pattern.kind for pattern in PATTERNS if "" in beginnings(pattern.regex)]
    assert not anything, f"these patterns need a literal beginning: {anything}"


@given(st.sampled_from(PATTERNS), st.integers(1, 4_000), st.sampled_from([" ", "[", "MessageQueue [topic=", "9", ", "]))
@settings(max_examples=examples(2))
def test_hostile_lines_end(pattern, times, filler):
    """Lines that look right for long, and are not: they return, and give nothing or text."""
    almost = pattern.must_contain + filler * times
    for text in (almost, almost + "] NEW: SubscriptionData [" * 50, pattern.regex.replace("\\", "")[1:60] + almost):
        match = re.search(pattern.regex, text[:MAX_RECORD_BYTES])
        assert match is None or match.start() == 0
