"""What people read, in every language: `offsetguard.catalogue.catalogue(locale).say(key, **figures)`.

English and Chinese stand side by side: in `sentences.yml` (reasons and endings), `messages.yml` (what stands around the
figures of a mail or Slack message), `figures.yml` (what figures are called); a rule's texts stand in the rule's file.
"""

from offsetguard.catalogue.catalogue import Catalogue, Sentence, Translated, catalogue
