"""A real SMTP server (aiosmtpd), on a free port by default, in a thread, that can refuse, defer and hang on demand.

with SmtpServer() as server:
    server.answer_next_mail("451 4.3.0 try again later")
    ...
    assert server.mails[0].message["Subject"] == "..."
"""

import asyncio
import email
import email.policy
import json
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from enum import Enum
from pathlib import Path
from typing import Any, Self

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

ACCEPTED = "250 2.0.0 OK: queued"
WHOLE_START_WITHIN_S = 120.0


class Conduct(Enum):
    """What happens to new connections."""

    SERVE = "serve"
    SAY_NOTHING = "say_nothing"  # connects, never greets
    HANG_UP = "hang_up"  # connects, closes at once


class Step(Enum):
    """Where a conversation is."""

    RECIPIENT_NAMED = "recipient named"  # nothing was handed over
    MAIL_KEPT = "mail kept"  # and the sender does not know it yet
    ANSWER_READ = "answer read"  # the sender knows that its mail was accepted, and says QUIT


@dataclass(frozen=True, slots=True)
class ReceivedMail:
    """One accepted mail and its envelope."""

    mail_from: str
    recipients: tuple[str, ...]
    message: EmailMessage
    raw: bytes
    received_at: datetime

    @property
    def html(self) -> str:
        """The HTML part; empty where there is none."""
        return self._part("html")

    @property
    def text(self) -> str:
        """The plain-text part; empty where there is none."""
        return self._part("plain")

    def _part(self, subtype: str) -> str:
        part = self.message.get_body((subtype,))
        return "" if part is None else str(part.get_content()).replace("\r\n", "\n")


class SmtpServer:
    """Accepts mail until told otherwise; `mails` are those it answered with 250."""

    def __init__(
        self,
        *,
        user: str | None = None,
        password: str | None = None,
        mail_folder: Path | None = None,
        port: int = 0,
        host: str = "127.0.0.1",
    ) -> None:
        """`user`: a login is required.

        `mail_folder`: every mail is also written there as `0001.eml`, `.html` and, with the envelope, `.json`; mails
        that an earlier server wrote are read from it.
        """
        self.host = host
        self.port = port
        self.mails = _kept(mail_folder) if mail_folder is not None else []
        self.conduct = Conduct.SERVE
        self._login = (user, password) if user is not None else None
        self._folder = mail_folder
        self._mail_answers: deque[str] = deque()
        self._recipient_answers: dict[str, str] = {}
        self._hangs_at_data = False
        self._actions: dict[Step, Callable[[], object]] = {}
        self._loop = asyncio.new_event_loop()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="smtp-server", daemon=True)

    def answer_next_mail(self, *answers: str) -> None:
        """Answer the next mails' DATA with these lines (`451 ...`, `550 ...`), one each; then accept again."""
        self._mail_answers.extend(answers)

    def answer_recipient(self, address: str, answer: str | None) -> None:
        """Answer this recipient from now on with a line such as `550 5.1.1 no such user`; None accepts it again."""
        if answer is None:
            self._recipient_answers.pop(address, None)
        else:
            self._recipient_answers[address] = answer

    def hang_at_data(self, hang: bool = True) -> None:
        """Take the whole mail and never say whether it was accepted."""
        self._hangs_at_data = hang

    def when(self, step: Step, action: Callable[[], object]) -> None:
        """Call `action` whenever a conversation comes to a step."""
        self._actions[step] = action

    def close_port(self) -> None:
        """Stop to listen: connections are refused by the system. `open_port` listens again on the same port."""
        self._call(self._close())

    def open_port(self) -> None:
        """Listen; called when the context is entered."""
        self._call(self._open())

    def __enter__(self) -> Self:
        self._thread.start()
        self.open_port()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening, end all conversations, join the thread."""
        self.close_port()
        self._call(self._end_conversations())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's own name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Aiosmtpd's hook for RCPT TO."""
        self._act(Step.RECIPIENT_NAMED)
        if address in self._recipient_answers:
            return self._recipient_answers[address]
        envelope.rcpt_tos.append(address)
        envelope.rcpt_options.extend(options)
        return "250 2.1.5 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        """Aiosmtpd's hook for the end of DATA."""
        while self._hangs_at_data:
            await asyncio.sleep(0.05)
        if self._mail_answers:
            return self._mail_answers.popleft()
        raw = envelope.original_content or b""
        mail = ReceivedMail(envelope.mail_from or "", tuple(envelope.rcpt_tos), parsed(raw), raw, datetime.now(UTC))
        if self._folder is not None:
            _write(self._folder, len(self.mails) + 1, mail)
        self.mails.append(mail)
        self._act(Step.MAIL_KEPT)
        return ACCEPTED

    async def handle_QUIT(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        """Aiosmtpd's hook for QUIT."""
        self._act(Step.ANSWER_READ)
        return "221 2.0.0 Bye"

    def _act(self, step: Step) -> None:
        if action := self._actions.get(step):
            action()

    def _protocol(self) -> asyncio.BaseProtocol:
        if self.conduct is Conduct.SAY_NOTHING:
            return asyncio.Protocol()
        if self.conduct is Conduct.HANG_UP:
            return _HangsUp()
        required = self._login is not None
        smtp: asyncio.BaseProtocol = SMTP(
            self,
            hostname="mail.test",
            enable_SMTPUTF8=True,
            authenticator=self._authenticate if required else None,
            auth_required=required,
            auth_require_tls=False,
            loop=self._loop,
        )
        return smtp

    def _authenticate(
        self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any
    ) -> AuthResult:
        given = (data.login.decode(), data.password.decode()) if isinstance(data, LoginPassword) else None
        return AuthResult(success=given == self._login, handled=False)

    async def _open(self) -> None:
        self._server = await self._loop.create_server(self._protocol, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _end_conversations(self) -> None:
        tasks = [task for task in asyncio.all_tasks(self._loop) if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _call(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(WHOLE_START_WITHIN_S)


class _HangsUp(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close before a greeting."""
        transport.close()


def _write(folder: Path, number: int, mail: ReceivedMail) -> None:
    """Write the envelope last, and at one stroke: without it a mail was not accepted, and its number is given anew."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{number:04}.eml").write_bytes(mail.raw)
    if mail.html:
        (folder / f"{number:04}.html").write_text(mail.html, encoding="utf-8")
    envelope = {"mail_from": mail.mail_from, "recipients": mail.recipients, "received_at": mail.received_at.isoformat()}
    unfinished = folder / "envelope.unfinished"
    unfinished.write_text(json.dumps(envelope), encoding="utf-8")
    unfinished.replace(folder / f"{number:04}.json")


def _kept(folder: Path) -> list[ReceivedMail]:
    """Read the mails that an earlier server accepted."""
    mails: list[ReceivedMail] = []
    while (file := folder / f"{len(mails) + 1:04}.json").exists():
        envelope = json.loads(file.read_text(encoding="utf-8"))
        received_at = datetime.fromisoformat(envelope["received_at"])
        raw = file.with_suffix(".eml").read_bytes()
        recipients = tuple(envelope["recipients"])
        mails.append(ReceivedMail(envelope["mail_from"], recipients, parsed(raw), raw, received_at))
    return mails


def parsed(raw: bytes) -> EmailMessage:
    """Return a mail as the bytes say it."""
    message: EmailMessage = email.message_from_bytes(raw, policy=email.policy.default)
    return message
