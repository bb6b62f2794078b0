"""Nothing is missing in any language, and every text of a language says the same figures as the English one."""

import ast
import re
import string
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import yaml

import offsetguard
from offsetguard.catalogue.catalogue import FIGURES, GLOSSARY, entries
from offsetguard.catalogue.text import FIGURE_WORDS, Language, named_figures
from offsetguard.collect.manifest import Outcome
from offsetguard.judge.registry import RULES
from offsetguard.judge.rule import Rule
from offsetguard.model.incident import EventKind, Kind
from offsetguard.model.notification import MuteReason
from offsetguard.model.verdicts import Kind as Forecast
from offsetguard.model.verdicts import Severity
from offsetguard.model.verdicts import State as QueueState
from offsetguard.model.views import NotificationReason
from offsetguard.views.changes import AskedChanges
from offsetguard.views.fleet import GroupState, Trust, Wanted
from offsetguard.views.group import COURSES as GROUP_COURSES
from offsetguard.views.incidents import State, WantedIncidents
from offsetguard.views.search import FoundKind
from offsetguard.views.silences import AskedSilences, SilenceState
from offsetguard.views.topic import COURSES as TOPIC_COURSES
from offsetguard_peers.cases.running import for_each
from offsetguard_peers.cases.texts import english_words

PACKAGE = Path(offsetguard.__file__).parent
FILES = sorted(path.name for path in (PACKAGE / "catalogue").glob("*.yml"))
SAID = [name for name in FILES if name not in {FIGURES, GLOSSARY}]
KEYS = {key: texts for name in SAID for key, texts in entries(name).items()}
OTHERS = [language for language in Language if language is not Language.EN]
COUNTED = "broker|change|client|event|file|finding|group|incident|member|message|minute|queue|request|thread|time|topic"
FIXED_PLURAL = re.compile(rf"\{{\w+(:messages)?\}} ((half|other|more|pull|send|consumer) )?({COUNTED})s\b")
CHINESE = re.compile("[\u4e00-\u9fff]")
# what has words in English only: names, and "by alice"
WITHOUT_CHINESE = {"mail_data_docs", "slack_data_docs", "brokers", "on_brokers", "retry_max_times"}
WITHOUT_CHINESE |= {"acknowledged", "acknowledged_saying", "page_head_broker", "page_found_broker"}


def figures_of(template: str) -> set[tuple[str, str]]:
    """Return the figures that a template names, each with its format; only English has plurals."""
    parsed = string.Formatter().parse(template)
    return {(name, shown or "") for _, name, shown, _ in parsed if name and shown != "plural"}


def says_the_same(english: str, other: str) -> bool:
    """Whether another language tells all figures of the English text in the same units, and names no others."""
    return figures_of(english) <= figures_of(other) and named_figures(other) <= named_figures(english)


@pytest.mark.parametrize("file_name", FILES)
def test_every_key_is_there_once_and_has_a_text_in_every_language(file_name: str) -> None:
    node = yaml.compose((PACKAGE / "catalogue" / file_name).read_text("utf-8"))
    assert isinstance(node, yaml.MappingNode)
    written = [key.value for key, _ in node.value]
    assert len(written) == len(set(written)), "a key that is written twice: YAML takes the last one"
    for key, texts in entries(file_name).items():
        assert set(texts) == set(Language), key
        assert all(text.strip() for text in texts.values()), key


def test_no_key_stands_in_two_files() -> None:
    assert len(KEYS) == sum(len(entries(name)) for name in SAID)


@pytest.mark.parametrize("file_name", FILES)
def test_every_language_names_the_same_figures_in_the_same_units(file_name: str) -> None:
    for key, texts in entries(file_name).items():
        for language in OTHERS:
            assert says_the_same(texts[Language.EN], texts[language]), (key, language)


@for_each("rule", RULES.values(), name_of=lambda rule: rule.id)
def test_every_rule_has_all_its_words_in_every_language(rule: Rule) -> None:
    """The figures are those of the English texts: only these are kept with an incident."""
    for language in OTHERS:
        assert rule.said("title", language)
        assert rule.said("recovered", language)
        for variant, texts in rule.texts.items():
            for field in ("summary", "cause", "do_next"):
                assert says_the_same(getattr(texts, field), texts.said(field, language)), (variant, field)


def test_no_english_count_is_followed_by_a_plural_that_is_fixed() -> None:
    """A noun that a count stands before takes its ending from it: `client{count:plural}`."""
    said = [texts[Language.EN] for texts in KEYS.values()]
    for rule in RULES.values():
        said += [text for one in rule.texts.values() for text in (one.summary, one.cause, one.do_next)]
    assert [found.group(0) for text in said for found in FIXED_PLURAL.finditer(text)] == []


def test_every_language_has_words_for_figures() -> None:
    assert set(FIGURE_WORDS) == set(Language)


def test_words_that_a_program_puts_together_have_their_texts() -> None:
    made = {f"outcome_{outcome.value}" for outcome in Outcome}
    made |= {f"severity_{severity.value}" for severity in Severity}
    made |= {f"why_{reason.value}" for reason in NotificationReason if reason.is_sent}
    made |= {f"page_is_{state.value.lower()}" for state in QueueState}
    made |= {f"page_trust_{trust.value}" for trust in Trust} | {f"page_found_{kind.value}" for kind in FoundKind}
    made |= {f"page_event_{kind.value}" for kind in EventKind} | {f"page_mute_{reason.value}" for reason in MuteReason}
    made |= {f"page_state_{state.value}" for state in (*State, *GroupState)}
    asked = (Wanted, WantedIncidents, AskedChanges, AskedSilences)
    unlabelled = {"page", "clusters_page", "order", "reverse"}
    made |= {f"page_asked_{name}" for one in asked for name in one.model_fields if name not in unlabelled}
    made |= {f"page_kind_{kind.value}" for kind in Kind} | {f"page_silence_{state.value}" for state in SilenceState}
    made |= {f"page_outlook_{kind.value}{end}" for kind in Forecast for end in ("", "_later")}
    made |= {f"page_course_{name}" for name in (*GROUP_COURSES, *TOPIC_COURSES)}
    assert made <= set(KEYS)


def test_what_the_code_says_stands_in_the_catalogue_and_what_stands_there_is_said() -> None:
    literals = set(_literals())
    assert {key for key, function in literals if function} <= set(KEYS)
    texts = {text for text, _ in literals} | set(_said_by_templates())
    prefixes = ("outcome_", "severity_", "channel_", "why_", "more_", "page_trust_", "page_found_", "page_course_")
    prefixes += (
        "page_event_",
        "page_is_",
        "page_mute_",
        "page_state_",
        "page_kind_",
        "page_silence_",
        "page_outlook_",
        "page_asked_",
        "page_trend_",
        "news_",
    )
    unsaid = {key for key in KEYS if key not in texts and not key.startswith(prefixes)}
    assert not unsaid


def test_chinese_texts_are_chinese() -> None:
    for key, texts in {**KEYS, **entries(FIGURES)}.items():
        english, said = (re.sub(r"\{[^}]*\}", "0", texts[one]) for one in (Language.EN, Language.ZH))
        assert CHINESE.search(said) or key in WITHOUT_CHINESE or not re.search("[A-Za-z]", english), key
        assert not english_words(said), key


@for_each("rule", RULES.values(), name_of=lambda rule: rule.id)
def test_chinese_texts_of_rules_are_chinese(rule: Rule) -> None:
    templates = [rule.title_zh, rule.recovered_zh]
    templates += [text for one in rule.texts.values() for text in (one.summary_zh, one.cause_zh, one.do_next_zh)]
    for template in templates:
        said = re.sub(r"\{[^}]*\}", "0", template)
        assert CHINESE.search(said)
        assert not english_words(said), template


@cache
def _literals() -> tuple[tuple[str, bool], ...]:
    """Return every string of the source, and whether `Sentence` or `say` is called with it."""
    found: list[tuple[str, bool]] = []
    for path in PACKAGE.parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append((node.value, False))
            if isinstance(node, ast.Call) and node.args and _is_saying(node.func):
                found += [(key, True) for key in _keys(node.args[0])]
    return tuple(found)


def _is_saying(function: ast.expr) -> bool:
    name = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    return name in {"Sentence", "say"}


def _keys(argument: ast.expr) -> Iterator[str]:
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str) and argument.value.isidentifier():
        yield argument.value
    if isinstance(argument, ast.IfExp):
        yield from (*_keys(argument.body), *_keys(argument.orelse))


def _said_by_templates() -> Iterator[str]:
    for path in PACKAGE.parent.rglob("*.j2"):
        yield from re.findall(r"say\(['\"](\w+)['\"]", path.read_text("utf-8"))
