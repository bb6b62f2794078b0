"""The demo's mailbox shows what came, and nothing in a mail can act."""

import smtplib
from email.message import EmailMessage
from urllib.request import urlopen

from offsetguard_peers.smtp.inbox import InboxPage
from offsetguard_peers.smtp.server import SmtpServer


def _send(smtp: SmtpServer, subject: str) -> None:
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = subject, "a@example.com", "b@example.com"
    mail.set_content("as text")
    mail.add_alternative("<p>as HTML</p><script>alert(1)</script>", subtype="html")
    with smtplib.SMTP(smtp.host, smtp.port) as client:
        client.send_message(mail)


def test_mails_are_listed_and_shown_harmlessly() -> None:
    with SmtpServer() as smtp, InboxPage(smtp) as inbox:
        _send(smtp, "<script>lag</script>")
        with urlopen(inbox.url) as answer:
            listing = answer.read().decode()
        assert "&lt;script&gt;lag&lt;/script&gt;" in listing
        assert "<script>" not in listing
        assert f"{smtp.mails[0].received_at:%H:%M:%S} UTC" in listing
        with urlopen(f"{inbox.url}1.html") as answer:
            assert answer.headers["Content-Security-Policy"].startswith("sandbox;")
            assert b"as HTML" in answer.read()
