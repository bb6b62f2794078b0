"""Mail: a view as text and HTML, with headers that mail programs thread and filter by.

    multipart/alternative
      text/plain
      text/html, or multipart/related where pictures come with it
        text/html
        image/png, inline ...

What a view says stands in `mail_texts.py` (one rule), `mail_digests.py` (several) and
`mail_reports.py` (a day).
"""

from __future__ import annotations

import hashlib
import re
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from typing import TYPE_CHECKING

from offsetguard.messages import wording
from offsetguard.messages.daily_report import DailyReportView
from offsetguard.messages.digest import DigestView
from offsetguard.messages.hostile import harmless, harmless_view, shorten
from offsetguard.messages.mail_digests import digest_texts
from offsetguard.messages.mail_reports import report_texts
from offsetguard.messages.mail_texts import message_texts, shortened
from offsetguard.messages.view import MessageView

if TYPE_CHECKING:
    from datetime import datetime

    from offsetguard.messages.any_view import AnyView
    from offsetguard.messages.mail_pages import MailTexts

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
    safe = harmless_view(shortened(view) if isinstance(view, MessageView) else view)
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
