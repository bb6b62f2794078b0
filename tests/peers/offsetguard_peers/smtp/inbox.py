"""A small mailbox in the browser: what an SMTP server of ours has accepted, newest first.

with InboxPage(smtp) as inbox:
    print(inbox.url)
"""

import base64
import html
import json
from http.server import BaseHTTPRequestHandler

from offsetguard_peers.http_server import HttpPeer, Quiet
from offsetguard_peers.smtp.server import ReceivedMail, SmtpServer

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: .4rem .8rem .4rem 0; }
tr { border-bottom: 1px solid #ddd; } td:first-child { white-space: nowrap; }
"""
# A mail may hold anything: it is shown without scripts, and loads nothing.
_MAIL_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"


class InboxPage(HttpPeer):
    """`/` lists, `/mails.json` too, for programs; `/<number>.html` and `/<number>.txt` show one mail."""

    def __init__(self, smtp: SmtpServer, *, port: int = 0, host: str = "127.0.0.1") -> None:
        """Listen at once (on a free port by default); entering the context serves."""
        self.smtp = smtp
        handler = type("Handler", (_Handler,), {"inbox": self})
        super().__init__(handler, port=port, host=host)

    def page(self, path: str) -> tuple[str, str] | None:
        """Return content type and body of a path; None when there is no such page."""
        if path == "/":
            return "text/html", self._list()
        if path == "/mails.json":
            listed = [_listed(number, mail) for number, mail in enumerate(self.smtp.mails, start=1)]
            return "application/json", json.dumps(listed)
        number, _, kind = path.removeprefix("/").partition(".")
        if not number.isdecimal() or not 0 < int(number) <= len(self.smtp.mails):
            return None
        mail = self.smtp.mails[int(number) - 1]
        body = {"html": html_with_pictures(mail), "txt": mail.text}.get(kind)
        return None if not body else ("text/html" if kind == "html" else "text/plain", body)

    def _list(self) -> str:
        numbered = reversed(list(enumerate(self.smtp.mails, start=1)))
        rows = "".join(_row(number, mail) for number, mail in numbered)
        table = f"<table><tr><th>received</th><th>to</th><th>subject</th><th></th></tr>{rows}</table>"
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5">'
            f"<title>Inbox</title><style>{_STYLE}</style></head><body><h1>Inbox</h1>"
            f"{table if rows else '<p>No mail has been accepted yet.</p>'}</body></html>"
        )


def html_with_pictures(mail: ReceivedMail) -> str:
    """Return the HTML part with the pictures that came with it in their places, as a mail program shows it."""
    shown = mail.html
    for part in mail.message.walk():
        content_id = str(part["Content-ID"] or "").strip("<>")
        if content_id and part.get_content_maintype() == "image":
            data = base64.b64encode(part.get_content()).decode()
            shown = shown.replace(f"cid:{content_id}", f"data:{part.get_content_type()};base64,{data}")
    return shown


def _row(number: int, mail: ReceivedMail) -> str:
    receivers, subject = html.escape(", ".join(mail.recipients)), html.escape(str(mail.message["Subject"]))
    return (
        f"<tr><td>{mail.received_at:%d %b %H:%M:%S} UTC</td>"
        f'<td>{receivers}</td><td><a href="{number}.html">{subject}</a></td>'
        f'<td><a href="{number}.txt">text</a></td></tr>'
    )


def _listed(number: int, mail: ReceivedMail) -> dict[str, object]:
    return {
        "number": number,
        "recipients": mail.recipients,
        "subject": mail.message["Subject"],
        "message_id": mail.message["Message-ID"],
        "received_at": mail.received_at.isoformat(),
    }


class _Handler(Quiet, BaseHTTPRequestHandler):
    inbox: InboxPage

    def do_GET(self) -> None:
        """Answer with a page of the inbox."""
        page = self.inbox.page(self.path)
        content_type, body = page or ("text/plain", "there is no such mail")
        self.send_response(200 if page else 404)
        self.send_header("Content-Type", f"{content_type}; charset=utf-8")
        if self.path != "/":
            self.send_header("Content-Security-Policy", _MAIL_POLICY)
        self.end_headers()
        self.wfile.write(body.encode())
