"""What every channel is: the one shape, and what all of them need.

A channel is a class of one file here, and is found there (`deliver.CHANNELS`): it says how it is opened by an Airflow
connection, and hands a message over. A call to a receiver is bounded as a whole: time-outs of single steps let a peer
drip one byte at a time for ever.
"""

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import wait
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Self, TypeVar

from sqlalchemy import Engine

from offsetguard.config.routes import Delivery
from offsetguard.deliver.in_doubt import Slot
from offsetguard.model.errors import DeliveryError
from offsetguard.model.processes import left_behind
from offsetguard.model.views import AnyView
from offsetguard.store.models import OutboxRow

LIMIT_S = 90.0  # shorter than a claim in the outbox lasts: nobody else may try the same message meanwhile
_LONGEST_TIMEOUT_S = 3_600.0
_Answer = TypeVar("_Answer")


class Malformed(ValueError):
    """A part of a connection that is not what it has to be; the text says what to do and has no secret."""


@dataclass(frozen=True, slots=True)
class Connection:
    """An Airflow connection."""

    conn_id: str
    host: str | None
    port: int | None
    login: str | None
    password: str | None = field(repr=False)
    schema: str | None
    extra: Mapping[str, Any] = field(repr=False)

    @property
    def timeout_s(self) -> float:
        """Its extra `timeout`, seconds; raises Malformed."""
        value = self.extra.get("timeout", 10)
        try:
            timeout_s = float(value)
        except (ValueError, TypeError):
            timeout_s = math.nan
        if not 0 < timeout_s <= _LONGEST_TIMEOUT_S:
            said = repr(value)[:100]
            raise Malformed(f"write seconds, up to {_LONGEST_TIMEOUT_S:g}, as timeout into its extra, not {said}")
        return timeout_s

    def is_set(self, name: str) -> bool:
        """Whether an extra says yes."""
        return str(self.extra.get(name, False)).lower() in {"true", "1", "yes"}


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof of acceptance, by which the message can be found again.

    Mail: the Message-ID. Slack: `channel ts` of a message of its own, `channel ts parent_ts` of a reply, and
    `channel ts ts` of a parent posted in place of one that is gone; behind the channel the workspace's id, where it is
    known. A webhook gives nothing to find a message by.
    """

    text: str
    remark: str | None = None  # what an operator should know although the message was accepted; equal texts: say once
    follow_up: AnyView | None = None  # what the receiver is to get next, in the same thread


@dataclass(frozen=True, slots=True)
class Handover:
    """What a channel may need to hand a message over."""

    engine: Engine  # whose notification log knows what the receiver accepted before
    slot: Slot  # to be entered before nobody can know any more whether the message was accepted
    now: datetime


class Transport(ABC):
    """A channel, opened by one Airflow connection. The names in capitals are constants of its class."""

    CONNECTION_NEEDS: ClassVar[str]  # what it cannot be opened without: host, password
    CONNECTION_ADVICE: ClassVar[str]  # what to do when there is none
    CONNECTION_FIELD: ClassVar[str | None] = None  # of `delivery`, which names it; None: whom it leads to is named so
    LANES: ClassVar[int]  # receivers served at the same time
    PER_MINUTE: ClassVar[int | None] = None  # messages that a receiver takes; None: it says when it is too much

    @classmethod
    def connection_id(cls, delivery: Delivery, receiver: str) -> str:
        """Return the Airflow connection that leads to a receiver."""
        return receiver if cls.CONNECTION_FIELD is None else str(getattr(delivery, cls.CONNECTION_FIELD))

    @classmethod
    @abstractmethod
    def opened(cls, connection: Connection, delivery: Delivery) -> Self:
        """Open it by a connection that has what it needs; raises Malformed."""

    @abstractmethod
    def deliver(self, message: OutboxRow, handover: Handover) -> Receipt:
        """Hand a message over; returns the receipt once its receiver has accepted all of it.

        Where the receiver cannot be asked later what it has, the slot of `handover` may be taken when this returns or
        raises. Raises DeliveryError, classified, and SQLAlchemyError when the log could not be read; any other error
        is a defect of ours in this message.
        """


_Opened = TypeVar("_Opened", bound=Transport)


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A channel without a usable connection; its messages wait with the reason, since an operator can mend it."""

    reason: str  # names the connection and says what to do

    def deliver(self, message: OutboxRow, handover: Handover) -> Receipt:
        """Say that nothing can be handed over."""
        del message, handover
        raise DeliveryError(self.reason, permanent=False)


def open_by(
    kind: type[_Opened], conn_id: str, connection: Connection | None, delivery: Delivery
) -> _Opened | Unavailable:
    """Open what a connection leads to, None where there is none of that id; one that cannot be read says why."""
    needs = kind.CONNECTION_NEEDS
    if connection is not None and getattr(connection, needs):
        try:
            return kind.opened(connection, delivery)
        except Malformed as error:
            return Unavailable(f"Airflow connection {conn_id!r} is malformed: {error}")
    lacks = "does not exist" if connection is None else f"has not got a {needs}"
    return Unavailable(f"Airflow connection {conn_id!r} {lacks}; {kind.CONNECTION_ADVICE}")


class TookTooLong(TimeoutError):
    """A call as a whole took longer than it may."""

    def __init__(self, limit_s: float) -> None:
        """Keep how long it may take."""
        super().__init__(f"not done within {limit_s:g} s")
        self.limit_s = limit_s


def bounded(limit_s: float, call: Callable[[threading.Event], _Answer], name: str) -> _Answer:
    """Return what a call returns, or raise what it raises, or TookTooLong.

    The call goes on in its thread; it is given an event that is set once nobody waits for it any more, and must do
    nothing further then.
    """
    given_up = threading.Event()
    done = left_behind(lambda: call(given_up), name)
    wait([done], limit_s)
    if not done.done():
        given_up.set()
        raise TookTooLong(limit_s)
    return done.result()
