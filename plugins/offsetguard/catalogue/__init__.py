"""Every text that people read, in every language: `offsetguard.catalogue.catalogue(locale).say(key, **figures)`.

English and Chinese stand side by side in `sentences.yml` (reasons and endings), `messages.yml` (what stands around the
figures of a mail or Slack message) and `figures.yml` (what figures are called). The English texts of a rule stand in
the rule's own file, its Chinese ones in `rules/zh/<rule id>.yml`.
"""

from offsetguard.catalogue.catalogue import Catalogue, RuleWords, Texts, catalogue
from offsetguard.catalogue.sentence import Sentence

__all__ = ["Catalogue", "RuleWords", "Sentence", "Texts", "catalogue"]
