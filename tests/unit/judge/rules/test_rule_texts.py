"""What rules say: docs/rules.md has it, and commands stand apart, to be copied as they are."""

import re
import shlex
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from string import Formatter

from offsetguard.catalogue.text import Language, Locale, render_text
from offsetguard.judge.evidence.lookups import command_figures
from offsetguard.judge.registry import RULES
from offsetguard.judge.rule import Rule, Texts
from offsetguard_peers.cases.running import for_each
from offsetguard_peers.judging.records import config, facts
from offsetguard_peers.printed_commands import printed_by, templates, with_table

MESSAGES = Path(__file__).parents[4] / "docs" / "messages.md"


@for_each("rule, language", product(RULES.values(), Language), name_of=lambda case: f"{case[0].id} in {case[1].value}")
def test_commands_stand_in_a_block_of_their_own(rule: Rule, language: Language) -> None:
    said = [texts.said(name, language) for texts in rule.texts.values() for name in ("summary", "cause", "do_next")]
    assert [text for text in said if re.search(r"mqadmin \w+|offsetguard \w+ -| -[a-z] \{", text)] == []


def test_every_command_is_printed_by_a_rule_and_stands_in_the_page_that_says_where_it_was_run() -> None:
    page = MESSAGES.read_text(encoding="utf-8")
    assert page == with_table(page), "docs/messages.md is old: make docs"
    assert [name for name, template in templates().items() if not printed_by(template)] == []
    printed = {command for rule in RULES.values() for texts in rule.texts.values() for command in texts.commands}
    assert printed == set(templates().values())


@for_each("rule", RULES.values(), name_of=lambda rule: rule.id)
def test_what_deletes_comes_last_after_a_command_that_looks_and_is_named_as_what_it_is(rule: Rule) -> None:
    for texts in rule.texts.values():
        deleting = [place for place, command in enumerate(texts.commands) if re.search(r"mqadmin delete", command)]
        assert deleting in ([], [len(texts.commands) - 1])
        for place in deleting:
            assert place > 0
            assert not re.search(r"mqadmin (delete|reset|update)", texts.commands[0])
            for language, named in ((Language.EN, "  # deletes "), (Language.ZH, "  # 删除")):
                known = {name: figure for name, figure in command_figures(facts(0), config()).items() if figure}
                figures = dict.fromkeys(texts.named_figures, "x") | known
                assert named in texts.runnable(figures, Locale(language))[-1]


NO_NAMES = {
    *("queue_id", "consumer_offset", "blocked_offset", "wanted_queue_nums", "longer_hours"),
    *("what_it_deletes", "enabling_options"),
}


@for_each("rule", RULES.values(), name_of=lambda rule: rule.id)
def test_no_name_says_more_to_a_shell_than_a_name(rule: Rule) -> None:
    """RocketMQ allows | and % in names, and whoever reaches a broker allows himself the rest."""
    name = "x'; touch y; $(z) `z` | z && z > z\n#"
    for command in (command for texts in rule.texts.values() for command in texts.commands):
        figures = [(figure, spec) for _, figure, spec, _ in Formatter().parse(command) if figure]
        quoted = [figure for figure, spec in figures if spec in {"shell", "each"}]
        assert {figure for figure, spec in figures if spec != "unix_ms"} - set(quoted) <= NO_NAMES
        known = {figure: datetime.now(UTC) if spec == "unix_ms" else 1 for figure, spec in figures}
        words = shlex.split(render_text(command, known | dict.fromkeys(quoted, name)), comments=True)
        assert words.count(name) == len(quoted)


def test_every_rule_has_a_place_of_its_own_among_those_of_its_severity() -> None:
    assert len({rule.place for rule in RULES.values()}) == len(RULES)


def test_a_variant_says_what_it_leaves_out_as_the_default_one_does_and_its_commands_go_with_the_next_step() -> None:
    whole = RULES["broker_unreachable"].texts["default"]
    left_out = Texts(cause="it is so", cause_zh="如此").beside(whole)
    assert (left_out.cause, left_out.cause_zh) == ("it is so", "如此")
    assert (left_out.summary, left_out.summary_zh, left_out.commands) == (
        whole.summary,
        whole.summary_zh,
        whole.commands,
    )
    assert (left_out.do_next, left_out.do_next_zh) == (whole.do_next, whole.do_next_zh)
    other_step = Texts(do_next="Wait.", do_next_zh="请等待。").beside(whole)
    assert (other_step.do_next, other_step.commands) == ("Wait.", ())
    half = Texts(summary="only in English").beside(whole)
    assert half.summary_zh == "", "the catalogue's test finds a text that lacks its Chinese"
