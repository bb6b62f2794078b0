"""What rules say: docs/rules.md has it, and commands that are copied out of messages do what is said.

What ends a sentence must not be copied along.
"""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

from offsetguard.catalogue.text import Language
from offsetguard.judge.reference import reference
from offsetguard.judge.registry import RULES
from offsetguard.judge.rule import Rule
from offsetguard_peers.cases.running import for_each

PAGE = Path(__file__).parents[4] / "docs" / "rules.md"
_VALUE = r"(?:\{[^}]*\}|'[^']*'|[A-Za-z0-9_:]+)"
COMMAND_WITH_A_STOP = re.compile(rf"mqadmin [a-z]\w+(?: -\w(?: {_VALUE})?)+[.。]")


def test_a_stop_after_a_command_is_found() -> None:
    command = "delete it: mqadmin deleteSubGroup -n {name_servers:shell} -c CLUSTER -t 'orders' -s"
    assert COMMAND_WITH_A_STOP.search(command + ".")
    assert not COMMAND_WITH_A_STOP.search(command)


@for_each("rule, language", product(RULES.values(), Language), name_of=lambda case: f"{case[0].id} in {case[1].value}")
def test_no_stop_follows_a_command(rule: Rule, language: Language) -> None:
    said = [texts.said("do_next", language) for texts in rule.texts.values()]
    assert [text for text in said if COMMAND_WITH_A_STOP.search(text)] == []


@for_each("rule, language", product(RULES.values(), Language), name_of=lambda case: f"{case[0].id} in {case[1].value}")
def test_who_deletes_a_group_as_told_deletes_its_offsets_by_which_it_would_be_judged_on(
    rule: Rule, language: Language
) -> None:
    said = [texts.said("do_next", language) for texts in rule.texts.values()]
    assert [text for text in said if "mqadmin deleteSubGroup -n" in text and not text.endswith(" -r true")] == []


def test_the_page_is_the_one_that_the_rules_make() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "docs/rules.md is old: make docs"


def test_every_rule_has_a_place_of_its_own_among_those_of_its_severity() -> None:
    assert len({rule.place for rule in RULES.values()}) == len(RULES)
