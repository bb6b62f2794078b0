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

from __future__ import annotations

import contextlib
import enum
import smtplib
import socket
import ssl
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from offsetguard.channels.receipt import Receipt
from offsetguard.errors import DeliveryError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from email.message import EmailMessage

    from _typeshed import ReadableBuffer

_CONVERSATION_STEPS = 3  # a whole conversation may last this many time-outs


class _Session(smtplib.SMTP):
    before_data: Callable[[], None] | None = None

    def data(self, msg: ReadableBuffer | str) -> tuple[int, bytes]:
        """Send the text of the mail, after telling whoever wants to know."""
        if self.before_data is not None:
            self.before_data()
        return super().data(msg)


class _TlsSession(_Session, smtplib.SMTP_SSL):
    pass


class TlsMode(enum.StrEnum):
    """How the connection is protected."""

    NONE = "none"
    STARTTLS = "starttls"
    TLS = "tls"  # from the first byte, usually port 465


@dataclass(frozen=True, slots=True)
class MailChannel:
    """An SMTP server; `timeout_s` bounds each step of the conversation, three times as much the whole of it."""

    host: str
    port: int = 25
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls_mode: TlsMode = TlsMode.NONE
    timeout_s: float = 10.0

    def send(self, mail: EmailMessage, *, before_data: Callable[[], None] | None = None) -> Receipt:
        """Send to the receivers in `To`; returns the Message-ID once the server has accepted all of the mail.

        `before_data` is called when the receivers were accepted and the text goes out: from then on, until this
        returns or raises, nobody can know whether the mail was accepted.
        Raises DeliveryError, classified as in the table above.
        """
        with self._failures_told(), self._session() as session:
            session.before_data = before_data
            refused = session.send_message(mail)
        if refused:
            raise _recipients_refused(self._name, refused)
        return Receipt(str(mail["Message-ID"]))

    @property
    def _name(self) -> str:
        return f"SMTP server {self.host}:{self.port}"

    @contextlib.contextmanager
    def _session(self) -> Iterator[_Session]:
        context = ssl.create_default_context()
        if self.tls_mode is TlsMode.TLS:
            session: _Session = _TlsSession(self.host, self.port, timeout=self.timeout_s, context=context)
        else:
            session = _Session(self.host, self.port, timeout=self.timeout_s)
        with _hung_up_after(session, _CONVERSATION_STEPS * self.timeout_s), contextlib.closing(session):
            if self.tls_mode is TlsMode.STARTTLS:
                session.starttls(context=context)
            if self.user:
                session.login(self.user, self.password or "")
            yield session
            with contextlib.suppress(smtplib.SMTPException, OSError):
                session.quit()  # the mail is accepted already: a server that hangs up now changes nothing

    @contextlib.contextmanager
    def _failures_told(self) -> Iterator[None]:
        try:
            yield
        except smtplib.SMTPRecipientsRefused as error:
            raise _recipients_refused(self._name, error.recipients) from error
        except smtplib.SMTPDataError as error:
            reason = f"{self._name} refused the message: {_answer(error.smtp_code, error.smtp_error)}"
            raise DeliveryError(reason, permanent=error.smtp_code >= 500) from error
        except smtplib.SMTPAuthenticationError as error:
            answer = _answer(error.smtp_code, error.smtp_error)
            reason = f"{self._name} refused the login {self.user!r}: {answer}; correct the Airflow connection"
            raise DeliveryError(reason, permanent=False) from error
        except smtplib.SMTPServerDisconnected as error:
            reason = f"{self._name} closed the connection or did not answer within {self.timeout_s:g} s: {error}"
            raise DeliveryError(reason, permanent=False) from error
        except smtplib.SMTPResponseException as error:
            reason = f"{self._name} refused to talk to us: {_answer(error.smtp_code, error.smtp_error)}"
            raise DeliveryError(reason, permanent=False) from error
        except smtplib.SMTPNotSupportedError as error:
            reason = f"{self._name} cannot do what the connection asks for ({error}); check TLS mode and login"
            raise DeliveryError(reason, permanent=False) from error
        except TimeoutError as error:
            raise DeliveryError(f"{self._name} did not answer within {self.timeout_s:g} s", permanent=False) from error
        except (smtplib.SMTPException, OSError) as error:  # refused, unknown host, TLS
            raise DeliveryError(f"{self._name} cannot be reached: {error}", permanent=False) from error


@contextlib.contextmanager
def _hung_up_after(session: smtplib.SMTP, limit_s: float) -> Iterator[None]:
    """End a conversation that goes on and on: socket time-outs alone let a server drip one byte at a time."""
    timer = threading.Timer(limit_s, _hang_up, [session])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _hang_up(session: smtplib.SMTP) -> None:
    if session.sock is not None:
        with contextlib.suppress(OSError):
            session.sock.shutdown(socket.SHUT_RDWR)


def _recipients_refused(server: str, refused: dict[str, tuple[int, bytes]]) -> DeliveryError:
    answers = "; ".join(f"{recipient}: {_answer(*answer)}" for recipient, answer in refused.items())
    permanent = all(code >= 500 for code, _ in refused.values())
    return DeliveryError(f"{server} refused the receiver {answers}", permanent=permanent)


def _answer(code: int, text: bytes | str) -> str:
    words = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return f"{code} {' '.join(words.split())[:300]}".strip()
