"""No group is repeated possessively, since Python before 3.11.5 keeps half of a group that fails there.

CPython's issue 106052: `a(?:b[-+]?+c++)?+` matches all of "ab". Debian 12 has 3.11.2. Single characters are safe.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

import offsetguard

ONE_CHARACTER = {sre.LITERAL, sre.NOT_LITERAL, sre.IN, sre.ANY}
# here no group can fail half way: a string that has begun ends at its quote or with the text
EXEMPT = {"offsetguard.sources.rocketmq.fastjson"}


def all_patterns() -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Yield (module, expression) of every expression that a module of the logic keeps under a name."""
    for found in pkgutil.walk_packages(offsetguard.__path__, "offsetguard."):
        module = importlib.import_module(found.name)
        for value in vars(module).values():
            if isinstance(value, re.Pattern):
                yield found.name, value


def repeated_possessively(parsed: Any) -> Iterator[Any]:
    """Yield what is repeated possessively, at any depth."""
    for operator, argument in parsed:
        if operator is sre.POSSESSIVE_REPEAT:
            yield argument[2]
        for part in argument if isinstance(argument, tuple) else (argument,):
            for deeper in part if isinstance(part, list) else (part,):
                if isinstance(deeper, _parser.SubPattern):
                    yield from repeated_possessively(deeper)


def is_one_character(parsed: Any) -> bool:
    return len(parsed) == 1 and parsed[0][0] in ONE_CHARACTER


def group_is_repeated_possessively(expression: str | bytes, flags: int = 0) -> bool:
    return any(
        not is_one_character(one) for one in repeated_possessively(_parser.parse(expression, flags & ~re.UNICODE))
    )


def test_no_expression_repeats_a_group_possessively() -> None:
    patterns = [(module, one) for module, one in all_patterns() if module not in EXEMPT]
    assert len(patterns) > 40
    assert [
        (module, one.pattern) for module, one in patterns if group_is_repeated_possessively(one.pattern, one.flags)
    ] == []


def test_such_a_group_is_seen_wherever_it_stands() -> None:
    for expression in (r"a(?:bc)?+", r"(?:x|(?P<n>(?:a[b]++)*+))", r"[a]*+(?:(?:ab){2}+|c)", r"(?=(?:,a)++)"):
        assert group_is_repeated_possessively(expression), expression
    for expression in (r"[a-z]++x?+", r"(?:ab)*", r".*+", r"(?:[^a]++|b)*"):
        assert not group_is_repeated_possessively(expression), expression
