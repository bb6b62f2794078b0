"""SMTP accepts, refuses, defers and hangs; each time it is known whether another attempt can help."""

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest

from offsetguard.deliver.channels.mail import MailChannel, TlsMode
from offsetguard.model.errors import DeliveryError
from offsetguard_peers.rocketmq.security import make_tls_files
from offsetguard_peers.smtp.server import Conduct, SmtpServer


def mail() -> EmailMessage:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "og@example.com", "orders@example.com", "test · 订单"
    message["Message-ID"] = "<1@example.com>"
    message.set_content("hello")
    return message


def channel(server: SmtpServer, **changes: object) -> MailChannel:
    return MailChannel(**{"host": server.host, "port": server.port, "timeout_s": 0.5, **changes})  # type: ignore[arg-type]


def test_the_receipt_is_the_message_id_of_what_the_server_accepted(smtp_server: SmtpServer) -> None:
    assert channel(smtp_server).send(mail()).text == "<1@example.com>"
    assert [received.message["Message-ID"] for received in smtp_server.mails] == ["<1@example.com>"]
    assert smtp_server.mails[0].recipients == ("orders@example.com",)


FAILURES: list[tuple[str, Callable[[SmtpServer], object], bool, str]] = [
    ("refused for good", lambda s: s.answer_next_mail("550 5.7.1 spam"), True, "refused the message: 550 5.7.1 spam"),
    ("deferred", lambda s: s.answer_next_mail("451 4.3.0 later"), False, "refused the message: 451 4.3.0 later"),
    (
        "unknown recipient",
        lambda s: s.answer_recipient("orders@example.com", "550 5.1.1 no such user"),
        True,
        "refused the receiver orders@example.com: 550 5.1.1 no such user",
    ),
    (
        "greylisted recipient",
        lambda s: s.answer_recipient("orders@example.com", "450 4.2.0 greylisted"),
        False,
        "refused the receiver orders@example.com: 450 4.2.0 greylisted",
    ),
    ("hangs with the mail", lambda s: s.hang_at_data(), False, "did not answer within 0.5 s"),
    ("says nothing", lambda s: setattr(s, "conduct", Conduct.SAY_NOTHING), False, "did not answer within 0.5 s"),
    ("hangs up", lambda s: setattr(s, "conduct", Conduct.HANG_UP), False, "closed the connection"),
    ("is not there", lambda s: s.close_port(), False, "cannot be reached: [Errno 111] Connection refused"),
]


@pytest.mark.parametrize(("cause", "permanent", "reason"), [f[1:] for f in FAILURES], ids=[f[0] for f in FAILURES])
def test_each_failure_names_the_server_and_says_whether_a_retry_can_help(
    smtp_server: SmtpServer, cause: Callable[[SmtpServer], object], permanent: bool, reason: str
) -> None:
    cause(smtp_server)
    with pytest.raises(DeliveryError) as caught:
        channel(smtp_server).send(mail())
    assert (caught.value.permanent, smtp_server.mails) == (permanent, [])
    assert reason in str(caught.value)
    assert f"SMTP server 127.0.0.1:{smtp_server.port}" in str(caught.value)
    smtp_server.hang_at_data(False)


def test_a_wrong_login_can_be_mended_so_the_message_waits() -> None:
    with SmtpServer(user="og", password="right") as server:
        with pytest.raises(DeliveryError, match="refused the login 'og': 535") as caught:
            channel(server, user="og", password="wrong").send(mail())
        assert not caught.value.permanent
        assert "wrong" not in str(caught.value) + repr(channel(server, user="og", password="wrong"))
        channel(server, user="og", password="right").send(mail())
        assert len(server.mails) == 1


@pytest.mark.parametrize(("password", "challenge"), [("secret", b"334 abc"), ("geheimnis-größer", b"334 YWJj")])
def test_a_login_that_cannot_be_sent_can_be_mended_so_the_message_waits(password: str, challenge: bytes) -> None:
    def talk(connection: socket.socket) -> None:
        connection.sendall(b"220 here\r\n")
        connection.recv(1_000)
        connection.sendall(b"250-here\r\n250 AUTH CRAM-MD5\r\n")
        connection.recv(1_000)
        connection.sendall(challenge + b"\r\n")
        connection.recv(1_000)

    with talking(talk) as port, pytest.raises(DeliveryError, match="gets no login 'me'") as caught:
        MailChannel("127.0.0.1", port, "me", password).send(mail())
    assert not caught.value.permanent
    assert password not in str(caught.value)


@pytest.mark.parametrize(
    ("mode", "reason"), [(TlsMode.STARTTLS, "STARTTLS"), (TlsMode.TLS, "cannot be reached: .*SSL")]
)
def test_tls_that_the_server_does_not_speak_can_be_mended_and_nothing_is_sent_in_clear(
    smtp_server: SmtpServer, mode: TlsMode, reason: str
) -> None:
    with pytest.raises(DeliveryError, match=reason) as caught:
        channel(smtp_server, tls_mode=mode, timeout_s=30).send(mail())
    assert (caught.value.permanent, smtp_server.mails) == (False, [])


def test_a_certificate_that_nobody_trusts_sends_nothing_and_can_be_mended(tmp_path: Path) -> None:
    files = make_tls_files(tmp_path / "tls")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate_file, files.key_file)

    def greet(connection: socket.socket) -> None:
        with context.wrap_socket(connection, server_side=True) as spoken:
            spoken.sendall(b"220 strange")

    with talking(greet) as port, pytest.raises(DeliveryError, match="certificate verify failed") as caught:
        MailChannel("127.0.0.1", port, tls_mode=TlsMode.TLS, timeout_s=30).send(mail())
    assert not caught.value.permanent


def test_whoever_wants_to_know_is_told_just_before_the_text_goes_out(smtp_server: SmtpServer) -> None:
    told: list[int] = []
    channel(smtp_server, timeout_s=30).send(mail(), before_data=lambda: told.append(len(smtp_server.mails)))
    assert (told, len(smtp_server.mails)) == ([0], 1)
    smtp_server.answer_recipient("orders@example.com", "550 no")
    with pytest.raises(DeliveryError):
        channel(smtp_server, timeout_s=30).send(mail(), before_data=lambda: told.append(-1))
    assert told == [0], "nothing was handed over"


@contextlib.contextmanager
def talking(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """Accept one connection, and talk; gives the port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            talk(connection)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    thread.join(60)
    listener.close()
    assert not thread.is_alive(), "nobody hung up"


@contextlib.contextmanager
def dripping(*lines: bytes, drop: bytes) -> Iterator[int]:
    """Answer with lines, one for each that comes, then drop by drop until it is hung up on; gives the port."""

    def drip(connection: socket.socket) -> None:
        with connection.makefile("rb") as heard:
            for number, line in enumerate(lines):
                if number:
                    heard.readline()
                if number and lines[number - 1].startswith(b"354"):
                    while heard.readline() not in (b".\r\n", b""):
                        pass
                connection.sendall(line)
            while True:
                connection.sendall(drop)
                time.sleep(0.1)

    with talking(drip) as port:
        yield port


DRIPS: dict[str, tuple[tuple[bytes, ...], bytes]] = {
    "the greeting": ((), b"2"),
    "the answer to EHLO": ((b"220 slow\r\n", b"250"), b"-"),
}


@pytest.mark.parametrize("what", DRIPS)
def test_a_server_that_drips_one_byte_at_a_time_is_hung_up_on(what: str) -> None:
    """Each byte comes within the time-out, the answer never does."""
    lines, drop = DRIPS[what]
    with dripping(*lines, drop=drop) as port, pytest.raises(DeliveryError) as caught:
        MailChannel("127.0.0.1", port, timeout_s=0.3).send(mail())  # the server would go on for ever
    assert not caught.value.permanent


@pytest.mark.parametrize("line", [b"220-\r\n", b"220-welcome\r\n", b"220-" + b"x" * 4_000 + b"\r\n"])
def test_a_reply_without_end_takes_no_memory(line: bytes) -> None:
    """It took 4 GiB once."""
    sent = 0

    def talk(connection: socket.socket) -> None:
        nonlocal sent
        with contextlib.suppress(OSError):
            while sent < 50_000_000:
                sent += connection.send(line * 100)

    with talking(talk) as port, pytest.raises(DeliveryError) as caught:
        MailChannel("127.0.0.1", port, timeout_s=5.0).send(mail())
    assert not caught.value.permanent
    assert f"127.0.0.1:{port}" in str(caught.value)
    assert sent < 20_000_000, "it was hung up on"


def test_a_mail_that_was_accepted_counts_although_the_farewell_never_ends() -> None:
    answers = (b"220 hello\r\n", *[b"250 ok\r\n"] * 3, b"354 go on\r\n", b"250 queued\r\n")
    with dripping(*answers, drop=b"2") as port:
        assert MailChannel("127.0.0.1", port, timeout_s=3).send(mail()).text == "<1@example.com>"


def test_time_that_the_sender_waits_before_the_text_is_not_the_server_s(smtp_server: SmtpServer) -> None:
    impatient = channel(smtp_server, timeout_s=1.0)
    waits_s = impatient.limit_s + 0.5
    impatient.send(mail(), before_data=lambda: time.sleep(waits_s), waiting_s=60)
    assert len(smtp_server.mails) == 1
