"""Pages of the demo show what mailbox and Slack received, and nothing of it can act."""

import smtplib
from email.message import EmailMessage
from urllib.request import urlopen

from slack_sdk import WebClient

from offsetguard_peers.slack.server import SlackServer
from offsetguard_peers.smtp.inbox import InboxPage
from offsetguard_peers.smtp.server import SmtpServer


def test_mails_are_listed_and_shown_harmlessly() -> None:
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = "<script>lag</script>", "a@example.com", "b@example.com"
    mail.set_content("as text")
    mail.add_alternative("<p>as HTML</p><script>alert(1)</script>", subtype="html")
    with SmtpServer() as smtp, InboxPage(smtp) as inbox:
        with smtplib.SMTP(smtp.host, smtp.port) as client:
            client.send_message(mail)
        with urlopen(inbox.url) as answer:
            listing = answer.read().decode()
        assert "&lt;script&gt;lag&lt;/script&gt;" in listing
        assert "<script>" not in listing
        assert f"{smtp.mails[0].received_at:%H:%M:%S} UTC" in listing
        with urlopen(f"{inbox.url}1.html") as answer:
            assert answer.headers["Content-Security-Policy"].startswith("sandbox;")
            assert b"as HTML" in answer.read()


def test_messages_in_slack_are_shown_harmlessly(slack_server: SlackServer) -> None:
    hostile = "<script>alert(1)</script>"
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": hostile}},
        {"type": "section", "text": {"type": "mrkdwn", "text": hostile}},
    ]
    client = WebClient(token=slack_server.token, base_url=slack_server.api_url)
    client.chat_postMessage(channel="C0ALERTS", text=hostile, blocks=blocks)
    with urlopen(slack_server.url) as answer:
        page = answer.read().decode()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
