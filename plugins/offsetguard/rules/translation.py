"""A rule's words in any language: the English ones stand in its own file, the others in the catalogue."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from offsetguard.catalogue import RuleWords
from offsetguard.catalogue.catalogue import translated_rule
from offsetguard.languages import Language
from offsetguard.rules.registry import rules_by_id

if TYPE_CHECKING:
    from offsetguard.rules.rule import Rule

_RULES = rules_by_id()


@cache
def rule_words(rule_id: str, language: Language) -> RuleWords | None:
    """Return the rule's words; None where there is no such rule any more: an incident may outlive its rule."""
    rule = _RULES.get(rule_id)
    if rule is None:
        return None
    return _english(rule) if language is Language.EN else translated_rule(rule_id, language)


def rule_title(rule_id: str, language: Language) -> str:
    """Return the headline of a message about several findings of a rule; the id of one that is gone."""
    words = rule_words(rule_id, language)
    return rule_id if words is None else words.title


def _english(rule: Rule) -> RuleWords:
    return RuleWords(rule.title, rule.recovered, rule.texts)
