"""The text and the HTML of one mail about several causes: what the templates `digest.*.j2` are filled with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from offsetguard.messages import wording
from offsetguard.messages.mail_pages import COLOURS, MailTexts, fill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offsetguard.catalogue import Catalogue
    from offsetguard.messages.digest import DigestSection, DigestView

SECTIONS_SHOWN = 25  # Gmail cuts mails at 102 kB


def digest_texts(view: DigestView, words: Catalogue) -> MailTexts:
    """Return a digest as text and HTML; `view`: harmless."""
    status = view.severity if any(section.firing_count for section in view.sections) else wording.RESOLVED
    word = wording.status_word(status, words)
    news = words.say("mail_digest_news", count=len(view.sections), what=_what(view, words))
    return fill(
        "digest",
        {
            "view": view,
            "words": words,
            "subject": f"[{word.upper()}] {view.cluster} · {news}",
            "status": status,
            "status_word": word,
            "colour": COLOURS.get(status, COLOURS["info"]),
            "news": news,
            "below_news": f"{words.say('mail_cluster')} {view.cluster}",
            "notes": tuple(_notes(view, words)),
            "why_now": words.say("mail_digest_why", count=len(view.sections)),
            "footer": words.say("mail_digest_footer", interval=view.interval_start, team=view.team),
            "sections": view.sections[:SECTIONS_SHOWN],
            "more_sections": wording.more(len(view.sections) - SECTIONS_SHOWN, "cause", words),
            "counted": lambda section: _counted(section, words),
            "section_notes": lambda section: tuple(_section_notes(section, words)),
            "headline": wording.headline,
            "ending": lambda incident: wording.ending(incident, words),
            "more": lambda hidden, what: wording.more(hidden, what, words),
        },
    )


def _what(view: DigestView, words: Catalogue) -> str:
    firing = sum(section.firing_count for section in view.sections)
    resolved = sum(section.resolved_count for section in view.sections)
    parts = [words.say("findings", count=firing)] if firing or not resolved else []
    parts += [words.say("mail_digest_resolved", count=resolved)] if resolved else []
    return words.say("mail_digest_both", one=parts[0], other=parts[1]) if len(parts) > 1 else parts[0]


def _counted(section: DigestSection, words: Catalogue) -> str:
    """Return `312 consumer groups`, or `3 findings` where they are not about groups."""
    if section.group_count:
        return words.say("consumer_groups", count=section.group_count)
    return words.say("findings", count=section.firing_count or section.resolved_count)


def _notes(view: DigestView, words: Catalogue) -> Iterator[str]:
    if view.late:
        yield words.say("told_late")


def _section_notes(section: DigestSection, words: Catalogue) -> Iterator[str]:
    if section.escalated_from is not None:
        yield words.say("escalated_from", team=section.escalated_from)
    if section.repeat_count > 0:
        yield words.say("repeated", count=section.repeat_count)
    if section.muted_count > 0:
        yield words.say("not_told", count=section.muted_count)
