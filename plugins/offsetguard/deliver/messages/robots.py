"""What robots of chats say: the same pieces in the same order as mail and Slack, each robot in its own form.

Robots take a subset of Markdown, each another one, and none says how to escape it. So names and sentences never hold
a character that could be markup there: `plain` shows a look-alike in its place. Commands, which are copied, stand in
code spans as they are.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from offsetguard.catalogue import Catalogue
from offsetguard.deliver.messages import wording
from offsetguard.deliver.messages.mail_pages import counted_of, what_happened
from offsetguard.deliver.messages.wording import harmless_view, shorten
from offsetguard.model.views import AnyView, DigestView, IncidentView, MessageView, incidents_url

MAX_INCIDENTS = 20  # looked at: not half as many fit
MAX_LINK = 400  # characters; better no link than no message
KEYWORD = "OffsetGuard"  # in each message: what a robot that wants a keyword can be set to
SHORT_ID = 8  # characters of an incident's id
WORST_SHOWN = 5  # of a digest
_WIDE = {code: chr(code + 0xFEE0) for code in range(0x21, 0x7F)}  # Unicode, halfwidth and fullwidth forms
_MARKUP = re.compile(r"[*\[\]<>`#@~|]|(?<!\w)_|_(?!\w)|^(?:[-+]|\d+\.)(?=\s)")
_Said = TypeVar("_Said")


@dataclass(frozen=True, slots=True)
class Piece:
    """A heading, a sentence, a figure, a command or links."""

    text: str = ""
    label: str | None = None  # of a figure
    is_heading: bool = False
    is_command: bool = False
    links: tuple[tuple[str, str], ...] = ()  # (label, address)


@dataclass(frozen=True, slots=True)
class Letter:
    """A message for a robot; what does not fit is left out from the end of `body`."""

    title: str
    status: str
    head: tuple[Piece, ...]
    body: tuple[Piece, ...]
    foot: tuple[Piece, ...]
    mentions: tuple[str, ...] = ()

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All of it but the title."""
        return (*self.head, *self.body, *self.foot)


def plain(text: str) -> str:
    """Return text in which nothing is markup to any of the robots."""
    return _MARKUP.sub(lambda found: found[0].translate(_WIDE), text)


def letter(view: AnyView, *, sentence: int) -> Letter:
    """Return what a message says; `sentence`: characters of the longest piece. Raises TypeError for a daily report."""
    if isinstance(view, MessageView):
        safe = harmless_view(wording.bounded(view, MAX_INCIDENTS))
        return _message(safe, wording.reader(safe), sentence)
    if isinstance(view, DigestView):
        digest = harmless_view(view)
        return _digest(digest, wording.reader(digest), sentence)
    raise TypeError(f"a {type(view).__name__} is for mail only")


def fitted(whole: Letter, written: Callable[[Letter], _Said], fits: Callable[[_Said], bool]) -> _Said:
    """Return a letter as a robot writes it, with as much of its body as fits."""
    if fits(said := written(whole)):
        return said
    least, most = 0, len(whole.body) - 1
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if fits(written(_cut(whole, middle))) else (least, middle - 1)
    return written(_cut(whole, least))


def _cut(whole: Letter, pieces: int) -> Letter:
    return replace(whole, body=(*whole.body[:pieces], Piece(wording.ELLIPSIS)))


def _message(view: MessageView, words: Catalogue, sentence: int) -> Letter:
    status = wording.status(view)
    incidents, hidden = (view.firing, view.hidden_firing) if view.firing else (view.resolved, view.hidden_resolved)
    alone = len(incidents) + hidden == 1
    body: list[Piece] = []
    for one in incidents:
        body += _incident(one, words, sentence, alone=alone)
    if view.firing:
        body += [Piece(f"{wording.ending(one, words)} ({one.incident_id[:SHORT_ID]})") for one in view.resolved]
    body += [Piece(more)] if (more := wording.more(hidden, "finding" if view.firing else "resolved", words)) else []
    word = wording.status_word(status, words)
    return Letter(
        title=_title(word, wording.in_brief(view, words), words),
        status=status,
        head=(
            Piece(_where(view, words)),
            *(Piece(one) for one in (wording.why_now(view, words), *wording.notes(view, words)) if one),
        ),
        body=tuple(body),
        foot=_foot(view, words, words.say("slack_rule", rule_id=view.rule_id, interval=view.interval_start)),
        mentions=view.mentions if view.firing else (),
    )


def _incident(incident: IncidentView, words: Catalogue, sentence: int, *, alone: bool) -> Iterator[Piece]:
    over = incident.resolved_at is not None
    said = wording.ending(incident, words) if over else wording.headline(incident, words)
    if not alone:
        yield Piece(said, is_heading=True)
    cause = incident.cause or words.say("slack_cause_unknown")
    yield Piece(shorten(words.say("slack_it_was", cause=cause) if over else cause, sentence))
    if incident.do_next and not over:
        yield Piece(shorten(words.say("slack_what_to_do", do_next=incident.do_next), sentence))
        yield from (Piece(one, is_command=True) for one in incident.commands)
    links = (
        ("mail_details", incident.incident_url),
        ("slack_group", incident.group_url),
        ("slack_acknowledge", None if over or incident.acknowledged_at else incident.acknowledge_url),
        ("slack_silence", None if over else incident.silence_url),
        ("slack_console", incident.console_url),
    )
    shown = tuple((words.say(key), url) for key, url in links if url is not None and len(url) <= MAX_LINK)
    if shown:
        yield Piece(links=shown)
    named = (("slack_consumer_group", incident.consumer_group), ("slack_topic", incident.topic))
    yield from (Piece(name, label=words.say(key)) for key, name in named if name)
    if not over:
        yield from (Piece(figure.value, label=wording.label(figure)) for figure in incident.figures)
        yield from (Piece(when, label=what) for what, when in wording.forecasts(incident, words))
    if incident.began_at is not None and not over:
        yield Piece(words.say("slack_since", began_at=incident.began_at))
    yield Piece(words.say("slack_lasted" if over else "slack_first_seen", history=wording.history(incident, words)))
    if incident.peak:
        yield Piece(words.say("slack_peak", peak=incident.peak))
    if lag := wording.lag_in_words(incident, words):
        yield Piece(lag)
    if how := wording.acknowledged(incident, words):
        yield Piece(words.say("slack_acknowledged", how=how))
    yield Piece(incident.incident_id[:SHORT_ID], label=words.say("robot_incident"))
    for head, lines, rest in (*wording.threads(incident, 3, words), *wording.beside(incident, 3, words)):
        yield Piece(shorten("; ".join(one for one in (*lines, rest) if one), sentence), label=head)


def _digest(view: DigestView, words: Catalogue, sentence: int) -> Letter:
    status = view.severity if any(section.firing_count for section in view.sections) else wording.RESOLVED
    news = words.say("robot_digest_news", count=len(view.sections), what=what_happened(view, words))
    word = wording.status_word(status, words)
    worst: list[Piece] = []
    for one in (view.firing or view.resolved)[:WORST_SHOWN]:
        over = one.resolved_at is not None
        said = wording.ending(one, words) if over else wording.headline(one, words)
        worst.append(Piece(f"{said} ({one.incident_id[:SHORT_ID]})", is_heading=True))
        cause = words.say("slack_it_was", cause=one.cause) if over else one.cause
        worst.append(Piece(shorten(cause, sentence // 3)))
        if one.incident_url is not None and len(one.incident_url) <= MAX_LINK:
            worst.append(Piece(links=((words.say("mail_details"), one.incident_url),)))
    sections = (
        Piece(f"{counted_of(section, words)} · {section.rule_id}", label=section.title) for section in view.sections
    )
    return Letter(
        title=_title(word, news, words),
        status=status,
        head=(Piece(_where(view, words)), *(Piece(one) for one in wording.told_late(view, words))),
        body=(*worst, *sections),
        foot=_foot(view, words, words.say("robot_digest_interval", interval=view.interval_start)),
        mentions=view.mentions if status != wording.RESOLVED else (),
    )


def _title(word: str, news: str, words: Catalogue) -> str:
    return shorten(words.say("slack_header", status=word[:1].upper() + word[1:], news=news), 150)


def _where(view: MessageView | DigestView, words: Catalogue) -> str:
    cluster, team = shorten(view.cluster, 80), shorten(view.team, 80)
    return f"{words.say('slack_cluster')} {cluster} · {words.say('slack_team')} {team}"


def _foot(view: MessageView | DigestView, words: Catalogue, rule: str) -> tuple[Piece, ...]:
    rule = f"{rule} · {KEYWORD}"
    footnotes = [Piece(one) for one in (wording.footnote(view, words), rule) if one]
    if view.page_url is None or len(view.page_url) > MAX_LINK:
        return tuple(footnotes)
    return *footnotes, Piece(links=((words.say("robot_all"), incidents_url(view.page_url)),))


def markdown(whole: Letter, *, line_end: str, mentions: str) -> str:
    """Return a letter in what the robots' subsets of Markdown share; `mentions`: how they call people, {} is one."""
    lines = [f"### {plain(whole.title)}", *(_line(one) for one in whole.pieces)]
    if whole.mentions:
        lines.append(" ".join(mentions.format(one) for one in whole.mentions))
    return line_end.join(lines)


def _line(piece: Piece) -> str:
    if piece.links:
        return " · ".join(
            f"[{plain(label)}]({url.replace('(', '%28').replace(')', '%29')})" for label, url in piece.links
        )
    if piece.is_command:
        return plain(piece.text) if "`" in piece.text else f"`{piece.text}`"
    if piece.label is not None:
        colon = ": " if piece.label.isascii() else "\uff1a"
        return f"**{plain(piece.label)}**{colon}{plain(piece.text)}"
    return f"**{plain(piece.text)}**" if piece.is_heading else plain(piece.text)
