"""Mail: one message as text and HTML, with headers that mail programs thread and filter by."""

from __future__ import annotations

import hashlib
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined

from offsetguard.messages import wording
from offsetguard.messages.hostile import harmless_view, shorten
from offsetguard.rules.text import format_moment

if TYPE_CHECKING:
    from datetime import datetime

    from offsetguard.messages.view import MessageView

INCIDENTS_IN_FULL = 10
INCIDENTS_IN_SHORT = 40
QUEUES_SHOWN = 10
BESIDE_SHOWN = 10
SUBJECT_LIMIT = 200  # characters; mail programs on phones show about 40, on desks about 120


def _templates(*, autoescape: bool) -> Environment:
    return Environment(
        loader=PackageLoader("offsetguard.messages"),
        autoescape=autoescape,  # noqa: S701 off for plain text only
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


_HTML = _templates(autoescape=True)
_TEXT = _templates(autoescape=False)  # plain text has no markup; lines cannot be broken by names, see hostile.py
_COLOURS = {"critical": "#b42318", "warning": "#b54708", "info": "#175cd3", wording.RESOLVED: "#067647"}


def render_mail(
    view: MessageView, *, sender: str, receiver: str, idempotency_key: str, sent_at: datetime
) -> EmailMessage:
    """Return the mail for one receiver.

    The same idempotency key gives the same Message-ID, so that a mail that was accepted twice can be recognised.
    All mails of one firing spell refer to one root (RFC 5322 3.6.4), which threads them even though none is that root.
    """
    safe = harmless_view(view)
    domain = sender.rpartition("@")[2]
    mail = EmailMessage(policy=policy.SMTP)
    mail["Subject"] = _header_text(wording.subject(safe), SUBJECT_LIMIT)
    mail["From"] = Address(display_name="OffsetGuard", addr_spec=sender)
    mail["To"] = Address(addr_spec=receiver)
    mail["Date"] = sent_at
    mail["Message-ID"] = message_id(idempotency_key, domain)
    root = message_id(f"thread {view.thread_key}", domain)
    mail["In-Reply-To"] = root
    mail["References"] = root
    mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: no vacation notices in answer
    mail["X-Auto-Response-Suppress"] = "All"  # the same for Exchange
    for name, value in (("Cluster", safe.cluster), ("Rule", safe.rule_id), ("Severity", wording.status(safe))):
        mail[f"X-OffsetGuard-{name}"] = _header_text(value, 100)
    words = _words(safe)
    mail.set_content(_TEXT.get_template("message.txt.j2").render(words), cte="quoted-printable")
    mail.add_alternative(_HTML.get_template("message.html.j2").render(words), subtype="html", cte="quoted-printable")
    mail.set_boundary(f"={root[1:45]}=")  # fixed, so that the same message is the same bytes
    return mail


def _header_text(text: str, limit: int) -> str:
    """Return text for a header: Python's email package decodes `=?utf-8?q?=0D=0ABcc...?=` in what it is given."""
    return shorten(text.replace("=?", "= ?"), limit)


def message_id(key: str, domain: str) -> str:
    """Return a Message-ID (RFC 5322) that depends on nothing but the key and the domain."""
    return f"<offsetguard.{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()[:32]}@{domain}>"


def _words(view: MessageView) -> dict[str, object]:
    firing = view.firing
    in_short = firing[INCIDENTS_IN_FULL : INCIDENTS_IN_FULL + INCIDENTS_IN_SHORT]
    return {
        "view": view,
        "subject": wording.subject(view),
        "status": wording.status(view),
        "colour": _COLOURS.get(wording.status(view), _COLOURS["info"]),
        "in_full": firing[:INCIDENTS_IN_FULL],
        "in_short": in_short,
        "more_firing": wording.more(len(firing) - INCIDENTS_IN_FULL - len(in_short), "finding"),
        "resolved": view.resolved[:INCIDENTS_IN_SHORT],
        "more_resolved": wording.more(len(view.resolved) - INCIDENTS_IN_SHORT, "finding"),
        "queues_shown": QUEUES_SHOWN,
        "why_now": wording.why_now(view),
        "interval": format_moment(view.interval_start),
        "news": wording.news(view),
        "headline": wording.headline,
        "ending": wording.ending,
        "label": wording.label,
        "history": wording.history,
        "resolution": wording.resolution,
        "more": wording.more,
        "beside": lambda incident: wording.beside(incident, BESIDE_SHOWN),
    }
