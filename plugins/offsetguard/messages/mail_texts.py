"""The text and the HTML of a mail about one rule: what the templates `message.*.j2` are filled with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from offsetguard.messages import wording
from offsetguard.messages.mail_pages import COLOURS, MailTexts, Picture, fill
from offsetguard.messages.view import LEAST_LAG_POINTS
from offsetguard.text import format_from_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from offsetguard.catalogue import Catalogue
    from offsetguard.messages.view import IncidentView, MessageView

INCIDENTS_IN_FULL = 6  # more of them make a mail that Gmail cuts: at 102 kB
INCIDENTS_IN_SHORT = 44
QUEUES_SHOWN = 10
QUEUES_OF_SEVERAL = 3  # of each incident, where there are several
BESIDE_SHOWN = 10
PICTURES = 3  # for the worst incidents: a picture takes a twentieth of a second, and 5 KB of the mail

Row = tuple[str, str]


def message_texts(view: MessageView, words: Catalogue, cid_of: Callable[[int], str]) -> MailTexts:
    """Return a message as text and HTML; `view`: harmless; `cid_of(n)`: the content id of the mail's nth picture."""
    firing = view.firing[:INCIDENTS_IN_FULL]
    pictures = _pictures(firing, words, cid_of)
    return fill("message", _Rendering(view, words).words() | {"in_full": firing, "pictures": pictures}, pictures)


def shortened(view: MessageView) -> MessageView:
    """Return the view without the incidents that a mail only counts: what nobody reads need not be made harmless."""
    most = INCIDENTS_IN_FULL + INCIDENTS_IN_SHORT
    return view.model_copy(
        update={
            "firing": view.firing[:most],
            "hidden_firing": view.hidden_firing + max(0, len(view.firing) - most),
            "resolved": view.resolved[:most],
            "hidden_resolved": view.hidden_resolved + max(0, len(view.resolved) - most),
            "group_count": view.group_count or len({one.consumer_group for one in view.firing or view.resolved}),
        }
    )


def _pictures(firing: tuple[IncidentView, ...], words: Catalogue, cid_of: Callable[[int], str]) -> dict[str, Picture]:
    shown = [one for one in firing if len(one.lag_curve) >= LEAST_LAG_POINTS][:PICTURES]
    if not shown:
        return {}
    from offsetguard.messages import lag_picture  # noqa: PLC0415 it imports matplotlib, which takes most of a second

    zone = words.locale.zone
    return {
        one.incident_id: Picture(
            content_id=cid_of(n),
            head=words.say("mail_lag_head", **_from_to(one, words)),
            alt=wording.lag_in_words(one, words) or "",
            png=lag_picture.draw(one.lag_curve, zone),
            width=lag_picture.WIDTH,
        )
        for n, one in enumerate(shown)
    }


def _from_to(incident: IncidentView, words: Catalogue) -> dict[str, str]:
    start, end = format_from_to(incident.lag_curve[0].at, incident.lag_curve[-1].at, words.locale)
    return {"start": start, "end": end}


@dataclass(frozen=True, slots=True)
class _Rendering:
    view: MessageView
    catalogue: Catalogue

    def words(self) -> dict[str, Any]:
        """Everything that the templates name, but for the incidents in full and their pictures."""
        view, words = self.view, self.catalogue
        status = wording.status(view)
        in_short = view.firing[INCIDENTS_IN_FULL : INCIDENTS_IN_FULL + INCIDENTS_IN_SHORT]
        listed = min(len(view.firing), INCIDENTS_IN_FULL + INCIDENTS_IN_SHORT)
        resolved = view.resolved[:INCIDENTS_IN_SHORT]
        return {
            "view": view,
            "words": words,
            "subject": wording.subject(view, words),
            "status": status,
            "status_word": wording.status_word(status, words),
            "colour": COLOURS.get(status, COLOURS["info"]),
            "news": wording.news(view, words),
            "below_news": f"{words.say('mail_cluster')} {view.cluster}",
            "notes": tuple(wording.notes(view, words)),
            "why_now": wording.why_now(view, words),
            "footer": words.say("mail_footer", rule_id=view.rule_id, interval=view.interval_start, team=view.team),
            "in_short": in_short,
            "more_firing": wording.more(len(view.firing) + view.hidden_firing - listed, "finding", words),
            "resolved": resolved,
            "more_resolved": wording.more(len(view.resolved) + view.hidden_resolved - len(resolved), "finding", words),
            "queues_shown": QUEUES_SHOWN if len(view.firing) == 1 else QUEUES_OF_SEVERAL,
            "rows": lambda incident: tuple(self.rows(incident)),
            "ended_rows": lambda incident: tuple(self.ended_rows(incident)),
            "links": lambda incident: tuple(self.links(incident)),
            "beside": lambda incident: tuple(wording.beside(incident, BESIDE_SHOWN, words)),
            "lag_in_words": lambda incident: wording.lag_in_words(incident, words),
            "headline": wording.headline,
            "ending": lambda incident: wording.ending(incident, words),
            "more": lambda hidden, what: wording.more(hidden, what, words),
        }

    def rows(self, incident: IncidentView) -> Iterator[Row]:
        """Give the small table of an incident that fires, in mqcloud's order: what, who, where, figures."""
        words = self.catalogue
        yield from self._about(incident)
        yield from ((wording.label(figure), figure.value) for figure in incident.figures)
        yield from wording.forecasts(incident, words)
        if incident.peak:
            yield words.say("mail_peak"), incident.peak
        yield words.say("mail_since"), wording.history(incident, words)
        if muted := wording.mutes(incident, words):
            yield words.say("mail_mutes"), muted
        if taken := wording.acknowledged(incident, words):
            yield words.say("mail_acknowledged"), taken

    def ended_rows(self, incident: IncidentView) -> Iterator[Row]:
        """Give the small table of an incident that is over."""
        words = self.catalogue
        yield words.say("mail_ended"), wording.resolution(incident, words)
        yield from self._about(incident)
        yield words.say("mail_lasted"), wording.history(incident, words)
        if incident.peak:
            yield words.say("mail_peak"), incident.peak
        if incident.muted_when_resolved:
            yield words.say("mail_muted_then"), incident.muted_when_resolved

    def links(self, incident: IncidentView) -> Iterator[Row]:
        """Give what can be done about an incident in the browser."""
        named = (
            ("mail_acknowledge", incident.acknowledge_url),
            ("mail_silence", incident.silence_url),
            ("mail_details", incident.incident_url),
        )
        yield from ((self.catalogue.say(key), url) for key, url in named if url)

    def _about(self, incident: IncidentView) -> Iterator[Row]:
        words = self.catalogue
        yield words.say("mail_type"), self.view.title
        if incident.consumer_group:
            yield words.say("mail_consumer_group"), incident.consumer_group
        if incident.topic:
            yield words.say("mail_topic"), incident.topic
        yield words.say("mail_cluster"), self.view.cluster
