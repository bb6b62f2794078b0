"""Channels that post once to an address, which is a secret: whoever has it can post. It is in no error, log or repr.

They cannot edit, thread or look up: a message that is sent again after a crash or a time-out can be a duplicate.
A robot answers 200 to everything, with a code that says what became of the message.

| what happened                                  | permanent | why |
|------------------------------------------------|-----|-----|
| 429                                            | no  | after Retry-After |
| 5xx, no answer in time, an answer of another   | no  | whether the message was posted is unknown |
| nobody listens, no such name, no address       | no  | the connection or the network can be mended |
| another code than that of success              |     | as the channel's table says; one that it has not: yes |
"""

import base64
import hashlib
import hmac
import http
import json
import math
import re
import time
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from offsetguard.config.routes import Delivery
from offsetguard.deliver.channels.channel import LIMIT_S, Connection, Handover, Receipt, Transport
from offsetguard.deliver.channels.slack import USUAL_WAIT_S, retry_after_s
from offsetguard.deliver.one_request import Answer, NoAddress, NotAnswered, ask
from offsetguard.model.errors import DeliveryError
from offsetguard.model.views import AnyView
from offsetguard.store.models import OutboxRow

JSON = {"Content-Type": "application/json;charset=utf-8"}


@dataclass(frozen=True, slots=True)
class OnePost(Transport):
    """An address; `name` is what errors call it: the Airflow connection id. `timeout_s` bounds the whole of a call."""

    name: str
    url: str = field(repr=False)
    timeout_s: int = 10
    proxy: str | None = field(default=None, repr=False)

    SERVICE: ClassVar[str]  # who answers
    KIND: ClassVar[str] = "robot"
    HOST: ClassVar[str]  # where the connection names none
    PATH: ClassVar[str]  # before what its password holds
    LANES: ClassVar = 16  # they lead to as many places as there are
    CONNECTION_NEEDS: ClassVar = "password"

    @classmethod
    def parts(cls, connection: Connection) -> tuple[str, str, int, str | None]:
        """Return name, address, time-out and proxy of a connection; its password is the address or the end of it."""
        url = connection.password or ""
        if not url.startswith(("http://", "https://")):
            host = connection.host or cls.HOST
            base = host if "://" in host else f"{connection.schema or 'https'}://{host}"
            url = f"{base.rstrip('/')}{cls.PATH}{url.lstrip('/')}"
        return connection.conn_id, url, math.ceil(connection.timeout_s), connection.extra.get("proxy") or None

    def post(self, url: str, body: bytes, headers: Mapping[str, str] = JSON) -> Answer:
        """Return an answer of 2xx or 4xx; raises DeliveryError for all else, as in the table above."""
        limit_s = min(self.timeout_s, LIMIT_S)
        try:
            answer = ask(
                "POST",
                url,
                body=body,
                headers=headers,
                limit_s=limit_s,
                proxy=self.proxy,
                may_reach=self.may_reach,
            )
        except TimeoutError:
            raise self.unknown(f"{self.SERVICE} did not answer within {limit_s:g} s") from None
        except NotAnswered as error:
            raise DeliveryError(f"{self.who} cannot be reached: {error}", permanent=False) from None
        except NoAddress:
            form = f"https://{self.HOST}{self.PATH}..."
            reason = f"{self.who} has no address of the form {form}; correct the connection"
            raise DeliveryError(reason, permanent=False) from None
        if answer.status == http.HTTPStatus.TOO_MANY_REQUESTS:
            raise self.too_fast(retry_after_s(answer.headers) or USUAL_WAIT_S)
        if answer.status >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
            raise self.unknown(f"{self.SERVICE} failed with HTTP {answer.status}", retry_after_s(answer.headers))
        if answer.is_redirect:
            raise self.elsewhere()
        return answer

    def may_reach(self, address: str) -> bool:
        """Whether anything may be sent to an IP address."""
        del address
        return True

    @property
    def who(self) -> str:
        """The receiver as errors name it."""
        return f"the {self.SERVICE} {self.KIND} of the Airflow connection {self.name!r}"

    def unknown(self, what: str, wait_s: float | None = None) -> DeliveryError:
        """Return the error of an answer that does not say what became of the message."""
        reason = f"{self.who}: {what}; whether the channel has the message is unknown"
        return DeliveryError(reason, permanent=False, retry_after_s=wait_s)

    def elsewhere(self) -> DeliveryError:
        """Return the error of a redirect."""
        return self.not_theirs()

    def not_theirs(self) -> DeliveryError:
        """Return the error of an answer by somebody else."""
        return self.unknown(f"the answer is not {self.SERVICE}'s; a proxy may stand in between")

    def too_fast(self, wait_s: float) -> DeliveryError:
        """Return the error of a limit."""
        reason = f"{self.who} may post no more for {wait_s:g} s"
        return DeliveryError(reason, permanent=False, retry_after_s=wait_s)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a code of an answer means, and what to do."""

    what: str
    permanent: bool = False  # for this message; False: an operator mends the robot or its connection, then all goes out
    wait_s: float | None = None  # it was too fast


OUR_DEFECT = Refusal("this is a defect of OffsetGuard, please report it", permanent=True)
_TOO_FAST = re.compile(r"too (?:fast|many)|frequen|freq out|over limit|限流|太快")
CLOCK = "the clock of this host may be off: signatures are refused beyond an hour"


@dataclass(frozen=True, slots=True)
class Robot(OnePost):
    """A robot of a group chat."""

    secret: str | None = field(default=None, repr=False)  # None: it wants no signature

    CODE: ClassVar[str] = "errcode"
    TEXT: ClassVar[str] = "errmsg"
    KEY: ClassVar[str | None] = None  # where a message has its key, by which the robot knows it again; None: it cannot
    SLOWS_S: ClassVar[float] = 60.0  # for so long who was too fast is refused
    REFUSALS: ClassVar[Mapping[int, Refusal]]

    @classmethod
    def opened(cls, connection: Connection, delivery: Delivery) -> Self:
        """Open a robot by a connection of type `generic`.

        Password: the whole address, or the token at its end, for the host of the connection; extra `secret` (of the
        signature), `timeout`, `proxy`.
        """
        del delivery
        return cls(*cls.parts(connection), connection.extra.get("secret") or None)

    def deliver(self, message: OutboxRow, handover: Handover) -> Receipt:
        """Post a message."""
        said = self.said(message.view)
        if self.KEY is not None:
            said[self.KEY] = message.idempotency_key
        handover.slot.enter()
        return self.send(said)

    @classmethod
    @abstractmethod
    def said(cls, view: AnyView) -> dict[str, Any]:
        """Return what a message says, as the robot takes it and within its limits."""

    def signed(self, said: dict[str, Any], at_s: float) -> tuple[str, dict[str, Any]]:
        """Return address and document with the signature, where it belongs; `at_s`: by the clock."""
        del at_s
        return self.url, said

    def send(self, said: dict[str, Any], *, at_s: float | None = None) -> Receipt:
        """Post a message; raises DeliveryError, classified."""
        url, document = self.signed(said, time.time() if at_s is None else at_s)
        answer = self.post(url, as_json(document))
        code, text = self._code(answer)
        if code == 0 and answer.status == http.HTTPStatus.OK:
            return Receipt(f"robot {self.name}")
        refusal = self.closer(code, text)
        if refusal.wait_s is not None:
            raise self.too_fast(refusal.wait_s)
        reason = f"{self.who} refused the message: {code} {text}; {refusal.what}"
        raise DeliveryError(reason, permanent=refusal.permanent)

    @classmethod
    def code_of(cls, answer: Mapping[str, Any]) -> object:
        """Return the code of an answer, None where it has none."""
        return answer.get(cls.CODE)

    @classmethod
    def closer(cls, code: int, text: str) -> Refusal:
        """Return what a code means with this text: limits have had several codes, and one of them was another's."""
        known = cls.REFUSALS.get(code)
        if (known is None or known is OUR_DEFECT) and _TOO_FAST.search(text.lower()):
            return Refusal("too fast", wait_s=cls.SLOWS_S)
        return known or Refusal(f"see the reference of {cls.SERVICE}", permanent=True)

    def _code(self, answer: Answer) -> tuple[int, str]:
        try:
            document = json.loads(answer.body)
        except ValueError:
            document = None
        code = self.code_of(document) if isinstance(document, dict) else None
        if type(code) is not int:
            raise self.not_theirs()
        return code, " ".join(str(document.get(self.TEXT, "")).split())[:200]


def as_json(document: dict[str, Any]) -> bytes:
    """Return a document as it goes out, by which robots count."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def signature(key: bytes, signed: bytes) -> str:
    """Return HMAC-SHA256 in base64."""
    return base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
