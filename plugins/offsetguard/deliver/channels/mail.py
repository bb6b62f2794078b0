"""Mail over SMTP: one connection per message, bounded in time, every failure classified.

| what happened                               | permanent | why |
|---------------------------------------------|-----------|-----|
| nobody listens, name unknown, TLS failed    | no  | the server or the connection can be mended |
| 4xx anywhere                                | no  | the server says: later (RFC 5321 4.2.1) |
| refused login (535 and the like)            | no  | our connection is wrong, not the message: mended, all must go |
| 5xx for the recipient or the text           | yes | this message will be refused again |
| 5xx for greeting, HELO or sender            | no  | concerns all messages, so it is configuration |
| no answer in time, closed before the answer | no  | the state is unknown; a repeat carries the same Message-ID |
"""

import contextlib
import enum
import smtplib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Any, BinaryIO, ClassVar

from offsetguard.config.routes import Delivery
from offsetguard.deliver.channels.channel import LIMIT_S, Connection, Handover, Receipt, TookTooLong, Transport, bounded
from offsetguard.deliver.in_doubt import LONGEST_WAIT_S
from offsetguard.deliver.messages.mail import render_mail
from offsetguard.model.errors import DeliveryError
from offsetguard.model.notification import Declared
from offsetguard.store.models import OutboxRow

CHANNEL = Declared(
    name="mail",
    receivers="mail",
    receiver="MailAddress",
    meaning="each gets its own message",
    title="mail",
    title_zh="邮件",
    digests=True,
    daily_reports=True,
)

MOST_REPLY_BYTES = 64 * 1024  # real ones have a line for each of a dozen extensions
_CONVERSATION_STEPS = 3  # a whole conversation may last this many time-outs


@dataclass(slots=True)
class _Conversation:
    """One mail, seen by who sends it and by who waits for that."""

    given_up: threading.Event  # set: nobody waits any more, so nothing may be handed over
    before_data: Callable[[], None] | None
    session: smtplib.SMTP | None = None  # as soon as there is something to hang up
    refused: dict[str, tuple[int, bytes]] | None = None  # None: not accepted yet

    def hang_up(self) -> None:
        """End it, wherever it is."""
        if self.session is not None and self.session.sock is not None:
            with contextlib.suppress(OSError):
                self.session.sock.shutdown(socket.SHUT_RDWR)


@dataclass(slots=True)
class _Replies:
    """What smtplib reads of replies, up to a number of bytes."""

    _file: BinaryIO
    left_bytes: int = 0

    def readline(self, most: int) -> bytes:
        """Return a line; raises OSError where a reply has more than it may."""
        line = self._file.readline(most)
        self.left_bytes -= len(line)
        if self.left_bytes < 0:
            raise OSError(f"a reply of more than {MOST_REPLY_BYTES // 1024} KiB")
        return line

    def close(self) -> None:
        """Close it with the connection."""
        self._file.close()


class _Session(smtplib.SMTP):
    file: Any  # of smtplib

    def __init__(self, conversation: _Conversation, host: str, port: int, **options: Any) -> None:
        self._conversation = conversation
        conversation.session = self  # before the greeting, which may not come
        super().__init__(host, port, **options)

    def getreply(self) -> tuple[int, bytes]:
        """Read a reply, which smtplib would do without end: each line is bounded there, and not how many there are."""
        if self.file is None:
            self.file = _Replies(self.sock.makefile("rb"))  # type: ignore[union-attr]  # it is connected
        self.file.left_bytes = MOST_REPLY_BYTES
        return super().getreply()

    def data(self, msg: Any) -> tuple[int, bytes]:
        """Send the text of the mail, after telling whoever wants to know."""
        if self._conversation.before_data is not None:
            self._conversation.before_data()
        if self._conversation.given_up.is_set():
            raise TimeoutError
        return super().data(msg)


class _TlsSession(_Session, smtplib.SMTP_SSL):
    pass


class _NoLogin(smtplib.SMTPException):
    """The server's challenge is none, or the login cannot be sent."""


class TlsMode(enum.StrEnum):
    """How the connection is protected."""

    NONE = "none"
    STARTTLS = "starttls"
    TLS = "tls"  # from the first byte, usually port 465


_USUAL_PORT = {TlsMode.NONE: 25, TlsMode.STARTTLS: 587, TlsMode.TLS: 465}


@dataclass(frozen=True, slots=True)
class MailChannel(Transport):
    """An SMTP server; `timeout_s` bounds each step of a conversation, `limit_s` the whole of it, greeting included."""

    host: str
    port: int = 25
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls_mode: TlsMode = TlsMode.NONE
    timeout_s: float = 10.0
    sender: str = "offsetguard@localhost"  # the address of `From`

    LANES: ClassVar = 8  # all of them go through one server
    CONNECTION_FIELD: ClassVar = "mail_connection"
    CONNECTION_NEEDS: ClassVar = "host"
    CONNECTION_ADVICE: ClassVar = (
        "create one of type smtp with host, port, login and password (delivery.mail_connection names it)"
    )

    @classmethod
    def opened(cls, connection: Connection, delivery: Delivery) -> "MailChannel":
        """Open SMTP as the provider's connection type `smtp` describes it.

        Host, port, login, password; extra `disable_ssl` (TLS from the first byte unless it is true), `disable_tls`
        (STARTTLS unless it is true), `timeout` in seconds.
        """
        mode = TlsMode.TLS
        if connection.is_set("disable_ssl"):
            mode = TlsMode.NONE if connection.is_set("disable_tls") else TlsMode.STARTTLS
        return cls(
            connection.host or "",
            connection.port or _USUAL_PORT[mode],
            connection.login or None,
            connection.password or None,
            mode,
            connection.timeout_s,
            delivery.mail_from,
        )

    def deliver(self, message: OutboxRow, handover: Handover) -> Receipt:
        """Send a message as a mail."""
        mail = render_mail(
            message.view,
            sender=self.sender,
            receiver=message.receiver,
            idempotency_key=message.idempotency_key,
            sent_at=handover.now,
        )
        return self.send(mail, before_data=handover.slot.enter, waiting_s=LONGEST_WAIT_S)

    @property
    def limit_s(self) -> float:
        """How long a whole conversation may last: never as long as a claim in the outbox."""
        return min(_CONVERSATION_STEPS * self.timeout_s, LIMIT_S)

    def send(
        self, mail: EmailMessage, *, before_data: Callable[[], None] | None = None, waiting_s: float = 0.0
    ) -> Receipt:
        """Send to the receivers in `To`; returns the Message-ID once the server has accepted all of the mail.

        `before_data` is called when the receivers were accepted and the text goes out: from then on, until this
        returns or raises, nobody can know whether the mail was accepted. It may wait for `waiting_s`, for which the
        server is not to blame.
        Raises DeliveryError, classified as in the table above.
        """
        conversation = _Conversation(threading.Event(), before_data)

        def converse(given_up: threading.Event) -> None:
            conversation.given_up = given_up
            with self._session(conversation) as session:
                conversation.refused = session.send_message(mail)

        try:
            bounded(self.limit_s + waiting_s, converse, f"mail {self.host}")
        except TookTooLong as error:
            conversation.hang_up()
            if conversation.refused is None:
                raise self._failure(error) from error
            # else only the farewell is missing
        except (smtplib.SMTPException, OSError) as error:
            raise self._failure(error) from error
        if conversation.refused:
            raise self._failure(smtplib.SMTPRecipientsRefused(conversation.refused))
        return Receipt(str(mail["Message-ID"]))

    @contextlib.contextmanager
    def _session(self, conversation: _Conversation) -> Iterator[_Session]:
        context = ssl.create_default_context()
        if self.tls_mode is TlsMode.TLS:
            session: _Session = _TlsSession(conversation, self.host, self.port, timeout=self.timeout_s, context=context)
        else:
            session = _Session(conversation, self.host, self.port, timeout=self.timeout_s)
        with contextlib.closing(session):
            if self.tls_mode is TlsMode.STARTTLS:
                session.starttls(context=context)
            if self.user:
                try:
                    session.login(self.user, self.password or "")
                except ValueError as error:  # of base64, of ASCII
                    raise _NoLogin(type(error).__name__) from None
            yield session
            with contextlib.suppress(smtplib.SMTPException, OSError):
                session.quit()  # the mail is accepted already: a server that hangs up now changes nothing

    def _failure(self, error: Exception) -> DeliveryError:
        """Say what went wrong, classified as in the table above; the order is from the special to the general."""
        permanent = False
        match error:
            case smtplib.SMTPRecipientsRefused(recipients=refused):
                answers = "; ".join(f"{recipient}: {_answer(*answer)}" for recipient, answer in refused.items())
                what = f"refused the receiver {answers}"
                permanent = all(code >= 500 for code, _ in refused.values())
            case smtplib.SMTPDataError(smtp_code=code, smtp_error=text):
                what = f"refused the message: {_answer(code, text)}"
                permanent = code >= 500
            case smtplib.SMTPAuthenticationError(smtp_code=code, smtp_error=text):
                what = f"refused the login {self.user!r}: {_answer(code, text)}; correct the Airflow connection"
            case _NoLogin():
                what = (
                    f"gets no login {self.user!r} ({error}): its challenge is not base64, or login and password are not"
                    " ASCII, which SMTP wants; correct the Airflow connection"
                )
            case smtplib.SMTPServerDisconnected():
                what = f"closed the connection or did not answer within {self.timeout_s:g} s: {error}"
            case smtplib.SMTPResponseException(smtp_code=code, smtp_error=text):
                what = f"refused to talk to us: {_answer(code, text)}"
            case smtplib.SMTPNotSupportedError():
                what = f"cannot do what the connection asks for ({error}); check TLS mode and login"
            case TookTooLong():
                what = f"took longer than {self.limit_s:g} s for one mail"
            case TimeoutError():
                what = f"did not answer within {self.timeout_s:g} s"
            case _:  # refused, unknown host, TLS
                what = f"cannot be reached: {error}"
        return DeliveryError(f"SMTP server {self.host}:{self.port} {what}", permanent=permanent)


def _answer(code: int, text: bytes | str) -> str:
    words = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return f"{code} {' '.join(words.split())[:300]}".strip()
