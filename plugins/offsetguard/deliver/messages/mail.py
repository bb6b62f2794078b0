"""A mail about one rule: text, HTML, and the headers that mail programs thread and filter by.

    multipart/alternative
      text/plain
      text/html, or multipart/related where pictures come with it
        text/html
        image/png, inline ...

What a view says stands here (one rule) and in `mail_pages.py` (several, and a day).
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from typing import Any

from offsetguard.catalogue import Catalogue
from offsetguard.catalogue.text import format_from_to
from offsetguard.deliver.messages import wording
from offsetguard.deliver.messages.mail_pages import MailTexts, Picture, digest_texts, fill, report_texts
from offsetguard.deliver.messages.wording import harmless, harmless_view, shorten
from offsetguard.model.views import (
    LEAST_LAG_POINTS,
    AnyView,
    DailyReportView,
    DigestView,
    IncidentView,
    MessageView,
    QueueView,
)

INCIDENTS_IN_FULL = 6  # more of them make a mail that Gmail cuts: at 102 kB
INCIDENTS_IN_SHORT = 44
QUEUES_SHOWN = 10
QUEUES_OF_SEVERAL = 3  # of each incident, where there are several
BESIDE_SHOWN = 10
MOST_FRAMES = 20  # of a stack: all that are kept
PICTURES = 3  # for the worst incidents: a picture takes a twentieth of a second, and 5 KB of the mail

Row = tuple[str, str]


def message_texts(view: MessageView, words: Catalogue, cid_of: Callable[[int], str]) -> MailTexts:
    """Return a message as text and HTML; `view`: harmless; `cid_of(n)`: the content id of the mail's nth picture."""
    firing = view.firing[:INCIDENTS_IN_FULL]
    pictures = _pictures(firing, words, cid_of)
    return fill("message", _Rendering(view, words).words() | {"in_full": firing, "pictures": pictures}, pictures)


def _pictures(firing: tuple[IncidentView, ...], words: Catalogue, cid_of: Callable[[int], str]) -> dict[str, Picture]:
    shown = [one for one in firing if len(one.lag_curve) >= LEAST_LAG_POINTS][:PICTURES]
    if not shown:
        return {}
    from offsetguard.deliver.messages import lag_picture  # noqa: PLC0415 it imports matplotlib, which takes most of a second

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


def _queue_name(queue: QueueView, words: Catalogue) -> str:
    if queue.alike_count:
        return words.say("queues_alike", count=1 + queue.alike_count)
    return f"{queue.broker_name} {words.say('mail_queue', queue_id=queue.queue_id)}"


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
            "in_brief": wording.in_brief(view, words),
            "sub_line": f"{words.say('mail_cluster')} {view.cluster}",
            "notes": tuple(wording.notes(view, words)),
            "why_now": wording.why_now(view, words),
            "footnote": wording.footnote(view, words),
            "footer": words.say("mail_footer", rule_id=view.rule_id, interval=view.interval_start, team=view.team),
            "in_short": in_short,
            "more_firing": wording.more(len(view.firing) + view.hidden_firing - listed, "finding", words),
            "resolved": resolved,
            "more_resolved": wording.more(len(view.resolved) + view.hidden_resolved - len(resolved), "finding", words),
            "queues_shown": QUEUES_SHOWN if len(view.firing) == 1 else QUEUES_OF_SEVERAL,
            "rows": lambda incident: tuple(self.rows(incident)),
            "ended_rows": lambda incident: tuple(self.ended_rows(incident)),
            "links": lambda incident: tuple(self.links(incident)),
            "beside": lambda incident: (
                *wording.threads(incident, MOST_FRAMES, words),
                *wording.beside(incident, BESIDE_SHOWN, words),
            ),
            "queue_name": lambda queue: _queue_name(queue, words),
            "lag_in_words": lambda incident: wording.lag_in_words(incident, words),
        }

    def rows(self, incident: IncidentView) -> Iterator[Row]:
        """Give the small table of an incident that fires, in mqcloud's order: what, who, where, figures."""
        words = self.catalogue
        yield from self._about(incident)
        yield from ((wording.label(figure), figure.value) for figure in incident.figures)
        yield from wording.forecasts(incident, words)
        if incident.began_at is not None:
            yield words.say("mail_since"), words.moment(incident.began_at)
        yield words.say("mail_first_seen"), wording.history(incident, words)
        if incident.peak:
            yield words.say("mail_peak"), incident.peak
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
            ("mail_group", incident.group_url),
            ("mail_console", incident.console_url),
        )
        yield from ((self.catalogue.say(key), url) for key, url in named if url)

    def _about(self, incident: IncidentView) -> Iterator[Row]:
        words = self.catalogue
        if incident.title:
            yield words.say("mail_type"), incident.title
        if incident.consumer_group:
            yield words.say("mail_consumer_group"), incident.consumer_group
        if incident.topic:
            yield words.say("mail_topic"), incident.topic
        yield words.say("mail_cluster"), self.view.cluster


SUBJECT_LIMIT = 200  # characters; mail programs on phones show about 40, on desks about 120
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9-]+")


def render_mail(view: AnyView, *, sender: str, receiver: str, idempotency_key: str, sent_at: datetime) -> EmailMessage:
    """Return the mail for one receiver.

    The same idempotency key gives the same Message-ID, so that a mail that was accepted twice can be recognised.
    All mails of one firing spell refer to one root (RFC 5322 3.6.4), which threads them even though none is that root.
    """
    domain = sender.rpartition("@")[2]
    texts = _texts(view, idempotency_key, domain)
    mail = EmailMessage(policy=policy.SMTP)
    mail["Subject"] = _header_text(texts.subject, SUBJECT_LIMIT)
    mail["From"] = Address(display_name="OffsetGuard", addr_spec=sender)
    mail["To"] = Address(addr_spec=receiver)
    mail["Date"] = sent_at
    mail["Message-ID"] = message_id(idempotency_key, domain)
    root = message_id(f"thread {view.thread_key}", domain)
    mail["In-Reply-To"] = root
    mail["References"] = root
    mail["List-Id"] = f"<{_label(view.team)}.offsetguard.{domain}>"  # RFC 2919: filters, and no answers to lists
    mail["Precedence"] = "list"  # what programs heed that know no Auto-Submitted
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: no vacation notices in answer
    mail["X-Auto-Response-Suppress"] = "All"  # the same for Exchange
    for name, value in (("Cluster", view.cluster), ("Rule", view.rule_id), ("Severity", texts.status)):
        mail[f"X-OffsetGuard-{name}"] = _header_text(harmless(value, 100), 100)
    _fill(mail, texts, root)
    return mail


def message_id(key: str, domain: str) -> str:
    """Return a Message-ID (RFC 5322) that depends on nothing but the key and the domain."""
    return f"<offsetguard.{_digest(key)}@{domain}>"


def _texts(view: AnyView, idempotency_key: str, domain: str) -> MailTexts:
    most = INCIDENTS_IN_FULL + INCIDENTS_IN_SHORT
    safe = harmless_view(wording.bounded(view, most) if isinstance(view, MessageView) else view)
    words = wording.reader(safe)
    if isinstance(safe, DigestView):
        return digest_texts(safe, words)
    if isinstance(safe, DailyReportView):
        return report_texts(safe, words)
    return message_texts(safe, words, lambda n: f"lag{n}.{_digest(idempotency_key)}@{domain}")


def _fill(mail: EmailMessage, texts: MailTexts, root: str) -> None:
    mail.set_content(texts.text, cte="quoted-printable")
    mail.add_alternative(texts.html, subtype="html", cte="quoted-printable")
    mail.set_boundary(f"={root[1:45]}=")  # fixed, so that the same message is the same bytes
    if not texts.pictures:
        return
    _, html = mail.iter_parts()
    for picture in texts.pictures:
        html.add_related(
            picture.png, "image", "png", cid=f"<{picture.content_id}>", disposition="inline", filename="lag.png"
        )
    html.set_boundary(f"={root[1:44]}=_")


def _header_text(text: str, limit: int) -> str:
    """Return text for a header: Python's email package decodes `=?utf-8?q?=0D=0ABcc...?=` in what it is given."""
    return shorten(text.replace("=?", "= ?"), limit)


def _label(team: str) -> str:
    """Return a team as one label of a list's name; names without a letter that fits differ all the same."""
    label = _NOT_IN_LABELS.sub("-", team).strip("-").lower()[:40]
    return label if label == team.lower() else f"{label}-{_digest(team)[:8]}".strip("-")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:32]
