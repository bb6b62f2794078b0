"""The SMTP server keeps what it accepts, and refuses, defers and hangs on demand."""

from __future__ import annotations

import smtplib
from email.message import EmailMessage
from pathlib import Path

import pytest

from offsetguard_peers.smtp.server import Conduct, SmtpServer

PATIENCE_S = 60.0
IMPATIENCE_S = 0.3


def mail(*recipients: str) -> EmailMessage:
    message = EmailMessage()
    message["From"] = "offsetguard@ops.test"
    message["To"] = ", ".join(recipients or ("team@ops.test",))
    message["Subject"] = "Lag of 消费组 grows"
    message.set_content("plain words")
    message.add_alternative("<p>formatted words</p>", subtype="html")
    return message


def send(
    server: SmtpServer, message: EmailMessage | None = None, timeout_s: float = PATIENCE_S
) -> dict[str, tuple[int, bytes]]:
    with smtplib.SMTP(server.host, server.port, timeout=timeout_s) as session:
        return session.send_message(message or mail())


def test_an_accepted_mail_is_kept_parsed_and_written_to_the_folder(tmp_path: Path) -> None:
    with SmtpServer(mail_folder=tmp_path) as server:
        assert send(server, mail("a@ops.test", "b@ops.test")) == {}
        (kept,) = server.mails
    assert kept.recipients == ("a@ops.test", "b@ops.test")
    assert kept.message["Subject"] == "Lag of 消费组 grows"
    assert (kept.text, kept.html) == ("plain words\n", "<p>formatted words</p>\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0001.eml", "0001.html", "0001.json"]


def test_a_mail_that_was_only_half_written_when_its_server_was_killed_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "0001.eml").write_text("Subject: never answered\r\n\r\n")
    with SmtpServer(mail_folder=tmp_path) as server:
        assert server.mails == []
        send(server, mail("a@ops.test"))
        accepted = server.mails
    assert SmtpServer(mail_folder=tmp_path).mails[0].raw == accepted[0].raw


@pytest.mark.parametrize("code", [451, 552])
def test_a_scripted_answer_refuses_one_mail_and_no_more(smtp_server: SmtpServer, code: int) -> None:
    smtp_server.answer_next_mail(f"{code} not now")
    with pytest.raises(smtplib.SMTPDataError) as refused:
        send(smtp_server)
    assert refused.value.smtp_code == code
    assert smtp_server.mails == []
    send(smtp_server)
    assert len(smtp_server.mails) == 1


def test_one_recipient_of_two_can_be_refused(smtp_server: SmtpServer) -> None:
    smtp_server.answer_recipient("gone@ops.test", "550 5.1.1 no such user")
    refused = send(smtp_server, mail("team@ops.test", "gone@ops.test"))
    assert refused == {"gone@ops.test": (550, b"5.1.1 no such user")}
    assert smtp_server.mails[0].recipients == ("team@ops.test",)
    smtp_server.answer_recipient("gone@ops.test", None)
    assert send(smtp_server, mail("gone@ops.test")) == {}


def test_a_server_that_hangs_at_data_does_not_keep_the_mail(smtp_server: SmtpServer) -> None:
    smtp_server.hang_at_data()
    with pytest.raises(smtplib.SMTPServerDisconnected, match="timed out"):
        send(smtp_server, timeout_s=IMPATIENCE_S)
    assert smtp_server.mails == []


CONDUCTS = [
    (Conduct.SAY_NOTHING, "timed out"),
    (Conduct.HANG_UP, "unexpectedly closed"),
]


@pytest.mark.parametrize(("conduct", "reason"), CONDUCTS)
def test_a_server_can_be_there_and_not_talk(smtp_server: SmtpServer, conduct: Conduct, reason: str) -> None:
    smtp_server.conduct = conduct
    with pytest.raises(smtplib.SMTPServerDisconnected, match=reason):
        send(smtp_server, timeout_s=IMPATIENCE_S)
    smtp_server.conduct = Conduct.SERVE
    send(smtp_server)
    assert len(smtp_server.mails) == 1


def test_a_closed_port_refuses_connections_and_can_be_opened_again(smtp_server: SmtpServer) -> None:
    port = smtp_server.port
    smtp_server.close_port()
    with pytest.raises(ConnectionRefusedError):
        send(smtp_server)
    smtp_server.open_port()
    assert smtp_server.port == port
    send(smtp_server)
    assert len(smtp_server.mails) == 1


@pytest.mark.filterwarnings("ignore:Requiring AUTH")
def test_a_login_is_demanded_and_checked() -> None:
    with SmtpServer(user="mailer", password="right") as server:
        with pytest.raises(smtplib.SMTPSenderRefused) as anonymous:
            send(server)
        assert anonymous.value.smtp_code == 530
        with smtplib.SMTP(server.host, server.port, timeout=PATIENCE_S) as session:
            with pytest.raises(smtplib.SMTPAuthenticationError):
                session.login("mailer", "wrong")
            session.login("mailer", "right")
            session.send_message(mail())
        assert len(server.mails) == 1
