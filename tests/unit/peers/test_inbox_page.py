"""The demo's mailbox shows what came, and nothing in a mail can act."""

import smtplib
import socket
import struct
import threading
from email.message import EmailMessage
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

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


@pytest.mark.parametrize("path", ["2.html", "0.html", "1.exe", "x.html", "../etc/passwd"])
def test_other_pages_do_not_exist(path: str) -> None:
    with SmtpServer() as smtp, InboxPage(smtp) as inbox:
        _send(smtp, "one")
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"{inbox.url}{path}")


def test_nothing_is_said_of_a_browser_that_goes_away_before_its_answer(capfd: pytest.CaptureFixture[str]) -> None:
    before = set(threading.enumerate())
    with SmtpServer() as smtp, InboxPage(smtp) as inbox:
        address = urlsplit(inbox.url)
        with socket.create_connection((address.hostname, address.port)) as browser:
            browser.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close resets
            browser.sendall(b"GET / HTTP/1.1\r\nHost: ")
        with urlopen(inbox.url) as answer:  # a later request: the reset one has its thread
            assert answer.status == 200
        for thread in set(threading.enumerate()) - before:
            if "process_request_thread" in thread.name:
                thread.join(120)
    assert capfd.readouterr().err == ""
